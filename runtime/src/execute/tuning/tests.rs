//! Tests of the choice with hand-written work-group functions.

use super::*;
use crate::execute::tiers::tests::{Preferred, invocation, that_prefer, version, wait_until};
use crate::kernel::tests::empty;
use spirula_interface::program::{KernelInfo, Launch};
use std::sync::Mutex;

/// Code of so many lanes, whose alternatives those are.
fn code(lanes: u32, others: &[u32]) -> Version {
    version(Tier::Optimized, empty, |info| {
        let other = |&lanes: &u32| Alternative { lanes: Some(lanes), percent: 100 };
        (info.code.lanes, info.code.alternatives) = (lanes, others.iter().map(other).collect());
    })
}

/// A kernel of 16 lanes that can be had in others, too, but not in scalar code.
fn kernel(others: &[u32]) -> Arc<Tiers> {
    kernel_and_preferred(others).0
}

fn kernel_and_preferred(others: &[u32]) -> (Arc<Tiers>, Preferred) {
    that_prefer(code(16, others), |_, lanes| match lanes {
        Some(1) | None => Err("of the test".into()),
        Some(lanes) => Ok(code(lanes, &[])),
    })
}

fn tuning(kernel: &Tiers) -> &Arc<Tuning> {
    kernel.newest().tuning.as_ref().expect("there are alternatives")
}

/// Threads take turns in chunks that take as long as their lanes say, until nothing will change.
fn run(kernel: &Arc<Tiers>, ns: fn(u32) -> u64) {
    let tuning = tuning(kernel);
    wait_until(|| {
        for seat in (0..100).map(|chunk| chunk % 3) {
            let turn = tuning.turn(seat);
            tuning.ran(kernel, seat, &turn, 100, ns(turn.version.info.code.lanes));
        }
        tuning.is_settled()
    });
}

fn lanes(kernel: &Tiers) -> u32 {
    kernel.newest().champion().info.code.lanes
}

#[test]
fn the_fastest_stays() {
    for (others, fastest) in [(&[8, 32][..], 8), (&[32, 8], 8), (&[1, 32], 16), (&[64, 32, 4, 8], 8)] {
        let kernel = kernel(others);
        run(&kernel, |lanes| {
            contest::TURN_NS * u64::from(lanes.abs_diff(if lanes < 8 { 0 } else { 7 }) + 10)
        });
        let expected = if fastest == 16 { 16 } else { fastest };
        assert_eq!(lanes(&kernel), expected, "{others:?}");
        assert!(kernel.newest().champion().tuning.is_none(), "its launches have nothing to ask");
        assert_eq!(kernel.lanes(), expected);
    }
}

/// Rows are as long as it needs, which is too short for what was made first.
#[test]
fn launches_run_what_won_and_not_code_for_all() {
    let filled = |lanes: u32, others: &[u32]| {
        let Version { info, code, .. } = code(lanes, others);
        let mut info = KernelInfo::clone(&info);
        info.code.wants_filled = true;
        Version { code, info: Arc::new(info), tuning: None }
    };
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = asked.clone();
    let (kernel, _) = that_prefer(filled(16, &[8]), move |groups, lanes| {
        told.lock().unwrap().push((groups, lanes));
        Ok(filled(lanes.unwrap_or(64), &[]))
    });
    run(&kernel, |lanes| contest::TURN_NS * u64::from(if lanes < 8 { 32 } else { lanes }));
    assert_eq!((lanes(&kernel), kernel.lanes()), (8, 8));
    let mut launched = invocation(&kernel, 1, [0; 2]);
    crate::execute::launch::prepare(&mut launched).launch = Launch::whole(1, [0; 3], [64, 1, 1], [8, 1, 1]);
    kernel.pace.learn(Tier::Optimized, 1, 1_000_000_000);
    for _ in 0..3 {
        assert_eq!(kernel.choose(&launched).info.code.lanes, 8);
    }
    // Jobs are done one after the other.
    let (last, others) = kernel_and_preferred(&[8]);
    run(&last, |lanes| contest::TURN_NS * u64::from(lanes));
    wait_until(|| !others.lock().unwrap().is_empty());
    assert!(!asked.lock().unwrap().contains(&(Groups::Any, None)));
}

#[test]
fn what_won_is_what_later_processes_begin_with() {
    type Trial = (Option<u32>, &'static [u32]);
    // Behind each trial: what won by then, and what is left.
    let trials: [(&[u32], &[Trial]); 2] = [
        (&[8, 4], &[(Some(8), &[4]), (Some(4), &[2]), (Some(4), &[])]),
        (&[1, 32], &[(None, &[32]), (None, &[])]),
    ];
    for (others, expected) in trials {
        let (kernel, preferred) = kernel_and_preferred(others);
        run(&kernel, |lanes| contest::TURN_NS * u64::from(if lanes < 4 { 32 } else { lanes }));
        let left = |lanes: &[u32]| lanes.iter().copied().map(Some).collect::<Vec<_>>();
        let expected: Vec<_> = expected.iter().map(|&(won, lanes)| (Groups::Any, won, left(lanes))).collect();
        wait_until(|| *preferred.lock().unwrap() == expected);
    }
}

#[test]
fn nothing_is_made_before_it_pays_and_rows_suit_the_widest_until_then() {
    let kernel = kernel(&[32]);
    let tuning = tuning(&kernel);
    let worth = tuning.worth_ns(0, &tuning.lock());
    let ran = |ns| {
        let turn = tuning.turn(0);
        tuning.ran(&kernel, 0, &turn, 1, ns);
    };
    ran(worth - 1);
    assert_eq!((tuning.enough_ns.load(Ordering::Relaxed), tuning.chunk_ns()), (worth, CHUNK_NS));
    assert_eq!((lanes(&kernel), kernel.lanes()), (16, 32));
    ran(1);
    wait_until(|| tuning.lock().trial.is_some());
    assert_eq!(tuning.chunk_ns(), TURN_CHUNK_NS);
    tuning.refuse(&kernel);
    assert!(tuning.is_settled(), "there was no memory for it, and no other");
    assert_eq!((lanes(&kernel), kernel.lanes()), (16, 16));
}

#[test]
fn a_code_without_alternatives_or_whose_user_decided_is_left_alone() {
    for (tune, others, is_open) in [
        (Tune::WhereItPays, &[8][..], true),
        (Tune::Always, &[8], true),
        (Tune::Never, &[8], false),
        (Tune::WhereItPays, &[], false),
    ] {
        assert_eq!(begin_as(tune, code(16, others), Groups::Any).tuning.is_some(), is_open, "{tune:?}");
    }
}

#[test]
fn always_all_of_them_have_their_turns_and_become_what_is_used() {
    let first = begin_as(Tune::Always, code(16, &[8, 32]), Groups::Any);
    let kernel = kernel(&[]);
    let tuning = first.tuning.as_ref().unwrap();
    let mut used = Vec::new();
    while !tuning.is_settled() {
        let turn = tuning.turn(0);
        used.push(turn.version.info.code.lanes);
        tuning.ran(&kernel, 0, &turn, 1, 1);
    }
    assert!([8, 16, 32].iter().all(|lanes| used.contains(lanes)), "{used:?}");
    assert_eq!(first.champion().info.code.lanes, 32);
}
