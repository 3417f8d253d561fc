//! Widening: loads of what lies a few elements apart in neighbouring lanes, such as the fields of structures. All that a group of
//! loads reads is loaded in wide pieces, and each field's lanes are picked out of these.

use super::Widener;
use super::slots::{access_size, leads_to_slot};
use crate::analysis::{Mask, Masks, Shape, Shapes};
use crate::{BinaryOp, Block, CastOp, Constant, Flags, Function, Op, Scalar, Type, Value};
use std::collections::HashMap;

/// Fields further apart are gathered.
pub(super) const MOST_APART: i64 = 4;
/// The same for elements so small that no instruction gathers them, where lanes are many.
const MOST_APART_OF_SMALL: i64 = 8;
const SMALL_SIZE: i64 = 2;
/// Of these no more fields: without branches LLVM does better with the scalar loop, in more lanes.
const MOST_SMALL_FIELDS: i64 = 2;
/// Fewer lanes are few. In as many, and of such elements, a load that leaves some out is one instruction.
pub(super) const MANY_LANES: u32 = 8;
pub(super) const LEAST_MASKED_SIZE: i64 = 4;

/// What a group's loads have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    base: Value,
    /// The sum, without constants, and its scale.
    index: Option<(Terms, i64)>,
}

/// What an index is the sum of, in the order of their numbers; narrow ones are sign-extended. An index of more is itself.
type Terms = [Option<Value>; MOST_TERMS];
const MOST_TERMS: usize = 4;
/// Indices are looked into so deep.
const MOST_DEPTH: u32 = 6;

/// Loads of a block that are served by the same pieces.
#[derive(Clone, Debug)]
pub(super) struct Group {
    place: Place,
    /// What is loaded; others' bits are taken for what they are.
    scalar: Scalar,
    /// Bytes of an element.
    size: i64,
    /// Elements from one lane to the next.
    stride: i64,
    /// Bytes from `place` to the first element, and to the end of the last.
    from: i64,
    to: i64,
    /// Elements that are loaded for a lane.
    pub fields: i64,
    /// What lanes store to the same structures while the group is open, in bytes from `place`.
    stored: Vec<(i64, i64)>,
}

impl Group {
    /// Elements from a lane's first to its last.
    fn span(&self) -> i64 {
        (self.to - self.from) / self.size
    }

    /// Wide loads of as many elements as there are lanes.
    pub fn pieces(&self, lanes: u32) -> i64 {
        let lanes = i64::from(lanes);
        ((lanes - 1) * self.stride + self.span() + lanes - 1) / lanes
    }
}

/// The groups of a body.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Each load's group, and where it begins, in bytes from its place.
    of: HashMap<Value, (usize, i64)>,
}

impl Groups {
    pub fn new(body: &Function, shapes: &Shapes, masks: &Masks, lanes: u32) -> Self {
        let mut all = Groups::default();
        if lanes < 4 {
            return all;
        }
        for block in body.block_ids().filter(|block| block.0 > 0) {
            let mut open: Vec<usize> = Vec::new();
            for &inst in &body.block(block).insts {
                let op = body.op(inst);
                match op {
                    Op::Load { pointer, volatile: false, ordering: None, .. } => {
                        let Some(result) = body.result(inst) else { continue };
                        let Some(access) = access(body, shapes, block, *pointer, body.ty(result)) else {
                            continue;
                        };
                        let all_active = masks.of(block) == Mask::Full;
                        if all_active || (lanes >= MANY_LANES && access.size >= LEAST_MASKED_SIZE) {
                            all.add(result, access, &mut open, lanes);
                        }
                    }
                    Op::Store { pointer, value, volatile: false, ordering: None, .. } => {
                        let access = access(body, shapes, block, *pointer, body.ty(*value));
                        open.retain(|&group| {
                            let group = &mut all.groups[group];
                            let same = access.as_ref().filter(|access| group.is_like(access));
                            same.inspect(|access| group.stored.push((access.from, access.to))).is_some()
                        });
                    }
                    op if op.has_effect() => open.clear(),
                    _ => {}
                }
            }
        }
        let Groups { groups, of } = &mut all;
        of.retain(|_, &mut (group, _)| groups[group].is_worth_it());
        all
    }

    /// The group that serves a load.
    pub fn of(&self, loaded: Value) -> Option<&Group> {
        self.of.get(&loaded).map(|&(group, _)| &self.groups[group])
    }

