//! Transform: the dimension in which a pack's work-items are neighbours. That is the first, unless neighbours in another one access
//! neighbouring memory and those in the first don't, as in kernels for which the first dimension is a matrix's row, or groups are known to
//! be one item wide.

use super::widen::{Divisor, Wrapping, divisor};
use crate::analysis::{
    ControlFlow, Frequencies, Leaps, Loop, Loops, MemoryShape, Shape, Shapes, sees_group, sees_sub_groups,
};
use crate::builder::replace_uses;
use crate::{AddressSpace, Block, Function, Op, Scalar, Type, Value, WorkItemQuery};
use fixedbitset::FixedBitSet;
use std::collections::HashMap;

/// Shorter rows hold no pack worth a choice.
const LEAST_ROW: u32 = 8;
/// Lines that one dimension of the range counts, beside others, hold no pack if they are shorter.
const LEAST_LINE: u64 = 16;
/// Accesses must cost less than such a part of what they cost in the first dimension: the estimate is a rough one.
const LEAST_PART: f64 = 0.5;
/// An access costs what it moves; one whose lanes lie further apart takes an access for each.
const MOST_APART: u64 = 4;
const SCATTERED: f64 = 16.0;
/// One of a row that each lane walks along for itself, which is loaded in strips.
const WALKED: f64 = 6.0;

/// Decides it.
pub fn choose_row_dimension(kernel: &mut Function) {
    // Sub-groups are numbered along the first, and the host says how many there are.
    if sees_sub_groups(kernel) {
        return;
    }
    // Those in front of it have one item: nothing is numbered otherwise.
    kernel.row_dimension = (0..3).find(|&dimension| kernel.extends_in(dimension)).unwrap_or(0);
    let scans = kernel.insts().any(|inst| matches!(kernel.op(inst), Op::GroupScan { .. }));
    // Who sees groups, whose sizes are unknown, may have rows of one item in the other dimensions.
    let is_known = kernel.required_work_group_size.is_some();
    if scans || (!is_known && sees_group(kernel)) {
        return;
    }
    let first = kernel.row_dimension;
    let others: Vec<u8> = (first + 1..3).filter(|&dimension| has_rows(kernel, dimension)).collect();
    if others.is_empty() {
        return;
    }
    let flow = ControlFlow::new(kernel);
    let Some(loops) = Loops::new(&flow) else { return };
    let frequencies = Frequencies::new(kernel, &flow, &loops);
    let mut cost = |dimension: u8| {
        kernel.row_dimension = dimension;
        accesses(kernel, &flow, &loops, &frequencies)
    };
    let costs_of_first = cost(first);
    let mut best = (first, LEAST_PART * sum(&costs_of_first));
    for dimension in others {
        let costs = cost(dimension);
        // What is less in each case is less however rough the estimate is.
        let part = if is_below(&costs, &costs_of_first) { LEAST_PART } else { 1.0 };
        if part * sum(&costs) < best.1 {
            best = (dimension, part * sum(&costs));
        }
    }
    kernel.row_dimension = best.0;
}

/// An access: how often it is done, and what it costs.
type Access = (f64, f64);

fn sum(accesses: &[Access]) -> f64 {
    accesses.iter().map(|(often, cost)| often * cost).sum()
}

/// Whether of those that are done equally often none costs more than the others' counterpart in the order of costs, and some
/// cost less: such as stores to neighbours beside loads of which one is of a row of each lane's either way.
fn is_below(accesses: &[Access], others: &[Access]) -> bool {
    let in_order = |accesses: &[Access]| {
        let mut accesses = accesses.to_vec();
        accesses.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        accesses
    };
    let (own, others) = (in_order(accesses), in_order(others));
    let pairs = || own.iter().zip(&others);
    own.len() == others.len()
        && pairs().all(|(own, other)| own.0 == other.0 && own.1 <= other.1)
        && pairs().any(|(own, other)| own.1 < other.1)
}

/// Whether work-items differ in that dimension, by enough of them.
fn has_rows(kernel: &Function, dimension: u8) -> bool {
    let is_long = |sizes: [u32; 3]| sizes[usize::from(dimension)] >= LEAST_ROW;
    kernel.required_work_group_size.is_none_or(is_long)
        && kernel.insts().any(|inst| {
            let Op::WorkItem { query, dimension: of } = *kernel.op(inst) else { return false };
            of == dimension && matches!(query, WorkItemQuery::GlobalId | WorkItemQuery::LocalId)
        })
}

