//! Widening: accesses of a work-item to elements that follow on each other, such as a structure's fields or an image's channels. They
//! become one access to a vector, which lanes load as it lies and transpose in registers, or to an integer of as many bits: gathers and
//! scatters take their time for each element, whatever its size.

use super::Facts;
use super::interleaved::{MOST_APART, Place, place};
use super::slots::{access_size, leads_to_slot};
use super::whole::PIECE_BYTES;
use super::wrapping::Wrapping;
use crate::analysis::{Shape, buffer};
use crate::builder::{Builder, Ending, replace_uses};
use crate::{AddressSpace, Block, CastOp, Constant, Function, Inst, Op, Scalar, Type, Value, ValueDef};
use std::collections::HashMap;

/// A vector is not longer.
const MOST_ELEMENTS: usize = 16;
/// The same where it is no power of two and fills a structure: each element may be in any piece.
const MOST_CUT: usize = 9;
/// What is gathered or scattered at once.
const GATHERED_BYTES: i64 = 8;
/// No smaller elements are gathered.
const LEAST_GATHERED_BYTES: i64 = 4;

/// An access to a scalar.
#[derive(Clone, Copy, Debug)]
struct Access {
    inst: Inst,
    pointer: Value,
    /// What a store stores.
    stored: Option<Value>,
    scalar: Scalar,
    align: u32,
    /// Bytes from the run's place.
    from: i64,
    /// Where it stands in its block.
    number: usize,
}

/// Loads or stores that no access stands between that could be to the same memory.
struct Run {
    place: Place,
    size: i64,
    /// Bytes between the lanes', where that is known, or asked when it runs.
    stride: Option<i64>,
    is_asked: bool,
    accesses: Vec<Access>,
    /// What the other kind accesses meanwhile in the same place: from, to.
    crossed: Vec<(i64, i64)>,
}

/// Accesses that become one, in order of their addresses.
struct Merged {
    accesses: Vec<Access>,
    ty: Type,
}

/// A body with fewer accesses.
pub(super) struct Merging {
    pub body: Function,
    /// Whether it is only the same where buffers have no memory in common.
    pub disjoint: bool,
}

/// Merges accesses; none if there are none to be merged. If buffers are expected to be `disjoint`, more may be moved over each other.
pub(super) fn merge_adjacent(body: &Function, facts: &Facts, disjoint: bool) -> Option<Merging> {
    let search = |disjoint: bool| -> Vec<(Block, Vec<Merged>)> {
        (body.block_ids().filter(|block| block.0 > 0))
            .map(|block| (block, Search::new(body, facts, (block, disjoint)).merged()))
            .filter(|(_, merged)| !merged.is_empty())
            .collect()
    };
    let count = |found: &[(Block, Vec<Merged>)]| {
        found.iter().flat_map(|(_, all)| all).map(|merged| merged.accesses.len()).sum::<usize>()
    };
    let mut found = search(false);
    let more = disjoint.then(|| search(true)).filter(|more| count(more) > count(&found));
    let disjoint = more.is_some();
    found = more.unwrap_or(found);
    if found.is_empty() {
        return None;
    }
    let mut body = body.clone();
    let mut replaced = HashMap::new();
    for (block, merged) in found {
        write(&mut body, block, &merged, &mut replaced);
    }
    replace_uses(&mut body, &replaced);
    Some(Merging { body, disjoint })
}

/// Goes through a block.
struct Search<'a> {
    body: &'a Function,
    facts: &'a Facts,
    block: Block,
    /// Whether buffers have no memory in common.
    disjoint: bool,
    loads: Vec<Run>,
    stores: Vec<Run>,
    done: Vec<Merged>,
}

impl<'a> Search<'a> {
    fn new(body: &'a Function, facts: &'a Facts, (block, disjoint): (Block, bool)) -> Self {
        Search { body, facts, block, disjoint, loads: Vec::new(), stores: Vec::new(), done: Vec::new() }
    }

