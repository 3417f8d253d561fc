/* Preloaded into a soaked program: calls of the library under test that fail, one in so many, as they do where a machine has no more
 * memory, threads, descriptors or processes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <sched.h>

/* One call in so many fails; 0 means none. */
atomic_uint soak_rate;
/* How many failed. */
atomic_uint soak_failed;

static atomic_uint calls;

static int is_of_library(void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libspirula");
}

static int fails(void *caller) {
    unsigned rate = atomic_load(&soak_rate);
    if (!rate || !is_of_library(caller)) return 0;
    unsigned x = atomic_fetch_add(&calls, 1) * 2654435761u;
    x ^= x >> 15;
    if (x % rate) return 0;
    atomic_fetch_add(&soak_failed, 1);
    return 1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAILS fails(__builtin_return_address(0))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    REAL(pthread_create);
    return FAILS ? EAGAIN : real(thread, attributes, start, argument);
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    /* Not through dlsym, which may ask for memory itself. */
    if (FAILS) { errno = ENOMEM; return MAP_FAILED; }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    if (FAILS) { errno = ENOMEM; return MAP_FAILED; }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

int pipe2(int ends[2], int flags) {
    REAL(pipe2);
    if (FAILS) { errno = EMFILE; return -1; }
    return real(ends, flags);
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
    REAL(socketpair);
    if (FAILS) { errno = EMFILE; return -1; }
    return real(domain, type, protocol, ends);
}

int memfd_create(const char *name, unsigned flags) {
    REAL(memfd_create);
    if (FAILS) { errno = EMFILE; return -1; }
    return real(name, flags);
}

pid_t fork(void) {
    REAL(fork);
    if (FAILS) { errno = EAGAIN; return -1; }
    return real();
}

int clone(int (*start)(void *), void *stack, int flags, void *argument, ...) {
    static int (*real)(int (*)(void *), void *, int, void *, ...);
    if (!real) real = (int (*)(int (*)(void *), void *, int, void *, ...))dlsym(RTLD_NEXT, "clone");
    if (FAILS) { errno = EAGAIN; return -1; }
    va_list rest;
    va_start(rest, argument);
    void *parent = va_arg(rest, void *), *tls = va_arg(rest, void *), *child = va_arg(rest, void *);
    va_end(rest);
    return real(start, stack, flags, argument, parent, tls, child);
}
