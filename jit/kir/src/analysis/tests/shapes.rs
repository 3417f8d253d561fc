//! Shapes: how values differ between lanes.

use super::{Analysed, Shape};
use crate::Block;

/// A kernel of one block.
fn line(body: &str) -> String {
    format!("kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {{\nslot $0: 16 align 4\nb0:\n{body}\nreturn\n}}")
}

fn shapes(body: &str) -> String {
    Analysed::new(&line(body), &[16]).shapes()
}

#[test]
fn ids_and_what_is_linear_in_them() {
    let text = "%2: i64 = global_id 0
  %3: i64 = local_id 1
  %4: i64 = mul %2, 12:i64
  %5: i64 = shl %4, 2:i64
  %6: i64 = sub %3, %5
  %7: i64 = mul %2, %2
  %8: i64 = sub %2, %2
  %9: ptr(global) = address %0 + %2*4 + 8
  %10: ptr(global) = address %0 + %7*4 + 0
  %11: ptr(global) = address %9 + %2*8 + 0";
    assert_eq!(shapes(text), "%2 +1! %4 +12! %5 +48! %6 -48! %7 ~ %9 +4 %10 ~ %11 +12");
}

#[test]
fn extensions_need_that_nothing_wraps() {
    let text = "%2: i64 = global_id 0
  %3: i32 = trunc %2
  %4: i64 = sext %3
  %5: i32 = add %3, %1
  %6: i64 = sext %5
  %7: i32 = add nsw %3, %1
  %8: i64 = sext %7
  %9: i64 = zext %7
  %10: i64 = zext nneg %7
  %11: i8 = trunc %2
  %12: i64 = zext %11
  %13: i32 = and %3, 255:i32";
    // An i32 id does not wrap; id + number may, unless the module says that it doesn't; an i8 does.
    assert_eq!(shapes(text), "%2 +1! %3 +1! %4 +1! %5 +1 %6 ~ %7 +1! %8 +1! %9 ~ %10 +1! %11 +1 %12 ~ %13 ~");
}

#[test]
fn groups_that_are_few_enough_begin_within_an_int() {
    let text = "%2: i64 = group_id 0
  %3: i32 = trunc %2
  %4: i32 = mul %3, 512:i32
  %5: i64 = local_id 0
  %6: i32 = trunc %5
  %7: i32 = add %4, %6
  %8: i64 = sext %7";
    assert!(shapes(text).ends_with("%8 ~"));
    let few = line(text).replace("slot $0", "group_factors 512 0 0\nslot $0");
    assert!(Analysed::new(&few, &[16]).shapes().ends_with("%8 +1!"));
}

#[test]
fn cutting_to_a_width_changes_nothing_that_fits() {
    let text = "%2: i64 = local_id 0
  %3: i64 = shl %2, 32:i64
  %4: i64 = ashr exact %3, 32:i64
  %5: i64 = lshr %3, 32:i64
  %6: i64 = and %2, 65535:i64
  %7: i64 = and %2, 255:i64
  %8: i64 = shl %2, 56:i64
  %9: i64 = ashr %8, 56:i64
  %10: i64 = group_id 0
  %11: i64 = local_size 0
  %12: i64 = mul %10, %11
  %13: i64 = add %12, %2
  %14: i32 = trunc %13
  %15: i64 = sext %14
  %16: i64 = mul %10, 16:i64
  %17: i64 = add %16, %2
  %18: i32 = trunc %17
  %19: i64 = sext %18";
    // A group's number times 16 is an id only where groups have 16 work-items.
    assert_eq!(
        shapes(text),
        "%2 +1! %3 +4294967296 %4 +1! %5 +1! %6 +1! %7 ~ %8 +72057594037927936 %9 ~ %13 +1! %14 +1! %15 +1! %17 +1! %18 +1 %19 ~"
    );
    let required = line(text).replace("slot $0", "work_group_size 16 16 1\nslot $0");
    let required = Analysed::new(&required, &[16]).shapes();
    assert!(required.ends_with("%18 +1! %19 +1!"), "{required}");
}

