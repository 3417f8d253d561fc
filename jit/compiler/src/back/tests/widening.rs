//! Kernels with a known answer, in lanes: one idea of the widener each.

mod accesses;
mod calls;

use super::{CHOSEN, PARAMS, lower, numbers, ready, run};
use spirula_kir::parse_module;

/// Runs a kernel in groups of several sizes and compares each element with what `expected` makes of the data before and its place.
fn check(body: &str, expected: impl Fn(&[i32], usize) -> i32) {
    for local in [1, 5, 16, 33] {
        let mut data = numbers(local * 4);
        let before = data.clone();
        run(&format!("{PARAMS} {{\n{body}\n}}"), &mut data, local as u64, 0);
        for (i, &got) in data.iter().enumerate() {
            assert_eq!(got, expected(&before, i), "{local} {i}");
        }
    }
}

/// Where lanes part and meet: the first lane may be one that does not take the branch.
#[test]
fn promises_of_active_lanes_do_not_bind_the_first() {
    // `disjoint` holds for even ids only, and the pack may start at an odd one.
    let body = "b0:
  %3: i64 = global_id 0
  %4: i64 = and %3, 1:i64
  %5: i1 = icmp eq %4, 0:i64
  branch %5, b1, b2
b1:
  %6: i64 = or disjoint %3, 1:i64
  %7: i32 = trunc %6
  %8: ptr(global) = address %0 + %3*4 + 0
  store %8, %7, align 4
  return
b2:
  return";
    check(body, |before, i| if i % 2 == 0 { i as i32 | 1 } else { before[i] });
}

/// Found by `spirula-fuzz` (kernel 79): an id in 128 bits was kept in 64.
#[test]
fn ids_in_integers_wider_than_any_id() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i128 = sext %3
  %7: i128 = sext %5
  %8: i128 = mul nsw %6, %7
  %9: i128 = add nsw %8, %6
  %10: i32 = trunc %9
  store %4, %10, align 4
  return";
    check(body, |before, i| i as i32 * (before[i] + 1));
}

/// Lanes without a divisor, and with the one quotient that does not fit, are inactive.
#[test]
fn inactive_lanes_do_not_divide() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i32 = trunc %3
  %7: i32 = srem %6, 3:i32
  %8: i1 = icmp eq %7, 0:i32
  branch %8, b1, b2
b1:
  store %4, -2147483648:i32, align 4
  return
b2:
  %9: i32 = sdiv %5, %7
  %10: i32 = sub 0:i32, %7
  %11: i32 = srem %9, %10
  %12: i32 = udiv %9, %7
  %13: i32 = xor %11, %12
  store %4, %13, align 4
  return"
        .replace("-2147483648", "2147483648");
    check(&body, |before, i| {
        let divisor = i as i32 % 3;
        if divisor == 0 {
            return i32::MIN;
        }
        let quotient = before[i] / divisor;
        (quotient % -divisor) ^ (quotient as u32 / divisor as u32) as i32
    });
}

/// Numbers of 64 bits by constants, of which lanes multiply by the inverse: quotients and remainders, signed and not, one of them with a
/// multiplier of 65 bits.
#[test]
fn long_divisions_by_constants() {
    type Division = (&'static str, i64, fn(i64, i64) -> i64);
    let divisions: [Division; 6] = [
        ("udiv", 7, |x, y| (x as u64 / y as u64) as i64),
        ("urem", 1_000_000_007, |x, y| (x as u64 % y as u64) as i64),
        ("udiv", -3, |x, y| (x as u64 / y as u64) as i64),
        ("sdiv", 10, i64::wrapping_div),
        ("srem", -77, i64::wrapping_rem),
        ("sdiv", 64, i64::wrapping_div),
    ];
    for (op, divisor, expected) in divisions {
        let body = format!(
            "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i64 = sext %5
  %7: i64 = mul %6, 6364136223846793005:i64
  %8: i64 = {op} %7, {}:i64
  %9: i64 = lshr %8, 32:i64
  %10: i64 = xor %8, %9
  %11: i32 = trunc %10
  store %4, %11, align 4
  return",
            divisor as u64
        );
        check(&body, |before, i| {
            let quotient = expected(i64::from(before[i]).wrapping_mul(6_364_136_223_846_793_005), divisor);
            (quotient ^ (quotient as u64 >> 32) as i64) as i32
        });
    }
}

/// The switch's ways meet in several places; each lane must take its own.
#[test]
fn a_divergent_switch_with_ways_that_fall_through() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i32 = and %5, 7:i32
  switch %6, 1: b1(10:i32), 2: b2(20:i32), 5: b1(50:i32), 6: b4, default: b3(%5)
b1(%7: i32):
  %8: i32 = add %7, %6
  jump b2(%8)
b2(%9: i32):
  %10: i32 = mul %9, 3:i32
  jump b3(%10)
b3(%11: i32):
  store %4, %11, align 4
  return
b4:
  return";
    check(body, |before, i| match before[i] & 7 {
        1 => 33,
        2 => 60,
        5 => 165,
        6 => before[i],
        _ => before[i],
    });
}