    fn add(&mut self, loaded: Value, access: Group, open: &mut Vec<usize>, lanes: u32) {
        let fits = |group: &Group| {
            let (from, to) = (group.from.min(access.from), group.to.max(access.to));
            let stride = group.stride * group.size;
            let apart = |&(start, end): &(i64, i64)| {
                (end <= access.from && access.to - start <= stride)
                    || (access.to <= start && end - access.from <= stride)
            };
            group.is_like(&access)
                && to - from <= stride
                && (access.from - group.from) % group.size == 0
                && group.stored.iter().all(apart)
        };
        let found = open.iter().copied().find(|&number| fits(&self.groups[number]));
        if let Some(number) = found {
            let group = &mut self.groups[number];
            (group.from, group.to) = (group.from.min(access.from), group.to.max(access.to));
            group.fields += access.fields;
            self.of.insert(loaded, (number, access.from));
        } else if access.stride <= most_apart(access.size, lanes) {
            self.of.insert(loaded, (self.groups.len(), access.from));
            open.push(self.groups.len());
            self.groups.push(access);
        }
    }
}

impl Group {
    fn is_worth_it(&self) -> bool {
        self.size > SMALL_SIZE || self.fields <= MOST_SMALL_FIELDS
    }

    fn is_like(&self, other: &Group) -> bool {
        let is_pointer = |group: &Group| matches!(group.scalar, Scalar::Pointer(_));
        (self.place, self.size, self.stride) == (other.place, other.size, other.stride)
            && (self.scalar == other.scalar || !(is_pointer(self) || is_pointer(other)))
    }
}

fn most_apart(size: i64, lanes: u32) -> i64 {
    if size <= SMALL_SIZE && lanes >= MANY_LANES { MOST_APART_OF_SMALL } else { MOST_APART }
}

/// An access as a group of its own, if lanes lie apart and not too far.
fn access(body: &Function, shapes: &Shapes, block: Block, pointer: Value, ty: &Type) -> Option<Group> {
    let (size, count) = (access_size(ty)? as i64, i64::from(ty.lanes()));
    let Shape::Affine { stride: bytes, .. } = shapes.shape_at(pointer, block) else { return None };
    let stride = bytes / size;
    let is_apart = bytes % size == 0 && stride > count && (2..=MOST_APART_OF_SMALL).contains(&stride);
    if !is_apart || leads_to_slot(body, pointer) {
        return None;
    }
    let (place, from) = place(body, pointer);
    let (to, scalar) = (from + size * count, ty.scalar()?);
    Some(Group { place, scalar, size, stride, from, to, fields: count, stored: Vec::new() })
}

/// Where a pointer leads: constant offsets, of the index as well, are counted apart.
pub(super) fn place(body: &Function, mut pointer: Value) -> (Place, i64) {
    let mut bytes: i64 = 0;
    let mut index = None;
    while let Some(&Op::Address { base, index: by, scale, offset, .. }) = body.defining_op(pointer) {
        if let Some(by) = by {
            if index.is_some() {
                break;
            }
            let (terms, more) = summands(body, by);
            index = Some((terms, scale));
            bytes = bytes.wrapping_add(more.wrapping_mul(scale));
        }
        bytes = bytes.wrapping_add(offset);
        pointer = base;
    }
    (Place { base: pointer, index }, bytes)
}

/// A signed index without the constants that are added to it.
fn summands(body: &Function, index: Value) -> (Terms, i64) {
    let (mut value, exact) = match body.defining_op(index) {
        Some(&Op::Cast { op: CastOp::SExt, value, .. }) => (value, true),
        _ => (index, false),
    };
    let (mut found, mut terms) = (Vec::new(), [None; MOST_TERMS]);
    let mut constant = add_summands(body, (value, exact), 0, &mut found);
    if found.len() > MOST_TERMS {
        // Those that are added last are seen in any sum.
        constant = 0;
        while let Some((sum, _, Some(last))) = addends(body, (value, exact)) {
            (value, constant) = (sum, constant.wrapping_add(last));
        }
        found = vec![value];
    }
    found.sort_unstable_by_key(|value| value.index());
    found.into_iter().zip(&mut terms).for_each(|(value, term)| *term = Some(value));
    (terms, constant)
}

/// Adds what a value is the sum of, exactly if it is extended, and returns the constants of that.
fn add_summands(body: &Function, (value, exact): (Value, bool), depth: u32, found: &mut Vec<Value>) -> i64 {
    if let Some(&Op::Cast { op: CastOp::SExt, value, .. }) = body.defining_op(value)
        && !exact
    {
        return add_summands(body, (value, true), depth, found);
    }
    let sum =
        if depth < MOST_DEPTH && found.len() <= MOST_TERMS { addends(body, (value, exact)) } else { None };
    let Some((lhs, rhs, constant)) = sum else {
        found.push(value);
        return 0;
    };
    let more = constant.unwrap_or_else(|| add_summands(body, (rhs, exact), depth + 1, found));
    more.wrapping_add(add_summands(body, (lhs, exact), depth + 1, found))
}

