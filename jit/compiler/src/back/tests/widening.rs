//! Kernels with a known answer, in lanes: one idea of the widener each.

use super::{CHOSEN, PARAMS, lower, numbers, ready, run};
use spirula_kir::parse;

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
    let (lowered, _) = lower(parse(text).unwrap(), CHOSEN);
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
    let lower = |text: &str| super::lower(parse(text).unwrap(), 16).1;
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

/// Only the first group does something: it has a work-item for each four numbers.
const FIRST_GROUP: &str = "b0:
  %20: i64 = group_id 0
  %21: i1 = icmp eq %20, 0:i64
  branch %21, b1, b3
b1:
";

/// Loads of fields, of all lanes or of some, with a store to another field between them, and behind one to the same.
#[test]
fn fields_of_structures() {
    let fields = |guard: &str| {
        format!(
            "{FIRST_GROUP}  %3: i64 = local_id 0
  %4: i64 = mul %3, 4:i64
  %5: i64 = add nsw %4, 3:i64
  %6: ptr(global) = address %0 + %4*4 + 4
  %7: ptr(global) = address %0 + %5*4 + 0
  %8: ptr(global) = address %0 + %4*4 + 0
  %9: i64 = and %3, 5:i64
  {guard}
  branch %10, b2, b3
b2:
  %11: i32 = load %6, align 4
  %12: i32 = load %7, align 4
  %13: i32 = mul %12, 5:i32
  %14: i32 = add %11, %13
  store %8, %14, align 4
  %15: ptr(global) = address %8 + 8
  %16: i32 = load %15, align 4
  %17: i32 = load %8, align 4
  %18: i32 = xor %16, %17
  store %15, %18, align 4
  jump b3
b3:
  return"
        )
    };
    let expected = |before: &[i32], i: usize, active: fn(usize) -> bool| {
        let at = |field: usize| before[i / 4 * 4 + field];
        let first = at(1).wrapping_add(at(3).wrapping_mul(5));
        match i % 4 {
            0 if active(i / 4) => first,
            2 if active(i / 4) => at(2) ^ first,
            _ => before[i],
        }
    };
    check(&fields("%10: i1 = icmp eq %9, 5:i64"), |before, i| expected(before, i, |item| item & 5 == 5));
    check(&fields("%10: i1 = icmp ult %9, 9:i64"), |before, i| expected(before, i, |_| true));
}

/// Three neighbours, and one of each three, in a block that all lanes come to.
#[test]
fn neighbours_of_three() {
    let body = |sum: &str| {
        format!(
            "{FIRST_GROUP}  %3: i64 = local_id 0
  %4: ptr(global) = address %0 + %3*12 + 0
  %5: ptr(global) = address %4 + 4
  %6: ptr(global) = address %4 + 8
  %7: i32 = load %6, align 4
  {sum}
  store %5, %9, align 4
  jump b2
b2:
  jump b3
b3:
  return"
        )
    };
    let all = "%8: i32 = load %4, align 4\n  %10: i32 = load %5, align 4\n  %11: i32 = sub %8, %10\n  %9: i32 = mul %7, %11";
    let own = |before: &[i32], i: usize, made: fn(&[i32]) -> i32| {
        let is_second = i % 3 == 1 && i / 3 < before.len() / 4;
        if is_second { made(&before[i - 1..i + 2]) } else { before[i] }
    };
    check(&body(all), |before, i| own(before, i, |all| all[2].wrapping_mul(all[0].wrapping_sub(all[1]))));
    check(&body("%9: i32 = add %7, 1:i32"), |before, i| own(before, i, |all| all[2].wrapping_add(1)));
}

/// Work-items walk along rows that begin `number` elements apart, behind the first group's own places: all of them, or every second
/// one, which is not the first. 37 iterations are strips and a rest. `element` has so many bytes, and is `%17` of the load's result.
fn check_rows(walk: &str, bytes: usize, all: bool) {
    let test = if all { "icmp ult %3, 99:i64" } else { "icmp eq %7, 1:i64" };
    let body = format!(
        "{}  %3: i64 = local_id 0
  %4: i32 = trunc %3
  %5: i64 = local_size 0
  %6: i32 = trunc %5
  %7: i64 = and %3, 1:i64
  %8: i1 = {test}
  %30: i64 = sext %2
  %36: i64 = global_id 1
  %37: i64 = add %3, %36
  branch %8, b2, b6
b2:
{walk}
b5:
  %23: ptr(global) = address %0 + %37*4 + 0
  store %23, %10, align 4
  jump b6
b6:
  return",
        FIRST_GROUP.replace("b3", "b6")
    );
    let text = format!("{PARAMS} {{\n{body}\n}}");
    for local in [5, 16, 33] {
        let mut data = numbers(local * 40);
        let before = data.clone();
        let memory: Vec<u8> = before.iter().flat_map(|number| number.to_le_bytes()).collect();
        run(&text, &mut data, local as u64, 11);
        for (i, &got) in data.iter().enumerate() {
            let sum = (0..37).fold(0i32, |sum, j| {
                let at = ((i * 11 + j) * bytes + local * 4).min(memory.len() - 8);
                let element = memory[at..at + bytes.min(4)].iter().rev();
                let element = element.fold(0i32, |bits, &byte| bits << 8 | i32::from(byte));
                sum.wrapping_mul(3).wrapping_add(element)
            });
            let is_active = i < local && (all || i % 2 == 1);
            assert_eq!(got, if is_active { sum } else { before[i] }, "{local} {i}\n{text}");
        }
    }
}