/// A loop with a break to elsewhere, a continue, and a return, each of other lanes at another trip.
#[test]
fn a_divergent_loop_with_three_exits() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i32 = and %5, 15:i32
  jump b1(0:i32, 0:i32)
b1(%7: i32, %8: i32):
  %9: i1 = icmp slt %7, %6
  branch %9, b2, b7(%8)
b2:
  %10: i32 = add %7, 1:i32
  %11: i32 = and %7, 1:i32
  %12: i1 = icmp eq %11, 0:i32
  branch %12, b1(%10, %8), b3
b3:
  %13: i32 = add %8, %7
  %14: i1 = icmp eq %7, 9:i32
  branch %14, b4, b5
b4:
  %15: i32 = mul %13, 100:i32
  store %4, %15, align 4
  return
b5:
  %16: i1 = icmp sgt %5, 500:i32
  %17: i1 = icmp eq %7, 3:i32
  %18: i1 = and %16, %17
  branch %18, b6, b1(%10, %13)
b6:
  %19: i32 = sub 0:i32, %13
  jump b7(%19)
b7(%20: i32):
  %21: i32 = add %20, 1:i32
  store %4, %21, align 4
  return";
    check(body, |before, i| {
        let mut sum = 0;
        for k in 0..before[i] & 15 {
            if k & 1 == 0 {
                continue;
            }
            sum += k;
            if k == 9 {
                return sum * 100;
            }
            if before[i] > 500 && k == 3 {
                return 1 - sum;
            }
        }
        sum + 1
    });
}

/// Behind a loop that lanes leave in different iterations each has the value of its own last iteration, and a uniform branch in it
/// must not run for nobody.
#[test]
fn a_uniform_branch_in_a_divergent_loop() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i32 = and %5, 7:i32
  jump b1(0:i32, %5)
b1(%7: i32, %8: i32):
  %9: i32 = add %7, 1:i32
  %10: i32 = and %7, 1:i32
  %11: i1 = icmp eq %10, %2
  branch %11, b2, b3(%8)
b2:
  %12: i32 = add %8, %7
  jump b3(%12)
b3(%13: i32):
  %14: i1 = icmp slt %9, %6
  branch %14, b1(%9, %13), b4
b4:
  %15: i32 = mul %9, 1000:i32
  %16: i32 = add %15, %13
  store %4, %16, align 4
  return";
    check(body, |before, i| {
        let iterations = (before[i] & 7).max(1);
        iterations * 1000 + before[i] + (0..iterations).filter(|k| k % 2 == 0).sum::<i32>()
    });
}

/// One slot for words, whose lanes are interleaved, and one that is accessed in two sizes, whose lanes are not.
#[test]
fn private_arrays_at_varying_places() {
    let body = "  slot $0: 32 align 4
  slot $1: 16 align 4
b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: ptr(private) = slot_address $0
  %7: ptr(private) = slot_address $1
  jump b1(0:i64)
b1(%8: i64):
  %9: ptr(private) = address %6 + %8*4 + 0
  %10: i32 = trunc %8
  %11: i32 = mul %10, %5
  store %9, %11, align 4
  %12: i64 = and %8, 3:i64
  %13: ptr(private) = address %7 + %12*4 + 0
  store %13, %11, align 4
  %14: i64 = add %8, 1:i64
  %15: i1 = icmp ult %14, 8:i64
  branch %15, b1(%14), b2
b2:
  %16: i64 = zext %5
  %17: i64 = and %16, 7:i64
  %18: ptr(private) = address %6 + %17*4 + 0
  %19: i32 = load %18, align 4
  %20: i64 = and %16, 3:i64
  %21: ptr(private) = address %7 + %20*4 + 1
  store %21, 77:i8, align 1
  %22: ptr(private) = address %7 + %20*4 + 0
  %23: i32 = load %22, align 4
  %24: i32 = xor %19, %23
  store %4, %24, align 4
  return";
    check(body, |before, i| {
        let x = before[i];
        let second = (((x & 3) + 4) as u32).wrapping_mul(x as u32);
        let second = second & !0xff00 | 77 << 8;
        ((x & 7).wrapping_mul(x) as u32 ^ second) as i32
    });
}

