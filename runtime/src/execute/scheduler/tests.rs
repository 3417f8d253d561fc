//! Tests of the scheduler with hand-written work-group functions.

#![allow(unsafe_code)]

use super::*;
use crate::execute::fault::Deadline;
use crate::execute::launch::ArgumentBlock;
use crate::execute::tiers::Tiers;
use crate::execute::tiers::tests::{tiers, version, wait_until};
use spirula_interface::program::{Launch, RawWorkGroupFn};
use spirula_interface::tier::Tier;
use std::sync::atomic::AtomicU32;

/// A kernel that will not get better.
fn kernel(entry: RawWorkGroupFn) -> Arc<Tiers> {
    Tiers::new(version(Tier::Optimized, entry, |_| ()), None)
}

/// An invocation of `groups` groups of `items` items whose argument block holds the address of `counters`.
fn invocation(kernel: &Arc<Tiers>, groups: [u64; 3], items: u64, counters: &[AtomicU32]) -> Arc<Invocation> {
    let mut arguments = ArgumentBlock::new(&Default::default(), 8).unwrap();
    arguments.put(0, &(counters.as_ptr() as usize).to_ne_bytes());
    let global_size = [groups[0] * items, groups[1], groups[2]];
    let launch = Launch::whole(3, [0; 3], global_size, [items, 1, 1]);
    let deadline = Deadline::NEVER;
    Arc::new(Invocation {
        tiers: kernel.clone(),
        arguments,
        memory: Default::default(),
        launch,
        local_size: 64,
        deadline,
        objects: Default::default(),
        group_times: Default::default(),
    })
}

/// Counts each group's runs and checks that local memory and scratch are usable and aligned.
unsafe extern "C" fn count(
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    local: *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the block holds the address of one counter per group; local memory has 64 bytes, scratch more than 200.
    unsafe {
        let counters = *arguments.cast::<*const AtomicU32>();
        assert!((local as usize).is_multiple_of(128) && (scratch as usize).is_multiple_of(128));
        assert!(first < end && end <= (*launch).group_count.iter().product::<u64>());
        local.write_bytes(1, 64);
        scratch.write_bytes(2, 200);
        for group in first..end {
            (*counters.add(group as usize)).fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!((*local.add(63), *scratch.add(199)), (1, 2));
    }
}

/// As `count`, but each group takes 20 µs.
unsafe extern "C" fn count_slowly(
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    local: *mut u8,
    scratch: *mut u8,
) {
    for group in first..end {
        let until = timer() + 20_000;
        while timer() < until {
            std::hint::spin_loop();
        }
        // SAFETY: the same arguments.
        unsafe { count(arguments, launch, group, group + 1, local, scratch) };
    }
}

#[test]
fn every_group_runs_once() {
    for threads in [1, 2, 3, 8] {
        let scheduler = Scheduler::new(threads, None);
        for groups in [[1, 1, 1], [2, 1, 1], [7, 3, 2], [64, 5, 1], [1000, 10, 3], [100_003, 1, 1]] {
            for any_order in [false, true] {
                let counters: Vec<AtomicU32> =
                    (0..groups.iter().product()).map(|_| AtomicU32::new(0)).collect();
                let version = version(Tier::Optimized, count, |info| info.code.any_order = any_order);
                let kernel = Tiers::new(version, None);
                for run in 1..=3 {
                    scheduler.run(&invocation(&kernel, groups, 16, &counters)).unwrap();
                    let wrong = counters.iter().position(|counter| counter.load(Ordering::Relaxed) != run);
                    assert_eq!(wrong, None, "{groups:?} with {threads} threads");
                }
            }
        }
    }
}

/// Notes in each group's counter which thread ran it, 1 for the test's; groups take a while, so that others are asked for help.
unsafe extern "C" fn note_thread(
    arguments: *const u8,
    _launch: *const Launch,
    first: u64,
    end: u64,
    _local: *mut u8,
    _scratch: *mut u8,
) {
    let is_helper = std::thread::current().name().is_some_and(|name| name.starts_with("spirula-"));
    for group in first..end {
        std::thread::sleep(Duration::from_millis(2));
        // SAFETY: the block holds the address of one counter per group.
        unsafe {
            let counters = *arguments.cast::<*const AtomicU32>();
            (*counters.add(group as usize)).store(1 + u32::from(is_helper), Ordering::Relaxed);
        }
    }
}

#[test]
fn launches_run_alone_where_help_makes_them_longer() {
    let scheduler = Scheduler::new(2, None);
    let version = version(Tier::Optimized, note_thread, |info| info.code.any_order = true);
    let kernel = Tiers::new(version, None);
    let items = 16 * 20;
    // As learned from earlier launches of this code.
    kernel.pace.learn(Tier::Optimized, items, 400_000);
    let code = kernel.first().code.number();
    (0..100).for_each(|_| {
        let is_shared = kernel.company.shares(code);
        kernel.company.learn(is_shared, items, if is_shared { u64::from(u32::MAX) } else { 1 });
    });
    let counters: Vec<AtomicU32> = (0..20).map(|_| AtomicU32::new(0)).collect();
    scheduler.run(&invocation(&kernel, [20, 1, 1], 16, &counters)).unwrap();
    let ran: Vec<u32> = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect();
    assert_eq!(ran, [1; 20], "all of it, and by this thread");
}

/// How often it is looked after a launch of which so many groups have ended at once, and no others, before better code is asked for.
fn looks_until_code_is_asked_for(ended: u64) -> u64 {
    let kernel =
        tiers(version(Tier::Baseline, count, |_| ()), |_| Ok(version(Tier::Optimized, count, |_| ())));
    // So many groups that none of them may take milliseconds.
    let groups = 1 << 20;
    let invocation = invocation(&kernel, [groups, 1, 1], 1, &[]);
    let version = kernel.first().clone();
    let job = Arc::new(Job::new(invocation, version, 0..groups, Shares::new(0..groups, 2, false), None, 2));
    let pauses = Arc::new(AtomicU64::new(0));
    let (counted, counting) = (pauses.clone(), job.clone());
    watch(&job, move || {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            counting.count(ended);
        }
    });
    wait_until(|| Arc::strong_count(&pauses) == 1 && (kernel.is_making() || kernel.is_settled()));
    pauses.load(Ordering::Relaxed)
}

