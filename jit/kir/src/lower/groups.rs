//! Lowering: the loop over the work-groups of a range.

use super::Lowering;
use super::launch::{self, Memory, NO_WRAP, Parameters, Sizes};
use super::sub_groups::SubGroups;
use crate::analysis::ID_LIMIT;
use crate::builder::Builder;
use crate::transform::WorkGroup;
use crate::{BinaryOp, Block, CastOp, Flags, IntPredicate, Op, Terminator, Type, Value};
use std::collections::{BTreeMap, BTreeSet};

/// How many work-items of a row go in packs.
#[derive(Clone, Debug, Default)]
pub(super) struct PackCounts {
    /// By the number of their lanes.
    pub of_lanes: BTreeMap<u32, Value>,
    /// Whether that is all of them, always.
    pub is_all: bool,
}

/// The lanes of a group's packs.
fn lanes(group: &WorkGroup) -> BTreeSet<u32> {
    group.regions.iter().filter_map(|r| Some(r.wide.as_ref()?.lanes)).collect()
}

/// All that fill one, if ids fit 32-bit arithmetic and buffers are disjoint where packs are made for that.
pub(super) fn count_packs(
    out: &mut Builder,
    (group, parameters): (&WorkGroup, &Parameters),
    sizes: &Sizes,
) -> PackCounts {
    let lanes = lanes(group);
    if lanes.is_empty() {
        return PackCounts::default();
    }
    let small = ids_are_small(out, sizes);
    let sub_groups = SubGroups::new(out, group, sizes, true);
    let mut fits = if group.sub_group_size > 1 { sub_groups.are_packs } else { small };
    let none = out.int(0);
    if group.regions.iter().filter_map(|region| region.wide.as_ref()).any(|wide| wide.disjoint) {
        let disjoint = out.compare(IntPredicate::Ne, sizes.disjoint_buffers, none);
        fits = out.binary(BinaryOp::And, 0, fits, disjoint);
    }
    if let Some(conflict) = rows_conflict(out, group, parameters) {
        let no = out.function.int(Type::BOOL, 0);
        let none_conflicts = out.compare(IntPredicate::Eq, conflict, no);
        fits = out.binary(BinaryOp::And, 0, fits, none_conflicts);
    }
    let mut count = |lanes: u32| {
        let mask = out.int(u64::from(lanes).wrapping_neg());
        let all = out.binary(BinaryOp::And, 0, sizes.by_row()[0], mask);
        out.select(fits, all, none)
    };
    let of_lanes = lanes.into_iter().map(|lanes| (lanes, count(lanes))).collect();
    PackCounts { of_lanes, is_all: false }
}

/// All work-items, for code that runs where they fill packs, ids fit 32-bit arithmetic and, if asked for, buffers are disjoint; and whether
/// that is not so.
pub(super) fn fill_packs(
    out: &mut Builder,
    group: &WorkGroup,
    sizes: &Sizes,
    wants_disjoint: bool,
) -> (PackCounts, Value) {
    let (lanes, row) = (lanes(group), sizes.by_row()[0]);
    let fits = ids_are_small(out, sizes);
    // Of powers of two, all divide what the largest does.
    let within = out.int(u64::from(lanes.last().copied().unwrap_or(1)) - 1);
    let left = out.binary(BinaryOp::And, 0, row, within);
    let zero = out.int(0);
    let fills = out.compare(IntPredicate::Eq, left, zero);
    let mut all = out.binary(BinaryOp::And, 0, fits, fills);
    if wants_disjoint {
        let disjoint = out.compare(IntPredicate::Ne, sizes.disjoint_buffers, zero);
        all = out.binary(BinaryOp::And, 0, all, disjoint);
    }
    let no = out.function.int(Type::BOOL, 0);
    let not_all = out.compare(IntPredicate::Eq, all, no);
    let of_lanes = lanes.into_iter().map(|lanes| (lanes, row)).collect();
    (PackCounts { of_lanes, is_all: true }, not_all)
}