/// A slot for pairs of words, which are accessed as such, as one number and at the lane's own places: its lanes are interleaved by pairs.
#[test]
fn private_arrays_of_pairs_that_are_numbers() {
    let body = "  slot $0: 64 align 8
b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: ptr(private) = slot_address $0
  %7: i64 = zext %5
  %8: i64 = and %7, 7:i64
  jump b1(0:i64)
b1(%9: i64):
  %10: ptr(private) = address %6 + %9*8 + 0
  %11: i32 = trunc %9
  %12: i32 = add %11, %5
  %13: <2 x i32> = insert_element zero:<2 x i32>, %11, 0:i64
  %14: <2 x i32> = insert_element %13, %12, 1:i64
  store %10, %14, align 8
  %15: i64 = add %9, 1:i64
  %16: i1 = icmp ult %15, 8:i64
  branch %16, b1(%15), b2
b2:
  %17: ptr(private) = address %6 + %8*8 + 0
  %18: <2 x i32> = load %17, align 8
  %19: i32 = extract_element %18, 0:i64
  %20: i32 = extract_element %18, 1:i64
  %21: i1 = icmp ult %19, 4:i32
  branch %21, b3, b4
b3:
  %22: i64 = load %17, align 8
  %23: i64 = lshr %22, 32:i64
  %24: i64 = xor %23, 5:i64
  store %17, %24, align 8
  jump b4
b4:
  %25: <2 x i32> = load %17, align 8
  %26: i32 = extract_element %25, 0:i64
  %27: ptr(private) = address %6 + 40
  %28: i64 = load %27, align 8
  %29: i64 = lshr %28, 32:i64
  %30: i32 = trunc %29
  %31: i32 = xor %26, %30
  %32: i32 = add %31, %20
  store %4, %32, align 4
  return";
    check(body, |before, i| {
        let x = before[i];
        let (place, second) = (x & 7, (x & 7).wrapping_add(x));
        let first = if place < 4 { second ^ 5 } else { place };
        (first ^ x.wrapping_add(5)).wrapping_add(second)
    });
}

/// Neighbours, every second, backwards, and anywhere, under a mask.
#[test]
fn lanes_touch_only_what_is_theirs() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: i64 = global_size 0
  %5: i64 = sub %4, %3
  %6: ptr(global) = address %0 + %3*4 + 0
  %7: i32 = load %6, align 4
  %8: i1 = icmp sgt %7, 100:i32
  barrier b1
b1:
  branch %8, b2, b3
b2:
  %9: i64 = sub %5, 1:i64
  %10: ptr(local) = address %1 + %3*0 + 0
  %11: i64 = mul %9, 7:i64
  %12: i64 = urem %11, 1:i64
  %13: i64 = add %3, %12
  %14: ptr(global) = address %0 + %13*4 + 0
  %15: i32 = load %14, align 4
  %16: i32 = sub 0:i32, %15
  store %14, %16, align 4
  return
b3:
  return";
    check(body, |before, i| if before[i] > 100 { -before[i] } else { before[i] });
}

/// LLVM 22.1 moves a masked load to a selection by its mask, here past the store; the `freeze` behind the load keeps it.
#[test]
fn masked_loads_stay_before_stores() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i64 = and %3, 1:i64
  %6: i1 = icmp eq %5, 0:i64
  branch %6, b1, b2(1:i32)
b1:
  %7: i32 = load %4, align 4
  store %4, 5:i32, align 4
  jump b2(%7)
b2(%8: i32):
  %9: i32 = add %8, 1000:i32
  store %4, %9, align 4
  return";
    check(body, |before, i| if i % 2 == 0 { before[i] + 1000 } else { 1001 });
}