/// What each of a pack's accesses costs, if it lies in the kernel's row dimension.
fn accesses(kernel: &Function, flow: &ControlFlow, loops: &Loops, frequencies: &Frequencies) -> Vec<Access> {
    let interleaved = FixedBitSet::with_capacity(kernel.value_count());
    let memory = MemoryShape { context: &[], slot_strides: &[], interleaved: &interleaved };
    let shapes_of = |kernel: &Function| Shapes::new(kernel, flow, loops, &memory);
    let (body, shapes) = within_lines(kernel, flow, &shapes_of);
    let kernel = body.as_ref().unwrap_or(kernel);
    let leaps = Leaps::new(kernel, loops);
    let mut costs = Vec::new();
    for &block in flow.reverse_post_order() {
        // What stands in a loop counts by it, as often as a loop turns, or is thought to.
        let around = loops.around(loops.innermost(block));
        let turns = around.map(|id| frequencies.iterations(id).map_or(TURNS, |turns| turns as f64));
        let often = frequencies.of(block) * turns.product::<f64>();
        // Clamped at the borders, neighbours are neighbours between them.
        let unless_wrapping = |pointer| Wrapping::of(kernel, &shapes, pointer, block).map(|way| way.stride());
        let stride = |pointer| shapes.shape_at(pointer, block).stride().or_else(|| unless_wrapping(pointer));
        let strips = loops.innermost(block).is_some_and(|id| may_have_strips(kernel, loops.get(id)));
        let each = kernel.block(block).insts.iter().filter_map(|&inst| match *kernel.op(inst) {
            Op::Load { pointer, .. } => kernel.result(inst).map(|value| {
                let ty = kernel.ty(value);
                let is_walked = strips && leaps.walk_at(block, pointer, ty.size());
                let most = if is_walked { WALKED } else { SCATTERED };
                access(kernel, pointer, stride(pointer), ty).min(most)
            }),
            Op::Store { pointer, value, .. } => {
                Some(access(kernel, pointer, stride(pointer), kernel.ty(value)))
            }
            _ => None,
        });
        costs.extend(each.map(|cost| (often, cost)));
    }
    costs
}

/// Numbers of a row are divided so many times, one of the other's result.
const MOST_DIVIDED: usize = 3;

/// A kernel as packs see it that lie within lines, if it is another, and its shapes.
fn within_lines(
    kernel: &Function,
    flow: &ControlFlow,
    shapes_of: &dyn Fn(&Function) -> Shapes,
) -> (Option<Function>, Shapes) {
    let (mut body, mut shapes) = (None::<Function>, shapes_of(kernel));
    let mut parts = HashMap::new();
    for _ in 0..MOST_DIVIDED {
        let mut found = divided(body.as_ref().unwrap_or(kernel), flow, &shapes);
        found.retain(|(result, _)| !parts.contains_key(result));
        if found.is_empty() {
            break;
        }
        let body = body.get_or_insert_with(|| kernel.clone());
        for (result, part) in found {
            let part = part.unwrap_or_else(|| body.int(body.ty(result).clone(), 0));
            parts.insert(result, part);
        }
        replace_uses(body, &parts);
        shapes = shapes_of(body);
    }
    (body, shapes)
}

/// What packs that lie within rows make of an id that counts several dimensions, `id / n` and `id % n`, if rows are no shorter than packs: one
/// number for all lanes, None, and one that counts as the id does. See [`super::widen`]'s quotients.
fn divided(kernel: &Function, flow: &ControlFlow, shapes: &Shapes) -> Vec<(Value, Option<Value>)> {
    let mut found = Vec::new();
    for &block in flow.reverse_post_order() {
        for &inst in &kernel.block(block).insts {
            let (Op::Binary { op, lhs, rhs, .. }, Some(result)) = (kernel.op(inst), kernel.result(inst))
            else {
                continue;
            };
            let Some((is_quotient, by)) = divisor(kernel, *op, *rhs) else { continue };
            // Of a number that nobody knows long lines are expected.
            let is_line = match by {
                Divisor::Constant(length) => length >= LEAST_LINE,
                Divisor::Value(..) => shapes.shape_at(*rhs, block) == Shape::Uniform,
            };
            if is_line && shapes.shape_at(*lhs, block).stride().is_some_and(|stride| stride != 0) {
                found.push((result, (!is_quotient).then_some(*lhs)));
            }
        }
    }
    found
}