/// Whether packs walk along rows whose lines drive each other out of the first cache. (Where there are several regions, most of the time goes by
/// in others, which share the packs.)
fn rows_conflict(out: &mut Builder, group: &WorkGroup, parameters: &Parameters) -> Option<Value> {
    let [region] = &group.regions[..] else { return None };
    let conflicts = region.wide.iter().flat_map(|wide| &wide.rows).map(|row| {
        let value = launch::argument(out, parameters, &region.body, row.parameter as usize);
        let is_long = *out.function.ty(value) == Type::I64;
        let value = if is_long { value } else { out.cast(CastOp::SExt, Type::I64, value) };
        let factor = out.int(row.factor as u64);
        let stride = out.binary(BinaryOp::Mul, 0, value, factor);
        let within = out.int(row.span - 1);
        let left = out.binary(BinaryOp::And, 0, stride, within);
        let zero = out.int(0);
        out.compare(IntPredicate::Eq, left, zero)
    });
    let conflicts: Vec<Value> = conflicts.collect();
    conflicts.into_iter().reduce(|one, other| out.binary(BinaryOp::Or, 0, one, other))
}

/// Whether all ids fit 32-bit arithmetic, and with them the sums of ids and small parameters.
pub(super) fn ids_are_small(out: &mut Builder, sizes: &Sizes) -> Value {
    let limit = out.int((ID_LIMIT / 2) as u64);
    let all = (0..3).flat_map(|d| [sizes.global_offset[d], sizes.global_size[d]]);
    all.fold(sizes.small_parameters, |before, size| {
        let fits = out.compare(IntPredicate::Ule, size, limit);
        out.binary(BinaryOp::And, 0, before, fits)
    })
}

/// Writes the loop with all that is in it; the entry block, in which `out` writes, leads to it.
pub(super) fn write(
    mut out: Builder,
    (group, parameters): (&WorkGroup, &Parameters),
    (sizes, memory, packs): (Sizes, Memory, Option<PackCounts>),
) {
    let entry = out.at;
    let sub_groups = SubGroups::new(&mut out, group, &sizes, packs.is_some());
    let [enter, line, start] = std::array::from_fn(|_| out.function.add_block());
    let [linear, ids @ ..]: [Value; 4] =
        std::array::from_fn(|_| out.function.add_block_param(start, Type::I64));
    out.at = start;
    let bases = std::array::from_fn(|d| {
        let group = out.binary(BinaryOp::Add, NO_WRAP, ids[d], sizes.first_group[d]);
        let first = out.binary(BinaryOp::Mul, NO_WRAP, group, sizes.enqueued_local_size[d]);
        out.binary(BinaryOp::Add, NO_WRAP, first, sizes.global_offset[d])
    });
    let mut lowering =
        Lowering { group, sizes, memory, packs, sub_groups, ids, bases, ends: Vec::new(), out };
    let starts = lowering.regions();
    let [end, line_end, done] = std::array::from_fn(|_| lowering.out.function.add_block());
    let ways = lowering.ways(starts);
    lowering.leave_regions(&ways, end);

    lowering.out.at = entry;
    let some = lowering.out.compare(IntPredicate::Ult, parameters.first_group, parameters.end_group);
    lowering.out.branch(some, (enter, &[]), (done, &[]));
    lowering.out.at = enter;
    let counts = in_order_of_groups(&mut lowering.out, &lowering.sizes);
    let first = first_place(&mut lowering.out, counts, parameters.first_group);
    lowering.out.jump(line, &first);
    let (places, line_stops) = lowering.begin_line(line, counts[0], parameters.end_group, start);
    lowering.out.at = start;
    lowering.jump_to_region(&ways, 0);
    lowering.out.at = end;
    let next = lowering.next_in_line(linear);
    let more = lowering.out.compare(IntPredicate::Ult, next[0], line_stops);
    lowering.out.branch(more, (start, &next), (line_end, &[]));
    lowering.out.at = line_end;
    let next = next_line(&mut lowering.out, counts, next[0], places);
    let more = lowering.out.compare(IntPredicate::Ult, next[0], parameters.end_group);
    lowering.out.branch(more, (line, &next), (done, &[]));
    lowering.finish(done);
}

/// What is given in that order, by dimension.
pub(super) fn in_dimensions(order: [usize; 3], values: [Value; 3]) -> [Value; 3] {
    let mut by_dimension = values;
    order.into_iter().zip(values).for_each(|(d, value)| by_dimension[d] = value);
    by_dimension
}

