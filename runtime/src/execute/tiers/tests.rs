//! Tests of a kernel's tiers with hand-written work-group functions.

#![allow(unsafe_code)]

use super::*;
use crate::execute::arena::MAX_SCRATCH;
use crate::execute::launch::ArgumentBlock;
use crate::execute::scheduler::Scheduler;
use crate::kernel::tests::{empty, info, with};
use crate::machine::timer;
use spirula_interface::program::{Launch, RawWorkGroupFn};
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Code of that tier.
pub(crate) fn version(tier: Tier, entry: RawWorkGroupFn, change: impl FnOnce(&mut KernelInfo)) -> Version {
    let info = with(info("k", &[]), |info| {
        info.code.tier = tier;
        change(info);
    });
    Version { code: Code::native(entry), info: Arc::new(info), tuning: None }
}

/// A maker of what a test says.
struct Fake<F> {
    make: F,
    /// For these groups.
    known: Option<(Groups, Version)>,
    preferred: Preferred,
}

/// What later processes are to begin with.
pub(crate) type Preferred = Arc<Mutex<Vec<(Groups, Lanes, Vec<Lanes>)>>>;

type Lanes = Option<u32>;

impl<F: Fn(Groups, Lanes) -> Result<Version, String> + Send + Sync> Maker for Fake<F> {
    fn make(&self, groups: Groups, lanes: Lanes) -> Result<Version, String> {
        (self.make)(groups, lanes)
    }

    fn request(&self, _: Groups, _: Option<u32>) -> Option<Request> {
        None
    }

    fn known(&self, groups: Groups) -> Option<Version> {
        self.known.clone().filter(|(others, _)| *others == groups).map(|(_, version)| version)
    }

    fn prefer(&self, groups: Groups, lanes: Lanes, left: &[Alternative]) {
        self.preferred.lock().unwrap().push((groups, lanes, left.iter().map(|other| other.lanes).collect()));
    }
}

/// A kernel whose better code comes from `make`.
pub(crate) fn tiers<F>(first: Version, make: F) -> Arc<Tiers>
where
    F: Fn(Groups) -> Result<Version, String> + Send + Sync + 'static,
{
    tiers_in_lanes(first, move |groups, _| make(groups))
}

/// The same, made in as many lanes as are asked for.
pub(crate) fn tiers_in_lanes<F>(first: Version, make: F) -> Arc<Tiers>
where
    F: Fn(Groups, Lanes) -> Result<Version, String> + Send + Sync + 'static,
{
    that_prefer(first, make).0
}

/// The same, and what later processes are told to begin with.
pub(crate) fn that_prefer<F>(first: Version, make: F) -> (Arc<Tiers>, Preferred)
where
    F: Fn(Groups, Lanes) -> Result<Version, String> + Send + Sync + 'static,
{
    let preferred = Preferred::default();
    let maker = Fake { make, known: None, preferred: preferred.clone() };
    (Tiers::new(first, Some(Box::new(maker))), preferred)
}

/// A kernel that finds this code for such groups.
pub(crate) fn that_know(first: Version, groups: Groups, known: Version) -> Arc<Tiers> {
    let make = |_: Groups, _: Lanes| -> Result<Version, String> { Err("of the test".into()) };
    let maker = Fake { make, known: Some((groups, known)), preferred: Preferred::default() };
    Tiers::new(first, Some(Box::new(maker)))
}

/// Waits for what happens in the background.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    let happened = (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        condition()
    });
    assert!(happened, "it never happened");
}

/// A launch that takes so long.
fn run_for(kernel: &Arc<Tiers>, ns: u64) {
    kernel.spend(&some_launch(), ns, (0, None));
    kernel.launch_ended();
}

