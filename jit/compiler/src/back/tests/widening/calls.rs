//! Functions that stay calls: packs call them in lanes.

use super::super::{CHOSEN, PARAMS, lower, numbers, run};
use spirula_kir::{Op, parse_module};
use std::collections::BTreeSet;

/// Halves until nothing above the limit is left, and says how often, and what that is: none go the same way.
const HALVED: &str = "function \"halved\"(%0: i32, %1: i32) yields <2 x i32> {
b0:
  %2: i1 = icmp slt %0, 0:i32
  branch %2, b1, b2(%0, 0:i32)
b1:
  return zero:<2 x i32>
b2(%3: i32, %4: i32):
  %5: i1 = icmp ugt %3, %1
  branch %5, b3, b4
b3:
  %6: i32 = lshr %3, 1:i32
  %7: i32 = add %4, 1:i32
  jump b2(%6, %7)
b4:
  %8: <2 x i32> = insert_element zero:<2 x i32>, %3, 0:i32
  %9: <2 x i32> = insert_element %8, %4, 1:i32
  return %9
}
function \"twice\"(%0: i32, %1: i32) yields i32 {
b0:
  %2: <2 x i32> = call @\"halved\"(%0, %1)
  %3: i32 = mul %0, 3:i32
  %4: <2 x i32> = call @\"halved\"(%3, %1)
  %5: <2 x i32> = add %2, %4
  %6: i32 = extract_element %5, 0:i32
  %7: i32 = extract_element %5, 1:i32
  %8: i32 = shl %7, 16:i32
  %9: i32 = add %6, %8
  return %9
}
function \"put\"(%0: ptr(global), %1: i32) {
  slot $0: 8 align 4
b0:
  %2: ptr(private) = slot_address $0
  %3: i32 = and %1, 1:i32
  %4: i64 = zext %3
  %5: ptr(private) = address %2 + %4*4 + 0
  store %2, 7:i32, align 4
  %6: ptr(private) = address %2 + 4
  store %6, 9:i32, align 4
  %7: i32 = load %5, align 4
  %8: i32 = add %7, %1
  store %0, %8, align 4
  return
}
";

/// How kernels begin: each work-item's number is handed on.
const CALLED: &str = "b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: i32 = call @\"twice\"(%5, %2)
";

/// What packs of a program's kernel call in lanes, and whom these functions call.
fn called(text: &str) -> [Vec<String>; 2] {
    called_in(16, text)
}

/// The same of packs of so many lanes.
fn called_in(lanes: u32, text: &str) -> [Vec<String>; 2] {
    let (lowered, _) = lower(parse_module(text).unwrap(), lanes);
    let called = &lowered.group.called;
    let names = called.iter().map(|function| function.name.clone());
    let callees = called.iter().flat_map(|function| {
        function.insts().filter_map(|inst| match function.op(inst) {
            Op::Call { function, .. } => Some(function.to_string()),
            _ => None,
        })
    });
    [names.collect::<BTreeSet<_>>(), callees.collect()].map(|names| names.into_iter().collect())
}

fn halved(mut number: i32, limit: i32) -> (i32, i32) {
    let mut count = 0;
    if number < 0 {
        return (0, 0);
    }
    while number as u32 > limit as u32 {
        (number, count) = (number >> 1, count + 1);
    }
    (number, count)
}

/// All lanes, and those on one side of a branch; one value, several, and none.
#[test]
fn calls_in_lanes() {
    let text = format!(
        "{HALVED}{PARAMS} {{
{CALLED}  %7: i32 = trunc %3
  %8: i32 = srem %7, 3:i32
  %9: i1 = icmp eq %8, 0:i32
  branch %9, b1, b2
b1:
  call @\"put\"(%4, %6)
  return
b2:
  %10: i32 = call @\"twice\"(%7, %8)
  %11: i32 = xor %6, %10
  store %4, %11, align 4
  return
}}"
    );
    let names = ["halved.x16.vu", "halved.x16m.vv", "put.x16m.vv", "twice.x16.vu", "twice.x16m.vv"];
    assert_eq!(called(&text)[0], names);
    let twice = |number: i32, limit: i32| {
        let ((a, b), (c, d)) = (halved(number, limit), halved(number.wrapping_mul(3), limit));
        (a + c) + ((b + d) << 16)
    };
    for local in [1, 5, 16, 33] {
        let mut data = numbers(local * 4);
        let before = data.clone();
        run(&text, &mut data, local as u64, 20);
        for (i, &got) in data.iter().enumerate() {
            let (first, place) = (twice(before[i], 20), i as i32);
            let expected = match place % 3 {
                0 => first + if first & 1 == 0 { 7 } else { 9 },
                limit => first ^ twice(place, limit),
            };
            assert_eq!(got, expected, "{local} {i}");
        }
    }
}

