//! Loops that work-items leave at different iterations, in packs of several widths and in both tiers.

use crate::setup::{again_with, tests};
use crate::sources::{built, run, setup};
use spirula_tests::isolate::Outcome;

tests![
    what_is_the_same_in_each_iteration_differs_behind,
    what_is_the_same_in_lanes,
    what_is_seldom_left,
    what_is_seldom_left_in_lanes
];

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

/// Loops with a bound that all work-items share, and of which single ones are done before it: bodies of a kernel, and what they compute for
/// a work-item and that bound. `f` looks drawn by lot.
type Search = (&'static str, fn(i32, i32) -> i32);
const SEARCHES: [Search; 6] = [
    ("int x; for (x = 0; x < n; x++) if (f(x) % 97 == i) break; r = x;", |i, n| {
        (0..n).find(|&x| f(x) % 97 == i).unwrap_or(n)
    }),
    // More than a counter is known behind it.
    (
        "int x = 0, s = i, t = 3; while (x < n && s % 131 != i) { t = s ^ x; s = f(s + i); x++; } r = s + 5 * t + 7 * x;",
        |i, n| {
            let (mut x, mut s, mut t) = (0, i, 3);
            while x < n && s % 131 != i {
                (t, s, x) = (s ^ x, f(s + i), x + 1);
            }
            s + 5 * t + 7 * x
        },
    ),
    // Two ways out of an iteration, another way through it, and a value that only some work-items have.
    (
        "int last = -1; r = 0; for (int x = 0; x < n; x++) { int v = f(x ^ i); if (v % 61 == 0) { r = x + 1000; break; } if (x & i & 1) { last = v; continue; } \
      if (v % 53 == 1) { r += 2 * v; break; } r += v & 3; } r += last;",
        |i, n| {
            let (mut r, mut last) = (0, -1);
            for x in 0..n {
                let v = f(x ^ i);
                if v % 61 == 0 {
                    r = x + 1000;
                    break;
                }
                if x & i & 1 != 0 {
                    last = v;
                    continue;
                }
                if v % 53 == 1 {
                    r += 2 * v;
                    break;
                }
                r += v & 3;
            }
            r + last
        },
    ),
    // In a loop that each work-item goes round for a number of times of its own.
    (
        "r = 1; for (int k = 0; k < i % 5; k++) { int x; for (x = k; x < n; x++) if (f(x + i) % 71 == k) break; r = (r * 31 + x) & 0xfffff; }",
        |i, n| {
            (0..i % 5).fold(1, |r, k| {
                let x = (k..n).find(|&x| f(x + i) % 71 == k).unwrap_or(n.max(k));
                (r * 31 + x) & 0xfffff
            })
        },
    ),
    // Nobody leaves it before its end, or all do at once.
    ("int x; for (x = 0; x < n; x++) if (f(x) < -i) break; r = x;", |_, n| n),
    ("int x; for (x = 0; x < n; x++) if (x > 40 + 0 * i) break; r = 3 * x + i;", |i, n| 3 * n.min(41) + i),
];

fn f(x: i32) -> i32 {
    (x as u32).wrapping_mul(1_103_515_245).wrapping_add(12345) as i32 >> 8 & 0xffff
}

fn what_is_seldom_left() -> Outcome {
    let setup = setup()?;
    for (number, (body, expected)) in SEARCHES.iter().enumerate() {
        for times in [0, 1, 40] {
            let source = format!(
                "int f(int x) {{ return ((uint)x * 1103515245 + 12345) >> 8 & 0xffff; }}
                kernel void k(global int *out) {{ int i = get_global_id(0), n = get_num_groups(0) * {times} * get_global_size(0), r; {body} out[i] = r; }}"
            );
            let found = run(&setup, &built(&setup, &source, "")?, 67)?;
            let expected: Vec<i32> = (0..67).map(|i| expected(i, times * 67)).collect();
            assert_eq!(found, expected, "search {number}, {times} times");
        }
    }
    Ok(())
}

fn what_is_seldom_left_in_lanes() -> Outcome {
    for width in ["1", "2", "8", "16", "32", "64"] {
        again_with(
            "loops::what_is_seldom_left",
            &[("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", width)],
        );
    }
    Ok(())
}
