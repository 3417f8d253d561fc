//! Widening: loads and stores. Neighbours become one wide access, the rest gathers and scatters. No lane touches what its
//! work-item would not.

use super::Widener;
use super::slots::access_size;
use super::strided::Strided;
use super::values::components;
use super::whole::goes_in_pieces;
use super::wrapping::Wrapping;
use crate::ContextSlot;
use crate::analysis::Shape;
use crate::transform::ContextKind;
use crate::{CastOp, Constant, Op, Scalar, Type, Value};

/// How the lanes' accesses to a scalar or vector lie in memory.
pub(super) enum Pattern {
    /// Each lane's components follow on those of the lane before; so many elements for each lane.
    Block(Value, u32),
    /// Each lane's components begin so many elements, fewer than there are, behind those of the lane before: a window that slides.
    Overlapping(Value, u32),
    /// Component c of all lanes lies together, so many bytes behind component c-1 of all lanes.
    Planes(Value, i64),
    /// Each lane's element of so many bytes lies in front of that of the lane before.
    Backwards(Value, i64),
    /// Each lane's element lies as far behind that of the lane before, and all lanes are active.
    Strided(Strided),
    /// Anywhere: a vector of pointers, bytes to the next component.
    Scattered(Value, i64),
}

/// An access of each lane to so many elements of so many bytes, or to a number of them with padding or others between.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    pub size: i64,
    pub count: u32,
    pub padded: Option<u32>,
}

/// Elements that follow on those of the lane before.
#[derive(Clone, Copy)]
pub(super) enum Neighbours {
    /// One of each lane, of so many bytes.
    Single(i64),
    /// The same in front of that of the lane before.
    Backwards(i64),
    /// So many of each lane.
    Several(u32),
    /// The same, behind which each lane has more, that are the next one's as well.
    Overlapping(u32),
}

impl Elements {
    /// How lanes that lie so many bytes apart access neighbours; none if they don't.
    pub fn neighbours(self, stride: i64) -> Option<Neighbours> {
        if stride.abs() == self.size && self.count == 1 {
            let is_backwards = stride < 0;
            return Some(if is_backwards { Neighbours::Backwards } else { Neighbours::Single }(self.size));
        }
        let fits = |n: &u32| stride == self.size * i64::from(*n);
        let several = [Some(self.count), self.padded].into_iter().flatten().find(fits);
        let overlapping = || (1..self.count).find(fits).map(Neighbours::Overlapping);
        several.map(Neighbours::Several).or_else(overlapping)
    }
}

/// Bytes of the numbers that small vectors may be accessed as.
const WORDS: [u64; 3] = [2, 4, 8];

/// The number that a vector is accessed as where lanes' lie apart, `uchar4` as an `int`: one element of each lane instead of one for each
/// component.
pub(super) fn word(scalar: Scalar, count: u32) -> Option<Scalar> {
    let bits = scalar.bits() * u64::from(count);
    let is_one = count.is_power_of_two() && count > 1 && scalar.bits() >= 8;
    (is_one && WORDS.contains(&(bits / 8))).then_some(Scalar::Int(bits as u32))
}

impl Pattern {
    /// Whether lanes' elements of so many bytes lie apart, but each lane's follow on each other.
    fn is_apart(&self, size: i64) -> bool {
        match self {
            Pattern::Scattered(_, plane) | Pattern::Strided(Strided { plane, .. }) => *plane == size,
            _ => false,
        }
    }
}

impl Neighbours {
    pub fn from(self, first: Value) -> Pattern {
        match self {
            Neighbours::Single(size) => Pattern::Planes(first, size),
            Neighbours::Backwards(size) => Pattern::Backwards(first, size),
            Neighbours::Several(elements) => Pattern::Block(first, elements),
            Neighbours::Overlapping(step) => Pattern::Overlapping(first, step),
        }
    }
}

/// Whether a block of so many elements for each lane is accessed in pieces of as many elements as there are lanes: LLVM takes shuffles apart
/// that are no powers of two long.
pub(super) fn is_cut(elements: u32) -> bool {
    !elements.is_power_of_two()
}

