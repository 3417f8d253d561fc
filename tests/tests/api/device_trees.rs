//! Many kernels that kernels enqueue: deep and wide trees of them, the memory that they take, and when children begin.

use crate::device_queues::{CL_QUEUE_SIZE, ON_DEVICE, queue, run};
use crate::setup::{Setup, program_of_2_0, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Queue};
use spirula_tests::isolate::Outcome;

tests![
    quicksort,
    a_large_tree,
    a_million_children,
    a_chain_of_events,
    a_million_children_of_one_kernel,
    when_children_begin,
    rows_of_trees,
];

/// Kilobytes of memory that this process has.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0)
}

/// A default queue on the device with so many bytes.
fn default_of_size(setup: &Setup, bytes: u64) -> cl::Result<Queue> {
    let properties = ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT;
    queue(setup, &[CL_QUEUE_PROPERTIES.into(), properties, CL_QUEUE_SIZE.into(), bytes])
}

/// A quicksort whose halves are kernels: as deep as the data has it.
fn quicksort() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    void sort(global int *a, int low, int high);
    void sort(global int *a, int low, int high) {
        if (low >= high) return;
        int pivot = a[(low + high) / 2], i = low, j = high;
        while (i <= j) {
            while (a[i] < pivot) ++i;
            while (a[j] > pivot) --j;
            if (i <= j) { int t = a[i]; a[i++] = a[j]; a[j--] = t; }
        }
        queue_t q = get_default_queue();
        if (low < j)
            enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ sort(a, low, j); });
        if (i < high)
            enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ sort(a, i, high); });
    }
    kernel void k(global int *a) { sort(a, 0, 19999); }";
    let program = program_of_2_0(&setup, source, "")?;
    let mut random = 1_u32;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 12) as i32
    };
    let numbers: Vec<i32> = (0..20_000).map(|_| next()).collect();
    let mut expected = numbers.clone();
    expected.sort_unstable();
    assert_eq!(run(&setup, &program, "k", 1, &numbers)?, expected);
    Ok(())
}

/// Ten children each, five levels deep: more kernels than the queue has room for at once.
fn a_large_tree() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    void node(global int *a, int level, int number);
    void node(global int *a, int level, int number) {
        atomic_add(&a[level], 1);
        atomic_xor(&a[10 + level], number * 2654435761u);
        if (level == 5) return;
        for (int i = 0; i < 10; ++i) {
            int child = number * 10 + i;
            int e = enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1),
                                   ^{ node(a, level + 1, child); });
            if (e) atomic_add(&a[9], 1);
        }
    }
    kernel void k(global int *a) { node(a, 0, 0); }";
    let program = program_of_2_0(&setup, source, "-g")?;
    let before = resident();
    let got = run(&setup, &program, "k", 1, &[0; 20])?;
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KB more than before");
    let mut expected = [0; 20];
    for level in 0..6 {
        expected[level] = 10_i32.pow(level as u32);
        let hashes = (0..10_u32.pow(level as u32)).map(|number| number.wrapping_mul(2_654_435_761));
        expected[10 + level] = hashes.fold(0, |all, hash| all ^ hash) as i32;
    }
    assert_eq!(got, expected);
    Ok(())
}

/// A kernel that enqueues itself a million times over: what has ended leaves nothing behind.
fn a_million_children() -> Outcome {
    let setup = Setup::new();
    let _queue = queue(
        &setup,
        &[CL_QUEUE_PROPERTIES.into(), ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT, CL_QUEUE_SIZE.into(), 4096],
    )?;
    let source = "
    void step(global int *a);
    void step(global int *a) {
        if (++a[0] >= 1000000) return;
        a[1] |= enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ step(a); });
    }
    kernel void k(global int *a) { step(a); }";
    let program = program_of_2_0(&setup, source, "-g")?;
    run(&setup, &program, "k", 1, &[999_000, 0])?;
    let before = resident();
    assert_eq!(run(&setup, &program, "k", 1, &[0, 0])?, [1_000_000, 0]);
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KB more than before");
    Ok(())
}

/// A chain in which each kernel has an event, which ends when all behind it has: as deep as there are events.
fn a_chain_of_events() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    void step(global int *a, int left);
    void step(global int *a, int left) {
        atomic_inc(a);
        if (left == 0) return;
        clk_event_t e;
        int status = enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), 0, 0, &e,
                                    ^{ step(a, left - 1); });
        if (status == 0) release_event(e); else a[1] = status;
    }
    kernel void k(global int *a) { step(a, a[2]); }";
    let program = program_of_2_0(&setup, source, "-g")?;
    let events = setup.device.info::<u32>(CL_DEVICE_MAX_ON_DEVICE_EVENTS)? as i32;
    assert_eq!(run(&setup, &program, "k", 1, &[0, 0, events])?[..2], [events + 1, 0]);
    // One kernel more has none, and is told so; what came before has given its events back.
    assert_eq!(run(&setup, &program, "k", 1, &[0, 0, events + 5])?[..2], [events + 1, -100]);
    assert_eq!(run(&setup, &program, "k", 1, &[0, 0, 9])?[..2], [10, 0]);
    Ok(())
}

