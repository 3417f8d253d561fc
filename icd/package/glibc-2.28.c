/* What LLVM's archives and libstdc++'s, compiled for a newer glibc, ask for and glibc 2.28 doesn't have. Linked into packages only. */

#include <malloc.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since 2.32: whether libstdc++ may count references without atomic operations. Never. */
char __libc_single_threaded = 0;

/* Since 2.30. */
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* Since 2.36, and never fails there. */
unsigned arc4random(void) {
    unsigned value;
    if (getrandom(&value, sizeof value, 0) != sizeof value) abort();
    return value;
}

/* Since 2.33; LLVM's statistics ask. */
struct mallinfo2 mallinfo2(void) {
    struct mallinfo before = mallinfo();
    struct mallinfo2 now = {.arena = (unsigned)before.arena, .hblkhd = (unsigned)before.hblkhd, .uordblks = (unsigned)before.uordblks};
    return now;
}
