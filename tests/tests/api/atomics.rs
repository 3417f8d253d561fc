//! Atomics of OpenCL C 2.0 (6.13.11) between the host's threads and kernels that run, in fine-grained shared memory: what is
//! published is seen, nothing is lost, and the strongest order is one for both. No loop here waits for ever: what doesn't come
//! while a thread looks for it a great many times is missing.

use crate::setup::{Setup, again, program_of_2_0, status, tests};
use crate::svm::Shared;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Event, Kernel, NdRange, Object, Program};
use spirula_tests::isolate::{Failure, Outcome};
use spirula_tests::{call, create};
use std::hint::spin_loop;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

tests![
    capabilities,
    messages,
    store_buffering,
    counters,
    floating_point,
    a_lock_for_both,
    groups_wait_for_each_other,
    what_is_not_offered,
];

const WIDTH: &str = "SPIRULA_VECTOR_WIDTH";

/// How often a kernel looks for what the host does.
const PATIENCE: &str = "#define PATIENCE (1L << 32)\n#define ALL memory_scope_all_svm_devices\n";

/// Words that the host and kernels share.
struct Words<'a> {
    memory: Memory<'a>,
    start: *mut c_void,
    count: usize,
}

enum Memory<'a> {
    Shared(Shared<'a>),
    /// Kernels of 32 bits have other addresses for it; it is the same memory all the while.
    Mapped(Buffer),
}

impl Words<'_> {
    fn new(setup: &Setup, count: usize) -> Result<Words<'_>, Failure> {
        let flags = CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS;
        let (memory, start) = match setup.device.info::<u64>(CL_DEVICE_SVM_CAPABILITIES)? {
            0 => {
                let buffer = Buffer::new(&setup.context, CL_MEM_ALLOC_HOST_PTR, 4 * count)?;
                let (queue, raw) = (setup.queue.raw(), buffer.raw());
                let map = CL_MAP_READ | CL_MAP_WRITE;
                let start = create!(clEnqueueMapBuffer(
                    queue,
                    raw,
                    CL_TRUE,
                    map,
                    0,
                    4 * count,
                    0,
                    null(),
                    null_mut()
                ))?;
                (Memory::Mapped(buffer), start)
            }
            _ => {
                let shared = Shared::new(setup, flags, 4 * count, 128).ok_or("no shared memory")?;
                let start = shared.1;
                (Memory::Shared(shared), start)
            }
        };
        let words = Words { memory, start, count };
        (0..count).for_each(|index| words.at(index).store(0, Relaxed));
        Ok(words)
    }

    fn at(&self, index: usize) -> &AtomicI32 {
        assert!(index < self.count);
        // SAFETY: one of the words that were allocated.
        unsafe { &*self.start.cast::<AtomicI32>().add(index) }
    }

    /// Two of them as one number.
    fn wide_at(&self, index: usize) -> &AtomicU64 {
        assert!(index.is_multiple_of(2) && index + 1 < self.count);
        // SAFETY: two of the words that were allocated, aligned to both; whoever calls it uses them as one only.
        unsafe { &*self.start.cast::<AtomicU64>().add(index / 2) }
    }

    /// A word that only one thread writes, which others read when they were told to.
    fn plain(&self, index: usize) -> *mut i32 {
        self.at(index).as_ptr()
    }

    /// Starts a kernel over these words and a number, and returns while it runs.
    fn start(
        &self,
        setup: &Setup,
        program: &Program,
        name: &str,
        number: i32,
        items: usize,
    ) -> Result<Event, Failure> {
        let kernel = Kernel::new(program, name)?;
        match &self.memory {
            Memory::Shared(shared) => {
                call!(clSetKernelArgSVMPointer(kernel.raw(), 0, shared.1.cast_const()))?
            }
            Memory::Mapped(buffer) => kernel.set_object(0, Some(buffer))?,
        }
        kernel.set(1, number)?;
        let event = setup.queue.launch(&kernel, NdRange::new(&[items], &[1]))?;
        call!(clFlush(setup.queue.raw()))?;
        Ok(event)
    }
}

