//! Widening: strided accesses, whose lanes' elements all lie as far apart and are no neighbours: a column of a tile, every eighth number,
//! what each lane has in memory of its own. Where all lanes are active, one address serves all of them, and each element is
//! accessed on its own: a gather asks for a vector of addresses and takes it apart again, and scatters do the same. (On Zen 4 a gathered
//! element takes 1.3 cycles, one that is loaded and inserted half a cycle; a scattered one 1.45, one that is extracted and stored .95.)

use super::Widener;
use super::distance::Distance;
use super::memory::{Elements, Pattern, lowest_bit};
use super::whole::piece_of;
use crate::analysis::Shape;
use crate::{BinaryOp, Constant, Function, IntPredicate, Op, Scalar, Type, Value};

/// Accesses of a body, each once for every lane, where they are taken apart: each takes LLVM three instructions.
const MOST_TAKEN_APART: usize = 4_096;

/// Of the longest register.
const REGISTER_BYTES: u64 = 64;
/// Lanes that are put together at once.
const MOST_OF_PART: u32 = 16;

/// Lanes' elements that lie as far apart; component c so many bytes behind component c-1.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    pub first: Value,
    pub stride: Stride,
    pub plane: i64,
}

/// Bytes from a lane's element to the next one's.
#[derive(Clone, Copy)]
pub(super) enum Stride {
    Known(i64),
    /// The number that says it.
    By(Value),
}

/// Whether a body has so few accesses that those of so many lanes may be taken apart.
pub(super) fn may_be_taken_apart(body: &Function, lanes: u32) -> bool {
    let accesses = body.insts().filter_map(|inst| match body.op(inst) {
        Op::Load { .. } => body.result(inst),
        Op::Store { value, .. } => Some(*value),
        _ => None,
    });
    let elements: usize = accesses.map(|value| body.ty(value).lanes() as usize).sum();
    elements * lanes as usize <= MOST_TAKEN_APART
}