/// Each form is made once, and is all that packs call.
#[test]
fn forms_of_calls() {
    let text = format!(
        "{HALVED}{PARAMS} {{
{CALLED}  %7: i32 = call @\"twice\"(%6, %2)
  store %4, %7, align 4
  return
}}"
    );
    assert_eq!(called(&text), [vec!["halved.x16.vu", "twice.x16.vu"], vec!["halved.x16.vu"]]);
    // The model sees what calls cost.
    assert!(lower(parse_module(&text).unwrap(), CHOSEN).0.lanes > 1);
}

/// A function that fills an array of four, and one that yields one of its first elements, which a third one increases.
const ARRAYS: &str = "function \"fill\"(%0: ptr(private), %1: i32) {
b0:
  store %0, %1, align 4
  %2: ptr(private) = address %0 + 4
  %3: i32 = mul %1, 3:i32
  store %2, %3, align 4
  %4: ptr(private) = address %0 + 8
  %5: <2 x i32> = insert_element [5:i32, 6:i32]:<2 x i32>, %1, 1:i32
  store %4, %5, align 4
  return
}
function \"bump\"(%0: ptr(private)) {
b0:
  %1: i32 = load %0, align 4
  %2: i32 = add %1, 1:i32
  store %0, %2, align 4
  return
}
function \"pick\"(%0: ptr(private), %1: i32) yields i32 {
b0:
  %2: i32 = and %1, 1:i32
  %3: i64 = zext %2
  %4: ptr(private) = address %0 + %3*4 + 0
  call @\"bump\"(%4)
  %5: i32 = load %4, align 4
  return %5
}
function \"low\"(%0: ptr(private)) yields i32 {
b0:
  %1: i8 = load %0, align 4
  store %0, 77:i32, align 4
  %2: i32 = zext %1
  return %2
}
";

/// Private arrays lie for the function as they do for its callers: their elements side by side for all lanes, whether lanes' pointers are
/// neighbours or not, unless elements of several sizes are accessed.
#[test]
fn arrays_of_callers() {
    let text = format!(
        "{ARRAYS}{PARAMS} {{
  slot $0: 16 align 4
  slot $1: 4 align 4
b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: ptr(private) = slot_address $0
  call @\"fill\"(%6, %5)
  %7: i32 = call @\"pick\"(%6, %5)
  %8: i32 = and %5, 2:i32
  %9: i64 = zext %8
  %10: ptr(private) = address %6 + %9*4 + 0
  %11: i32 = trunc %3
  %12: i32 = srem %11, 3:i32
  %13: i1 = icmp eq %12, 0:i32
  branch %13, b1, b2(%7)
b1:
  %14: i32 = call @\"pick\"(%10, %11)
  %15: ptr(private) = slot_address $1
  store %15, %14, align 4
  %16: i32 = call @\"low\"(%15)
  %17: i32 = load %15, align 4
  %18: i32 = mul %16, %17
  jump b2(%18)
b2(%19: i32):
  %20: i32 = load %6, align 4
  %21: i32 = xor %19, %20
  store %4, %21, align 4
  return
}}"
    );
    let [forms, callees] = called(&text);
    assert_eq!(
        forms,
        ["bump.x16.p4", "bump.x16m.p4", "fill.x16.n4v", "low.x16m.v", "pick.x16.n4v", "pick.x16m.p4v"]
    );
    assert_eq!(callees, ["bump.x16.p4", "bump.x16m.p4"]);
    for local in [1, 5, 16, 33] {
        let mut data = numbers(local * 4);
        let before = data.clone();
        run(&text, &mut data, local as u64, 20);
        for (i, &got) in data.iter().enumerate() {
            let number = before[i];
            let mut array = [number, number.wrapping_mul(3), 5, number];
            let mut pick = |at: usize| {
                array[at] = array[at].wrapping_add(1);
                array[at]
            };
            let first = pick((number & 1) as usize);
            let second = if i % 3 == 0 { 77 * (pick((number & 2) as usize + i % 2) & 0xff) } else { first };
            assert_eq!(got, second ^ array[0], "{local} {i}");
        }
    }
}