/// Whether the condition comes true while a thread looks, which makes room for others.
fn comes(is: impl Fn() -> bool) -> bool {
    (0..1_u64 << 32).any(|times| {
        spin_loop();
        if times % 64 == 63 {
            std::thread::yield_now();
        }
        is()
    })
}

fn capabilities() -> Outcome {
    let device = Setup::new().device;
    let orders =
        CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_ORDER_ACQ_REL | CL_DEVICE_ATOMIC_ORDER_SEQ_CST;
    let scopes = CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP
        | CL_DEVICE_ATOMIC_SCOPE_DEVICE
        | CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES;
    assert_eq!(device.info::<u64>(CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES)?, orders | scopes);
    let fences = orders | scopes | CL_DEVICE_ATOMIC_SCOPE_WORK_ITEM;
    assert_eq!(device.info::<u64>(CL_DEVICE_ATOMIC_FENCE_CAPABILITIES)?, fences);
    Ok(())
}

const CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES: cl_uint = 0x1063;
const CL_DEVICE_ATOMIC_FENCE_CAPABILITIES: cl_uint = 0x1064;
const CL_DEVICE_ATOMIC_ORDER_RELAXED: u64 = 1 << 0;
const CL_DEVICE_ATOMIC_ORDER_ACQ_REL: u64 = 1 << 1;
const CL_DEVICE_ATOMIC_ORDER_SEQ_CST: u64 = 1 << 2;
const CL_DEVICE_ATOMIC_SCOPE_WORK_ITEM: u64 = 1 << 3;
const CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP: u64 = 1 << 4;
const CL_DEVICE_ATOMIC_SCOPE_DEVICE: u64 = 1 << 5;
const CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES: u64 = 1 << 6;

/// Where the words of a conversation are: the two turns, and two plain numbers.
const TO_KERNEL: usize = 0;
const TO_HOST: usize = 16;
const QUESTION: usize = 32;
const ANSWER: usize = 48;

/// The host and a kernel talk in turns, by plain numbers which atomics publish: by loads and stores, exchanges and their
/// like, and by fences around relaxed ones. A compiler that thinks nothing of the orders keeps the numbers in registers.
fn messages() -> Outcome {
    let setup = Setup::new();
    let ways = [
        (
            "atomic_load_explicit(in, memory_order_acquire, ALL)",
            "atomic_store_explicit(out, n, memory_order_release, ALL);",
        ),
        ("atomic_load(in)", "atomic_store(out, n);"),
        (
            "atomic_fetch_or_explicit(in, 0, memory_order_acquire, ALL)",
            "atomic_exchange_explicit(out, n, memory_order_release, ALL);",
        ),
        (
            "atomic_fetch_add_explicit(in, 0, memory_order_acq_rel, ALL)",
            "{ int old = n - 1; atomic_compare_exchange_strong_explicit(out, &old, n, memory_order_release, memory_order_relaxed, ALL); }",
        ),
        // Each attempt fails until it is the kernel's turn: then the value is there, and the order is the failure's.
        (
            "({ int any = -1; atomic_compare_exchange_strong_explicit(in, &any, -1, memory_order_acquire, memory_order_acquire, ALL); any; })",
            "atomic_fetch_add_explicit(out, 1, memory_order_acq_rel, ALL);",
        ),
        (
            "({ int now = atomic_load_explicit(in, memory_order_relaxed, ALL); \
             atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, ALL); now; })",
            "atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_release, ALL); \
             atomic_store_explicit(out, n, memory_order_relaxed, ALL);",
        ),
    ];
    let rounds = 300;
    for (receive, send) in ways {
        let source = format!(
            "{PATIENCE}kernel void talk(global int *words, int rounds) {{
                global atomic_int *in = (global atomic_int *)words + {TO_KERNEL}, *out = (global atomic_int *)words + {TO_HOST};
                words[{ANSWER}] = 7;
                for (int n = 1; n <= rounds; ++n) {{
                    long left = PATIENCE;
                    while ({receive} != n) if (--left == 0) return;
                    words[{ANSWER}] = words[{ANSWER}] * 3 + words[{QUESTION}];
                    {send}
                }}
            }}"
        );
        let program = program_of_2_0(&setup, &source, "")?;
        let words = Words::new(&setup, 64)?;
        let event = words.start(&setup, &program, "talk", rounds, 1)?;
        let mut expected = 7_i32;
        for turn in 1..=rounds {
            let question = turn.wrapping_mul(77_777_777);
            // SAFETY: it is the host's turn until the store below; the kernel waits.
            unsafe { words.plain(QUESTION).write(question) };
            words.at(TO_KERNEL).store(turn, Release);
            assert!(comes(|| words.at(TO_HOST).load(Acquire) == turn), "{receive}: no answer to {turn}");
            expected = expected.wrapping_mul(3).wrapping_add(question);
            // SAFETY: the kernel has had its turn.
            assert_eq!(unsafe { words.plain(ANSWER).read() }, expected, "{receive}: {turn}");
        }
        event.wait()?;
    }
    Ok(())
}

