//! The text form, there and back.

use super::*;

const EVERYTHING: &str = r#"kernel "k"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset, %2: i32 @ 16, %3: ptr(private) @ 32 by_address) {
  slot $0: 24 align 8
  local 64
  work_group_size 16 4 1
b0:
  %4: i64 = local_id 0
  %5: ptr(global) = address inbounds %0 + %4*4 + 8
  %6: ptr(global) = address %0 + 4:i64*1 + -16
  %26: <2 x ptr(global)> = address %0 + [1:i64, 2:i64]:<2 x i64>*4 + 0
  %7: i32 = load %5, align 4
  %8: i32 = load volatile atomic acquire %6, align 4
  %9: i32 = add nuw nsw %7, %8
  %10: i1 = icmp samesign slt %9, 4294967295:i32
  %11: f32 = sitofp %9
  %12: f32 = fmul reassoc nnan %11, 0x3f800000:f32
  %13: <4 x f32> = insert_element poison:<4 x f32>, %12, 1:i32
  %14: <4 x f32> = shuffle %13, zero:<4 x f32>, [0, -1, 5, 3]
  %15: <4 x f32> = intrinsic contract fma(%14, %14, %13)
  %16: ptr(private) = slot_address $0
  store %16, %15, align 16
  %17: ptr(local) = local_address 32
  %18: i32 = rmw volatile atomic monotonic add %17, %9, align 4
  %19: {i32, i1} = cmpxchg weak monotonic acquire %17, %18, %9, align 4
  %20: i1 = extract_value %19, [1]
  fence acq_rel
  %21: i32 = call pure @"f"(%18, [1:i8, 2:i8]:<2 x i8>)
  %22: i32 = select %20, %21, undef:i32
  %23: ptr(constant) = global_address @"table"
  branch %10, b1(%22, %4), b2
b1(%24: i32, %25: i64):
  switch %24, 1: b2, 340282366920938463463374607431768211455: b1(%24, %25), default: b3
b2:
  barrier b3
b3:
  return
}
"#;

#[test]
fn the_text_form_round_trips() {
    let function = parse(EVERYTHING).unwrap_or_else(|e| panic!("{e}"));
    let once = function.to_string();
    let twice = parse(&once).unwrap_or_else(|e| panic!("{e}\n{once}")).to_string();
    assert_eq!(once, twice);
    let renumbered = |text: &str| text.split('%').count();
    assert_eq!(renumbered(&once), renumbered(EVERYTHING));
    assert_eq!(once.lines().count(), EVERYTHING.lines().count());
}

const LOWERED: &str = r#"function "f"(%0: ptr(context) noalias nonnull readonly align 128, %1: i64, %2: ptr(local) nonnull) yields i32 {
b0:
  jump b1(%1)
b1(%3: i64):
  %4: i32 = load %0, align 4, parallel 7
  nontemporal_store %2, %4, align 4
  store %2, %4, align 4, parallel 0
  streaming_fence
  %5: i1 = icmp ult %3, 10:i64
  branch %5, b1(%3), b2, loop parallel 7 no_vectorize no_unroll
b2:
  return %4
}
"#;

#[test]
fn functions_round_trip_with_what_is_promised_and_hinted() {
    let function = parse(LOWERED).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(function.to_string(), LOWERED);
}

#[test]
fn errors_name_the_line() {
    let text = "kernel \"k\"() {\nb0:\n  %0: i32 = add 1:i32, %7\n  return\n}\n";
    assert_eq!(parse(text).unwrap_err().to_string(), "Kernel IR, line 3: %7 is not defined");
    for broken in
        ["", "kernel", "kernel \"k\"() {\nb0:\n  jump b9\n}", "kernel \"k\"() {\nb0:\n  frobnicate\n}"]
    {
        assert!(parse(broken).is_err(), "{broken}");
    }
}
