//! Transform: what a loop stored in one iteration is not loaded again in the next (store-to-load forwarding across iterations,
//! LLVM's `LoopLoadElimination`).
//!
//! `sum[i] += …` in a loop waits for its own store each time, which takes longer than the rest. Where nothing else is
//! stored to in the loop that could be the same place, what was stored is passed on as a value. The stores stay: so nothing need be
//! known of what else is read, and nobody sees other memory than before.
//!
//! What no iteration changes at all is loaded in front of a loop that counts: LLVM does so itself but for loads that not all lanes make.
//!
//! Where the launch says that buffers are disjoint, more is known, and a second version of the loop (`versions`) stores such a sum
//! once, behind it, and loads in front of it what no iteration changes.

use crate::analysis::{ControlFlow, Dominators, Loops, buffer};
use crate::builder::{Builder, replace_uses};
use crate::{
    AddressSpace, BinaryOp, Block, Constant, Function, Inst, Op, Target, Terminator, Type, Value, ValueDef,
};
use fixedbitset::FixedBitSet;
use std::collections::HashMap;

mod versions;

/// Passes stored values on to the next iteration, in loops without inner loops and barriers.
pub fn eliminate_loop_loads(function: &mut Function) {
    let versions = versions::make(function);
    let flow = ControlFlow::new(function);
    let Some(loops) = Loops::new(&flow) else { return };
    let dominators = Dominators::new(&flow);
    let mut homes = Homes::new(function);
    let mut replaced = HashMap::new();
    for id in loops.without_inner() {
        let body = &loops.get(id).blocks;
        let header = loops.get(id).header;
        let disjoint = versions.contains(header.index());
        let search = Search { function, flow: &flow, dominators: &dominators, homes: &homes, body, disjoint };
        let carried = search.carried(header);
        let hoisted = if disjoint { search.hoisted(header, &carried) } else { Vec::new() };
        if !carried.is_empty() || !hoisted.is_empty() {
            carry(function, (header, body), (&carried, &hoisted), &homes, &mut replaced);
            homes.grow(function.value_count());
        }
    }
    if !replaced.is_empty() {
        replace_uses(function, &replaced);
    }
}

/// The block in which each value is defined.
struct Homes(Vec<Option<Block>>);

impl Homes {
    fn new(function: &Function) -> Self {
        Homes(function.homes())
    }

    /// Values that are made by and by belong to no loop that is still to be looked at.
    fn grow(&mut self, count: usize) {
        self.0.resize(count, None);
    }

    fn is_inside(&self, value: Value, body: &FixedBitSet) -> bool {
        self.0[value.index()].is_some_and(|block| body.contains(block.index()))
    }
}

/// A place in memory whose value goes from iteration to iteration.
struct Carried {
    pointer: Value,
    ty: Type,
    align: u32,
    /// Loads of what the iteration began with.
    before: Vec<Inst>,
    /// Loads of what was stored in the iteration, and that.
    after: Vec<(Inst, Value)>,
    /// What the next iteration begins with; none: with the same.
    last: Option<Value>,
    /// Whether the loop may end before the first load.
    guarded: bool,
    /// The stores, if one behind the loop does for them.
    sunk: Vec<Inst>,
}

struct Search<'a> {
    function: &'a Function,
    flow: &'a ControlFlow,
    dominators: &'a Dominators,
    homes: &'a Homes,
    body: &'a FixedBitSet,
    /// Whether buffers are disjoint, and every run of the loop has an iteration.
    disjoint: bool,
}

/// What is known of an access.
#[derive(Clone, Copy)]
struct Access {
    inst: Inst,
    block: Block,
    pointer: Value,
    /// What a store stores.
    stored: Option<Value>,
}