/// Each stores to its own word and reads the other's: one of them sees the other's store, if all is sequentially consistent.
fn store_buffering() -> Outcome {
    let setup = Setup::new();
    let fence = "atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, ALL);";
    let relaxed = "memory_order_relaxed, ALL";
    let ways = [
        "atomic_store(mine + i, 1); int other = atomic_load(theirs + i);".to_owned(),
        format!(
            "atomic_store_explicit(mine + i, 1, {relaxed}); {fence} int other = atomic_load_explicit(theirs + i, {relaxed});"
        ),
        "atomic_exchange(mine + i, 1); int other = atomic_load(theirs + i);".to_owned(),
    ];
    let rounds = 40_000_usize;
    for both in ways {
        // They keep step, as far as both run at once: neither waits long for the other.
        let source = format!(
            "{PATIENCE}kernel void k(global int *words, int rounds) {{
                global atomic_int *at = (global atomic_int *)words, *host = at + 16, *mine = at + 32, *theirs = mine + rounds;
                global int *seen = words + 32 + 2 * rounds;
                for (int i = 0; i < rounds; ++i) {{
                    atomic_store_explicit(at, i, {relaxed});
                    for (int n = 0; n < 300 && atomic_load_explicit(host, {relaxed}) < i; ++n) {{}}
                    {both}
                    seen[i] = other;
                }}
                atomic_store_explicit(at, rounds, {relaxed});
            }}"
        );
        let program = program_of_2_0(&setup, &source, "")?;
        let words = Words::new(&setup, 32 + 3 * rounds)?;
        let event = words.start(&setup, &program, "k", rounds as i32, 1)?;
        let mut seen = vec![0; rounds];
        for (round, seen) in seen.iter_mut().enumerate() {
            words.at(16).store(round as i32, Relaxed);
            let _ = (0..300).find(|_| words.at(0).load(Relaxed) >= round as i32);
            words.at(32 + rounds + round).store(1, SeqCst);
            *seen = words.at(32 + round).load(SeqCst);
        }
        event.wait()?;
        let none = |&round: &usize| seen[round] + words.at(32 + 2 * rounds + round).load(Relaxed) == 0;
        assert_eq!((0..rounds).filter(none).count(), 0, "{both}: neither saw the other");
    }
    Ok(())
}

/// Both count in the same words at once.
fn counters() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global int *words, int rounds) {
        global atomic_int *one = (global atomic_int *)words, *most = one + 16, *bits = one + 32;
        global atomic_long *wide = (global atomic_long *)(words + 48);
        int i = get_global_id(0);
        for (int n = 0; n < rounds; ++n) {
            atomic_fetch_add_explicit(one, 1, memory_order_relaxed, memory_scope_all_svm_devices);
            atomic_fetch_sub_explicit(wide, 0x100000001L, memory_order_acq_rel, memory_scope_all_svm_devices);
            atomic_fetch_max_explicit(most, n * 64 + i, memory_order_relaxed, memory_scope_all_svm_devices);
            atomic_fetch_xor(bits, 1 << (i & 15));
        }
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let words = Words::new(&setup, 64)?;
    let (rounds, items) = (2001, 64);
    let event = words.start(&setup, &program, "k", rounds, items)?;
    let host = 100_000;
    for number in 0..host {
        words.at(0).fetch_add(1, Relaxed);
        words.wide_at(48).fetch_sub(0x1_0000_0001, AcqRel);
        words.at(16).fetch_max(number, Relaxed);
        words.at(32).fetch_xor(1 << 20, SeqCst);
    }
    event.wait()?;
    let all = rounds * items as i32 + host;
    assert_eq!(words.at(0).load(Relaxed), all);
    assert_eq!(words.wide_at(48).load(Relaxed), 0_u64.wrapping_sub(0x1_0000_0001 * all as u64));
    assert_eq!(words.at(16).load(Relaxed), (2000 * 64 + 63).max(host - 1));
    // Each of 16 bits was changed by four work-items an odd number of times, the host's an even one.
    assert_eq!(words.at(32).load(Relaxed), 0);
    Ok(())
}