#[test]
fn optimized_code_is_for_what_launches_have() {
    for (rows, disjoint, multiple) in [
        (&[128, 192][..], true, 64),
        (&[48, 64], false, 16),
        (&[64, 7], true, 1),
        (&[], true, 1 << 6),
        (&[40], true, 8),
    ] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let told = asked.clone();
        let kernel = tiers(baseline(), move |groups| {
            told.lock().unwrap().push(groups);
            Err("of the test".into())
        });
        for &row in rows {
            let mut launched = invocation(&kernel, 1, [0; 2]);
            let whole = Launch::whole(1, [0; 3], [row, 1, 1], [row, 1, 1]);
            crate::execute::launch::prepare(&mut launched).launch =
                Launch { disjoint_buffers: disjoint.into(), ..whole };
            kernel.choose(&launched);
        }
        kernel.begin_usual(Duration::ZERO);
        wait_until(|| kernel.is_settled());
        let size = (rows.len() == 1).then_some([rows.first().map_or(0, |&row| row as u32), 1, 1]);
        assert_eq!(
            *asked.lock().unwrap(),
            [Groups::Usual(Usual { rows: multiple, disjoint, size, ..Usual::NOTHING })],
            "{rows:?}"
        );
    }
}

#[test]
fn code_is_for_one_size_only_where_that_matters() {
    for (sees_group, required) in [(true, None), (false, None), (true, Some([64, 1, 1]))] {
        let first = version(Tier::Baseline, empty, |info| {
            (info.code.sees_group, info.signature.required_work_group_size) = (sees_group, required);
        });
        let kernel = tiers(first, |_| Err("of the test".into()));
        let mut launched = invocation(&kernel, 1, [0; 2]);
        crate::execute::launch::prepare(&mut launched).launch =
            Launch::whole(1, [0; 3], [64, 1, 1], [64, 1, 1]);
        kernel.choose(&launched);
        let is_sized = kernel.usual().size == Some([64, 1, 1]);
        assert_eq!(is_sized, sees_group && required.is_none());
    }
}

#[test]
fn launches_do_not_run_what_their_rows_do_not_fill() {
    let kernel = tiers(baseline(), |_| Err("of the test".into()));
    let filled = version(Tier::Optimized, empty, |info| {
        (info.code.lanes, info.code.wants_filled, info.code.row_dimension) = (8, true, 1);
    });
    let mut launched = invocation(&kernel, 1, [0; 2]);
    for (local, can) in [([3, 16, 1], true), ([16, 3, 1], false)] {
        crate::execute::launch::prepare(&mut launched).launch = Launch::whole(2, [0; 3], local, local);
        assert_eq!(launched.can_run(&filled), can, "{local:?}");
    }
    let apart = version(Tier::Optimized, empty, |info| info.code.wants_disjoint = true);
    assert!(!launched.can_run(&apart), "nobody knows where its buffers lie");
    crate::execute::launch::prepare(&mut launched).launch.disjoint_buffers = 1;
    assert!(launched.can_run(&apart));
}

/// Of two groups of ten work-items in a row.
fn some_launch() -> Launch {
    Launch::whole(1, [0; 3], [20, 1, 1], [10, 1, 1])
}

#[test]
fn a_launch_takes_code_for_all_where_the_usual_is_not_for_it() {
    let kernel = tiers(baseline(), |groups| {
        let is_usual = matches!(groups, Groups::Usual(_));
        let name = if is_usual { "usual" } else { "general" };
        Ok(version(Tier::Optimized, empty, |info| {
            (info.code.symbol, info.code.lanes, info.code.wants_filled) = (name.into(), 16, is_usual);
        }))
    });
    let taken = |launch: &Launch| match kernel.better_than(kernel.first(), launch) {
        Better::Now(version) => version.info.code.symbol.clone(),
        other => format!("{other:?}"),
    };
    let filling = Launch::whole(1, [0; 3], [64, 1, 1], [32, 1, 1]);
    assert_eq!(taken(&some_launch()), "NotYet");
    kernel.begin_usual(Duration::ZERO);
    wait_until(|| kernel.is_settled());
    assert_eq!((taken(&filling).as_str(), taken(&some_launch()).as_str()), ("usual", "NotYet"));
    kernel.expect(&some_launch(), 0);
    kernel.expect(&filling, u64::MAX);
    kernel.awaited.wait_for_all(); // Nothing would run what a launch that goes on in the usual code has made.
    assert_eq!(taken(&some_launch()), "NotYet");
    kernel.expect(&some_launch(), u64::MAX);
    wait_until(|| taken(&some_launch()) == "general");
    assert_eq!(taken(&filling), "usual");
}

fn baseline() -> Version {
    version(Tier::Baseline, empty, |_| ())
}