impl Widener<'_> {
    fn pattern(&mut self, pointer: Value, elements: Elements) -> Pattern {
        let size = elements.size;
        let interleaved = self.facts.slots.is_interleaved_by(pointer, size);
        let plane = if interleaved { size * i64::from(self.lanes) } else { size };
        if let Shape::Affine { stride, .. } = self.shape(pointer) {
            let first = self.first_lane(pointer);
            let neighbours = match interleaved {
                true => (stride == size).then_some(Pattern::Planes(first, plane)),
                false => elements.neighbours(stride).map(|neighbours| neighbours.from(first)),
            };
            if let Some(pattern) = neighbours {
                return pattern;
            }
        }
        Pattern::Scattered(self.lanes_of(pointer)[0], plane)
    }

    pub(super) fn offset(&mut self, pointer: Value, bytes: i64) -> Value {
        if bytes == 0 {
            return pointer;
        }
        let op = Op::Address { base: pointer, index: None, scale: 1, offset: bytes, inbounds: false };
        self.push(self.ty(pointer), op)
    }

    /// A vector load of consecutive elements or a gather, by the pointer's type.
    pub(super) fn load_lanes(&mut self, ty: Type, pointer: Value, mask: Option<Value>, align: u32) -> Value {
        let wide = matches!(self.ty(pointer), Type::Vector(..));
        match mask {
            None if !wide => self.push(ty, Op::Load { pointer, align, volatile: false, ordering: None }),
            mask => {
                let mask = mask.unwrap_or_else(|| self.all_lanes(ty.lanes()));
                self.push(ty, Op::MaskedLoad { pointer, mask, align })
            }
        }
    }

    fn store_lanes(&mut self, value: Value, pointer: Value, mask: Option<Value>, align: u32) {
        let wide = matches!(self.ty(pointer), Type::Vector(..));
        let op = match mask {
            None if !wide => Op::Store { pointer, value, align, volatile: false, ordering: None },
            mask => {
                let lanes = self.ty(value).lanes();
                let mask = mask.unwrap_or_else(|| self.all_lanes(lanes));
                Op::MaskedStore { pointer, value, mask, align }
            }
        };
        self.out.function.push_effect(self.at, op);
    }

    pub(super) fn all_lanes(&mut self, lanes: u32) -> Value {
        let all = Constant::Elements(vec![(Type::BOOL, Constant::Int(1)); lanes as usize]);
        self.constant(Type::Vector(Scalar::Int(1), lanes), all)
    }

    /// Each lane's bit once for every element that it accesses.
    fn repeat_mask(&mut self, mask: Option<Value>, elements: u32, used: u32) -> Option<Value> {
        if mask.is_none() && used == elements {
            return None;
        }
        let lanes = self.lanes;
        let ty = Type::Vector(Scalar::Int(1), lanes * elements);
        let first = mask.unwrap_or_else(|| self.all_lanes(lanes));
        if let Some(&repeated) = self.repeated.get(&(self.user, first, elements)).filter(|_| used == elements)
        {
            return Some(repeated);
        }
        let none = self.constant(self.ty(first), Constant::Zero);
        let places = (0..lanes)
            .flat_map(|l| (0..elements).map(move |e| if e < used { l as i32 } else { lanes as i32 }));
        let places: Vec<i32> = places.collect();
        Some(self.push(ty, Op::Shuffle { first, second: none, mask: places.into() }))
    }

    /// An access in the way in which the lanes lie, or in two ways if that depends on an index.
    pub(super) fn by_pattern(
        &mut self,
        pointer: Value,
        elements: Elements,
        mut access: impl FnMut(&mut Self, Pattern) -> Vec<Value>,
    ) -> Vec<Value> {
        // In front of all branches: one mask serves all accesses of a block.
        if let (Some(mask), count @ 2..) = (self.mask(), elements.count)
            && let Some(repeated) = self.repeat_mask(Some(mask), count, count)
        {
            self.repeated.insert((self.user, mask, count), repeated);
        }
        if let Some(parts) = self.unless_wrapping(pointer, elements, &mut access) {
            return parts;
        }
        if let Some(parts) = self.if_bits_are_in_order(pointer, elements, &mut access) {
            return parts;
        }
        if let Some(parts) = self.by_stride(pointer, elements, &mut access) {
            return parts;
        }
        let pattern = self.pattern(pointer, elements);
        access(self, pattern)
    }

    /// None if it must be instantiated for each lane.
    pub(super) fn load(&mut self, pointer: Value, ty: &Type, align: u32) -> Option<Vec<Value>> {
        let size = access_size(ty)? as i64;
        let count = ty.lanes();
        ty.scalar()?;
        if let Some(found) = self.look_up(pointer, ty) {
            return Some(found);
        }
        // A vector of three may be read with its padding where it is aligned as a whole.
        let padded = (count == 3 && i64::from(align) >= 4 * size).then_some(4);
        let is_apart = || {
            let may_be = count == 1 && self.shape(pointer) == Shape::Varying;
            let way = may_be.then(|| Wrapping::of(self.body, &self.facts.shapes, pointer, self.user));
            way.flatten()?.elements_apart(size, self.lanes)
        };
        let padded = padded.or_else(is_apart);
        let elements = Elements { size, count, padded };
        Some(self.by_pattern(pointer, elements, |widener, pattern| {
            widener.load_pattern(pointer, pattern, ty, align)
        }))
    }

    /// A load's components.
    pub(super) fn load_pattern(
        &mut self,
        pointer: Value,
        pattern: Pattern,
        ty: &Type,
        align: u32,
    ) -> Vec<Value> {
        let (scalar, count) = (ty.scalar().unwrap_or(Scalar::Int(8)), ty.lanes());
        let pieces = goes_in_pieces(self.body, pointer, ty, self.lanes);
        match pieces.filter(|&piece| pattern.is_loaded_whole(count, piece)) {
            Some(piece) => self.load_whole(pointer, (scalar, count), piece, align),
            None => self.load_by(pattern, (scalar, count), align),
        }
    }

    /// Of a block of so many elements for each lane, of which so many are used, a piece of as many as there are lanes: where it lies, which
    /// of its elements are accessed, and how it is aligned.
    fn piece(
        &mut self,
        first: Value,
        (piece, elements, used): (u32, u32, u32),
        (scalar, align): (Scalar, u32),
    ) -> (Value, Option<Value>, u32) {
        let bytes = i64::from(piece * self.lanes) * scalar.bits().div_ceil(8) as i64;
        let pointer = self.offset(first, bytes);
        let align = if piece == 0 { align } else { align.min(lowest_bit(bytes)) };
        if self.mask().is_none() && used == elements {
            return (pointer, None, align);
        }
        let lanes = self.lanes;
        let mask = self.mask().unwrap_or_else(|| self.all_lanes(lanes));
        let none = self.constant(self.ty(mask), Constant::Zero);
        let lane = |e: u32| if e % elements < used { e / elements } else { lanes };
        let places: Vec<i32> = (piece * lanes..(piece + 1) * lanes).map(|e| lane(e) as i32).collect();
        let op = Op::Shuffle { first: mask, second: none, mask: places.into() };
        (pointer, Some(self.push(self.ty(mask), op)), align)
    }

    /// All lanes' elements, in memory's order.
    pub(super) fn load_block(
        &mut self,
        first: Value,
        (scalar, elements): (Scalar, u32),
        align: u32,
    ) -> Value {
        self.load_part_of_block(first, (scalar, elements, elements), align)
    }

    /// The same, but of each lane the first so many.
    fn load_part_of_block(
        &mut self,
        first: Value,
        (scalar, elements, used): (Scalar, u32, u32),
        align: u32,
    ) -> Value {
        let mask = self.mask();
        let mask = self.repeat_mask(mask, elements, used);
        self.load_lanes(Type::Vector(scalar, self.lanes * elements), first, mask, align)
    }

    /// The same of each lane: of a block, the component of that number.
    pub(super) fn every(&mut self, block: Value, component: u32, elements: u32) -> Value {
        let any = self.constant(self.ty(block), Constant::Poison);
        let places: Vec<i32> = (0..self.lanes).map(|l| (l * elements + component) as i32).collect();
        let ty = self.wide(self.ty(block).scalar().unwrap_or(Scalar::Int(8)));
        self.push(ty, Op::Shuffle { first: block, second: any, mask: places.into() })
    }

    /// Components of windows that slide by fewer elements than they have: blocks without gaps, of which the last begins so early that nothing is read behind
    /// the last lane's.
    fn load_overlapping(
        &mut self,
        (first, step): (Value, u32),
        (scalar, count): (Scalar, u32),
        align: u32,
    ) -> Vec<Value> {
        let mut components = Vec::new();
        while (components.len() as u32) < count {
            let known = components.len() as u32;
            let from = known.min(count - step);
            let (block, align) = self.window(first, (from, step), scalar, align);
            let loaded = self.load_by(block, (scalar, step), align);
            components.extend(loaded.into_iter().skip((known - from) as usize));
        }
        components
    }

    /// The block of components from that one on of windows that slide by so many elements, and how it is aligned.
    fn window(
        &mut self,
        first: Value,
        (from, step): (u32, u32),
        scalar: Scalar,
        align: u32,
    ) -> (Pattern, u32) {
        let size = bytes_of(scalar);
        let at = self.offset(first, size * i64::from(from));
        let align = if from == 0 { align } else { align.min(lowest_bit(size * i64::from(from))) };
        (if step == 1 { Pattern::Planes(at, size) } else { Pattern::Block(at, step) }, align)
    }

    fn load_by(&mut self, pattern: Pattern, (scalar, count): (Scalar, u32), align: u32) -> Vec<Value> {
        if let Some(word) = word(scalar, count).filter(|_| pattern.is_apart(bytes_of(scalar))) {
            let words = self.load_by(pattern, (word, 1), align);
            let ty = Type::Vector(scalar, self.lanes * count);
            let block = self.cast(CastOp::BitCast, ty, words[0]);
            return (0..count).map(|c| self.every(block, c, count)).collect();
        }
        let mask = self.mask();
        let wide = self.wide(scalar);
        let element_align = |c: u32, plane: i64| if c == 0 { align } else { align.min(lowest_bit(plane)) };
        // What lies behind the last one is nobody's, but for the padding of a vector.
        let used = |elements: u32| if count == 1 { 1 } else { elements };
        match pattern {
            Pattern::Block(first, elements) if is_cut(elements) => {
                let pieces: Vec<Value> = (0..elements)
                    .map(|piece| {
                        let (pointer, mask, align) =
                            self.piece(first, (piece, elements, used(elements)), (scalar, align));
                        self.load_lanes(wide.clone(), pointer, mask, align)
                    })
                    .collect();
                let place = |element: u32| ((element / self.lanes) as usize, i64::from(element % self.lanes));
                let of_component = |c: u32| (0..self.lanes).map(|l| place(l * elements + c)).collect();
                let sources: Vec<Vec<(usize, i64)>> = (0..count).map(of_component).collect();
                sources.iter().map(|sources| self.picked(&pieces, sources, scalar)).collect()
            }
            Pattern::Block(first, elements) => {
                let block = self.load_part_of_block(first, (scalar, elements, used(elements)), align);
                (0..count).map(|c| self.every(block, c, elements)).collect()
            }
            Pattern::Overlapping(first, step) => self.load_overlapping((first, step), (scalar, count), align),
            Pattern::Backwards(first, size) => {
                let (last, mask) = self.last_lane_first(first, size, mask);
                let loaded = self.load_lanes(wide, last, mask, align);
                vec![self.reversed(loaded)]
            }
            Pattern::Strided(at) => (0..count).map(|c| self.load_strided(at, c, scalar, align)).collect(),
            Pattern::Planes(first, plane) | Pattern::Scattered(first, plane) => (0..count)
                .map(|c| {
                    let pointer = self.offset(first, plane * i64::from(c));
                    self.load_lanes(wide.clone(), pointer, mask, element_align(c, plane))
                })
                .collect(),
        }
    }

    pub(super) fn store(&mut self, pointer: Value, value: Value, align: u32) {
        let ty = self.body.ty(value).clone();
        let op = Op::Store { pointer, value, align, volatile: false, ordering: None };
        if self.is_uniform(pointer) && self.is_uniform(value) {
            let (pointer, value) = (self.first_lane(pointer), self.first_lane(value));
            let op = Op::Store { pointer, value, align, volatile: false, ordering: None };
            self.out.function.push_effect(self.at, op);
            return;
        }
        let (Some(size), false) = (access_size(&ty), self.is_uniform(pointer)) else {
            self.instantiate(&op, None);
            return;
        };
        if self.store_in_order(pointer, value, align) {
            return;
        }
        let (size, count) = (size as i64, ty.lanes());
        let lanes = self.lanes_of(value);
        self.by_pattern(pointer, Elements { size, count, padded: None }, |widener, pattern| {
            widener.store_pattern(pointer, pattern, &ty, (&lanes, false), align, |widener, pattern| {
                widener.store_by(pattern, &lanes, align);
            });
            Vec::new()
        });
    }

    /// A store in pieces where that pays, or in another way.
    pub(super) fn store_pattern(
        &mut self,
        pointer: Value,
        pattern: Pattern,
        ty: &Type,
        (parts, in_order): (&[Value], bool),
        align: u32,
        otherwise: impl FnOnce(&mut Self, Pattern),
    ) {
        let pieces = goes_in_pieces(self.body, pointer, ty, self.lanes);
        match pieces.filter(|&piece| pattern.is_stored_whole((ty.lanes(), self.lanes), piece)) {
            Some(piece) => {
                self.store_whole(pointer, (parts, in_order), piece, align, |widener| {
                    otherwise(widener, pattern)
                });
            }
            None => otherwise(self, pattern),
        }
    }

    /// All lanes' elements, in memory's order, of which each lane has so many.
    pub(super) fn store_block(&mut self, block: Value, first: Value, elements: u32, align: u32) {
        let mask = self.mask();
        let mask = self.repeat_mask(mask, elements, elements);
        self.store_lanes(block, first, mask, align);
    }

    pub(super) fn store_by(&mut self, pattern: Pattern, lanes: &[Value], align: u32) {
        let (scalar, count) = (self.ty(lanes[0]).scalar().unwrap_or(Scalar::Int(8)), lanes.len() as u32);
        if let Some(word) = word(scalar, count).filter(|_| pattern.is_apart(bytes_of(scalar))) {
            let value = self.interleave(lanes, count);
            let words = self.cast(CastOp::BitCast, self.wide(word), value);
            return self.store_by(pattern, &[words], align);
        }
        let mask = self.mask();
        match pattern {
            Pattern::Block(first, elements) if is_cut(elements) => {
                for piece in 0..elements {
                    let of_all = piece * self.lanes..(piece + 1) * self.lanes;
                    let place = |e: u32| ((e % elements) as usize, i64::from(e / elements));
                    let sources: Vec<(usize, i64)> = of_all.map(place).collect();
                    let value = self.picked(lanes, &sources, scalar);
                    let (pointer, mask, align) = self.piece(first, (piece, elements, count), (scalar, align));
                    self.store_lanes(value, pointer, mask, align);
                }
            }
            Pattern::Block(first, elements) => {
                let block = self.interleave(lanes, elements);
                let mask = self.repeat_mask(mask, elements, count);
                self.store_lanes(block, first, mask, align);
            }
            Pattern::Overlapping(first, step) => {
                for (number, lanes) in lanes.chunks(step as usize).enumerate() {
                    let (block, align) = self.window(first, (number as u32 * step, step), scalar, align);
                    self.store_by(block, lanes, align);
                }
            }
            Pattern::Backwards(first, size) => {
                let (last, mask) = self.last_lane_first(first, size, mask);
                let value = self.reversed(lanes[0]);
                self.store_lanes(value, last, mask, align);
            }
            Pattern::Strided(at) => {
                for (c, &lane) in lanes.iter().enumerate() {
                    self.store_strided(at, c as u32, lane, align);
                }
            }
            Pattern::Planes(first, plane) | Pattern::Scattered(first, plane) => {
                for (c, &lane) in lanes.iter().enumerate() {
                    let pointer = self.offset(first, plane * c as i64);
                    let align = if c == 0 { align } else { align.min(lowest_bit(plane)) };
                    self.store_lanes(lane, pointer, mask, align);
                }
            }
        }
    }

    /// Where the last lane's element lies if each lies in front of that of the lane before, and the mask in that order.
    fn last_lane_first(&mut self, first: Value, size: i64, mask: Option<Value>) -> (Value, Option<Value>) {
        let last = self.offset(first, -size * i64::from(self.lanes - 1));
        (last, mask.map(|mask| self.reversed(mask)))
    }

    /// The last lane first.
    fn reversed(&mut self, vector: Value) -> Value {
        let any = self.constant(self.ty(vector), Constant::Poison);
        let places: Vec<i32> = (0..self.lanes as i32).rev().collect();
        self.push(self.ty(vector), Op::Shuffle { first: vector, second: any, mask: places.into() })
    }

    /// Vectors laid end to end, pair by pair, and any value behind them up to a power of two.
    pub(super) fn end_to_end(&mut self, mut parts: Vec<Value>) -> Value {
        let scalar = self.ty(parts[0]).scalar().unwrap_or(Scalar::Int(8));
        let any = self.constant(self.ty(parts[0]), Constant::Poison);
        parts.resize(parts.len().next_power_of_two(), any);
        while parts.len() > 1 {
            let width = self.ty(parts[0]).lanes();
            let order: Vec<i32> = (0..2 * width as i32).collect();
            parts = parts
                .chunks(2)
                .map(|pair| {
                    let op = Op::Shuffle { first: pair[0], second: pair[1], mask: order.clone().into() };
                    self.push(Type::Vector(scalar, 2 * width), op)
                })
                .collect();
        }
        parts[0]
    }

    /// One vector of all lanes' components, lane by lane, with any value behind each lane's own up to `elements`.
    pub(super) fn interleave(&mut self, parts: &[Value], elements: u32) -> Value {
        let scalar = self.ty(parts[0]).scalar().unwrap_or(Scalar::Int(8));
        let all = self.end_to_end(parts.to_vec());
        let any = self.constant(self.ty(all), Constant::Poison);
        let places: Vec<i32> = (0..self.lanes)
            .flat_map(|l| {
                let lanes = self.lanes;
                let count = parts.len() as u32;
                (0..elements).map(move |c| if c < count { (c * lanes + l) as i32 } else { -1 })
            })
            .collect();
        let ty = Type::Vector(scalar, self.lanes * elements);
        self.push(ty, Op::Shuffle { first: all, second: any, mask: places.into() })
    }

    /// Elements that a varying context slot keeps for each lane; none if its lanes can't be loaded together.
    pub(super) fn context_elements(kind: &ContextKind) -> Option<u32> {
        let (ContextKind::Varying(ty) | ContextKind::Affine { ty, .. }) = kind else { return None };
        match ty {
            Type::Scalar(_) => Some(1),
            Type::Vector(s, _) if access_size(ty).is_some() => Some((ty.size() * 8 / s.bits()) as u32),
            _ => None,
        }
    }

    pub(super) fn context_load(&mut self, slot: ContextSlot, scalars: &[Scalar]) -> Vec<Value> {
        if let Some(argument) = self.arguments.get(slot.0 as usize) {
            return argument.clone();
        }
        let elements = Self::context_elements(self.context_kind(slot)).unwrap_or(1);
        let block = self.push(Type::Vector(scalars[0], self.lanes * elements), Op::ContextLoad(slot));
        if elements == 1 {
            return vec![block];
        }
        (0..scalars.len() as u32).map(|c| self.every(block, c, elements)).collect()
    }

    /// The thread's own memory: what inactive lanes keep is written back.
    pub(super) fn context_store(&mut self, slot: ContextSlot, value: Value) {
        if matches!(self.context_kind(slot), ContextKind::Uniform(_)) {
            let value = self.one_lane(value);
            self.out.function.push_effect(self.at, Op::ContextStore(slot, value));
            return;
        }
        if let ContextKind::Reduction(op, _) = *self.context_kind(slot) {
            let lanes = self.active_or_identity(op, value);
            self.out.function.push_effect(self.at, Op::ContextStore(slot, lanes));
            return;
        }
        let elements = Self::context_elements(self.context_kind(slot)).unwrap_or(1);
        let mut lanes = self.lanes_of(value);
        // Of an affine one the first lane's is asked for, active or not.
        let is_affine = matches!(self.context_kind(slot), ContextKind::Affine { .. });
        if let (Some(mask), false) = (self.mask(), is_affine) {
            let scalars = components(self.body.ty(value));
            let old = self.context_load(slot, &scalars);
            lanes = lanes.into_iter().zip(old).map(|(new, old)| self.select(mask, new, old)).collect();
        }
        let block = if elements == 1 { lanes[0] } else { self.interleave(&lanes, elements) };
        self.out.function.push_effect(self.at, Op::ContextStore(slot, block));
    }
}

fn bytes_of(scalar: Scalar) -> i64 {
    scalar.bits().div_ceil(8) as i64
}

pub(super) fn lowest_bit(bytes: i64) -> u32 {
    1 << bytes.trailing_zeros().min(7)
}