/// `atomic_float` and `atomic_double`: what can be done without an extension.
fn floating_point() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global int *words, int rounds) {
        global atomic_float *sum = (global atomic_float *)words, *place = (global atomic_float *)(words + 32);
        global atomic_double *wide = (global atomic_double *)(words + 16), *old = (global atomic_double *)(words + 34);
        for (int n = 0; n < rounds; ++n) {
            float was = atomic_load_explicit(sum, memory_order_relaxed, memory_scope_all_svm_devices);
            while (!atomic_compare_exchange_weak_explicit(sum, &was, was + 1.0f, memory_order_acq_rel,
                                                          memory_order_relaxed, memory_scope_all_svm_devices)) {}
            double before = atomic_load(wide);
            while (!atomic_compare_exchange_strong(wide, &before, before + 0.5)) {}
        }
        atomic_store_explicit(place, -0.0f, memory_order_release, memory_scope_device);
        words[38] = as_int(atomic_exchange(place, 2.5f));
        // The bits are compared, not the numbers: 0.0 is not what is there.
        float zero = 0.0f;
        atomic_store(place + 1, -0.0f);
        words[40] = atomic_compare_exchange_strong(place + 1, &zero, 1.0f);
        words[41] = as_int(zero);
        atomic_init(old, 7.25);
        *(global double *)(words + 36) = atomic_exchange_explicit(old, -1.5, memory_order_acquire, memory_scope_work_group);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let words = Words::new(&setup, 64)?;
    let rounds = 20_000;
    let event = words.start(&setup, &program, "k", rounds, 1)?;
    // SAFETY: a word as an unsigned one.
    let sum = unsafe { AtomicU32::from_ptr(words.plain(0).cast()) };
    for _ in 0..rounds {
        let more = |bits: u32| Some((f32::from_bits(bits) + 1.0).to_bits());
        let _ = sum.fetch_update(AcqRel, Relaxed, more);
        let more = |bits: u64| Some((f64::from_bits(bits) + 0.5).to_bits());
        let _ = words.wide_at(16).fetch_update(SeqCst, SeqCst, more);
    }
    event.wait()?;
    let float = |index: usize| f32::from_bits(words.at(index).load(Relaxed) as u32);
    let double = |index: usize| f64::from_bits(words.wide_at(index).load(Relaxed));
    assert_eq!((float(0), double(16)), (2.0 * rounds as f32, f64::from(rounds)));
    assert_eq!((float(32), float(38).to_bits()), (2.5, (-0.0_f32).to_bits()));
    assert_eq!((words.at(40).load(Relaxed), float(41).to_bits()), (0, (-0.0_f32).to_bits()));
    assert_eq!((double(34), double(36)), (-1.5, 7.25));
    Ok(())
}

