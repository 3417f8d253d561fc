//! The isolated mode: what kernels do to the process that they run in, others' memory and the application never notice.

use crate::faults::{Machine, failure, launch, machine_of, told};
use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Object, Queue};
use spirula_tests::isolate::{Failure, Outcome, Test};
use spirula_tests::{call, create};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

tests![
    capabilities,
    the_applications_memory_is_out_of_reach,
    stacks_that_are_overwritten,
    memory_that_is_overwritten,
    executors_that_are_killed,
    contexts_have_their_own,
    native_kernels_are_refused,
    memory_of_the_application_is_copied,
    images_in_memory_of_the_application,
    what_can_not_be_shared_is_an_error,
    what_can_not_be_confined_does_not_run,
];

const SOURCE: &str = "kernel void add(global int *p) {
    p[get_global_id(0)] += 1;
}
kernel void good(global int *p) {
    p[get_global_id(0)] += 1;
}
kernel void stray(ulong address) {
    *(volatile global int *)(address + 4 * get_global_id(0)) = 1;
}
kernel void smash(long from, long count) {
    volatile char here[64];
    here[0] = 1;
    ulong start = (ulong)&here[0];
    for (long i = 0; i < count; i++) *(volatile private char *)(start + from + i) = (char)0x41;
}
kernel void sow(ulong address, ulong count, uint seed) {
    for (ulong i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        *(volatile global uint *)(address + 4096 * i + (seed >> 20 & ~3u)) = seed;
    }
}
kernel void slow(global int *p, int rounds) {
    volatile global int *q = p;
    for (int i = 0; i < rounds; i++) q[get_global_id(0)] += 1;
}";

/// This module's tests. What a stack is overwritten with may be a counter, and make its kernel run for ever: then it is ended.
pub fn limited() -> Vec<Test> {
    let limit = |mut test: Test| {
        if test.name.ends_with("stacks_that_are_overwritten") {
            test.variables.push(("SPIRULA_TIMEOUT", "5"));
        }
        test
    };
    tests().into_iter().map(limit).collect()
}

fn machine() -> Result<Machine, Failure> {
    machine_of(SOURCE, "")
}

fn capabilities() -> Outcome {
    let device = Device::first();
    assert_eq!(device.info::<u64>(CL_DEVICE_EXECUTION_CAPABILITIES)?, CL_EXEC_KERNEL);
    let svm = device.info::<u64>(CL_DEVICE_SVM_CAPABILITIES)?;
    assert_eq!(svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, 0);
    assert_ne!(svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER, 0);
    Ok(())
}

fn the_applications_memory_is_out_of_reach() -> Outcome {
    let machine = machine()?;
    let kernel = Kernel::new(&machine.program, "stray")?;
    static STATIC: [u32; 4] = [7; 4];
    let (heap, stack) = (vec![7_u32; 1 << 20], [7_u32; 4]);
    for address in [heap.as_ptr(), stack.as_ptr(), STATIC.as_ptr(), (clFlush as *const ()).cast()] {
        kernel.set(0, std::hint::black_box(address) as u64)?;
        let event = launch(&machine.queues[0], &kernel, 4, 1)?;
        assert_eq!(failure(&event)?, CL_OUT_OF_RESOURCES);
        let message = told("stray");
        assert!(message.contains("(SIGSEGV)") || message.contains("ended"), "{message}");
        machine.works()?;
    }
    assert!(heap.iter().chain(&std::hint::black_box(stack)).all(|&word| word == 7));
    Ok(())
}