    fn merged(mut self) -> Vec<Merged> {
        for (number, &inst) in self.body.block(self.block).insts.iter().enumerate() {
            match *self.body.op(inst) {
                Op::Load { pointer, align, volatile: false, ordering: None } => {
                    let Some(result) = self.body.result(inst) else { continue };
                    self.access(inst, number, (pointer, self.body.ty(result), align), None);
                }
                Op::Store { pointer, value, align, volatile: false, ordering: None } => {
                    self.access(inst, number, (pointer, self.body.ty(value), align), Some(value));
                }
                ref op if op.has_effect() => self.close_all(),
                _ => {}
            }
        }
        self.close_all();
        self.done
    }

    fn access(
        &mut self,
        inst: Inst,
        number: usize,
        (pointer, ty, align): (Value, &Type, u32),
        stored: Option<Value>,
    ) {
        let (place, from) = place(self.body, pointer);
        let to = from + ty.size() as i64;
        let is_load = stored.is_none();
        self.cross((pointer, place), (from, to), is_load);
        let (Type::Scalar(scalar), Some(size)) = (ty, access_size(ty)) else {
            return self.close_stores(|run| run.place == place && !is_load);
        };
        if leads_to_slot(self.body, pointer) || matches!(scalar, Scalar::Pointer(_)) {
            return self.close_stores(|run| run.place == place && !is_load);
        }
        let access = Access { inst, pointer, stored, scalar: *scalar, align, from, number };
        let size = size as i64;
        let runs = if is_load { &mut self.loads } else { &mut self.stores };
        let overlaps = |&(start, end): &(i64, i64)| start < to && from < end;
        let joins = |run: &&mut Run| {
            run.place == place
                && run.size == size
                && !run.crossed.iter().any(overlaps)
                && (is_load || !run.accesses.iter().any(|other| overlaps(&(other.from, other.from + size))))
        };
        match runs.iter_mut().find(joins) {
            Some(run) => run.accesses.push(access),
            None => {
                let (stride, is_asked) = self.stride(pointer);
                // The same memory twice: the later stays behind the earlier.
                self.close_stores(|run| run.place == place && !is_load);
                let run = Run { place, size, stride, is_asked, accesses: vec![access], crossed: Vec::new() };
                let runs = if is_load { &mut self.loads } else { &mut self.stores };
                runs.push(run);
            }
        }
    }

    /// Bytes between the lanes' addresses, and whether that is asked when it runs.
    fn stride(&self, pointer: Value) -> (Option<i64>, bool) {
        match self.facts.shapes.shape_at(pointer, self.block) {
            Shape::Varying => {
                let way = Wrapping::of(self.body, &self.facts.shapes, pointer, self.block);
                (way.map(|way| way.stride()), true)
            }
            shape => (shape.stride(), false),
        }
    }

    /// An access ends the runs that it might not be moved over: loads are moved up, and stores down.
    fn cross(&mut self, (pointer, place): (Value, Place), accessed: (i64, i64), is_load: bool) {
        let (body, disjoint) = (self.body, self.disjoint);
        let is_apart = |run: &Run| are_apart(body, run.accesses[0].pointer, pointer, disjoint);
        if is_load {
            let overlaps =
                |access: &Access, size: i64| access.from < accessed.1 && accessed.0 < access.from + size;
            self.close_stores(|run| {
                let same = run.place == place;
                !is_apart(run) && (!same || run.accesses.iter().any(|access| overlaps(access, run.size)))
            });
        } else {
            let stays = |run: &Run| run.place == place || is_apart(run);
            let (open, closed) = std::mem::take(&mut self.loads).into_iter().partition(stays);
            self.loads = open;
            self.loads.iter_mut().filter(|run| run.place == place).for_each(|run| run.crossed.push(accessed));
            self.close(closed);
            self.close_stores(|run| !stays(run));
        }
    }

    fn close_stores(&mut self, ends: impl Fn(&Run) -> bool) {
        let (closed, open) = std::mem::take(&mut self.stores).into_iter().partition(ends);
        self.stores = open;
        self.close(closed);
    }