/// A lock that the host and work-groups of one work-item each take in turn, around plain numbers.
fn a_lock_for_both() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global int *words, int rounds) {
        global atomic_flag *lock = (global atomic_flag *)words;
        for (int n = 0; n < rounds; ++n) {
            long left = 1L << 32;
            while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire, memory_scope_all_svm_devices))
                if (--left == 0) return;
            words[16] += 1;
            words[32] = words[16] * 2;
            atomic_flag_clear_explicit(lock, memory_order_release, memory_scope_all_svm_devices);
        }
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let words = Words::new(&setup, 64)?;
    let (rounds, groups) = (50, 64);
    let event = words.start(&setup, &program, "k", rounds, groups)?;
    for _ in 0..rounds {
        assert!(comes(|| words.at(0).swap(1, Acquire) == 0), "nobody gives the lock back");
        // SAFETY: this thread has the lock.
        unsafe {
            *words.plain(16) += 1;
            assert!(*words.plain(16) == 1 || *words.plain(32) == 2 * (*words.plain(16) - 1));
            *words.plain(32) = 2 * *words.plain(16);
        }
        words.at(0).store(0, Release);
    }
    event.wait()?;
    let all = rounds * (groups as i32 + 1);
    assert_eq!((words.at(16).load(Relaxed), words.at(32).load(Relaxed)), (all, 2 * all));
    Ok(())
}

/// Work-groups of one work-item each that count under a lock, or in turn. They are no lanes of one pack, where whoever waits
/// would stop the one that is waited for.
fn groups_wait_for_each_other() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void locked(global int *words) {
        global atomic_int *lock = (global atomic_int *)words;
        int free = 0;
        long left = 1 << 28;
        while (!atomic_compare_exchange_weak_explicit(lock, &free, 1, memory_order_acquire, memory_order_relaxed,
                                                      memory_scope_device)) {
            free = 0;
            if (--left == 0) return;
        }
        words[1] = words[1] * 3 + 1;
        words[2] += 1;
        atomic_store_explicit(lock, 0, memory_order_release, memory_scope_device);
    }
    kernel void ticket(global int *words) {
        global atomic_int *next = (global atomic_int *)words, *turn = next + 1;
        int mine = atomic_fetch_add_explicit(next, 1, memory_order_relaxed, memory_scope_device);
        long left = 1 << 28;
        while (atomic_load_explicit(turn, memory_order_acquire, memory_scope_device) != mine) if (--left == 0) return;
        words[2] = words[2] * 3 + 1;
        words[3 + mine] = words[2];
        atomic_store_explicit(turn, mine + 1, memory_order_release, memory_scope_device);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let groups = 192;
    let run = |name: &str| -> Result<Vec<i32>, Failure> {
        let kernel = Kernel::new(&program, name)?;
        let buffer = Buffer::copy_of(&setup.context, &vec![0_i32; 4 + groups])?;
        kernel.set_object(0, Some(&buffer))?;
        setup.queue.launch(&kernel, NdRange::new(&[groups], &[1]))?;
        let mut got = vec![0_i32; 4 + groups];
        setup.queue.read(&buffer, &mut got)?;
        Ok(got)
    };
    let steps: Vec<i32> = std::iter::successors(Some(1_i32), |n| Some(n.wrapping_mul(3).wrapping_add(1)))
        .take(groups)
        .collect();
    assert_eq!(run("locked")?[..3], [0, steps[groups - 1], groups as i32]);
    let got = run("ticket")?;
    assert_eq!((got[0], got[1], &got[3..3 + groups]), (groups as i32, groups as i32, &steps[..]));
    if std::env::var_os(WIDTH).is_none() {
        again("atomics::groups_wait_for_each_other", WIDTH, "8");
    }
    Ok(())
}

/// Arithmetic on atomic floats is an extension's, which the device doesn't name.
fn what_is_not_offered() -> Outcome {
    let setup = Setup::new();
    program_of_2_0(&setup, "kernel void k(global atomic_float *p) { atomic_exchange(p, 1.0f); }", "")?;
    // (cl_ext_float_atomics has sums and extremes, in extensions.rs.)
    for function in ["fetch_and", "fetch_or", "fetch_xor"] {
        let source = format!("kernel void k(global atomic_float *p) {{ atomic_{function}(p, 1.0f); }}");
        let program = Program::from_source(&setup.context, &source)?;
        assert_eq!(status(program.build("-cl-std=CL2.0")), "CL_BUILD_PROGRAM_FAILURE", "{function}");
        assert!(program.log(setup.device)?.contains(&format!("atomic_{function}")), "{function}");
    }
    Ok(())
}