#[test]
fn who_looks_after_a_launch_ends_when_better_code_is_asked_for() {
    assert_eq!(
        looks_until_code_is_asked_for(0),
        LOOKS_ALONE + 1,
        "so the thread is free for the compiler at once"
    );
}

#[test]
fn a_launch_whose_groups_begin_to_take_long_is_looked_after() {
    let kernel = Tiers::new(version(Tier::Baseline, count, |_| ()), None);
    let half = (kernel.worth_making_ns() / 2).div_ceil(BETWEEN_LOOKS.as_nanos() as u64);
    assert_eq!(looks_until_code_is_asked_for(1000), half);
    let few_left = (1 << 20) - 1000;
    assert!(looks_until_code_is_asked_for(few_left) > 100 * half, "as the others, they would end soon");
}

/// Each group waits until better code was asked for, and says in its counter that it was.
unsafe extern "C" fn wait_for_the_compiler(
    arguments: *const u8,
    _: *const Launch,
    first: u64,
    end: u64,
    _: *mut u8,
    _: *mut u8,
) {
    // SAFETY: the block holds the address of one counter per group, and one that the compiler sets.
    let counters = unsafe { std::slice::from_raw_parts(*arguments.cast::<*const AtomicU32>(), 17) };
    for group in first..end {
        wait_until(|| counters[16].load(Ordering::Relaxed) != 0);
        counters[group as usize].store(1, Ordering::Relaxed);
    }
}

#[test]
fn better_code_is_asked_for_while_the_first_of_a_few_groups_runs() {
    let counters: Arc<Vec<AtomicU32>> = Arc::new((0..17).map(|_| AtomicU32::new(0)).collect());
    let asked = counters.clone();
    let kernel = tiers(version(Tier::Baseline, wait_for_the_compiler, |_| ()), move |_| {
        asked[16].store(1, Ordering::Relaxed);
        Err("of the test".to_owned())
    });
    Scheduler::new(2, None).run(&invocation(&kernel, [16, 1, 1], 16, &counters)).unwrap();
    assert!(counters.iter().all(|counter| counter.load(Ordering::Relaxed) == 1));
}

#[test]
fn a_launch_is_looked_after_though_code_of_another_kernel_is_made() {
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = std::sync::Mutex::new(finished);
    let other = tiers(version(Tier::Baseline, count, |_| ()), move |_| {
        let _ = finished.lock().unwrap().recv();
        Err("of the test".to_owned())
    });
    let busy = invocation(&other, [100, 1, 1], 1, &[]);
    other.expect(&busy.launch, u64::MAX);
    wait_until(background::is_busy);
    assert_eq!(looks_until_code_is_asked_for(0), LOOKS_ALONE + 1);
    drop(finish);
}

