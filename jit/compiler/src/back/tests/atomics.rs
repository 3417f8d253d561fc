//! Atomic operations of a group whose work-items go in packs: each happens once for each active work-item.

use super::{PARAMS, numbers, run};

/// Every operation on one counter of the group and on one of three, by the work-items whose number is below `%2`.
fn kernel(operation: &str, value: &str) -> String {
    format!(
        r#"{PARAMS} {{
b0:
  %3: i64 = global_id 0
  %4: i64 = local_id 0
  %5: i32 = trunc %4
  %6: ptr(global) = address %0 + %3*4 + 0
  %7: i32 = load %6, align 4
  %8: i64 = sub %3, %4
  %9: ptr(global) = address %0 + %8*4 + 0
  %10: i64 = and %4, 7:i64
  %11: ptr(local) = address %1 + %10*4 + 0
  %12: ptr(local) = address %1 + 32
  store %11, 5:i32, align 4
  store %12, 5:i32, align 4
  barrier b1
b1:
  %13: i1 = icmp slt %5, %2
  branch %13, b2, b3
b2:
  %14: i64 = urem %4, 3:i64
  %15: ptr(local) = address %1 + %14*4 + 0
  %16: i32 = rmw atomic monotonic {operation} %12, {value}, align 4
  %17: i32 = rmw atomic monotonic {operation} %15, {value}, align 4
  jump b3
b3:
  barrier b4
b4:
  %18: i32 = load %12, align 4
  %19: i32 = load %11, align 4
  %20: i32 = mul %19, 31:i32
  %21: i32 = add %18, %20
  store %6, %21, align 4
  return
}}"#
    )
}

/// What the operation makes of two values.
type Apply = fn(i32, i32) -> i32;

#[test]
fn operations_on_one_place_and_on_several() {
    let operations: [(&str, Apply); 8] = [
        ("add", i32::wrapping_add),
        ("sub", i32::wrapping_sub),
        ("and", |a, b| a & b),
        ("or", |a, b| a | b),
        ("xor", |a, b| a ^ b),
        ("max", i32::max),
        ("umin", |a, b| (a as u32).min(b as u32) as i32),
        ("nand", |a, b| !(a & b)),
    ];
    for (name, apply) in operations {
        for (value, of_item) in [("%7", true), ("9:i32", false)] {
            for active in [0, 1, 7, 24, 32] {
                let mut data = numbers(64);
                let before = data.clone();
                run(&kernel(name, value), &mut data, 32, active);
                for (i, &got) in data.iter().enumerate() {
                    let group = i / 32 * 32;
                    let items =
                        (0..active as usize).map(|item| if of_item { before[group + item] } else { 9 });
                    let one = items.clone().fold(5, apply);
                    let place = i % 8;
                    let several = items.enumerate().filter(|(item, _)| item % 3 == place);
                    let several = several.map(|(_, value)| value).fold(5, apply);
                    assert_eq!(got, one + several.wrapping_mul(31), "{name} {value} {active} {i}");
                }
            }
        }
    }
}