#[test]
fn an_index_may_be_scaled_while_it_is_extended() {
    let text = "%2: i64 = global_id 0
  %3: i64 = shl %2, 32:i64
  %4: i64 = ashr exact %3, 30:i64
  %5: ptr(global) = address %0 + %4*1 + 0
  %6: i64 = lshr %3, 28:i64
  %7: i64 = ashr %3, 33:i64
  %8: i64 = shl %2, 40:i64
  %9: i64 = ashr %8, 38:i64";
    // An id has 30 bits: the last loses some.
    assert_eq!(shapes(text), "%2 +1! %3 +4294967296 %4 +4! %5 +4 %6 +16! %7 ~ %8 +1099511627776 %9 ~");
}

#[test]
fn loads_are_as_uniform_as_their_addresses() {
    let text = "%2: i64 = local_id 0
  %3: i32 = load %0, align 4
  %4: ptr(global) = address %0 + %2*4 + 0
  %5: i32 = load %4, align 4
  %6: i32 = load volatile %0, align 4
  %7: i32 = rmw atomic monotonic add %0, 1:i32, align 4
  %8: ptr(private) = slot_address $0
  %9: i32 = load %8, align 4";
    assert_eq!(shapes(text), "%2 +1! %4 +4 %5 ~ %6 ~ %7 ~ %8 +16 %9 ~");
}

#[test]
fn a_uniform_choice_between_equal_strides_keeps_them() {
    let text = "%2: i64 = global_id 0
  %3: i1 = icmp eq %1, 3:i32
  %4: i64 = add %2, 5:i64
  %5: i64 = select %3, %2, %4
  %6: i64 = mul %2, 2:i64
  %7: i64 = select %3, %2, %6
  %8: i1 = icmp eq %2, 3:i64
  %9: i64 = select %8, %2, %4";
    assert_eq!(shapes(text), "%2 +1! %4 +1! %5 +1 %6 +2! %7 ~ %8 ~ %9 ~");
}

#[test]
fn where_lanes_meet_parameters_vary() {
    let kernel = |condition: &str| {
        format!(
            "kernel \"k\"(%0: i32 @ 0) {{
b0:
  %1: i64 = global_id 0
  %2: i1 = icmp {condition}
  branch %2, b1, b2
b1:
  jump b3(%1, 1:i32)
b2:
  %3: i64 = add %1, 4:i64
  jump b3(%3, 2:i32)
b3(%4: i64, %5: i32):
  return
}}"
        )
    };
    let uniform = Analysed::new(&kernel("eq %0, 3:i32"), &[]);
    assert_eq!(uniform.shapes(), "%1 +1! %3 +1! %4 +1!");
    assert_eq!(uniform.divergent_branches(), [0; 0]);
    let divergent = Analysed::new(&kernel("eq %1, 3:i64"), &[]);
    assert_eq!(divergent.shapes(), "%1 +1! %2 ~ %3 +1! %4 ~ %5 ~");
    assert_eq!(divergent.divergent_branches(), [0]);
}

#[test]
fn a_uniform_loop_keeps_strides() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  jump b1(0:i64, %1)
b1(%2: i64, %3: i64):
  %4: i64 = add %2, 1:i64
  %5: i64 = add %3, %0
  %6: i1 = icmp ult %4, %0
  branch %6, b1(%4, %5), b2
b2:
  return
}";
    let analysed = Analysed::new(text, &[]);
    assert_eq!(analysed.shapes(), "%1 +1! %3 +1 %5 +1");
    assert_eq!(analysed.divergent_loops(), [0; 0]);
}

/// In the loop the counter is the same for all lanes that are still there; behind it, it is not.
#[test]
fn what_leaves_a_divergent_loop_varies_behind_it() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  jump b1(0:i64)
b1(%2: i64):
  %3: i64 = add %2, 1:i64
  %4: i1 = icmp ult %3, %1
  branch %4, b1(%3), b2
