//! Quotients: which ways packs go, and how addresses differ from lane to lane there.

use super::split::ROW;
use super::*;
use crate::analysis::{MemoryShape, Shape, Shapes};
use crate::transform::ITEM;
use crate::{Inst, Op, SubGroupOp, parse, transform, verify};

/// Of a kernel that stores at a quotient and a remainder in 16 lanes: both ways, and how an address differs from lane to lane in that of
/// packs within rows.
fn split(operations: &str) -> Option<(Function, Vec<Shape>, f64)> {
    split_with(operations, true)
}

fn split_with(operations: &str, zeros: bool) -> Option<(Function, Vec<Shape>, f64)> {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: i64 @ 16) {{\nb0:\n  %3: i64 = global_id 0\n  %4: i64 = local_id 0\n  %5: i32 = trunc %3\n\
         {operations}\n  %30: ptr(global) = address %0 + %20*4 + 0\n  %31: ptr(global) = address %0 + %21*4 + 0\n  store %30, %1, align 4\n  \
         store %31, %1, align 4\n  return\n}}"
    );
    let group = transform::form_regions(parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let Quotients { body, straight, share, .. } = Quotients::new(
        &group.regions[0].body,
        How { context: &group.context, lanes: 16, zeros, guesses: false },
    )?;
    [&body, &straight].into_iter().for_each(|body| verify(body).unwrap());
    let flow = ControlFlow::new(&straight);
    let loops = Loops::new(&flow).unwrap();
    let memory = MemoryShape { context: &[], slot_strides: &[], interleaved: &Default::default() };
    let shapes = Shapes::new(&straight, &flow, &loops, &memory);
    let reachable = |block: &Block| flow.is_reachable(*block);
    let blocks = straight.block_ids().filter(reachable);
    let insts = blocks.flat_map(|block| straight.block(block).insts.clone());
    let stored = insts.filter_map(|inst| match *straight.op(inst) {
        Op::Store { pointer, .. } => Some(shapes.shape(pointer)),
        _ => None,
    });
    let stored = stored.collect();
    Some((body, stored, share))
}

const NEXT: Shape = Shape::Affine { stride: 4, exact: false };
const WIDE: &str = "  %20: i64 = udiv %3, %2\n  %21: i64 = urem %3, %2";

fn ways(body: &Function) -> usize {
    body.block(ITEM).terminator.targets().len()
}

#[test]
fn rows_are_the_same_and_columns_follow_on_each_other() {
    let signed =
        "  %6: i32 = sdiv %5, %1\n  %7: i32 = srem %5, %1\n  %20: i64 = sext %6\n  %21: i64 = sext %7";
    let bits = "  %20: i64 = lshr %3, 8:i64\n  %21: i64 = and %3, 255:i64";
    for operations in [WIDE, signed, bits, "  %20: i64 = udiv %3, 100:i64\n  %21: i64 = urem %3, 100:i64"] {
        let (body, stored, _) = split(operations).unwrap();
        assert_eq!((ways(&body), &stored[..]), (2, &[Shape::Uniform, NEXT][..]), "{operations}");
    }
}

#[test]
fn what_was_divided_is_divided_again() {
    let rest = "  %20: i64 = udiv %6, 64:i64\n  %21: i64 = urem %7, 32:i64";
    let (_, stored, share) =
        split(&format!("  %6: i64 = udiv %3, %2\n  %7: i64 = urem %3, 192:i64\n{rest}")).unwrap();
    assert_eq!(stored, [Shape::Uniform, NEXT]);
    assert_eq!(share, 1.0 - 15.0 / ROW);
}

#[test]
fn local_ids_need_no_question() {
    let tile = "  %20: i64 = lshr %4, 4:i64\n  %21: i64 = and %4, 15:i64";
    let (body, stored, share) = split(tile).unwrap();
    assert_eq!((ways(&body), stored, share), (1, vec![Shape::Uniform, NEXT], 1.0));
    // Not in the middle of a row.
    let moved = "  %6: i64 = add %4, 8:i64\n  %20: i64 = lshr %6, 4:i64\n  %21: i64 = and %6, 15:i64";
    assert_eq!(ways(&split(moved).unwrap().0), 2);
}

#[test]
fn division_that_would_overflow_stands_in_a_choice() {
    let guarded = |not: &str| {
        format!(
            "  %6: i1 = icmp eq %1, {not}:i32\n  %7: i32 = add %1, 1:i32\n  %8: i1 = icmp ult %7, 2:i32\n  %9: i32 = select %8, 1:i32, %1\n  \
             %10: i32 = sdiv %5, %9\n  %11: i32 = sub 0:i32, %5\n  %12: i32 = select %6, %11, %10\n  %20: i64 = sext %12\n  \
             %13: i32 = srem %5, %9\n  %21: i64 = sext %13"
        )
    };
    assert_eq!(split(&guarded("4294967295")).unwrap().1, [Shape::Uniform, NEXT]);
    // One that it might be, where a pack lies within a row.
    assert_eq!(split(&guarded("20")).unwrap().1, [Shape::Varying, NEXT]);
}