    fn close_all(&mut self) {
        let runs = std::mem::take(&mut self.loads).into_iter().chain(std::mem::take(&mut self.stores));
        self.close(runs.collect());
    }

    fn close(&mut self, runs: Vec<Run>) {
        let merged = runs.into_iter().flat_map(Run::merged);
        self.done.extend(merged);
    }
}

/// Whether two pointers never lead to the same memory: into different address spaces, or to buffers, if these are `disjoint`.
fn are_apart(body: &Function, a: Value, b: Value, disjoint: bool) -> bool {
    let spaces = [a, b].map(|pointer| body.ty(pointer).address_space());
    if let [Some(first), Some(second)] = spaces
        && first != second
    {
        return !spaces.contains(&Some(AddressSpace::Generic));
    }
    let buffers = || Some((buffer(body, a)?, buffer(body, b)?));
    disjoint && buffers().is_some_and(|(first, second)| first != second)
}

impl Run {
    /// Parts of a run without a hole that are one access each.
    fn merged(mut self) -> Vec<Merged> {
        self.accesses.sort_by_key(|access| (access.from, access.number));
        self.accesses.dedup_by_key(|access| access.from);
        let size = self.size;
        let stretches = self.accesses.chunk_by(|a, b| b.from - a.from == size);
        let mut all = Vec::new();
        for mut stretch in stretches {
            while let Some((count, ty)) = self.piece(stretch) {
                let (accesses, rest) = stretch.split_at(count);
                all.push(Merged { accesses: accesses.to_vec(), ty });
                stretch = rest;
            }
        }
        all
    }

    /// How many of the first are one access, and its type.
    fn piece(&self, stretch: &[Access]) -> Option<(usize, Type)> {
        let (count, size) = (stretch.len(), self.size);
        let is_load = stretch.first()?.stored.is_none();
        let element = common(stretch, size);
        let vector = |count: usize| (count, Type::Vector(element, count as u32));
        let integer = |bytes: i64| ((bytes / size) as usize, Type::Scalar(Scalar::Int(8 * bytes as u32)));
        let bytes = count as i64 * size;
        let is_whole = self.stride == Some(bytes) && count > 1;
        if self.stride == Some(0) || self.stride == Some(size) {
            return None;
        }
        let shares = is_load
            && !self.is_asked
            && self.stride.is_some_and(|stride| shares_pieces(stride, size, count, is_whole));
        if shares {
            return None;
        }
        if is_whole && !count.is_power_of_two() && count <= MOST_CUT {
            return Some(vector(count)); // No integer has so many bits.
        }
        if size < LEAST_GATHERED_BYTES {
            let neighbours = is_whole && [2, 4, 8].contains(&bytes);
            let fitting = [8, 4].into_iter().find(|&fit| fit <= bytes && fit > size);
            return if neighbours { Some(integer(bytes)) } else { fitting.map(integer) };
        }
        if is_whole && count as i64 <= MOST_APART {
            return Some(vector(count));
        }
        let in_piece = (PIECE_BYTES as i64 / size) as usize;
        let pieces = count.min(MOST_ELEMENTS) / in_piece;
        if pieces > 0 {
            return Some(vector(pieces * in_piece));
        }
        (size < GATHERED_BYTES && bytes >= GATHERED_BYTES).then(|| integer(GATHERED_BYTES))
    }
}

/// Whether so many loads of a structure share what they load as they are: see [`super::interleaved`].
fn shares_pieces(stride: i64, size: i64, count: usize, is_whole: bool) -> bool {
    if size < LEAST_GATHERED_BYTES {
        return !is_whole && count <= 2 && (1..=2 * MOST_APART * size).contains(&stride);
    }
    (1..=MOST_APART * size).contains(&stride)
}

/// What all of them are, or an integer of that size.
fn common(accesses: &[Access], size: i64) -> Scalar {
    let first = accesses[0].scalar;
    match accesses.iter().all(|access| access.scalar == first) {
        true => first,
        false => Scalar::Int(8 * size as u32),
    }
}