/// Functions without loops, of which it is known that they end.
const PARTED: &str = "function \"parted\"(%0: i32, %1: i32) yields <2 x i32> {
b0:
  %2: i1 = icmp slt %0, %1
  branch %2, b1, b2
b1:
  %3: i32 = mul %0, 3:i32
  jump b3(%3, 1:i32)
b2:
  %4: i32 = xor %0, %1
  jump b3(%4, 2:i32)
b3(%5: i32, %6: i32):
  %7: <2 x i32> = insert_element zero:<2 x i32>, %5, 0:i32
  %8: <2 x i32> = insert_element %7, %6, 1:i32
  return %8
}
function \"summed\"(%0: i32, %1: i32) yields i32 {
b0:
  %2: <2 x i32> = call @\"parted\"(%0, %1)
  %3: i32 = extract_element %2, 0:i32
  %4: i32 = extract_element %2, 1:i32
  %5: i32 = shl %4, 16:i32
  %6: i32 = add %3, %5
  return %6
}
";

/// Calls for all elements of a vector, for what these yield, of which one is missing, and with several results each.
#[test]
fn calls_for_elements() {
    let lines = |from: u32, count: u32, line: &dyn Fn(u32) -> String| -> String {
        (0..count).map(|i| format!("  %{}: {}\n", from + i, line(i))).collect()
    };
    let steps: Vec<String> = (0..16).map(|i| format!("{}:i32", 9 * i)).collect();
    let elements = lines(100, 16, &|i| format!("i32 = extract_element %8, {i}:i32"));
    let calls = lines(200, 16, &|i| format!("i32 = call @\"summed\"(%{}, %2)", 100 + i));
    let results = lines(300, 15, &|i| format!("i32 = call @\"summed\"(%{}, 5:i32)", 200 + i));
    let halves = lines(400, 16, &|i| format!("<2 x i32> = call @\"parted\"(%{}, %2)", 100 + i));
    let sums =
        lines(501, 14, &|i| format!("i32 = sub %{}, %{}", if i == 0 { 300 } else { 500 + i }, 301 + i));
    let half =
        lines(601, 15, &|i| format!("<2 x i32> = sub %{}, %{}", if i == 0 { 400 } else { 600 + i }, 401 + i));
    let text = format!(
        "{PARTED}{PARAMS} {{
b0:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*4 + 0
  %5: i32 = load %4, align 4
  %6: <16 x i32> = insert_element poison:<16 x i32>, %5, 0:i32
  %7: <16 x i32> = shuffle %6, poison:<16 x i32>, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  %8: <16 x i32> = add %7, [{}]:<16 x i32>
{elements}{calls}{results}{halves}{sums}{half}  %700: i32 = extract_element %615, 0:i32
  %701: i32 = extract_element %615, 1:i32
  %702: i32 = mul %701, 77:i32
  %703: i32 = add %700, %702
  %704: i32 = xor %514, %215
  %705: i32 = add %704, %703
  store %4, %705, align 4
  return
}}",
        steps.join(", ")
    );
    assert_eq!(called_in(1, &text)[0], ["parted.x16.vu", "summed.x16.vu"]);
    let parted = |number: i32, limit: i32| match number < limit {
        true => (number.wrapping_mul(3), 1),
        false => (number ^ limit, 2),
    };
    let summed = |number: i32, limit: i32| {
        let (first, second) = parted(number, limit);
        first.wrapping_add(second << 16)
    };
    for local in [1, 16, 33] {
        let mut data = numbers(local * 4);
        let before = data.clone();
        run(&text, &mut data, local as u64, 20);
        for (i, &got) in data.iter().enumerate() {
            let calls: Vec<i32> = (0..16).map(|step| summed(before[i] + 9 * step, 20)).collect();
            let results: Vec<i32> = calls[..15].iter().map(|&call| summed(call, 5)).collect();
            let sum = results.into_iter().reduce(i32::wrapping_sub).unwrap();
            let halves = (0..16).map(|step| parted(before[i] + 9 * step, 20));
            let (first, second) = halves.reduce(|(a, b), (c, d)| (a.wrapping_sub(c), b - d)).unwrap();
            assert_eq!(got, (sum ^ calls[15]).wrapping_add(first).wrapping_add(77 * second), "{local} {i}");
        }
    }
}