impl Widener<'_> {
    /// Whether elements that lie so far apart are accessed one by one.
    pub(super) fn is_one_by_one(&self, pointer: Value, elements: Elements, stride: i64) -> bool {
        stride != 0 && elements.neighbours(stride).is_none() && self.may_be_one_by_one(pointer, elements)
    }

    /// Whether elements that are no neighbours are: not those that are accessed in pieces.
    fn may_be_one_by_one(&self, pointer: Value, Elements { size, count, .. }: Elements) -> bool {
        self.facts.is_small
            && !self.facts.slots.is_interleaved(pointer)
            && piece_of(self.body, pointer, (size as u64, count), self.lanes).is_none()
    }

    /// An access by a pointer whose lanes are as far apart as is known, or found out, and no neighbours: one by one where all lanes are
    /// active. None if it is none.
    pub(super) fn by_stride(
        &mut self,
        pointer: Value,
        elements: Elements,
        mut access: impl FnMut(&mut Self, Pattern) -> Vec<Value>,
    ) -> Option<Vec<Value>> {
        let distance = match self.shape(pointer) {
            Shape::Affine { stride, .. } if self.is_one_by_one(pointer, elements, stride) => {
                Distance::Known(stride)
            }
            Shape::Varying if self.may_be_one_by_one(pointer, elements) => {
                Distance::of(self.body, &self.facts.shapes, pointer, self.user)?
            }
            _ => return None,
        };
        let strided = |widener: &mut Self| {
            let first = widener.first_of(pointer);
            let stride = match distance {
                Distance::Known(stride) => Stride::Known(stride),
                ref other => Stride::By(widener.distance(other)),
            };
            Pattern::Strided(Strided { first, stride, plane: elements.size })
        };
        let Some(all) = self.all_active() else {
            let strided = strided(self);
            return Some(access(self, strided));
        };
        Some(self.two_ways(all, |widener, all| {
            let pattern = match all {
                true => strided(widener),
                false => Pattern::Scattered(widener.lanes_of(pointer)[0], elements.size),
            };
            access(widener, pattern)
        }))
    }

    /// Whether all lanes are active, where that has to be asked.
    pub(super) fn all_active(&mut self) -> Option<Value> {
        self.mask()?;
        let (active, all) = (self.active_bits(), self.all_bits());
        Some(self.compare(IntPredicate::Eq, active, all))
    }

    /// One component of all lanes, which are active.
    pub(super) fn load_strided(&mut self, at: Strided, component: u32, scalar: Scalar, align: u32) -> Value {
        let pointers = self.strided_pointers(at, component, align);
        let mut parts = Vec::new();
        for pointers in pointers.chunks(self.register_lanes(scalar) as usize) {
            let ty = Type::Vector(scalar, pointers.len() as u32);
            let mut part = self.constant(ty, Constant::Poison);
            for (lane, &(pointer, align)) in pointers.iter().enumerate() {
                let op = Op::Load { pointer, align, volatile: false, ordering: None };
                let element = self.push(Type::Scalar(scalar), op);
                part = self.with_element(part, element, lane as u32);
            }
            parts.push(part);
        }
        self.end_to_end(parts)
    }

    /// Lanes of a part that fits a register: LLVM takes long to put longer vectors together, or take them apart.
    fn register_lanes(&self, scalar: Scalar) -> u32 {
        ((REGISTER_BYTES * 8 / scalar.bits().max(1)) as u32).min(MOST_OF_PART).min(self.lanes)
    }

    /// The same to be stored.
    pub(super) fn store_strided(&mut self, at: Strided, component: u32, vector: Value, align: u32) {
        let scalar = self.ty(vector).scalar().unwrap_or(Scalar::Int(8));
        let pointers = self.strided_pointers(at, component, align);
        let length = self.register_lanes(scalar);
        for (number, pointers) in pointers.chunks(length as usize).enumerate() {
            let places: Vec<i32> = (0..length).map(|lane| (number as u32 * length + lane) as i32).collect();
            let op = Op::Shuffle { first: vector, second: vector, mask: places.into() };
            let part =
                if length == self.lanes { vector } else { self.push(Type::Vector(scalar, length), op) };
            for (lane, &(pointer, align)) in pointers.iter().enumerate() {
                let index = self.constant(Type::I32, Constant::Int(lane as u128));
                let value = self.push(Type::Scalar(scalar), Op::ExtractElement { vector: part, index });
                let op = Op::Store { pointer, value, align, volatile: false, ordering: None };
                self.out.function.push_effect(self.at, op);
            }
        }
    }

    /// Each lane's, and how it is aligned.
    fn strided_pointers(&mut self, at: Strided, component: u32, align: u32) -> Vec<(Value, u32)> {
        let plane = at.plane * i64::from(component);
        let aligned = |bytes: i64| if bytes == 0 { align } else { align.min(lowest_bit(bytes)) };
        match at.stride {
            Stride::Known(stride) => (0..i64::from(self.lanes))
                .map(|lane| (self.offset(at.first, stride * lane + plane), aligned(stride * lane + plane)))
                .collect(),
            Stride::By(stride) => {
                let three = self.constant(Type::I64, Constant::Int(3));
                let three = self.binary(BinaryOp::Mul, stride, three);
                let mut base = self.offset(at.first, plane);
                // Four by each base: processors add a number that they scale.
                let mut pointers = vec![(base, aligned(plane))];
                for lane in 1..self.lanes {
                    let (index, scale) = match lane % 4 {
                        0 => (stride, 4),
                        3 => (three, 1),
                        scale => (stride, i64::from(scale)),
                    };
                    let op = Op::Address { base, index: Some(index), scale, offset: 0, inbounds: false };
                    let pointer = self.push(self.ty(base), op);
                    pointers.push((pointer, align.min(lowest_bit(at.plane))));
                    base = if scale == 4 { pointer } else { base };
                }
                pointers
            }
        }
    }
}
