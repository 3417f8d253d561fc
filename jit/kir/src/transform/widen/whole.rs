//! Widening: vectors that each lane loads from anywhere, or stores to. Each lane's is loaded as it lies in pieces, and these are
//! transposed in registers; what is stored is transposed before.

use super::Widener;
use super::memory::{Pattern, is_cut};
use super::slots::{access_size, leads_to_slot};
use crate::analysis::Shape;
use crate::{Constant, Function, Op, Scalar, Target, Terminator, Type, Value};

/// Within such a part of a register elements change places by one instruction on every processor.
pub(super) const PIECE_BYTES: u64 = 16;

/// Elements of a piece, if vectors of that type are loaded in pieces by so many lanes.
pub(super) fn piece_elements(ty: &Type, lanes: u32) -> Option<u32> {
    let Type::Vector(_, count) = *ty else { return None };
    elements_of_piece((access_size(ty)?, count), lanes)
}

fn elements_of_piece((size, count): (u64, u32), lanes: u32) -> Option<u32> {
    let elements = (PIECE_BYTES / size) as u32;
    (count.is_multiple_of(elements) && lanes.is_multiple_of(elements)).then_some(elements)
}

/// The same for an access by a pointer.
pub(super) fn goes_in_pieces(body: &Function, pointer: Value, ty: &Type, lanes: u32) -> Option<u32> {
    piece_elements(ty, lanes).filter(|_| !leads_to_slot(body, pointer))
}

/// The same of vectors of so many elements of so many bytes.
pub(super) fn piece_of(
    body: &Function,
    pointer: Value,
    (size, count): (u64, u32),
    lanes: u32,
) -> Option<u32> {
    let several = Some(count).filter(|count| *count > 1)?;
    elements_of_piece((size, several), lanes).filter(|_| !leads_to_slot(body, pointer))
}

/// A part of a register that is stored on its own: the lane that it is of, and which of its pieces.
type Section = (u32, u32);

/// Blocks of so many elements are put together by one shuffle: it takes fewer stores than the lanes' own pieces.
const MOST_SHUFFLED: u32 = 128;

impl Pattern {
    /// Whether so many elements are loaded in pieces of so many for each lane. Of a block of few pieces, all is picked out at once.
    pub fn is_loaded_whole(&self, count: u32, piece: u32) -> bool {
        match self {
            Pattern::Block(..) => count > 2 * piece,
            Pattern::Planes(..) | Pattern::Overlapping(..) | Pattern::Backwards(..) => false,
            Pattern::Scattered(..) | Pattern::Strided(..) => true,
        }
    }

    /// Whether so many elements of so many lanes are stored in pieces of so many.
    pub fn is_stored_whole(&self, (count, lanes): (u32, u32), piece: u32) -> bool {
        match self {
            Pattern::Block(_, elements) if is_cut(*elements) => count > 2 * piece,
            Pattern::Block(..) => count * lanes > MOST_SHUFFLED,
            Pattern::Planes(..) | Pattern::Overlapping(..) | Pattern::Backwards(..) => false,
            Pattern::Scattered(..) | Pattern::Strided(..) => true,
        }
    }
}