/// What returns from there jumps anywhere, and threads' own data lie at a stack's end.
fn stacks_that_are_overwritten() -> Outcome {
    let machine = machine()?;
    let kernel = Kernel::new(&machine.program, "smash")?;
    // (Packs of up to 64 lanes have as many arrays of 64 bytes there.)
    for (from, count) in [(0_i64, 8192_i64), (0, 1 << 27), (-(1 << 26), 1 << 26), (64, 4400)] {
        kernel.set(0, from)?;
        kernel.set(1, count)?;
        for (queue, groups) in [(0, 1), (1, 1000)] {
            let event = launch(&machine.queues[queue], &kernel, groups, 1)?;
            assert_eq!(failure(&event)?, CL_OUT_OF_RESOURCES, "{from} {count}");
            told("smash");
            machine.works()?;
        }
    }
    Ok(())
}

/// All that an executor can write to, which is the context's own: another's is as it was, and the application reads what is there.
fn memory_that_is_overwritten() -> Outcome {
    let (machine, other) = (machine()?, machine()?);
    let kept = Buffer::copy_of(&other.context, &[5_i32; 1024])?;
    other.works()?;
    let buffer = Buffer::copy_of(&machine.context, &[1_i32; 1024])?;
    let kernel = Kernel::new(&machine.program, "sow")?;
    let place = svm_address(&machine)?;
    for seed in 0..8_u32 {
        // From the beginning of what is shared, which the address is near.
        kernel.set(0, place & !0xff_ffff)?;
        kernel.set(1, 1_u64 << 20)?;
        kernel.set(2, seed)?;
        failure(&launch(&machine.queues[0], &kernel, 1, 1)?)?;
        told("sow");
        machine.queues[0].read(&buffer, &mut [0_i32; 1024])?;
        other.works()?;
    }
    let mut got = [0_i32; 1024];
    other.queues[0].read(&kept, &mut got)?;
    assert_eq!(got, [5; 1024]);
    machine.works()
}

/// An address in what a context shares.
fn svm_address(machine: &Machine) -> Result<u64, Failure> {
    // SAFETY: the context lives; the memory is never freed.
    let pointer = unsafe { clSVMAlloc(machine.context.raw(), CL_MEM_READ_WRITE, 64, 0) };
    if pointer.is_null() { Err("no SVM".into()) } else { Ok(pointer as u64) }
}

/// The processes of this test that run kernels: grandchildren, by their keepers.
fn executors() -> BTreeSet<i32> {
    let parent = |process: i32| -> Option<i32> {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        text.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let is_one = |&process: &i32| {
        let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let is_executor = arguments.split(|&byte| byte == 0).any(|word| word == b"--executor");
        is_executor && parent(process).and_then(parent) == Some(std::process::id() as i32)
    };
    let names =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(is_one).collect()
}

fn kill(process: i32) {
    // SAFETY: a process of this test.
    unsafe { libc::kill(process, libc::SIGKILL) };
    let start = Instant::now();
    while executors().contains(&process) {
        assert!(start.elapsed() < Duration::from_secs(30), "{process} does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Killed while it has nothing to do: nobody notices. Killed in the middle of launches: those that ran end with an error, and all
/// others are right.
fn executors_that_are_killed() -> Outcome {
    let machine = machine()?;
    machine.works()?;
    for _ in 0..5 {
        executors().into_iter().for_each(kill);
        machine.works()?;
    }
    let kernel = Kernel::new(&machine.program, "slow")?;
    let (kept, buffer) = (
        Buffer::copy_of(&machine.context, &[5_i32; 4096])?,
        Buffer::copy_of(&machine.context, &[0_i32; 64])?,
    );
    kernel.set_object(0, Some(&buffer))?;
    kernel.set(1, i32::MAX)?;
    for _ in 0..3 {
        let event = launch(&machine.queues[0], &kernel, 64, 1)?;
        let start = Instant::now();
        while event.info::<i32>(CL_EVENT_COMMAND_EXECUTION_STATUS)? != CL_RUNNING || executors().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "it does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        executors().into_iter().for_each(kill);
        assert_eq!(failure(&event)?, CL_OUT_OF_RESOURCES);
        let message = told("slow");
        assert!(message.contains("the process that ran it ended"), "{message}");
        let mut got = [0_i32; 4096];
        machine.queues[1].read(&kept, &mut got)?;
        assert_eq!(got, [5; 4096]);
        machine.works()?;
    }
    kills_among_many(&machine)
}

/// Launches that add one each, while executors are killed all the time: as many are counted as ended well, and one that did not has
/// added nothing, or some.
fn kills_among_many(machine: &Machine) -> Outcome {
    let over = AtomicBool::new(false);
    let ends = || over.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(15));
                for process in executors() {
                    // SAFETY: a process of this test.
                    unsafe { libc::kill(process, libc::SIGKILL) };
                }
            }
        });
        let count = || -> Outcome {
            let kernel = Kernel::new(&machine.program, "add")?;
            let buffer = Buffer::copy_of(&machine.context, &[0_i32; 64])?;
            kernel.set_object(0, Some(&buffer))?;
            let (mut good, mut bad) = (0, 0);
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(3) {
                let event = launch(&machine.queues[0], &kernel, 64, 8)?;
                match event.wait() {
                    Ok(()) => good += 1,
                    Err(_) => bad += 1,
                }
            }
            let mut got = [0_i32; 64];
            machine.queues[0].read(&buffer, &mut got)?;
            assert!(got.iter().all(|&n| (good..=good + bad).contains(&n)), "{good} {bad}: {got:?}");
            assert!(good > 0);
            Ok(())
        };
        let outcome = count();
        ends();
        outcome
    })?;
    machine.works()
}