impl Search<'_> {
    fn carried(&self, header: Block) -> Vec<Carried> {
        let Some((loads, stores)) = self.accesses() else { return Vec::new() };
        let certain = self.certain(header);
        let mut found: Vec<Carried> = Vec::new();
        for store in &stores {
            if !found.iter().any(|known| self.is_same(known.pointer, store.pointer))
                && let Some(new) = self.candidate(header, store.pointer, (&loads, &stores), &certain)
            {
                found.push(new);
            }
        }
        if !self.disjoint && self.is_counted(header) {
            self.add_unchanged(&loads, &stores, &certain, &mut found);
        }
        found.retain(|place| !place.guarded || self.is_repeatable(header));
        found
    }

    /// Adds loads of what no iteration changes. LLVM leaves those where they are that not all lanes make.
    fn add_unchanged(
        &self,
        loads: &[Access],
        stores: &[Access],
        certain: &[(Block, bool)],
        found: &mut Vec<Carried>,
    ) {
        for load in loads {
            let ty = self.accessed(load);
            let Some(&(_, guarded)) = certain.iter().find(|(block, _)| *block == load.block) else {
                continue;
            };
            let known = |place: &&mut Carried| self.is_same(place.pointer, load.pointer);
            match found.iter_mut().find(known) {
                Some(place) if place.last.is_none() && place.ty == *ty => place.before.push(load.inst),
                Some(_) => {}
                None if stores.iter().all(|store| self.is_apart(load.pointer, ty, store))
                    && self.is_invariant(load.pointer, 0) =>
                {
                    let Op::Load { align, .. } = *self.function.op(load.inst) else { continue };
                    found.push(Carried {
                        pointer: load.pointer,
                        ty: ty.clone(),
                        align,
                        before: vec![load.inst],
                        after: Vec::new(),
                        last: None,
                        guarded,
                        sunk: Vec::new(),
                    });
                }
                None => {}
            }
        }
    }

    /// Whether the loop ends at its header after some iterations, whatever is loaded in it: what waits for another work-item's
    /// store must load again.
    fn is_counted(&self, header: Block) -> bool {
        let Terminator::Branch { condition, then, otherwise } = &self.function.block(header).terminator
        else {
            return false;
        };
        let leaves = |target: &Target| !self.body.contains(target.block.index());
        let counters: Vec<Value> = self.counters(header);
        (leaves(then) || leaves(otherwise))
            && self.is_repeatable(header)
            && match self.function.defining_op(*condition) {
                Some(&Op::Compare { lhs, rhs, .. }) => [(lhs, rhs), (rhs, lhs)]
                    .iter()
                    .any(|(counter, end)| counters.contains(counter) && self.is_invariant(*end, 0)),
                _ => false,
            }
    }

    /// A header's parameters to which each iteration adds the same.
    fn counters(&self, header: Block) -> Vec<Value> {
        let latches: Vec<Block> = self
            .flow
            .predecessors(header)
            .iter()
            .copied()
            .filter(|b| self.body.contains(b.index()))
            .collect();
        let adds = |param: Value, value: Value| match self.function.defining_op(value) {
            Some(&Op::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs, .. }) => {
                let step = if lhs == param { rhs } else { lhs };
                (lhs == param || rhs == param) && step != param && self.is_invariant(step, 0)
            }
            _ => false,
        };
        let params = self.function.block(header).params.iter().enumerate();
        let counts = params.filter(|&(at, &param)| {
            latches.iter().all(|&latch| {
                let targets = self.function.block(latch).terminator.targets();
                let mut back = targets.into_iter().filter(|target| target.block == header);
                back.all(|target| target.arguments.get(at).is_some_and(|&value| adds(param, value)))
            })
        });
        counts.map(|(_, &param)| param).collect()
    }

    /// Whether a header's test can stand in front of the loop as well.
    fn is_repeatable(&self, header: Block) -> bool {
        let insts = &self.function.block(header).insts;
        insts.len() <= MOST_REPEATED
            && insts.iter().all(|&inst| self.function.op(inst).is_speculatable())
            && matches!(self.function.block(header).terminator, Terminator::Branch { .. })
    }

    /// The loop's loads and stores; none if it does anything else to memory, or waits for others.
    fn accesses(&self) -> Option<(Vec<Access>, Vec<Access>)> {
        let (mut loads, mut stores) = (Vec::new(), Vec::new());
        for block in self.body.ones().map(|number| Block(number as u32)) {
            let data = self.function.block(block);
            if matches!(data.terminator, Terminator::Barrier(_)) {
                return None;
            }
            for &inst in &data.insts {
                match *self.function.op(inst) {
                    Op::Load { pointer, volatile: false, ordering: None, .. } => {
                        loads.push(Access { inst, block, pointer, stored: None });
                    }
                    Op::Store { pointer, value, volatile: false, ordering: None, .. } => {
                        stores.push(Access { inst, block, pointer, stored: Some(value) });
                    }
                    Op::Intrinsic { intrinsic, .. } if intrinsic.is_hint() => {}
                    ref op if op.has_effect() => return None,
                    _ => {}
                }
            }
        }
        Some((loads, stores))
    }

    /// The blocks through which every iteration goes that does not end the loop at its header, and whether that may come before.
    fn certain(&self, header: Block) -> Vec<(Block, bool)> {
        let blocks = || self.body.ones().map(|number| Block(number as u32));
        let leaves =
            |block: &Block| self.flow.successors(*block).iter().any(|next| !self.body.contains(next.index()));
        let leads_back = |block: &Block| self.flow.successors(*block).contains(&header);
        let ends: Vec<Block> =
            blocks().filter(|block| (leaves(block) && *block != header) || leads_back(block)).collect();
        let guarded = leaves(&header);
        blocks()
            .filter(|&block| ends.iter().all(|&end| self.dominators.dominates(block, end)))
            .map(|block| (block, guarded && block != header))
            .collect()
    }

    fn candidate(
        &self,
        header: Block,
        pointer: Value,
        (loads, stores): (&[Access], &[Access]),
        certain: &[(Block, bool)],
    ) -> Option<Carried> {
        let (same, others): (Vec<Access>, Vec<Access>) =
            stores.iter().partition(|store| self.is_same(store.pointer, pointer));
        let (home, last) = (same[0].block, same[same.len() - 1].stored?);
        let ty = self.function.ty(last);
        let alike = |access: &Access| *self.accessed(access) == *ty && access.block == home;
        let latches = self.flow.predecessors(header).iter().filter(|b| self.body.contains(b.index()));
        if !same.iter().all(alike)
            || !others.iter().all(|other| self.is_apart(pointer, ty, other))
            || !latches.clone().all(|&latch| self.dominators.dominates(home, latch))
            || !self.is_invariant(pointer, 0)
        {
            return None;
        }
        let mut new = Carried {
            pointer,
            ty: ty.clone(),
            align: 1,
            before: Vec::new(),
            after: Vec::new(),
            last: Some(last),
            guarded: false,
            sunk: Vec::new(),
        };
        let mut first = None;
        for load in loads.iter().filter(|load| self.is_same(load.pointer, pointer)) {
            if self.accessed(load) != ty {
                continue;
            }
            match self.stored_before(load, home, &same) {
                Some(Some(value)) => new.after.push((load.inst, value)),
                Some(None) => {
                    new.before.push(load.inst);
                    let certain = certain.iter().find(|(block, _)| *block == load.block);
                    if let (None, Some((_, guarded)), Op::Load { align, .. }) =
                        (first, certain, self.function.op(load.inst))
                    {
                        first = Some((*guarded, *align));
                    }
                }
                None => {}
            }
        }
        (new.guarded, new.align) = first?;
        if self.disjoint {
            new.guarded = false;
            let replaced = new.before.iter().chain(new.after.iter().map(|(load, _)| load));
            let replaced: Vec<Inst> = replaced.copied().collect();
            let stays = |load: &Access| !replaced.contains(&load.inst) && !self.is_apart(pointer, ty, load);
            if !loads.iter().any(stays) {
                new.sunk = same.iter().map(|store| store.inst).collect();
            }
        }
        Some(new)
    }

    /// What the iteration stored before a load: some value, nothing yet, or it depends (none).
    fn stored_before(&self, load: &Access, home: Block, stores: &[Access]) -> Option<Option<Value>> {
        if load.block == home {
            let insts = &self.function.block(home).insts;
            let place = |inst: Inst| insts.iter().position(|&i| i == inst);
            let before = stores.iter().take_while(|store| place(store.inst) < place(load.inst));
            return Some(before.last().and_then(|store| store.stored));
        }
        if self.dominators.dominates(home, load.block) {
            return Some(stores.last().and_then(|store| store.stored));
        }
        self.dominators.dominates(load.block, home).then_some(None)
    }

    /// Loads of what no iteration changes, that every run of the loop makes.
    fn hoisted(&self, header: Block, carried: &[Carried]) -> Vec<Inst> {
        let Some((loads, stores)) = self.accesses() else { return Vec::new() };
        let certain = self.certain(header);
        let is_carried = |load: &Access| {
            carried.iter().any(|place| {
                place.before.contains(&load.inst) || place.after.iter().any(|(inst, _)| *inst == load.inst)
            })
        };
        let loads = loads.iter().filter(|load| {
            certain.iter().any(|(block, _)| *block == load.block)
                && !is_carried(load)
                && stores.iter().all(|store| self.is_apart(load.pointer, self.accessed(load), store))
                && self.is_invariant(load.pointer, 0)
        });
        loads.map(|load| load.inst).collect()
    }

    fn accessed(&self, access: &Access) -> &Type {
        let value = access.stored.or_else(|| self.function.result(access.inst));
        value.map_or(&Type::BOOL, |value| self.function.ty(value))
    }

    fn is_same(&self, a: Value, b: Value) -> bool {
        self.place(a) == self.place(b)
    }

    /// Whether an access can't touch the place.
    fn is_apart(&self, pointer: Value, ty: &Type, store: &Access) -> bool {
        let buffers = || Some((buffer(self.function, pointer)?, buffer(self.function, store.pointer)?));
        if self.disjoint && buffers().is_some_and(|(a, b)| a != b) {
            return true;
        }
        let space = |v| self.function.ty(v).address_space();
        let known = |s| !matches!(s, None | Some(AddressSpace::Generic));
        let (a, b) = (space(pointer), space(store.pointer));
        if known(a) && known(b) && a != b {
            return true;
        }
        let (place, other) = (self.place(pointer), self.place(store.pointer));
        let (first, second) = (place.offset, other.offset);
        let size = |ty: &Type| ty.size() as i64;
        let ends_before =
            |start: i64, ty: &Type, other: i64| start.checked_add(size(ty)).is_some_and(|end| end <= other);
        place.at(0) == other.at(0)
            && (ends_before(first, ty, second) || ends_before(second, self.accessed(store), first))
    }

    /// Where a pointer points to. Members of structures are addresses in addresses.
    fn place(&self, pointer: Value) -> Place {
        let mut place = Place { base: pointer, scaled: None, offset: 0 };
        for _ in 0..MOST_NESTED {
            let Some(&Op::Address { base, index, scale, offset, .. }) = self.function.defining_op(place.base)
            else {
                break;
            };
            let scaled = match (place.scaled, index) {
                (scaled, None) => scaled,
                (None, Some(index)) => Some((index, scale)),
                // A sum of two.
                (Some(_), Some(_)) => break,
            };
            place = Place { base, scaled, offset: place.offset.wrapping_add(offset) };
        }
        place
    }

    /// Whether a value is the same in all iterations and can be computed in front of the loop.
    fn is_invariant(&self, value: Value, depth: u32) -> bool {
        if !self.homes.is_inside(value, self.body) {
            return true;
        }
        let Some(op) = self.function.defining_op(value) else { return false };
        let mut invariant = depth < 8 && op.is_speculatable();
        op.visit_operands(|operand| invariant = invariant && self.is_invariant(operand, depth + 1));
        invariant
    }
}