/// A loop that strides over a grid, with a test of its bound in its header, by a step that `flags` promise not to wrap.
fn strided(flags: &str, behind: &str) -> Option<Quotients> {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: i32 @ 12) {{\nb0:\n  %3: i64 = global_id 0\n  %4: i32 = trunc %3\n  jump b1(%4, 0:i32)\n\
         b1(%5: i32, %15: i32):\n  %6: i1 = icmp slt %5, %1\n  branch %6, b2, b3\nb2:\n  %7: i32 = udiv %5, %2\n  %8: i32 = urem %5, %2\n\
         %9: i64 = sext %7\n  %10: i64 = sext %8\n  %11: ptr(global) = address %0 + %9*4 + 0\n  %12: ptr(global) = address %11 + %10*4 + 0\n\
         store %12, %1, align 4\n  %13: i32 = add {flags} %5, %1\n  jump b1(%13, %7)\nb3:\n{behind}  return\n}}"
    );
    let group = transform::form_regions(parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let found = Quotients::new(
        &group.regions[0].body,
        How { context: &group.context, lanes: 16, zeros: true, guesses: false },
    )?;
    [&found.body, &found.straight].into_iter().for_each(|body| verify(body).unwrap());
    Some(found)
}

#[test]
fn iterations_of_a_loop_are_parted_too() {
    let found = strided("nsw", "  store %0, %15, align 4\n").unwrap();
    let text = found.straight.to_string();
    assert!(text.contains("sub_group_local_id") && !text.contains("udiv %5"), "{text}");
    let branches = |body: &Function| {
        let parted = |block: &crate::BlockData| block.terminator.targets().len() == 2;
        body.blocks.iter().filter(|block| parted(block)).count()
    };
    assert_eq!((branches(&found.straight), branches(&found.body)), (1, 2));
    // Lanes' numbers may wrap.
    assert!(strided("", "").is_none());
}

/// Where rows are counted from one, the last column's remainder is zero: packs without it know their row and columns.
#[test]
fn packs_without_a_zero_may_go_alone() {
    let from_one = "  %6: i32 = add nsw %5, 1:i32\n  %7: i32 = udiv %6, %1\n  %8: i32 = urem %6, %1\n  %9: i1 = icmp eq %8, 0:i32\n\
                    %10: i32 = select %9, %1, %8\n  %11: i32 = sext %9\n  %12: i32 = add %7, %11\n  %20: i64 = sext %12\n  %21: i64 = sext %10";
    assert_eq!(split(from_one).unwrap().1, [Shape::Varying, Shape::Varying]);
    let (body, stored, _) = split_with(from_one, false).unwrap();
    assert_eq!((ways(&body), stored), (2, vec![Shape::Uniform, NEXT]));
    let branching = "  %6: i64 = udiv %3, %2\n  %7: i64 = urem %3, %2\n  %8: i1 = icmp ne %7, 0:i64\n  branch %8, b2(%6, %7), b1\nb1:\n\
                     %9: i64 = sub %6, 1:i64\n  jump b2(%9, 3:i64)\nb2(%20: i64, %21: i64):";
    assert_eq!(split(branching).unwrap().1, [Shape::Varying, Shape::Varying]);
    assert_eq!(split_with(branching, false).unwrap().1, [Shape::Uniform, NEXT]);
    // Nothing asks.
    assert_eq!(ways(&split_with(WIDE, false).unwrap().0), 2);
}

#[test]
fn others_are_left_alone() {
    for operations in [
        // Rows shorter than a pack.
        "  %20: i64 = lshr %3, 3:i64\n  %21: i64 = and %3, 7:i64",
        // Numbers, and divisors, of each lane.
        "  %6: i64 = mul %3, %3\n  %20: i64 = udiv %6, %2\n  %21: i64 = urem %2, %3",
        // What may be negative.
        "  %6: i32 = sub %5, %1\n  %7: i32 = sdiv %6, 64:i32\n  %20: i64 = sext %7\n  %21: i64 = sext %7",
        // What is known behind a load only.
        "  %6: i64 = load %0, align 8\n  %20: i64 = udiv %3, %6\n  %21: i64 = urem %3, %6",
    ] {
        assert!(split(operations).is_none(), "{operations}");
    }
    assert!(split(&WIDE.replace(", %2", ", 0:i64")).is_none());
}