/// How many groups there are, from the dimension in which they are numbered first outwards. (Masks instead of conditions: nobody makes a
/// version of the whole loop for each dimension.)
fn in_order_of_groups(out: &mut Builder, sizes: &Sizes) -> [Value; 3] {
    let ([along_x, along_y, along_z], [x, y, z]) = (sizes.numbered_along, sizes.group_count);
    let first = choose(out, along_y, y, x);
    [choose(out, along_z, z, first), choose(out, along_x, y, x), choose(out, along_z, y, z)]
}

/// A group's id, of its places from the dimension in which groups are numbered first outwards.
fn in_dimensions_of_groups(out: &mut Builder, sizes: &Sizes, places: [Value; 3]) -> [Value; 3] {
    let ([along_x, along_y, along_z], [first, second, third]) = (sizes.numbered_along, places);
    let y = choose(out, along_x, second, third);
    [choose(out, along_x, first, second), choose(out, along_y, first, y), choose(out, along_z, first, third)]
}

/// Where the mask is all ones the one value, where it is 0 the other.
fn choose(out: &mut Builder, mask: Value, ones: Value, zero: Value) -> Value {
    let difference = out.binary(BinaryOp::Xor, 0, ones, zero);
    let masked = out.binary(BinaryOp::And, 0, difference, mask);
    out.binary(BinaryOp::Xor, 0, zero, masked)
}

/// A group's number, and its places of as many as are counted.
fn first_place(out: &mut Builder, [x, y, _]: [Value; 3], linear: Value) -> [Value; 4] {
    let rest = out.binary(BinaryOp::UDiv, 0, linear, x);
    [
        linear,
        out.binary(BinaryOp::URem, 0, linear, x),
        out.binary(BinaryOp::URem, 0, rest, y),
        out.binary(BinaryOp::UDiv, 0, rest, y),
    ]
}

/// The same of a group that is the first in its line, behind one of a line with these places.
fn next_line(out: &mut Builder, counts: [Value; 3], linear: Value, [y, z]: [Value; 2]) -> [Value; 4] {
    let (zero, one) = (out.int(0), out.int(1));
    let step = out.binary(BinaryOp::Add, Flags::NUW, y, one);
    let wraps = out.compare(IntPredicate::Eq, step, counts[1]);
    let carry = out.cast(CastOp::ZExt, Type::I64, wraps);
    let y = out.select(wraps, zero, step);
    [linear, zero, y, out.binary(BinaryOp::Add, Flags::NUW, z, carry)]
}

impl Lowering<'_, '_> {
    /// Where a line of groups begins that follow on each other in one dimension: the line's places in the others, and the number at which it
    /// stops. `line` gets the first group's number and places and leads to `start`, which gets its number and id.
    fn begin_line(&mut self, line: Block, length: Value, end: Value, start: Block) -> ([Value; 2], Value) {
        let out = &mut self.out;
        out.at = line;
        let [linear, places @ ..]: [Value; 4] =
            std::array::from_fn(|_| out.function.add_block_param(line, Type::I64));
        let [x, y, z] = in_dimensions_of_groups(out, &self.sizes, places);
        let left = out.binary(BinaryOp::Sub, Flags::NUW, length, places[0]);
        let line_end = out.binary(BinaryOp::Add, Flags::NUW, linear, left);
        let is_whole = out.compare(IntPredicate::Ult, line_end, end);
        let stops = out.select(is_whole, line_end, end);
        out.jump(start, &[linear, x, y, z]);
        ([places[1], places[2]], stops)
    }

    /// The number and id of the next group in a line.
    fn next_in_line(&mut self, linear: Value) -> [Value; 4] {
        let one = self.out.int(1);
        let next = self.out.binary(BinaryOp::Add, Flags::NUW, linear, one);
        let [x, y, z] = std::array::from_fn(|d| {
            let step = self.out.binary(BinaryOp::And, 0, self.sizes.numbered_along[d], one);
            self.out.binary(BinaryOp::Add, Flags::NUW, self.ids[d], step)
        });
        [next, x, y, z]
    }