/// Whether a loop is a test and a block without effects, as those are for which strips of rows are loaded.
fn may_have_strips(kernel: &Function, found: &Loop) -> bool {
    let mut blocks = found.blocks.ones();
    let has_effect =
        |number| kernel.block(Block(number as u32)).insts.iter().any(|&inst| kernel.op(inst).has_effect());
    found.blocks.count_ones(..) == 2 && !blocks.any(has_effect)
}

/// Iterations of a loop.
const TURNS: f64 = 16.0;

fn access(kernel: &Function, pointer: Value, stride: Option<i64>, ty: &Type) -> f64 {
    if kernel.ty(pointer).scalar() == Some(Scalar::Pointer(AddressSpace::Private)) {
        return 0.0;
    }
    match stride.map(|stride| stride.unsigned_abs().div_ceil(ty.size().max(1))) {
        Some(apart @ ..=MOST_APART) => apart.max(1) as f64,
        _ => SCATTERED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// The dimension chosen for a kernel that adds a constant to `%0[id of dimension 0 * 4096 + id of dimension 1 * 4]`, or
    /// the other way round.
    fn chosen(header: &str, query: &str, [first, second]: [u64; 2], before: &str) -> u8 {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\n{header}b0:\n{before}  %1: i64 = {query} 0\n  %2: i64 = {query} 1\n\
             %3: ptr(global) = address %0 + %1*{first} + 0\n  %4: ptr(global) = address %3 + %2*{second} + 0\n  %5: i32 = load %4, align 4\n\
             %6: i32 = add %5, 1:i32\n  store %4, %6, align 4\n  return\n}}"
        );
        let mut kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        choose_row_dimension(&mut kernel);
        // It is part of the text.
        assert_eq!(parse(&kernel.to_string()).unwrap().row_dimension, kernel.row_dimension);
        kernel.row_dimension
    }

    const ROWS: [u64; 2] = [4096, 4];
    const COLUMNS: [u64; 2] = [4, 4096];

    #[test]
    fn packs_lie_where_memory_does() {
        assert_eq!(chosen("", "global_id", ROWS, ""), 1);
        assert_eq!(chosen("", "global_id", COLUMNS, ""), 0);
        assert_eq!(chosen("", "global_id", [4096, 4096], ""), 0);
        // Where the memory loaded lies along the first dimension but at the borders, and the second does not matter.
        let clamped = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {\nb0:\n  %2: i64 = global_id 0\n  %3: i32 = trunc %2\n  \
            %4: i32 = intrinsic smin(%3, %1)\n  %5: i64 = sext %4\n  %6: ptr(global) = address %0 + %5*4 + 0\n  %7: i32 = load %6, align 4\n  \
            %8: i64 = global_id 1\n  %9: ptr(global) = address %0 + %8*4096 + 0\n  %10: ptr(global) = address %9 + %2*4 + 0\n  \
            store %10, %7, align 4\n  return\n}";
        let mut clamped = parse(clamped).unwrap();
        choose_row_dimension(&mut clamped);
        assert_eq!(clamped.row_dimension, 0);
        // Of groups that it sees it must know that they have rows there.
        assert_eq!(chosen("", "local_id", ROWS, ""), 0);
        for (size, expected) in [("16 16 1", 1), ("256 1 1", 0), ("64 2 1", 0), ("1 64 1", 1), ("1 1 64", 2)]
        {
            let header = format!("  work_group_size {size}\n");
            assert_eq!(chosen(&header, "local_id", ROWS, ""), expected, "{size}");
        }
        // However groups are one item wide.
        assert_eq!(chosen("  work_group_size 1 64 1\n", "local_id", COLUMNS, ""), 1);
    }

    /// A product of a matrix and a transposed one: rows are walked along in either dimension, and results lie along one of them.
    #[test]
    fn where_loads_are_alike_stores_decide() {
        let chosen = |[row, column]: [u32; 2]| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: ptr(global) @ 16, %3: i64 @ 24, %4: i64 @ 32) {{\nb0:\n  \
                 %5: i64 = global_id 0\n  %6: i64 = global_id 1\n  %7: i64 = mul %5, %3\n  %8: i64 = mul %6, %3\n  jump b1(0:i64, 0x0:f32)\n\
                 b1(%9: i64, %10: f32):\n  %11: i1 = icmp ult %9, %3\n  branch %11, b2, b3\nb2:\n  %12: i64 = add %7, %9\n  \
                 %13: ptr(global) = address %0 + %12*4 + 0\n  %14: f32 = load %13, align 4\n  %15: i64 = add %8, %9\n  \
                 %16: ptr(global) = address %1 + %15*4 + 0\n  %17: f32 = load %16, align 4\n  %18: f32 = fmul %14, %17\n  %19: f32 = fadd %10, %18\n  \
                 %20: i64 = add %9, 1:i64\n  jump b1(%20, %19)\nb3:\n  %21: i64 = mul %{row}, %4\n  %22: i64 = add %21, %{column}\n  \
                 %23: ptr(global) = address %2 + %22*4 + 0\n  store %23, %10, align 4\n  return\n}}"
            );
            let mut kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            choose_row_dimension(&mut kernel);
            kernel.row_dimension
        };
        assert_eq!([chosen([5, 6]), chosen([6, 5])], [1, 0]);
    }

    /// Where an id counts a picture's channels and pictures, or the channels of several: packs that lie within a line are neighbours.
    #[test]
    fn an_id_that_counts_several_things_has_lines() {
        let chosen = |line: &str, quotient: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {{\nb0:\n  %2: i64 = global_id 0\n  %3: i64 = global_id 1\n  %4: i64 = {line}\n  \
                 %5: i64 = {quotient}\n  %6: ptr(global) = address %0 + %2*4096 + 0\n  %7: ptr(global) = address %6 + %4*4 + 0\n  \
                 %8: ptr(global) = address %7 + %5*65536 + 0\n  store %8, 0:i32, align 4\n  return\n}}"
            );
            let mut kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            choose_row_dimension(&mut kernel);
            kernel.row_dimension
        };
        assert_eq!(chosen("and %3, 63:i64", "lshr %3, 6:i64"), 1);
        assert_eq!(chosen("urem %3, 48:i64", "udiv %3, 48:i64"), 1);
        assert_eq!(chosen("srem %3, %1", "sdiv %3, %1"), 1);
        assert_eq!(chosen("and %3, 3:i64", "lshr %3, 2:i64"), 0);
        assert_eq!(chosen("and %3, 62:i64", "lshr %3, 6:i64"), 0);
    }

    #[test]
    fn rows_that_are_walked_along_in_a_loop_cost_little() {
        // Groups of 16 x 8 store along the first dimension; each work-item sums up a part of its own row of local memory.
        let text = |step: u32| {
            format!(
                "kernel \"k\"(%0: ptr(global) @ 0) {{\n  local 4096\n  work_group_size 16 8 1\nb0:\n  %1: i64 = local_id 0\n  %2: i64 = local_id 1\n  \
                 jump b1(0:i64, 0x0:f32)\nb1(%3: i64, %4: f32):\n  %5: i1 = icmp ult %3, 17:i64\n  branch %5, b2, b3\n\
                 b2:\n  %6: ptr(local) = local_address 0\n  %7: ptr(local) = address %6 + %1*196 + 0\n  %8: ptr(local) = address %7 + %2*4 + 0\n  \
                 %9: ptr(local) = address %8 + %3*{step} + 0\n  %10: f32 = load %9, align 4\n  %11: f32 = fadd %4, %10\n  \
                 %12: i64 = add %3, 1:i64\n  jump b1(%12, %11)\n\
                 b3:\n  %13: ptr(global) = address %0 + %2*4096 + 0\n  %14: ptr(global) = address %13 + %1*4 + 0\n{}  store %14, %4, align 4\n  return\n}}",
                "  store %14, %4, align 4\n".repeat(4)
            )
        };
        let chosen = |step: u32| {
            let mut kernel = parse(&text(step)).unwrap_or_else(|e| panic!("{e}"));
            choose_row_dimension(&mut kernel);
            kernel.row_dimension
        };
        assert_eq!([4, 64].map(chosen), [0, 1]);
    }

    #[test]
    fn who_is_numbered_along_the_first_dimension_stays_there() {
        let (header, scan) = ("  work_group_size 16 16 1\n", "  %9: i32 = group_scan exclusive add 1:i32\n");
        assert_eq!(chosen(header, "local_id", ROWS, scan), 0);
        assert_eq!(chosen("", "global_id", ROWS, "  %9: i64 = sub_group_id 0\n"), 0);
    }
}
