//! Loops that work-items leave at different iterations, in packs of several widths and in both tiers.

use crate::setup::{again_with, tests};
use crate::sources::{built, run, setup};
use spirula_tests::isolate::Outcome;

tests![what_is_the_same_in_each_iteration_differs_behind, what_is_the_same_in_lanes];

/// A value that is the same for all work-items in each iteration is each one's last behind the loop: as another loop's first one, where
/// ways meet, and behind two loops.
fn what_is_the_same_in_each_iteration_differs_behind() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global int *out) {
        local int l[2]; int i = get_local_id(0); int next = 7, met = 7, both = 7; int groups = get_num_groups(0);
        if (i == 0) { l[0] = 0; l[1] = 100; }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int a = 0; a < (i & 3); a++) { next = l[1]; atomic_inc(l); }
        for (int b = 0; b < 2 + groups; b++) next = next * next + 5;
        if (groups == 1) { for (int a = 0; a < (i & 1); a++) { met = l[1] + 1; atomic_inc(l); } }
        for (int a = 0; a < (i & 3); a++) for (int b = 0; b < (i & 1); b++) { both = l[1] + a; atomic_inc(l); }
        for (int b = 0; b < 2 + groups; b++) both = both * both + 5;
        out[i] = next + 3 * met + 5 * both; }";
    let squared = |first: i32| (0..3).fold(first, |x, _| x.wrapping_mul(x).wrapping_add(5));
    let expected = |i: i32| {
        let next = squared(if i & 3 == 0 { 7 } else { 100 });
        let met = if i & 1 == 0 { 7 } else { 101 };
        let both = squared(if i & 1 == 0 { 7 } else { 100 + (i & 3) - 1 });
        next.wrapping_add(3 * met).wrapping_add(both.wrapping_mul(5))
    };
    let program = built(&setup, source, "")?;
    assert_eq!(run(&setup, &program, 16)?, (0..16).map(expected).collect::<Vec<i32>>());
    Ok(())
}

fn what_is_the_same_in_lanes() -> Outcome {
    for (tier, width) in [("baseline", "1"), ("optimized", "1"), ("optimized", "2"), ("optimized", "16")] {
        let test = "loops::what_is_the_same_in_each_iteration_differs_behind";
        again_with(test, &[("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", width)]);
    }
    Ok(())
}