/// As a kernel with int indices has it, and with a row's start in the address.
#[test]
fn rows_of_ints() {
    let walk = "  jump b3(0:i32, 0:i32)
b3(%9: i32, %10: i32):
  %11: i1 = icmp slt %9, 37:i32
  branch %11, b4, b5
b4:
  %12: i32 = mul nsw %2, %4
  %13: i32 = add nsw %12, %6
  %14: i32 = add nsw %13, %9
  %15: i64 = sext %14
  %16: ptr(global) = address %0 + %15*4 + 0
  %17: i32 = load %16, align 4
  %18: i32 = mul %10, 3:i32
  %19: i32 = add %18, %17
  %22: i32 = add nsw %9, 1:i32
  jump b3(%22, %19)";
    check_rows(walk, 4, false);
    check_rows(walk, 4, true);
}

/// The loop's test is one for the end, and its address two steps; the header computes something as well.
#[test]
fn rows_of_other_sizes() {
    for (ty, bytes, cut) in [("i8", 1, "zext"), ("i16", 2, "zext"), ("i64", 8, "trunc")] {
        let walk = format!(
            "  %31: i64 = mul %30, %3
  %32: ptr(global) = address %0 + %5*4 + 0
  jump b3(0:i64, 0:i32)
b3(%9: i64, %10: i32):
  %18: i32 = mul %10, 3:i32
  %11: i1 = icmp eq %9, 37:i64
  branch %11, b5, b4
b4:
  %16: ptr(global) = address %32 + %31*{bytes} + 0
  %33: i64 = add %9, 1:i64
  %34: ptr(global) = address %16 + %9*{bytes} + 0
  %35: {ty} = load %34, align 1
  %17: i32 = {cut} %35
  %19: i32 = add %18, %17
  jump b3(%33, %19)"
        );
        check_rows(&walk, bytes, false);
        check_rows(&walk, bytes, true);
    }
}

/// Vectors at places that nothing is known of.
#[test]
fn vectors_from_anywhere() {
    for (count, lanes) in [(4, "<4 x i32>"), (8, "<8 x i32>")] {
        let sum: String = (1..count)
            .map(|i| {
                let [element, product, next] = [40 + i, 60 + i, 80 + i];
                let last = if i == 1 { 41 - 1 } else { 80 + i - 1 };
                format!(
                    "  %{element}: i32 = extract_element %17, {i}:i32
  %{product}: i32 = mul %{last}, 5:i32
  %{next}: i32 = add %{product}, %{element}\n"
                )
            })
            .collect();
        let body = |test: &str| {
            format!(
                "{FIRST_GROUP}  %3: i64 = local_id 0
  %5: i64 = local_size 0
  %6: i64 = mul %3, 7:i64
  %7: i64 = and %6, 15:i64
  %8: i64 = add %7, %5
  %9: i1 = {test}
  branch %9, b2, b3
b2:
  %16: ptr(global) = address %0 + %8*4 + 0
  %17: {lanes} = load %16, align 4
  %40: i32 = extract_element %17, 0:i32
{sum}  %23: ptr(global) = address %0 + %3*4 + 0
  store %23, %{}, align 4
  jump b3
b3:
  return",
                80 + count - 1
            )
        };
        for (test, all) in [("icmp ult %3, 99:i64", true), ("icmp ugt %7, 6:i64", false)] {
            let text = format!("{PARAMS} {{\n{}\n}}", body(test));
            for local in [5, 16, 33] {
                let mut data = numbers(local * 8);
                let before = data.clone();
                run(&text, &mut data, local as u64, 0);
                for (i, &got) in data.iter().enumerate() {
                    let place = (i * 7) & 15;
                    let is_active = i < local && (all || place > 6);
                    let from = if is_active { local + place } else { 0 };
                    let vector = &before[from..from + count];
                    let sum =
                        vector.iter().skip(1).fold(vector[0], |sum, &x| sum.wrapping_mul(5).wrapping_add(x));
                    assert_eq!(got, if is_active { sum } else { before[i] }, "{local} {i}\n{text}");
                }
            }
        }
    }
}