/// A loop that waits for itself runs in packs of several registers; what is left of a row runs together, under a mask.
#[test]
fn rests_of_rows_run_together() {
    let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 16) {
b0:
  %2: i64 = global_id 0
  %3: ptr(global) = address %0 + %2*4 + 0
  %4: i32 = load %3, align 4
  jump b1(0:i32, %4)
b1(%5: i32, %6: i32):
  %7: i1 = icmp slt %5, %1
  branch %7, b2, b3
b2:
  %8: i32 = mul %6, %4
  %9: i32 = xor %8, %5
  %10: i32 = add %5, 1:i32
  jump b1(%10, %9)
b3:
  store %3, %6, align 4
  return
}";
    let (lowered, _) = lower(parse_module(text).unwrap(), CHOSEN);
    assert!(lowered.lanes > 16, "{}", lowered.lanes);
    for local in [1, 16, 33, 64, 77, 128, 150] {
        let mut data = numbers(local * 4);
        let before = data.clone();
        ready(text, CHOSEN).run(&mut data, local as u64, 9);
        for (&got, x) in data.iter().zip(before) {
            let expected = (0..9).fold(x, |value: i32, i| value.wrapping_mul(x) ^ i);
            assert_eq!(got, expected, "{local} {x}");
        }
    }
}

/// Each lane's atomic operation counts, under a mask too.
#[test]
fn atomics_of_all_lanes_count() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: i64 = local_id 0
  %5: i1 = icmp eq %4, 0:i64
  branch %5, b1, b2
b1:
  store %1, 0:i32, align 4
  jump b2
b2:
  barrier b3
b3:
  %6: i64 = and %3, 1:i64
  %7: i1 = icmp eq %6, 0:i64
  branch %7, b4, b5
b4:
  %8: i32 = trunc %3
  %9: i32 = rmw atomic monotonic add %1, %8, align 4
  jump b5
b5:
  barrier b6
b6:
  %10: i32 = load %1, align 4
  %11: ptr(global) = address %0 + %3*4 + 0
  store %11, %10, align 4
  return";
    for local in [1, 5, 16, 33] {
        let mut data = numbers(local * 4);
        run(&format!("{PARAMS} {{\n{body}\n}}"), &mut data, local as u64, 0);
        for (i, &got) in data.iter().enumerate() {
            let group = i / local * local;
            let sum: usize = (group..group + local).filter(|n| n % 2 == 0).sum();
            assert_eq!(got, sum as i32, "{local} {i}");
        }
    }
}

/// Some lanes return while others go on to a barrier, in the same pack.
#[test]
fn lanes_of_a_pack_end_in_different_ways() {
    let body = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i64 = local_id 0
  %7: ptr(local) = address %1 + %6*4 + 0
  store %7, %5, align 4
  %8: i64 = and %6, 3:i64
  %9: i1 = icmp eq %8, 2:i64
  branch %9, b1, b2
b1:
  store %4, 7:i32, align 4
  return
b2:
  barrier b3
b3:
  %10: i32 = load %1, align 4
  %11: i32 = add %10, %5
  store %4, %11, align 4
  return";
    for local in [1, 5, 16, 33] {
        let mut data = numbers(local * 4);
        let before = data.clone();
        run(&format!("{PARAMS} {{\n{body}\n}}"), &mut data, local as u64, 0);
        for (i, &got) in data.iter().enumerate() {
            let expected = if i % local % 4 == 2 { 7 } else { before[i / local * local] + before[i] };
            assert_eq!(got, expected, "{local} {i}");
        }
    }
}

/// What is never read goes past the caches where whole lines are written, and arrives.
#[test]
fn stores_past_the_caches() {
    let kernel = |value: &str| {
        format!(
            "{PARAMS} {{\nb0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = trunc %3
  {value}
  %7: i32 = mul %6, 3:i32
  store %4, %7, align 4
  return\n}}"
        )
    };
    let lower = |text: &str| super::lower(parse_module(text).unwrap(), 16).1;
    let written = kernel("%6: i32 = add %5, 1:i32");
    assert!(lower(&written).contains(", !nontemporal"));
    // One start in sixteen is that of a line.
    for start in 0..16 {
        let mut data = numbers(start + 64);
        let before = data.clone();
        run(&written, &mut data[start..], 32, 0);
        assert_eq!(data[..start], before[..start]);
        assert!(data[start..].iter().enumerate().all(|(i, &x)| x == 3 * (i as i32 + 1)), "{start}");
    }
    for (what, value) in [
        ("read", "%6: i32 = load %4, align 4"),
        ("exchanged", "%6: i32 = rmw atomic monotonic xchg %4, %5, align 4"),
        ("read elsewhere", "%8: ptr(global) = select 1:i1, %0, %4\n  %6: i32 = load %8, align 4"),
        ("fenced", "%6: i32 = add %5, 1:i32\n  fence seq_cst"),
    ] {
        assert!(!lower(&kernel(value)).contains(", !nontemporal"), "{what}");
    }
}