b2:
  %5: i64 = add %3, 1:i64
  return
}";
    let analysed = Analysed::new(text, &[]);
    assert_eq!(analysed.shapes(), "%1 +1! %4 ~ %5 ~");
    assert_eq!(analysed.divergent_loops(), [1]);
    let counter = analysed.value(3);
    assert_eq!(analysed.shapes.shape_at(counter, Block(1)), Shape::Uniform);
    assert_eq!(analysed.shapes.shape_at(counter, Block(2)), Shape::Varying);
}

/// Lanes that stay in such a loop go on by one of several edges, all by the same; unless they part there.
#[test]
fn lanes_that_stay_keep_strides() {
    let kernel = |parts: &str| {
        format!(
            "kernel \"k\"(%0: i64 @ 0) {{
b0:
  %1: i64 = global_id 0
  jump b1(%1)
b1(%2: i64):
  %3: i1 = icmp slt %2, %0
  branch %3, b2, b3
b2:
  %4: i1 = icmp ult {parts}, %0
  %5: i64 = add nsw %2, 64:i64
  %6: i64 = add nsw %2, %0
  branch %4, b1(%5), b1(%6)
b3:
  return
}}"
        )
    };
    let together = Analysed::new(&kernel("5:i64"), &[]);
    assert_eq!(together.shapes(), "%1 +1! %2 +1! %3 ~ %5 +1! %6 +1!");
    assert_eq!(Analysed::new(&kernel("%1"), &[]).shapes(), "%1 +1! %2 ~ %3 ~ %4 ~ %5 ~ %6 ~");
}

/// What an edge out of such a loop passes on varies behind it, even to where another way leads as well.
#[test]
fn what_an_exit_passes_on_varies() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  jump b1(0:i64)
b1(%2: i64):
  %3: i1 = icmp ult %2, %1
  branch %3, b2, b3(%2)
b2:
  %4: i64 = add %2, 1:i64
  jump b1(%4)
b3(%5: i64):
  %6: i64 = add %5, 1:i64
  %7: i1 = icmp ult %6, %0
  branch %7, b3(%6), b4
b4:
  return
}";
    assert_eq!(Analysed::new(text, &[]).shapes(), "%1 +1! %3 ~ %5 ~ %6 ~ %7 ~");
}

/// Lanes that leave the inner loop straight to the outside leave the outer one at different iterations too.
#[test]
fn an_exit_through_two_loops_makes_both_divergent() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  jump b1(0:i64)
b1(%2: i64):
  jump b2(0:i64)
b2(%3: i64):
  %4: i1 = icmp eq %3, %1
  branch %4, b5, b3
b3:
  %5: i64 = add %3, 1:i64
  %6: i1 = icmp ult %5, %0
  branch %6, b2(%5), b4
b4:
  %7: i64 = add %2, 1:i64
  %8: i1 = icmp ult %7, %0
  branch %8, b1(%7), b5
b5:
  return
}";
    let analysed = Analysed::new(text, &[]);
    assert_eq!(analysed.divergent_loops(), [1, 2]);
    // The branches at the loops' ends stay uniform among the lanes that come there.
    assert_eq!(analysed.divergent_branches(), [2]);
    assert_eq!(analysed.shapes(), "%1 +1! %4 ~");
    assert_eq!(analysed.shapes.shape_at(analysed.value(3), Block(5)), Shape::Varying);
}

/// The inner loop's lanes leave it at different iterations, but all of them to the same place of the outer one.
#[test]
fn a_divergent_loop_leaves_the_one_around_it_uniform() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  jump b1(0:i64)
b1(%2: i64):
  jump b2(0:i64)
b2(%3: i64):
  %4: i64 = add %3, 1:i64
  %5: i1 = icmp ult %4, %1
  branch %5, b2(%4), b3
b3:
  %6: i64 = add %2, 1:i64
  %7: i1 = icmp ult %6, %0
  branch %7, b1(%6), b4
b4:
  return
}";
    let analysed = Analysed::new(text, &[]);
    assert_eq!(analysed.divergent_loops(), [2]);
    assert_eq!(analysed.shapes(), "%1 +1! %5 ~");
}