/// Writes a block with these accesses: a load in the place of its first, a store in that of its last.
fn write(body: &mut Function, block: Block, merged: &[Merged], replaced: &mut HashMap<Value, Value>) {
    let (insts, ending) = Ending::take(body, block);
    let of: HashMap<Inst, &Merged> =
        merged.iter().flat_map(|merged| merged.accesses.iter().map(move |a| (a.inst, merged))).collect();
    let mut builder = Builder { function: body, at: block };
    for inst in insts {
        let Some(merged) = of.get(&inst) else {
            builder.function.append(block, inst);
            continue;
        };
        builder.function.at_location = builder.function.location(inst);
        let numbers = merged.accesses.iter().map(|access| access.number);
        let is_load = merged.accesses[0].stored.is_none();
        let place = if is_load { numbers.min() } else { numbers.max() };
        if let Some(at) = merged.accesses.iter().find(|a| a.inst == inst && Some(a.number) == place) {
            let first = &merged.accesses[0];
            let (offset, align) = (first.from - at.from, first.align);
            let op = Op::Address { base: at.pointer, index: None, scale: 1, offset, inbounds: false };
            let pointer = if offset == 0 { at.pointer } else { builder.push(builder.ty(at.pointer), op) };
            let new = match is_load {
                true => merged.load(&mut builder, pointer, align, replaced),
                false => merged.store(&mut builder, pointer, align),
            };
            let group = builder.function.access_group(first.inst);
            let same = merged.accesses.iter().all(|a| builder.function.access_group(a.inst) == group);
            builder.function.set_access_group(new, group.filter(|_| same));
        }
    }
    builder.function.at_location = None;
    ending.put(body, block);
}

impl Merged {
    /// The vector of the elements, and their type.
    fn elements(&self) -> (Scalar, Type) {
        let size = self.accesses[0].scalar.bits().div_ceil(8) as i64;
        let element = match self.ty {
            Type::Vector(element, _) => element,
            _ => common(&self.accesses, size),
        };
        (element, Type::Vector(element, self.accesses.len() as u32))
    }

    fn load(
        &self,
        builder: &mut Builder,
        pointer: Value,
        align: u32,
        replaced: &mut HashMap<Value, Value>,
    ) -> Inst {
        let loaded = builder.load(self.ty.clone(), pointer, align);
        let ValueDef::Inst(inst) = *builder.function.def(loaded) else {
            unreachable!("a load is an instruction")
        };
        let (element, vector) = self.elements();
        let all = if self.ty == vector { loaded } else { builder.cast(CastOp::BitCast, vector, loaded) };
        for (number, access) in self.accesses.iter().enumerate() {
            let index = builder.int(number as u64);
            let taken = builder.push(Type::Scalar(element), Op::ExtractElement { vector: all, index });
            let own = Type::Scalar(access.scalar);
            let taken =
                if element == access.scalar { taken } else { builder.cast(CastOp::BitCast, own, taken) };
            replaced.extend(builder.function.result(access.inst).map(|result| (result, taken)));
        }
        inst
    }

    fn store(&self, builder: &mut Builder, pointer: Value, align: u32) -> Inst {
        let (element, vector) = self.elements();
        let mut all = builder.constant(vector.clone(), Constant::Poison);
        for (number, access) in self.accesses.iter().enumerate() {
            let Some(value) = access.stored else { continue };
            let own = Type::Scalar(element);
            let value =
                if element == access.scalar { value } else { builder.cast(CastOp::BitCast, own, value) };
            let index = builder.int(number as u64);
            all = builder.push(vector.clone(), Op::InsertElement { vector: all, element: value, index });
        }
        let value = if self.ty == vector { all } else { builder.cast(CastOp::BitCast, self.ty.clone(), all) };
        builder.store(pointer, value, align)
    }
}

#[cfg(test)]
mod tests;