/// A launch of so many groups of one work-item, whose argument block holds the addresses.
pub(crate) fn invocation(tiers: &Arc<Tiers>, groups: u64, arguments: [usize; 2]) -> Arc<Invocation> {
    let mut block = ArgumentBlock::new(&Default::default(), 16).unwrap();
    arguments.iter().enumerate().for_each(|(at, word)| block.put(8 * at, &word.to_ne_bytes()));
    let launch = Launch::whole(1, [0; 3], [groups, 1, 1], [1, 1, 1]);
    let deadline = crate::execute::fault::Deadline::NEVER;
    Arc::new(Invocation {
        tiers: tiers.clone(),
        arguments: block,
        memory: Default::default(),
        launch,
        local_size: 64,
        deadline,
        objects: Default::default(),
        group_times: Default::default(),
    })
}

fn chosen(tiers: &Arc<Tiers>) -> Tier {
    tiers.choose(&invocation(tiers, 1, [0; 2])).tier()
}

#[test]
fn a_panic_leaves_the_baseline_and_nobody_waits() {
    let kernel = tiers(baseline(), |_| panic!("of the test"));
    run_for(&kernel, kernel.worth_improving_ns());
    wait_until(|| kernel.optimized.get().is_some() && !kernel.is_making());
    assert_eq!(chosen(&kernel), Tier::Baseline);
    assert!(matches!(kernel.better_than(kernel.first(), &some_launch()), Better::Never));
}

#[test]
fn launches_wait_for_code_where_the_application_measures() {
    for is_measured in [true, false] {
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let finished = Mutex::new(finished);
        let kernel = tiers(baseline(), move |_| {
            let _ = finished.lock().unwrap().recv();
            Ok(version(Tier::Optimized, empty, |_| ()))
        });
        kernel.pace.learn(Tier::Baseline, 1, 1000);
        kernel.wait_if_measured(u64::MAX); // Nothing was asked for.
        match is_measured {
            true => kernel.times_were_read(),
            false => kernel.begin_usual(Duration::ZERO),
        }
        std::thread::scope(|scope| {
            let launch = scope.spawn(|| {
                kernel.wait_if_measured(u64::MAX);
                chosen(&kernel)
            });
            if is_measured {
                std::thread::sleep(Duration::from_millis(20)); // What doesn't wait is over.
                drop(finish);
                assert_eq!(launch.join().unwrap(), Tier::Optimized);
            } else {
                assert_eq!(launch.join().unwrap(), Tier::Baseline);
                drop(finish);
            }
        });
    }
}

#[test]
fn short_launches_wait_for_a_short_time() {
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = Mutex::new(finished);
    let kernel = tiers(baseline(), move |_| {
        let _ = finished.lock().unwrap().recv();
        Ok(version(Tier::Optimized, empty, |_| ()))
    });
    kernel.pace.learn(Tier::Baseline, 1, 1000);
    kernel.times_were_read();
    kernel.wait_if_measured(1);
    assert_eq!(chosen(&kernel), Tier::Baseline);
    std::thread::scope(|scope| {
        let launch = scope.spawn(|| {
            kernel.wait_if_measured(u64::MAX);
            chosen(&kernel)
        });
        std::thread::sleep(std::time::Duration::from_millis(20)); // What doesn't wait is over.
        drop(finish);
        assert_eq!(launch.join().unwrap(), Tier::Optimized);
    });
}

#[test]
fn nobody_waits_for_code_that_does_not_come() {
    let kernel = tiers(baseline(), |_| panic!("of the test"));
    kernel.times_were_read();
    kernel.wait_if_measured(1);
    assert!(kernel.is_settled());
    assert_eq!(chosen(&kernel), Tier::Baseline);
}

#[test]
fn groups_are_chosen_for_the_lanes_that_may_come() {
    let optimized = || version(Tier::Optimized, empty, |info| info.code.lanes = 8);
    let kernel = tiers(baseline(), move |_| Ok(optimized()));
    assert_eq!(kernel.lanes(), MOST_LANES);
    run_for(&kernel, kernel.worth_improving_ns());
    wait_until(|| kernel.lanes() == 8);
    assert_eq!(Tiers::new(baseline(), None).lanes(), 1, "nothing will come");
    assert_eq!(Tiers::new(optimized(), None).lanes(), 8);
}