impl Widener<'_> {
    /// A load's components, in pieces of so many elements. Some lane is active.
    pub(super) fn load_whole(
        &mut self,
        pointer: Value,
        (scalar, count): (Scalar, u32),
        elements: u32,
        align: u32,
    ) -> Vec<Value> {
        let mask = self.mask();
        let pointers = self.lane_pointers(pointer, mask);
        let (pieces, piece) = (count / elements, Type::Vector(scalar, elements));
        let mut rows: Vec<Vec<Value>> = vec![Vec::new(); pieces as usize];
        // All of a lane's pieces follow on each other: they lie in the same line.
        for first in 0..elements {
            for (number, row) in rows.iter_mut().enumerate() {
                let at = number as i64 * PIECE_BYTES as i64;
                let lanes = (first..self.lanes).step_by(elements as usize);
                let loaded: Vec<Value> = lanes
                    .map(|lane| {
                        let pointer = self.offset(pointers[lane as usize], at);
                        let align = if number == 0 { align } else { align.min(PIECE_BYTES as u32) };
                        self.load_lanes(piece.clone(), pointer, None, align)
                    })
                    .collect();
                row.push(self.end_to_end(loaded));
            }
        }
        rows.into_iter().flat_map(|row| self.transpose(row, elements)).collect()
    }

    /// Stores each lane's vector in pieces of so many elements, if all lanes are active, and else by the pattern. The vectors' components
    /// have a register each, or registers lie `in_order` of memory.
    pub(super) fn store_whole(
        &mut self,
        pointer: Value,
        (parts, in_order): (&[Value], bool),
        elements: u32,
        align: u32,
        by_pattern: impl FnOnce(&mut Self),
    ) {
        let Some(condition) = self.all_active() else {
            return self.store_pieces(pointer, (parts, in_order), elements, align);
        };
        let [whole, partly, done] = std::array::from_fn(|_| self.out.add_block());
        let (then, otherwise) = (Target::to(whole), Target::to(partly));
        self.out.end(self.at, Terminator::Branch { condition, then, otherwise });
        self.out.close(whole);
        self.out.close(partly);
        self.at = whole;
        self.store_pieces(pointer, (parts, in_order), elements, align);
        self.out.jump(self.at, done);
        self.at = partly;
        by_pattern(self);
        self.out.jump(self.at, done);
        self.out.close(done);
        self.at = done;
    }

    fn store_pieces(
        &mut self,
        pointer: Value,
        (parts, in_order): (&[Value], bool),
        elements: u32,
        align: u32,
    ) {
        let (count, lanes) = (parts.len() as u32, self.lanes);
        let pointers = self.lane_pointers(pointer, None);
        let registers: Vec<Value> = match in_order {
            true => parts.to_vec(),
            false => {
                let pieces = parts.chunks(elements as usize);
                pieces.flat_map(|piece| self.transpose(piece.to_vec(), elements)).collect()
            }
        };
        let section = |register: u32, section: u32| -> Section {
            let element = register * lanes + section * elements;
            match in_order {
                true => (element / count, element % count / elements),
                false => (section * elements + register % elements, register / elements),
            }
        };
        let of_register = |register: u32| (0..lanes / elements).map(move |number| (register, number));
        let mut sections: Vec<(Section, (u32, u32))> =
            (0..count).flat_map(of_register).map(|(r, number)| (section(r, number), (r, number))).collect();
        // All of a lane's pieces follow on each other: they lie in the same line.
        sections.sort_unstable();
        for ((lane, piece), (register, number)) in sections {
            let first = registers[register as usize];
            let places = (number * elements..(number + 1) * elements).map(|place| place as i32);
            let ty = Type::Vector(self.ty(first).scalar().unwrap_or(Scalar::Int(8)), elements);
            let op = Op::Shuffle { first, second: first, mask: places.collect::<Vec<_>>().into() };
            let value = self.push(ty, op);
            let pointer = self.offset(pointers[lane as usize], i64::from(piece) * PIECE_BYTES as i64);
            let align = if piece == 0 { align } else { align.min(PIECE_BYTES as u32) };
            let op = Op::Store { pointer, value, align, volatile: false, ordering: None };
            self.out.function.push_effect(self.at, op);
        }
    }

    /// Each lane's pointer; that of an active one for lanes that are not.
    fn lane_pointers(&mut self, pointer: Value, mask: Option<Value>) -> Vec<Value> {
        // What is the same in all lanes is added for each of them: a loop changes it, and keeps the rest.
        let (mut base, mut steps) = (pointer, Vec::new());
        while let Some(&Op::Address { base: inner, index, scale, offset, .. }) = self.body.defining_op(base)
            && index.is_none_or(|index| self.is_uniform(index))
            && self.shape(inner) == Shape::Varying
            && !self.facts.shapes.leaves_divergent_loop(inner, self.user)
        {
            steps.push((index.map(|index| self.first_lane(index)), scale, offset));
            base = inner;
        }
        let mut all = self.lanes_of(base)[0];
        let scalar = Type::Scalar(self.ty(all).scalar().unwrap_or(Scalar::Int(64)));
        if let Some(mask) = mask {
            let bits = self.active_bits();
            let index = self.first_bit(bits);
            let first = self.push(scalar.clone(), Op::ExtractElement { vector: all, index });
            let first = self.splat(first);
            all = self.select(mask, all, first);
        }
        (0..self.lanes)
            .map(|lane| {
                let index = self.constant(Type::I32, Constant::Int(lane.into()));
                let start = self.push(scalar.clone(), Op::ExtractElement { vector: all, index });
                steps.iter().rev().fold(start, |base, &(index, scale, offset)| {
                    let op = Op::Address { base, index, scale, offset, inbounds: false };
                    self.push(scalar.clone(), op)
                })
            })
            .collect()
    }

    /// Of as many vectors as there are elements in a piece: register i has element i of each piece of all of them.
    fn transpose(&mut self, mut registers: Vec<Value>, elements: u32) -> Vec<Value> {
        let half = registers.len() / 2;
        for _ in 0..elements.ilog2() {
            let pairs = (0..half).flat_map(|i| {
                let (first, second) = (registers[i], registers[i + half]);
                [(first, second, 0), (first, second, elements / 2)]
            });
            let pairs: Vec<(Value, Value, u32)> = pairs.collect();
            registers = pairs
                .into_iter()
                .map(|(first, second, from)| {
                    let places = (0..self.lanes).map(|lane| {
                        let (piece, within) = (lane / elements * elements, lane % elements);
                        let other = if within % 2 == 0 { 0 } else { self.lanes };
                        (other + piece + from + within / 2) as i32
                    });
                    let op = Op::Shuffle { first, second, mask: places.collect::<Vec<_>>().into() };
                    self.push(self.ty(first), op)
                })
                .collect();
        }
        registers
    }
}