/// A million work-items that enqueue a kernel each, through a queue that has room for four thousand: those that need not wait
/// for the whole kernel begin before it is full.
fn a_million_children_of_one_kernel() -> Outcome {
    let setup = Setup::new();
    let _default = default_of_size(&setup, 1 << 20)?;
    let source = |flags: &str| {
        format!(
            "kernel void k(global int *a) {{
                int i = get_global_id(0);
                int status = enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_{flags}, ndrange_1D(1), ^{{
                    atomic_inc(a); atomic_xor(a + 1, i * 2654435761u);
                }});
                if (status) atomic_inc(a + 2);
            }}"
        )
    };
    for (flags, items, local) in
        [("NO_WAIT", 1_000_000, 50), ("WAIT_WORK_GROUP", 200_000, 64), ("WAIT_KERNEL", 20_032, 64)]
    {
        let program = program_of_2_0(&setup, &source(flags), "-g")?;
        let kernel = Kernel::new(&program, "k")?;
        let buffer = Buffer::copy_of(&setup.context, &[0; 3])?;
        kernel.set_object(0, Some(&buffer))?;
        let before = resident();
        setup.queue.launch(&kernel, NdRange::new(&[items], &[local]))?;
        let mut got = [0_i32; 3];
        setup.queue.read(&buffer, &mut got)?;
        let grown = resident().saturating_sub(before);
        assert!(grown < 32 << 10, "{flags}: {grown} KB more than before");
        assert_eq!(got[0] + got[2], items as i32, "{flags}: each child ran, or was refused");
        if flags == "WAIT_KERNEL" {
            assert!(got[0] >= 4000 && got[2] > 0, "{flags}: {got:?}");
        } else {
            let hashes = (0..items as u32).map(|i| i.wrapping_mul(2_654_435_761));
            assert_eq!(got, [items as i32, hashes.fold(0, |all, hash| all ^ hash) as i32, 0], "{flags}");
        }
    }
    Ok(())
}

/// A child sees all that its parent's group did, or its whole parent, if it is to wait for that; here the first thing that a
/// group does is to enqueue two, into a queue that they fill.
fn when_children_begin() -> Outcome {
    let setup = Setup::new();
    let _default = default_of_size(&setup, 64 << 10)?;
    let source = "
    kernel void k(global int *a, int total) {
        int group = get_group_id(0), size = get_local_size(0);
        if (get_local_id(0) == 0) {
            queue_t q = get_default_queue();
            int status = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_WORK_GROUP, ndrange_1D(1), ^{
                int missing = 0;
                for (int i = 0; i < size; ++i) missing += a[8 + group * size + i] != group + 1;
                atomic_add(a, missing); atomic_inc(a + 1);
            });
            if (status) atomic_inc(a + 4);
            if (group % 100 == 0) {
                status = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{
                    int missing = 0;
                    for (int i = 0; i < total; ++i) missing += a[8 + i] == 0;
                    atomic_add(a + 2, missing); atomic_inc(a + 3);
                });
                if (status) atomic_inc(a + 4);
            }
        }
        a[8 + get_global_id(0)] = group + 1;
    }";
    let program = program_of_2_0(&setup, source, "-g")?;
    let kernel = Kernel::new(&program, "k")?;
    let (groups, size) = (5000, 8);
    let buffer = Buffer::copy_of(&setup.context, &vec![0_i32; 8 + groups * size])?;
    kernel.set_object(0, Some(&buffer))?;
    kernel.set(1, (groups * size) as i32)?;
    setup.queue.launch(&kernel, NdRange::new(&[groups * size], &[size]))?;
    let mut got = vec![0_i32; 8 + groups * size];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!(got[..5], [0, groups as i32, 0, groups as i32 / 100, 0]);
    Ok(())
}

/// Trees whose kernels have many work-groups and events, in a queue that is always full: what was refused is missing, with
/// all that would have come of it, and nothing else.
fn rows_of_trees() -> Outcome {
    let setup = Setup::new();
    let _default = default_of_size(&setup, 16 << 10)?;
    let source = "
    void node(global int *a, int level);
    void node(global int *a, int level) {
        atomic_inc(&a[level]);
        if (level == 3) return;
        clk_event_t e;
        queue_t q = get_default_queue();
        if (enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(20, 2), 0, 0, &e, ^{ node(a, level + 1); })) {
            atomic_inc(&a[5]);
            return;
        }
        if (enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_WORK_GROUP, ndrange_1D(1), 1, &e, 0, ^{ atomic_inc(&a[4]); }))
            atomic_inc(&a[6]);
        release_event(e);
    }
    kernel void k(global int *a) { node(a, 0); }";
    let program = program_of_2_0(&setup, source, "")?;
    let kernel = Kernel::new(&program, "k")?;
    let mut all = [0; 7];
    let buffer = Buffer::copy_of(&setup.context, &all)?;
    kernel.set_object(0, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[20], &[2]))?.wait()?;
    setup.queue.read(&buffer, &mut all)?;
    let [first, second, third, last, waited, none, no_other] = all;
    let parents = first + second + third;
    assert_eq!((first, second + third + last), (20, 20 * (parents - none)), "{all:?}");
    assert_eq!(waited, parents - none - no_other, "{all:?}");
    Ok(())
}