#[test]
fn optimized_code_is_made_once_launches_have_run_for_a_while() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let kernel = tiers(baseline(), |groups| {
        assert!(matches!(groups, Groups::Usual(_)));
        MADE.fetch_add(1, Ordering::SeqCst);
        Ok(version(Tier::Optimized, empty, |_| ()))
    });
    run_for(&kernel, kernel.worth_improving_ns() - 1);
    assert!(matches!(kernel.better_than(&kernel.newest().clone(), &some_launch()), Better::NotYet));
    assert_eq!(MADE.load(Ordering::SeqCst), 0);
    (0..3).for_each(|_| run_for(&kernel, 1));
    wait_until(|| chosen(&kernel) == Tier::Optimized);
    run_for(&kernel, u64::MAX / 2);
    assert!(matches!(kernel.better_than(&baseline(), &some_launch()), Better::Now(_)));
    assert!(matches!(kernel.better_than(&kernel.newest().clone(), &some_launch()), Better::Never));
    assert_eq!(MADE.load(Ordering::SeqCst), 1);
}

#[test]
fn a_launch_that_will_last_has_its_code_made_meanwhile() {
    let has_begun = |spent_ns, [left_ns, surely_left_ns]: [fn(&Tiers) -> u64; 2]| {
        let kernel = tiers(baseline(), |_| Ok(version(Tier::Optimized, empty, |_| ())));
        assert!(kernel.is_new());
        kernel.spend(&some_launch(), spent_ns, (left_ns(&kernel), Some(surely_left_ns(&kernel))));
        assert!(!kernel.is_new());
        kernel.begun.load(Ordering::Relaxed)
    };
    const ENOUGH: fn(&Tiers) -> u64 = |kernel| kernel.worth_making_ns();
    const TOO_LITTLE: fn(&Tiers) -> u64 = |kernel| kernel.worth_making_ns() - 1;
    const FOUR_TIMES: fn(&Tiers) -> u64 = |kernel| 4 * kernel.worth_making_ns();
    const NOTHING: fn(&Tiers) -> u64 = |_| 0;
    const FOR_EVER: fn(&Tiers) -> u64 = |_| u64::MAX;
    assert!(has_begun(ENOUGH_SEEN_NS, [ENOUGH, NOTHING]));
    assert!(!has_begun(ENOUGH_SEEN_NS, [TOO_LITTLE, NOTHING]), "a compiler would only be in its way");
    assert!(!has_begun(ENOUGH_SEEN_NS - 1, [FOR_EVER, ENOUGH]), "nobody knows yet");
    assert!(has_begun(ENOUGH_SEEN_NS / 4, [NOTHING, FOUR_TIMES]), "so much is known earlier");
    assert!(!has_begun(ENOUGH_SEEN_NS / 8, [FOR_EVER, FOUR_TIMES]));
    assert!(!has_begun(LEAST_SEEN_NS - 1, [FOR_EVER, FOR_EVER]));
    assert!(!has_begun(ENOUGH_SEEN_NS, [NOTHING, NOTHING]), "not before the end");
}

#[test]
fn large_kernels_must_last_longer_to_be_worth_a_compiler() {
    let kernel = |operations| {
        let first = version(Tier::Baseline, empty, |info| info.code.operations = operations);
        tiers(first, |_| Err("of the test".into()))
    };
    assert!(kernel(1000).worth_making_ns() > 2 * kernel(10).worth_making_ns());
}

#[test]
fn what_was_made_before_is_used_from_the_first_launch_on() {
    let kernel = |known| {
        let make = |_: Groups, _: Lanes| -> Result<Version, String> { panic!("nobody asks for it") };
        Tiers::new(
            baseline(),
            Some(Box::new(Fake {
                make,
                known: Some((Groups::Usual(Usual::NOTHING), known)),
                preferred: Default::default(),
            })),
        )
    };
    assert_eq!(chosen(&kernel(version(Tier::Optimized, empty, |_| ()))), Tier::Optimized);
    // Many launches may be enqueued before the first begins.
    assert!(!kernel(version(Tier::Optimized, empty, |_| ())).may_get_better());
    let other = version(Tier::Optimized, empty, |info| info.signature.argument_block_size = 64);
    assert_eq!(chosen(&kernel(other)), Tier::Baseline);
}