/// How the address that a kernel loads from differs from lane to lane where packs are as they are thought to be, and how many questions
/// they are asked; %4 is a work-item's id in 32 bits, %5 a float, %20 the index.
fn guessed(operations: &str) -> Option<(Shape, usize)> {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %5: f32 @ 12) {{\nb0:\n  %3: i64 = global_id 0\n  %4: i32 = trunc %3\n{operations}\n\
         %21: ptr(global) = address %0 + %20*4 + 0\n  %22: i32 = load %21, align 4\n  %23: ptr(global) = address %0 + %3*4 + 0\n\
         store %23, %22, align 4\n  return\n}}"
    );
    let group = transform::form_regions(parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let how = How { context: &group.context, lanes: 16, zeros: true, guesses: true };
    let Quotients { body, straight, .. } = Quotients::new(&group.regions[0].body, how)?;
    [&body, &straight].into_iter().for_each(|body| verify(body).unwrap());
    let flow = ControlFlow::new(&straight);
    let loops = Loops::new(&flow).unwrap();
    let memory = MemoryShape { context: &[], slot_strides: &[], interleaved: &Default::default() };
    let shapes = Shapes::new(&straight, &flow, &loops, &memory);
    let asks = |inst: &Inst| matches!(body.op(*inst), Op::SubGroup { op: SubGroupOp::Ballot, .. });
    let loaded = straight.block_ids().filter(|block| flow.is_reachable(*block));
    let mut loaded = loaded.flat_map(|block| straight.block(block).insts.clone());
    let loaded = loaded.find_map(|inst| match *straight.op(inst) {
        Op::Load { pointer, .. } => Some(shapes.shape(pointer)),
        _ => None,
    });
    Some((loaded?, body.insts().filter(asks).count()))
}

/// A row that is a product of floats, cut.
const ROW_OF_FLOATS: &str =
    "  %6: f32 = sitofp %4\n  %7: f32 = fmul %6, %5\n  %8: i32 = fptosi %7\n  %9: i32 = freeze %8\n";

#[test]
fn rows_and_columns_are_guessed() {
    let row = format!("{ROW_OF_FLOATS}  %10: i32 = mul %9, %1\n  %20: i64 = sext %10");
    assert_eq!(guessed(&row), Some((Shape::Uniform, 1)));
    let column = format!(
        "{ROW_OF_FLOATS}  %10: i32 = mul %9, %1\n  %11: i32 = intrinsic usub.sat(%4, %1)\n  %12: i32 = add nsw %10, %11\n  %20: i64 = sext %12"
    );
    assert_eq!(guessed(&column), Some((NEXT, 2)));
}

#[test]
fn where_loops_begin_and_end_is_guessed() {
    let looped = "  %6: i1 = icmp slt %4, %1\n  %7: i32 = select %6, %4, %1\n  jump b1(%7)\nb1(%8: i32):\n  %9: i1 = icmp slt %8, %1\n\
                  branch %9, b2, b3\nb2:\n  %10: i32 = add nsw %8, 1:i32\n  jump b1(%10)\nb3:\n  %20: i64 = sext %8";
    assert_eq!(guessed(looped), Some((Shape::Uniform, 1)));
}

#[test]
fn what_lies_apart_is_not_guessed() {
    // A row of its own for each work-item, and where a loop over it begins.
    let row = "  %6: i32 = mul %4, %1\n  %7: i32 = add nsw %6, %1\n  %20: i64 = sext %7";
    assert_eq!(guessed(row), None);
    let looped = "  %6: i32 = mul %4, %1\n  %7: i32 = add nsw %6, 3:i32\n  jump b1(%7)\nb1(%8: i32):\n  %9: i1 = icmp slt %8, %1\n\
                  branch %9, b2, b3\nb2:\n  %10: i32 = add nsw %8, 1:i32\n  jump b1(%10)\nb3:\n  %20: i64 = sext %8";
    assert_eq!(guessed(looped), None);
}

#[test]
fn what_is_known_is_not_guessed() {
    // Neighbours, what a load yields, and what was mixed.
    assert_eq!(guessed("  %6: i32 = xor %4, %1\n  %7: i32 = mul %6, %1\n  %20: i64 = sext %7"), None);
    assert_eq!(guessed("  %6: i32 = mul %1, %1\n  %7: i32 = add nsw %6, %4\n  %20: i64 = sext %7"), None);
    assert_eq!(guessed("  %6: i32 = load %0, align 4\n  %7: i32 = mul %6, %1\n  %20: i64 = sext %7"), None);
}