/// The operands of a sum, exact if it is extended, and the second one's number if it is a constant.
fn addends(body: &Function, (value, exact): (Value, bool)) -> Option<(Value, Value, Option<i64>)> {
    let Some(&Op::Binary { op, flags, lhs, rhs }) = body.defining_op(value) else { return None };
    let constant = body.constant_int(rhs).and_then(|constant| signed(body.ty(rhs), constant));
    let is_sum = match op {
        BinaryOp::Add => !exact || flags.0 & Flags::NSW != 0,
        // Bits that were zero: nothing is carried, and the sign stays.
        BinaryOp::Or => flags.0 & Flags::DISJOINT != 0 && constant.is_none_or(|constant| constant >= 0),
        _ => false,
    };
    is_sum.then_some((lhs, rhs, constant))
}

/// A constant of that type as a signed number.
fn signed(ty: &Type, constant: u128) -> Option<i64> {
    let Type::Scalar(Scalar::Int(bits @ 2..=64)) = *ty else { return None };
    let unused = 128 - bits;
    Some(((constant << unused) as i128 >> unused) as i64)
}

impl Widener<'_> {
    /// A load's components, if it is one of a group.
    pub(super) fn interleaved_load(
        &mut self,
        loaded: Value,
        pointer: Value,
        ty: &Type,
        align: u32,
    ) -> Option<Vec<Value>> {
        let &(number, from) = self.facts.groups.of.get(&loaded)?;
        let group = &self.facts.groups.groups[number];
        let scalar = ty.scalar()?;
        let pieces = match self.pieces.get(&number) {
            Some(pieces) => pieces.clone(),
            None => {
                let pieces = self.load_pieces(group, (pointer, from), align);
                self.pieces.insert(number, pieces.clone());
                pieces
            }
        };
        let first = (from - group.from) / group.size;
        Some((0..i64::from(ty.lanes())).map(|c| self.pick(group, &pieces, first + c, scalar)).collect())
    }

    /// The element that a piece begins with: the last one ends where the last lane's last field does, for nothing may lie behind it.
    fn piece_start(&self, group: &Group, piece: i64) -> i64 {
        let lanes = i64::from(self.lanes);
        (piece * lanes).min((lanes - 1) * group.stride + group.span() - lanes)
    }

    fn load_pieces(&mut self, group: &Group, (pointer, from): (Value, i64), align: u32) -> Vec<Value> {
        let first = self.first_lane(pointer);
        let mask = self.mask();
        let align = align.min(group.size as u32);
        (0..group.pieces(self.lanes))
            .map(|piece| {
                let start = self.piece_start(group, piece);
                let mask = mask.map(|mask| self.piece_mask(group, start, mask));
                let pointer = self.offset(first, group.from - from + start * group.size);
                self.load_lanes(self.wide(group.scalar), pointer, mask, align)
            })
            .collect()
    }

    /// Each element is its lane's; what lies between two lanes' fields is nobody's.
    fn piece_mask(&mut self, group: &Group, start: i64, mask: Value) -> Value {
        let lanes = i64::from(self.lanes);
        let lane = |element: i64| {
            let within = element % group.stride < group.span();
            if within { element / group.stride } else { lanes }
        };
        let places: Vec<i32> = (start..start + lanes).map(|element| lane(element) as i32).collect();
        let none = self.constant(self.ty(mask), Constant::Zero);
        self.push(self.ty(mask), Op::Shuffle { first: mask, second: none, mask: places.into() })
    }

    /// All lanes' element of that number.
    fn pick(&mut self, group: &Group, pieces: &[Value], element: i64, scalar: Scalar) -> Value {
        let lanes = i64::from(self.lanes);
        let of_lane = |lane: i64| {
            let wanted = element + lane * group.stride;
            let piece = (wanted / lanes).min(pieces.len() as i64 - 1);
            (piece as usize, wanted - self.piece_start(group, piece))
        };
        let sources: Vec<(usize, i64)> = (0..lanes).map(of_lane).collect();
        let picked = self.picked(pieces, &sources, group.scalar);
        if scalar == group.scalar { picked } else { self.cast(CastOp::BitCast, self.wide(scalar), picked) }
    }

    /// A vector whose elements are found each in one of these vectors, in that place.
    pub(super) fn picked(&mut self, pieces: &[Value], sources: &[(usize, i64)], scalar: Scalar) -> Value {
        let lanes = i64::from(self.lanes);
        let ty = self.wide(scalar);
        let mut picked = self.constant(ty.clone(), Constant::Poison);
        let mut is_first = true;
        for (number, &piece) in pieces.iter().enumerate() {
            if sources.iter().all(|&(source, _)| source != number) {
                continue;
            }
            // The first is shuffled together with the second.
            let places = sources.iter().enumerate().map(|(lane, &(source, at))| match source {
                _ if source == number => (lanes + at) as i32,
                _ if is_first => -1,
                _ => lane as i32,
            });
            let op = Op::Shuffle { first: picked, second: piece, mask: places.collect::<Vec<_>>().into() };
            picked = self.push(ty.clone(), op);
            is_first = false;
        }
        picked
    }
}