#[test]
fn nothing_better_comes_without_a_maker() {
    let kernel = Tiers::new(baseline(), None);
    run_for(&kernel, u64::MAX);
    assert!(matches!(kernel.better_than(kernel.first(), &some_launch()), Better::Never));
    assert_eq!(chosen(&kernel), Tier::Baseline);
}

#[test]
fn what_can_not_be_made_or_is_another_kernel_leaves_the_first_code() {
    type Change = fn(&mut KernelInfo);
    let others: [Option<Change>; 5] = [
        None,
        Some(|info| info.signature.name = "other".into()),
        Some(|info| info.code.sub_group_size = 4),
        Some(|info| info.code.static_local_size = 4096),
        Some(|info| info.code.sees_group = true),
    ];
    for change in others {
        let blind = version(Tier::Baseline, empty, |info| info.code.sees_group = false);
        let kernel = tiers(blind, move |_| {
            let change = change.ok_or("of the test")?;
            Ok(version(Tier::Optimized, empty, |info| {
                info.code.sees_group = false;
                change(info);
            }))
        });
        run_for(&kernel, kernel.worth_improving_ns());
        wait_until(|| kernel.optimized.get().is_some());
        assert!(matches!(kernel.better_than(kernel.first(), &some_launch()), Better::Never));
        assert_eq!(chosen(&kernel), Tier::Baseline);
    }
}

/// Counts each group for its tier, and writes all over its scratch.
///
/// # Safety
/// The block holds the address of one counter for each group, then of the kernel's tiers.
unsafe fn count(
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    scratch: *mut u8,
    by: u32,
) {
    // SAFETY: as promised; scratch has as many bytes as the launch says.
    unsafe {
        let counters = *arguments.cast::<*const AtomicU32>();
        scratch.write_bytes(1, (*launch).memory.scratch as usize);
        for group in first..end {
            (*counters.add(group as usize)).fetch_add(by, Ordering::Relaxed);
        }
    }
}

/// Takes 20 µs for a group until the optimized code was asked for; the next groups wait until there is a decision.
unsafe extern "C" fn slow(
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    _local: *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the tiers live as long as the launch.
    let tiers = unsafe { &**arguments.cast::<*const Tiers>().add(1) };
    for group in first..end {
        let until = timer() + 20_000;
        while timer() < until {
            std::hint::spin_loop();
        }
        while tiers.begun.load(Ordering::Relaxed) && tiers.optimized.get().is_none() {
            std::thread::yield_now();
        }
        // SAFETY: the same arguments.
        unsafe { count(arguments, launch, group, group + 1, scratch, 1) };
    }
}

unsafe extern "C" fn fast(
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    _local: *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the same arguments.
    unsafe { count(arguments, launch, first, end, scratch, 1 << 16) };
}

/// How many groups of a launch ran in each tier's code; each ran once.
fn run(threads: usize, optimized_scratch: u64) -> (usize, usize) {
    const GROUPS: usize = 20_000;
    let first = version(Tier::Baseline, slow, |_| ());
    let kernel = tiers(first, move |_| {
        Ok(version(Tier::Optimized, fast, |info| info.code.scratch_fixed = optimized_scratch))
    });
    let counters: Vec<AtomicU32> = (0..GROUPS).map(|_| AtomicU32::new(0)).collect();
    let addresses = [counters.as_ptr() as usize, Arc::as_ptr(&kernel) as usize];
    Scheduler::new(threads, None).run(&invocation(&kernel, GROUPS as u64, addresses)).unwrap();
    let ran = |by: u32| counters.iter().filter(|counter| counter.load(Ordering::Relaxed) == by).count();
    let (slowly, fast) = (ran(1), ran(1 << 16));
    assert_eq!(slowly + fast, GROUPS, "each group runs once");
    (slowly, fast)
}

#[test]
fn a_running_launch_goes_on_in_better_code() {
    for threads in [1, 2, 5] {
        // With less scratch than before, and with more.
        for scratch in [0, 3 << 20] {
            let (slowly, fast) = run(threads, scratch);
            assert!(slowly > 0 && fast > 0, "{threads} threads: {slowly} and {fast} groups");
        }
    }
}

#[test]
fn a_running_launch_stays_in_its_code_where_the_better_needs_too_much() {
    assert_eq!(run(2, MAX_SCRATCH + 1).1, 0);
}