#[test]
fn who_rests_for_the_compiler_goes_on_when_little_is_left() {
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = std::sync::Mutex::new(finished);
    let kernel = tiers(version(Tier::Baseline, count, |_| ()), move |_| {
        let _ = finished.lock().unwrap().recv();
        Err("nobody waits for it".to_owned())
    });
    let invocation = invocation(&kernel, [100, 1, 1], 1, &[]);
    kernel.expect(&invocation.launch, u64::MAX);
    let job = Job::new(invocation, kernel.first().clone(), 0..100, Shares::new(0..100, 2, false), None, 2);
    let (job, kernel) = (&job, &kernel);
    std::thread::scope(move |scope| {
        let helper = scope.spawn(|| job.rest());
        wait_until(|| job.resting.load(Ordering::Relaxed));
        job.left_ns.store(0, Ordering::Relaxed);
        wait_until(|| helper.is_finished());
        assert!(kernel.is_making(), "it did not wait for the code");
        // The code's maker ends however this does.
        drop(finish);
    });
}

#[test]
fn helpers_stay_though_better_code_may_come() {
    let scheduler = Scheduler::new(2, None);
    let counters: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
    // Other tests have code made meanwhile, and want the processors: not every try can succeed.
    wait_until(|| {
        let kernel =
            tiers(version(Tier::Baseline, count_slowly, |_| ()), |_| Err("nobody asks for it".to_owned()));
        let run = || scheduler.run(&invocation(&kernel, [8, 1, 1], 1, &counters)).unwrap();
        run();
        run();
        let stays = (0..50).any(|_| {
            std::thread::sleep(Duration::from_micros(20));
            scheduler.remind(|| ())
        });
        stays && !kernel.is_settled()
    });
}

#[test]
fn slow_groups_are_shared_even_when_they_are_few() {
    let scheduler = Scheduler::new(2, None);
    let counters: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(0)).collect();
    let kernel = kernel(count_slowly);
    for _ in 0..2 {
        scheduler.run(&invocation(&kernel, [200, 1, 1], 1, &counters)).unwrap();
    }
    assert!(counters.iter().all(|counter| counter.load(Ordering::Relaxed) == 2));
    assert!(scheduler.pool.is_built(), "the pool was asked for help");
    let estimate = kernel.pace.estimate_ns(1);
    assert!(estimate >= 10_000, "{estimate} ns for a 20 µs group");
}

#[test]
fn small_launches_leave_the_pool_asleep() {
    let counters: Vec<AtomicU32> = (0..4).map(|_| AtomicU32::new(0)).collect();
    let stays_asleep = || {
        let scheduler = Scheduler::new(4, None);
        let kernel = Tiers::new(version(Tier::Optimized, count, |info| info.code.any_order = true), None);
        // How long it takes is known behind one that nobody could help with.
        for groups in [1, 4] {
            scheduler.run(&invocation(&kernel, [groups, 1, 1], 16, &counters)).unwrap();
        }
        !scheduler.pool.is_built()
    };
    // A busy machine may take the CPU away for so long that help is called for; not every time.
    assert!((0..100).any(|_| stays_asleep()));
}

/// Each of two groups waits for the other one.
unsafe extern "C" fn meet(
    arguments: *const u8,
    _: *const Launch,
    first: u64,
    end: u64,
    _: *mut u8,
    _: *mut u8,
) {
    // SAFETY: the block holds the address of one counter per group.
    let counters = unsafe { std::slice::from_raw_parts(*arguments.cast::<*const AtomicU32>(), 2) };
    for group in first..end {
        counters[group as usize].store(1, Ordering::Relaxed);
        while counters[1 - group as usize].load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn few_groups_that_may_wait_for_each_other_run_at_the_same_time() {
    for tier in [Tier::Baseline, Tier::Optimized] {
        let (scheduler, known) = (Scheduler::new(2, None), version(tier, meet, |_| ()));
        let kernel = tiers(known, |_| Err("of the test".into()));
        // Also if they are known to take little, once they run together.
        for _ in 0..20 {
            let counters: Vec<AtomicU32> = (0..2).map(|_| AtomicU32::new(0)).collect();
            scheduler.run(&invocation(&kernel, [2, 1, 1], 1, &counters)).unwrap();
        }
    }
}

#[test]
fn few_groups_of_a_kernel_that_nobody_knows_run_at_the_same_time() {
    let counters: Vec<AtomicU32> = (0..2).map(|_| AtomicU32::new(0)).collect();
    let kernel = Tiers::new(version(Tier::Optimized, meet, |info| info.code.any_order = true), None);
    Scheduler::new(2, None).run(&invocation(&kernel, [2, 1, 1], 1, &counters)).unwrap();
}

#[test]
fn launches_from_several_threads_share_the_pool() {
    let scheduler = &Scheduler::new(2, None);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let counters: Vec<AtomicU32> = (0..5000).map(|_| AtomicU32::new(0)).collect();
                let kernel = kernel(count);
                for _ in 0..20 {
                    scheduler.run(&invocation(&kernel, [5000, 1, 1], 64, &counters)).unwrap();
                }
                assert!(counters.iter().all(|counter| counter.load(Ordering::Relaxed) == 20));
            });
        }
    });
}