/// Addresses in addresses that are looked through.
const MOST_NESTED: usize = 8;

/// A place in memory, in relation to others: bytes behind a base and an index with its scale.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    base: Value,
    scaled: Option<(Value, i64)>,
    offset: i64,
}

impl Place {
    /// The same with another offset.
    fn at(self, offset: i64) -> Place {
        Place { offset, ..self }
    }
}

/// A header's test is repeated in front of the loop if it is no longer than that.
const MOST_REPEATED: usize = 8;

/// The header gets a new block, with a parameter for each place; the old one leads to it with what the places hold, which is loaded
/// only if an iteration will.
fn carry(
    function: &mut Function,
    (header, body): (Block, &FixedBitSet),
    (carried, hoisted): (&[Carried], &[Inst]),
    homes: &Homes,
    replaced: &mut HashMap<Value, Value>,
) {
    let looping = function.split_head(header);
    let mut begun = Vec::new();
    let fresh = function.block(header).params.clone();
    let old = function.block(looping).params.clone();
    for place in carried {
        let begins = function.add_block_param(looping, place.ty.clone());
        begun.push(begins);
        let loads = place.before.iter().map(|&load| (load, begins)).chain(place.after.iter().copied());
        for (load, value) in loads {
            if let Some(loaded) = function.result(load) {
                replaced.insert(loaded, value);
            }
        }
    }
    // The loads go, and the stores that are made behind the loop.
    let gone = |function: &Function, inst: Inst| {
        function.result(inst).is_some_and(|v| replaced.contains_key(&v))
            || hoisted.contains(&inst)
            || carried.iter().any(|place| place.sunk.contains(&inst))
    };
    let blocks: Vec<Block> =
        body.ones().map(|b| Block(b as u32)).map(|b| if b == header { looping } else { b }).collect();
    for &block in &blocks {
        let mut insts = std::mem::take(&mut function.blocks[block.index()].insts);
        insts.retain(|&inst| !gone(function, inst));
        function.blocks[block.index()].insts = insts;
        for target in function.blocks[block.index()].terminator.targets_mut() {
            if target.block == header {
                target.block = looping;
                let last = carried.iter().zip(&begun).map(|(place, &begins)| place.last.unwrap_or(begins));
                target.arguments.extend(last);
            }
        }
    }
    let mut builder = Builder { function, at: header };
    let mut known: HashMap<Value, Value> = old.into_iter().zip(fresh.iter().copied()).collect();
    let preload = builder.function.add_block();
    if carried.iter().any(|place| place.guarded) {
        test(&mut builder, (looping, preload, body), (&fresh, carried), &mut known);
    } else {
        builder.jump(preload, &[]);
    }
    builder.at = preload;
    let mut arguments = fresh;
    let mut stores = Vec::new();
    let is_inside = |v| homes.is_inside(v, body);
    for (place, begins) in carried.iter().zip(begun) {
        let pointer = copy(&mut builder, place.pointer, &is_inside, &mut known);
        arguments.push(builder.load(place.ty.clone(), pointer, place.align));
        if !place.sunk.is_empty() {
            stores.push((pointer, begins, place));
        }
    }
    for &inst in hoisted {
        let Op::Load { pointer, .. } = *builder.function.op(inst) else { continue };
        let new = copy(&mut builder, pointer, &is_inside, &mut known);
        let Op::Load { pointer, .. } = builder.function.op_mut(inst) else { continue };
        *pointer = new;
        builder.function.append(preload, inst);
    }
    builder.jump(looping, &arguments);
    if !stores.is_empty() {
        store_behind(&mut builder, (looping, &blocks), &stores);
    }
}