    fn finish(&mut self, done: Block) {
        self.out.at = done;
        if self.group.streams {
            self.out.effect(Op::StreamingFence);
        }
        self.out.function.set_terminator(done, Terminator::Return(None));
    }
}

#[cfg(test)]
mod tests {
    use crate::lower::{How, lower};
    use crate::transform::form_regions;
    use crate::transform::widen::{RowStride, Wanted, choose};
    use crate::{parse, verify};
    use spirula_interface::options::Usual;
    use spirula_interface::target::TargetFacts;

    #[test]
    fn packs_for_disjoint_buffers_ask_whether_they_are() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8) {\nb0:\n  %2: i64 = global_id 0\n\
             %3: ptr(global) = address %0 + %2*8 + 0\n  %4: ptr(global) = address %1 + %2*4 + 0\n  %5: f32 = load %4, align 4\n\
             store %3, %5, align 4\n  %6: ptr(global) = address %4 + 64\n  %7: f32 = load %6, align 4\n\
             %8: ptr(global) = address %3 + 4\n  store %8, %7, align 4\n  return\n}";
        let lowered = |disjoint: bool| {
            let mut group = form_regions(parse(text).unwrap());
            let wanted = Wanted { disjoint, ..Wanted::default() };
            let facts = TargetFacts::with_vectors(512);
            group.regions[0].wide = choose(&group.regions[0], &group.context, &facts, wanted, false).wide;
            let is_for_disjoint = group.regions[0].wide.as_ref().is_some_and(|wide| wide.disjoint);
            let function = lower(&group, "k", How::default()).function;
            verify(&function).unwrap();
            // The condition on the ids is met by a launch only whose field says so.
            let text = function.to_string();
            let field = text.lines().find(|line| line.contains("address inbounds %1 + 8")).unwrap();
            let pointer = field.trim().split(':').next().unwrap();
            let loaded = text.lines().find(|line| line.contains(&format!("load {pointer},"))).unwrap();
            let loaded = loaded.trim().split(':').next().unwrap();
            (is_for_disjoint, text.contains(&format!("icmp ne {loaded}, ")))
        };
        assert_eq!([lowered(false), lowered(true)], [(false, false), (true, true)]);
    }

    /// A difference equation along each work-item's row, of as many elements as `length` says.
    fn rows(length: &str) -> String {
        format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: i32 @ 12) {{\nb0:\n  %3: i64 = global_id 0\n  %4: i32 = trunc %3\n\
             %5: i32 = mul nsw %4, {length}\n  jump b1(0:i32)\nb1(%6: i32):\n  %7: i32 = add nsw %5, %6\n  %8: i64 = sext %7\n\
             %9: ptr(global) = address %0 + %8*4 + 0\n  %10: f32 = load %9, align 4\n  %11: f32 = fadd %10, %10\n  store %9, %11, align 4\n\
             %12: i32 = add nsw %6, 1:i32\n  %13: i1 = icmp slt %12, %2\n  branch %13, b1(%12), b2\nb2:\n  return\n}}"
        )
    }

    #[test]
    fn packs_that_walk_along_rows_ask_how_long_these_are() {
        let lowered = |length: &str| {
            let mut group = form_regions(parse(&rows(length)).unwrap());
            let facts = TargetFacts::with_vectors(512);
            let wanted = Wanted { preferred: Some(16), ..Wanted::default() };
            group.regions[0].wide = choose(&group.regions[0], &group.context, &facts, wanted, false).wide;
            let rows = group.regions[0].wide.as_ref().map_or(Vec::new(), |wide| wide.rows.clone());
            let function = lower(&group, "k", How::default()).function;
            verify(&function).unwrap();
            let usual = Some(Usual { rows: 64, disjoint: true, ..Usual::NOTHING });
            let is_apart = lower(&group, "k", How { usual, ..How::default() }).rest.is_some();
            assert_eq!(is_apart, rows.is_empty(), "what runs in conflict is optimized like the rest");
            (rows, function.to_string().contains(", 4095:i64"))
        };
        let rows = |parameter| vec![RowStride { parameter, factor: 4, span: 4096 }];
        assert_eq!(lowered("%1"), (rows(1), true));
        assert_eq!(lowered("%2"), (rows(2), true));
        assert_eq!(lowered("1040:i32"), (Vec::new(), false));
    }
}
