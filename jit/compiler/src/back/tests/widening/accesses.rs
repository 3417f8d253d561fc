//! Accesses of lanes to structures, rows and vectors.

use super::super::{PARAMS, numbers, run};
use super::check;

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

/// A number and a float's bits beside it, which are loaded together.
#[test]
fn fields_of_several_types() {
    let body = format!(
        "{FIRST_GROUP}  %3: i64 = local_id 0
  %4: ptr(global) = address %0 + %3*8 + 0
  %5: ptr(global) = address %4 + 4
  %6: i32 = load %4, align 4
  %7: f32 = load %5, align 4
  %8: i32 = bitcast %7
  %9: i32 = mul %8, 3:i32
  %10: i32 = xor %6, %9
  store %4, %10, align 4
  jump b2
b2:
  jump b3
b3:
  return"
    );
    check(&body, |before, i| match i % 2 {
        0 if i / 2 < before.len() / 4 => before[i] ^ before[i + 1].wrapping_mul(3),
        _ => before[i],
    });
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

/// Vectors to places of which nothing is known: of all lanes, or of some.
#[test]
fn vectors_to_anywhere() {
    for (count, lanes) in [(4_usize, "<4 x i32>"), (8, "<8 x i32>")] {
        let vector: String = (0..count)
            .map(|i| {
                let before = if i == 0 { format!("zero:{lanes}") } else { format!("%{}", 60 + i - 1) };
                let [element, next] = [40 + i, 60 + i];
                format!(
                    "  %{element}: i32 = add %10, {i}:i32
  %{next}: {lanes} = insert_element {before}, %{element}, {i}:i64\n"
                )
            })
            .collect();
        let body = |test: &str| {
            format!(
                "{FIRST_GROUP}  %3: i64 = local_id 0
  %5: i64 = local_size 0
  %6: i64 = xor %3, 1:i64
  %7: i64 = mul %6, 9:i64
  %8: i64 = add %7, %5
  %11: ptr(global) = address %0 + %3*4 + 0
  %10: i32 = load %11, align 4
  %9: i1 = {test}
  branch %9, b2, b3
b2:
{vector}  %16: ptr(global) = address %0 + %8*4 + 0
  store %16, %{}, align 4
  jump b3
b3:
  return",
                60 + count - 1
            )
        };
        for (test, all) in [("icmp ult %3, 99:i64", true), ("icmp ne %6, 3:i64", false)] {
            let text = format!("{PARAMS} {{\n{}\n}}", body(test));
            for local in [5, 16, 33] {
                let mut data = numbers(local * 16);
                let before = data.clone();
                run(&text, &mut data, local as u64, 0);
                let mut expected = before.clone();
                for item in (0..local).filter(|item| all || item ^ 1 != 3) {
                    let place = local + (item ^ 1) * 9;
                    let vector = (0..count).map(|i| before[item].wrapping_add(i as i32));
                    expected[place..place + count].copy_from_slice(&vector.collect::<Vec<_>>());
                }
                assert_eq!(data, expected, "{local}\n{text}");
            }
        }
    }
}

/// Vectors that begin fewer elements apart than they have, of all lanes or of some; nothing is read behind the last one.
#[test]
fn windows_that_slide() {
    let windows = |count: usize, step: usize, guard: &str| {
        let sum = |c: usize| {
            let (element, sum) = (20 + 2 * c, 21 + 2 * c);
            let before = if c == 0 { "0:i32".to_owned() } else { format!("%{}", sum - 2) };
            format!(
                "  %{element}0: i32 = extract_element %9, {c}:i32\n  %{element}1: i32 = mul %{element}0, {}:i32\n  \
                 %{sum}: i32 = add {before}, %{element}1\n",
                2 * c + 3
            )
        };
        let sums: String = (0..count).map(sum).collect();
        format!(
            "{}  %3: i64 = local_id 0
  %4: i64 = local_size 0
  %5: i64 = and %3, 5:i64
  {guard}
  branch %6, b2, b3
b2:
  %7: i64 = mul %3, {step}:i64
  %8: ptr(global) = address %0 + %7*4 + 0
  %9: <{count} x i32> = load %8, align 4
{sums}  %10: i64 = mul %4, 3:i64
  %11: i64 = add %10, %3
  %12: ptr(global) = address %0 + %11*4 + 0
  store %12, %{}, align 4
  jump b3
b3:
  return",
            FIRST_GROUP.replace("%20", "%900").replace("%21", "%901"),
            19 + 2 * count,
        )
    };
    for (count, step) in [(3, 1), (4, 1), (3, 2), (4, 2)] {
        let expected = |before: &[i32], i: usize, active: fn(usize) -> bool| {
            let items = before.len() / 4;
            let item = i.wrapping_sub(3 * items);
            let term = |c: usize| before[item * step + c].wrapping_mul(2 * c as i32 + 3);
            match item < items && active(item) {
                true => (0..count).map(term).fold(0, i32::wrapping_add),
                false => before[i],
            }
        };
        let all = windows(count, step, "%6: i1 = icmp ult %5, 9:i64");
        check(&all, |before, i| expected(before, i, |_| true));
        let some = windows(count, step, "%6: i1 = icmp eq %5, 5:i64");
        check(&some, |before, i| expected(before, i, |item| item & 5 == 5));
    }
}

/// Small vectors from anywhere and to anywhere, of all lanes or of some: one number of each lane.
#[test]
fn small_vectors_that_lie_apart() {
    let apart = |ty: &str, ones: &str, guard: &str| {
        format!(
            "{FIRST_GROUP}  %3: i64 = local_id 0
  %4: i64 = local_size 0
  %5: i64 = and %3, 5:i64
  {guard}
  branch %6, b2, b3
b2:
  %7: i64 = xor %3, 1:i64
  %8: ptr(global) = address %0 + %7*4 + 0
  %9: {ty} = load %8, align 4
  %10: {ty} = add %9, {ones}
  %11: i64 = mul %4, 2:i64
  %12: i64 = add %11, %7
  %13: ptr(global) = address %0 + %12*4 + 0
  store %13, %10, align 4
  jump b3
b3:
  return"
        )
    };
    let add = |number: i32, bits: u32| -> i32 {
        let mask = u32::MAX >> (32 - bits);
        let part = |n: u32| (((number as u32 >> (n * bits)) & mask) + 1) & mask;
        let parts = (0..32 / bits).map(|n| part(n) << (n * bits));
        parts.fold(0, |all, part| all | part) as i32
    };
    for (ty, ones, bits) in
        [("<4 x i8>", "[1:i8, 1:i8, 1:i8, 1:i8]:<4 x i8>", 8), ("<2 x i16>", "[1:i16, 1:i16]:<2 x i16>", 16)]
    {
        let expected = |before: &[i32], i: usize, active: fn(usize) -> bool| {
            let items = before.len() / 4;
            let item = i.wrapping_sub(2 * items) ^ 1;
            if item < items && active(item) { add(before[item ^ 1], bits) } else { before[i] }
        };
        let all = apart(ty, ones, "%6: i1 = icmp ult %5, 9:i64");
        check(&all, |before, i| expected(before, i, |_| true));
        let some = apart(ty, ones, "%6: i1 = icmp eq %5, 5:i64");
        check(&some, |before, i| expected(before, i, |item| item & 5 == 5));
    }
}