/// Stores behind the loop, on the one way out of it, what its iterations would have stored.
fn store_behind(
    builder: &mut Builder,
    (looping, blocks): (Block, &[Block]),
    stores: &[(Value, Value, &Carried)],
) {
    let leaves = |function: &Function, block: Block| {
        let targets = function.block(block).terminator.targets();
        targets.iter().position(|target| !blocks.contains(&target.block))
    };
    let Some((from, way)) = blocks.iter().find_map(|&b| Some((b, leaves(builder.function, b)?))) else {
        return;
    };
    builder.at = builder.function.add_block();
    for &(pointer, begins, place) in stores {
        // Out of a header that comes before the store, what the iteration before stored.
        let before_it = from == looping && blocks.len() > 1;
        let value = place.last.filter(|_| !before_it).unwrap_or(begins);
        builder.store(pointer, value, place.align);
    }
    let behind = builder.at;
    let mut targets = builder.function.blocks[from.index()].terminator.targets_mut();
    let out = std::mem::replace(targets[way], Target::to(behind));
    builder.function.set_terminator(behind, Terminator::Jump(out));
}

/// The header's test in front of the loop: on to `preload` if there is an iteration.
fn test(
    builder: &mut Builder,
    (looping, preload, body): (Block, Block, &FixedBitSet),
    (fresh, carried): (&[Value], &[Carried]),
    known: &mut HashMap<Value, Value>,
) {
    let insts = builder.function.block(looping).insts.clone();
    for inst in insts {
        let Some(result) = builder.function.result(inst) else { continue };
        let mut op = builder.function.op(inst).clone();
        op.operands_mut().into_iter().for_each(|v| *v = known.get(v).copied().unwrap_or(*v));
        let new = builder.push(builder.ty(result), op);
        known.insert(result, new);
    }
    let Terminator::Branch { condition, then, .. } = &builder.function.block(looping).terminator else {
        unreachable!("only a branch is repeated")
    };
    let condition = known.get(condition).copied().unwrap_or(*condition);
    let goes_on = body.contains(then.block.index());
    let mut none = fresh.to_vec();
    for place in carried {
        none.push(builder.constant(place.ty.clone(), Constant::Poison));
    }
    let inside: (Block, &[Value]) = (preload, &[]);
    let outside = (looping, &none[..]);
    let (then, otherwise) = if goes_on { (inside, outside) } else { (outside, inside) };
    builder.branch(condition, then, otherwise);
}

/// A value of the loop that is the same in all iterations, computed here.
fn copy(
    builder: &mut Builder,
    value: Value,
    is_inside: &dyn Fn(Value) -> bool,
    known: &mut HashMap<Value, Value>,
) -> Value {
    if let Some(&new) = known.get(&value) {
        return new;
    }
    let ValueDef::Inst(inst) = *builder.function.def(value) else { return value };
    if !is_inside(value) {
        return value;
    }
    let mut op = builder.function.op(inst).clone();
    for operand in op.operands_mut() {
        *operand = copy(builder, *operand, is_inside, known);
    }
    let new = builder.push(builder.ty(value), op);
    known.insert(value, new);
    new
}

#[cfg(test)]
mod tests;