fn contexts_have_their_own() -> Outcome {
    let first = machine()?;
    first.works()?;
    let of_first = executors();
    assert_eq!(of_first.len(), 1);
    let second = machine()?;
    let kernel = Kernel::new(&second.program, "slow")?;
    let buffer = Buffer::copy_of(&second.context, &[0_i32; 1])?;
    kernel.set_object(0, Some(&buffer))?;
    kernel.set(1, 100_000_000)?;
    let event = launch(&second.queues[0], &kernel, 1, 1)?;
    of_first.iter().copied().for_each(kill);
    first.works()?;
    event.wait()?;
    let mut got = [0];
    second.queues[0].read(&buffer, &mut got)?;
    assert_eq!(got, [100_000_000]);
    assert_eq!(executors().len(), 2);
    // What is released takes its process along.
    drop((kernel, buffer, event, second));
    let start = Instant::now();
    while executors().len() > 1 {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    first.works()
}

extern "C" fn never(_: *mut std::ffi::c_void) {
    unreachable!("it was refused");
}

fn native_kernels_are_refused() -> Outcome {
    let (setup, none) = (Setup::new(), null_mut());
    let queue = setup.queue.raw();
    let native =
        call!(clEnqueueNativeKernel(queue, Some(never), none, 0, 0, null(), null(), 0, null(), null_mut()));
    assert_eq!(status(native), "CL_INVALID_OPERATION");
    Ok(())
}

/// Of CL_MEM_USE_HOST_PTR: copied when it is made, to who maps it, and back from who wrote to it.
fn memory_of_the_application_is_copied() -> Outcome {
    let setup = Setup::new();
    let storage: &mut [u8] = Box::leak(Box::new([3_u8; 256]));
    let start = storage.as_mut_ptr();
    let whole = create!(clCreateBuffer(setup.context.raw(), CL_MEM_USE_HOST_PTR, 256, start.cast()))?;
    let whole = Buffer::from_raw(whole);
    let part = whole.sub_buffer(CL_MEM_READ_WRITE, 128, 128)?;
    assert_eq!(part.info::<usize>(CL_MEM_HOST_PTR)?, start as usize + 128);
    let kernel = setup.kernel("spir12/vadd.bc64", "copy_uchar");
    let target = Buffer::new(&setup.context, CL_MEM_READ_WRITE, 128)?;
    let map = |buffer: &Buffer, flags: cl_map_flags, offset: usize, size: usize| {
        let (queue, mut error) = (setup.queue.raw(), 0);
        // SAFETY: the arguments are valid; the result is looked at below.
        let place = unsafe {
            clEnqueueMapBuffer(
                queue,
                buffer.raw(),
                CL_TRUE,
                flags,
                offset,
                size,
                0,
                null(),
                null_mut(),
                &mut error,
            )
        };
        assert_eq!(error, CL_SUCCESS);
        place.cast::<u8>()
    };
    let unmap = |buffer: &Buffer, place: *mut u8| {
        call!(clEnqueueUnmapMemObject(setup.queue.raw(), buffer.raw(), place.cast(), 0, null(), null_mut()))
    };
    // Written through the sub-buffer's map, seen by a kernel; what is not mapped stays as it was.
    let place = map(&part, CL_MAP_WRITE, 16, 32);
    assert_eq!(place, start.wrapping_add(144));
    // SAFETY: mapped for this.
    unsafe {
        assert_eq!(*place, 3, "it was shown");
        place.write_bytes(9, 32);
    }
    unmap(&part, place)?;
    kernel.set_object(0, Some(&part))?;
    kernel.set_object(1, Some(&target))?;
    setup.queue.launch(&kernel, NdRange::new(&[128], &[32]))?;
    let mut got = [0_u8; 128];
    setup.queue.read(&target, &mut got)?;
    let expected: Vec<u8> = (0..128).map(|i| if (16..48).contains(&i) { 9 } else { 3 }).collect();
    assert_eq!(got[..], expected);
    // Written by a kernel, seen by who maps it.
    setup.queue.write(&target, &[4_u8; 128])?;
    kernel.set_object(0, Some(&target))?;
    kernel.set_object(1, Some(&part))?;
    setup.queue.launch(&kernel, NdRange::new(&[128], &[32]))?;
    let place = map(&whole, CL_MAP_READ, 100, 156);
    // SAFETY: mapped for this.
    let seen = unsafe { std::slice::from_raw_parts(place, 156) };
    assert!(seen[..28].iter().all(|&byte| byte == 3) && seen[28..].iter().all(|&byte| byte == 4), "{seen:?}");
    unmap(&whole, place)?;
    // Who only read brings nothing back.
    setup.queue.write(&whole, &[6_u8; 256])?;
    let place = map(&whole, CL_MAP_WRITE_INVALIDATE_REGION, 0, 2);
    // SAFETY: mapped for this.
    unsafe { place.write_bytes(8, 2) };
    unmap(&whole, place)?;
    let mut got = [0_u8; 256];
    setup.queue.read(&whole, &mut got)?;
    assert!(got[..2] == [8; 2] && got[2..].iter().all(|&byte| byte == 6));
    Ok(())
}

/// With pitches of its own.
fn images_in_memory_of_the_application() -> Outcome {
    let setup = Setup::new();
    let storage: &mut [u8] = Box::leak((0..=255).collect::<Vec<u8>>().into_boxed_slice());
    let start = storage.as_mut_ptr();
    let format = cl_image_format { image_channel_order: CL_R, image_channel_data_type: CL_UNSIGNED_INT8 };
    let mut description = cl_image_desc {
        image_type: CL_MEM_OBJECT_IMAGE2D,
        image_width: 8,
        image_height: 4,
        image_row_pitch: 32,
        // SAFETY: all zero is valid.
        ..unsafe { std::mem::zeroed() }
    };
    description.image_depth = 1;
    let flags = CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE;
    let image = create!(clCreateImage(setup.context.raw(), flags, &format, &description, start.cast()))?;
    let image = Buffer::from_raw(image);
    let (queue, mut error, mut pitch) = (setup.queue.raw(), 0, 0);
    let (origin, region) = ([2_usize, 1, 0], [4_usize, 2, 1]);
    let fill = [77_u32; 4];
    let all = ([0_usize; 3], [8_usize, 4, 1]);
    call!(clEnqueueFillImage(
        queue,
        image.raw(),
        fill.as_ptr().cast(),
        all.0.as_ptr(),
        all.1.as_ptr(),
        0,
        null(),
        null_mut()
    ))?;
    setup.queue.finish()?;
    // SAFETY: the test's own memory.
    let texel = |x: usize, y: usize| unsafe { *start.wrapping_add(32 * y + x) };
    assert_eq!(texel(3, 1), 35, "nobody has mapped it");
    // SAFETY: valid arguments.
    let place = unsafe {
        clEnqueueMapImage(
            queue,
            image.raw(),
            CL_TRUE,
            CL_MAP_READ,
            origin.as_ptr(),
            region.as_ptr(),
            &mut pitch,
            null_mut(),
            0,
            null(),
            null_mut(),
            &mut error,
        )
    };
    assert_eq!((error, place.cast(), pitch), (CL_SUCCESS, start.wrapping_add(32 + 2), 32));
    assert_eq!([texel(2, 1), texel(5, 2), texel(6, 1), texel(2, 3)], [77, 77, 38, 98], "the box alone");
    call!(clEnqueueUnmapMemObject(queue, image.raw(), place, 0, null(), null_mut()))?;
    Ok(setup.queue.finish()?)
}

/// A process that may not have large files or address space: an error, no signal.
fn what_can_not_be_shared_is_an_error() -> Outcome {
    let setup = Setup::new();
    let limit = |resource, value| {
        let limit = libc::rlimit { rlim_cur: value, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: concerns this process.
        assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
    };
    wait_for_threads();
    limit(libc::RLIMIT_FSIZE, 32 << 20);
    let large = Buffer::new(&setup.context, CL_MEM_READ_WRITE, 64 << 20);
    assert_eq!(status(large), "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    Buffer::new(&setup.context, CL_MEM_READ_WRITE, 1 << 20)?;
    limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
    limit(libc::RLIMIT_AS, 2 << 30);
    assert_eq!(status(Context::new(setup.device)), "CL_OUT_OF_RESOURCES");
    limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
    Context::new(setup.device)?;
    Ok(())
}

/// Waits until each thread of this process has its thread-local data: glibc ends a process in which there is no memory for that.
/// Rust's threads have it when they have their names.
fn wait_for_threads() {
    let of_process = fs::read("/proc/self/comm").unwrap();
    let begins = |task: io::Result<fs::DirEntry>| {
        let task = task.unwrap();
        let is_first = task.file_name().into_string() == Ok(std::process::id().to_string());
        // A thread that has ended meanwhile has no name.
        !is_first && fs::read(task.path().join("comm")).is_ok_and(|name| name == of_process)
    };
    while fs::read_dir("/proc/self/task").unwrap().any(begins) {
        std::thread::yield_now();
    }
}

/// Where no process may filter its system calls, nothing runs, and pfn_notify says why.
fn what_can_not_be_confined_does_not_run() -> Outcome {
    let machine = machine()?;
    deny_filters();
    let kernel = Kernel::new(&machine.program, "add")?;
    let buffer = Buffer::copy_of(&machine.context, &[7_i32; 64])?;
    kernel.set_object(0, Some(&buffer))?;
    assert_eq!(failure(&launch(&machine.queues[0], &kernel, 64, 8)?)?, CL_OUT_OF_RESOURCES);
    let message = told("add");
    assert!(message.contains("SPIRULA_ISOLATE") && message.contains("seccomp"), "{message}");
    assert!(executors().is_empty());
    let (mut got, queue) = ([0_i32; 64], Queue::new(&machine.context, Device::first())?);
    queue.read(&buffer, &mut got)?;
    assert_eq!(got, [7; 64]);
    Ok(())
}

/// From now on seccomp(2) is an error for this process's threads and what they start.
fn deny_filters() {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(IS, libc::SYS_seccomp as u32, 0, 1),
        step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a valid filter, for all threads of this process (SECCOMP_FILTER_FLAG_TSYNC).
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 1, &raw const program)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}
