//! Transform: what a loop stored in one iteration is not loaded again in the next (store-to-load forwarding across iterations,
//! LLVM's `LoopLoadElimination`).
//!
//! `sum[i] += …` in a loop waits for its own store each time, which takes longer than the rest. Where nothing else is
//! stored to in the loop that could be the same place, what was stored is passed on as a value. The stores stay: so nothing need be
//! known of what else is read, and nobody sees other memory than before.
//!
//! Where the launch says that buffers are disjoint, more is known, and a second version of the loop (`versions`) stores such a sum
//! once, behind it, and loads in front of it what no iteration changes.

use crate::analysis::{ControlFlow, Dominators, Loops, buffer};
use crate::builder::{Builder, replace_uses};
use crate::{AddressSpace, Block, Constant, Function, Inst, Op, Target, Terminator, Type, Value, ValueDef};
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
        let mut homes = Homes(vec![None; function.value_count()]);
        for block in function.block_ids() {
            let data = function.block(block);
            let results = data.insts.iter().filter_map(|&inst| function.result(inst));
            results.chain(data.params.iter().copied()).for_each(|value| homes.0[value.index()] = Some(block));
        }
        homes
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
    /// What the next iteration begins with.
    last: Value,
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
        found
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
        let mut chain = vec![(header, false)];
        let mut guarded = false;
        loop {
            let (at, _) = chain[chain.len() - 1];
            let inside: Vec<Block> =
                self.flow.successors(at).iter().copied().filter(|b| self.body.contains(b.index())).collect();
            let leaves = inside.len() < self.flow.successors(at).len();
            let &[next] = &inside[..] else { return chain };
            if next == header || self.flow.predecessors(next).len() > 1 || (leaves && at != header) {
                return chain;
            }
            guarded |= leaves;
            chain.push((next, guarded));
        }
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
            last,
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
        let header_is_plain = || {
            let insts = &self.function.block(header).insts;
            insts.len() <= MOST_REPEATED
                && insts.iter().all(|&inst| self.function.op(inst).is_speculatable())
                && matches!(self.function.block(header).terminator, Terminator::Branch { .. })
        };
        (!new.guarded || header_is_plain()).then_some(new)
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
        let address = |v| self.function.defining_op(v).filter(|op| matches!(op, Op::Address { .. }));
        a == b || address(a).is_some_and(|op| address(b) == Some(op))
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
        let parts = |v| match self.function.defining_op(v) {
            Some(&Op::Address { base, index, scale, offset, .. }) => (base, index, scale, offset),
            _ => (v, None, 0, 0),
        };
        let ((base, index, scale, first), (other, i, s, second)) = (parts(pointer), parts(store.pointer));
        let related = base == other && index == i && (index.is_none() || scale == s);
        let size = |ty: &Type| ty.size() as i64;
        related && (first + size(ty) <= second || second + size(self.accessed(store)) <= first)
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
                target.arguments.extend(carried.iter().map(|place| place.last));
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
        let value = if from == looping && blocks.len() > 1 { begins } else { place.last };
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
mod tests {
    use super::*;
    use crate::{parse, verify};

    /// How many loads a loop keeps whose body this is; %0 and %1 are pointers, %2 the counter, %3 a number.
    fn loads(body: &str) -> usize {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset, %3: i64 @ 16) {{\nb0:\n  jump b1(0:i64)\nb1(%2: i64):\n\
             {body}  %9: i64 = add %2, 1:i64\n  %10: i1 = icmp ult %9, %3\n  branch %10, b1(%9), b2\nb2:\n  return\n}}"
        );
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        eliminate_loop_loads(&mut function);
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        let flow = ControlFlow::new(&function);
        let looping = function.block_ids().filter(|&block| flow.is_in_loop(block));
        let insts = looping.flat_map(|block| &function.block(block).insts);
        insts.filter(|&&inst| matches!(function.op(inst), Op::Load { .. })).count()
    }

    const SUM: &str = "  %4: i64 = load %0, align 8\n  %5: i64 = add %4, 7:i64\n  store %0, %5, align 8\n";

    #[test]
    fn a_sum_needs_one_load_before_the_loop() {
        assert_eq!(loads(SUM), 0);
    }

    #[test]
    fn other_memory_may_change() {
        let elsewhere = |pointer: &str| format!("{SUM}  store {pointer}, %5, align 8\n");
        assert_eq!(loads(&elsewhere("%1")), 0, "of another address space");
        let near = |offset: u32| {
            format!("{SUM}  %6: ptr(global) = address %0 + {offset}\n  store %6, %5, align 8\n")
        };
        assert_eq!(loads(&near(8)), 0);
        assert_eq!(loads(&near(4)), 1, "a part of it is overwritten");
        let any = "  %6: ptr(global) = address %0 + %2*8 + 0\n  store %6, %5, align 8\n";
        assert_eq!(loads(&format!("{SUM}{any}")), 1);
    }

    #[test]
    fn what_others_may_see_stays() {
        assert_eq!(loads(&SUM.replace("= load", "= load volatile")), 1);
        assert_eq!(loads(&format!("{SUM}  fence acq_rel\n")), 1);
        let narrow = SUM
            .replace("add %4, 7:i64", "add %4, 7:i64\n  %6: i32 = trunc %5")
            .replace("%0, %5, align 8", "%0, %6, align 4");
        assert_eq!(loads(&narrow), 1, "of another size");
    }

    /// Loads and stores in the loops of a kernel with three buffers %0 to %2 and a size %3; %4 is the counter of its one loop.
    fn in_versions(body: &str) -> (usize, usize) {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: ptr(global) @ 16, %3: i64 @ 24) {{\nb0:\n  jump b1(0:i64)\nb1(%4: i64):\n\
             %5: i1 = icmp ult %4, %3\n  branch %5, b2, b3\nb2:\n  %6: ptr(global) = address %1 + %4*8 + 0\n{body}  %9: i64 = add %4, 1:i64\n\
             jump b1(%9)\nb3:\n  store %2, %4, align 8\n  return\n}}"
        );
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        eliminate_loop_loads(&mut function);
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        let flow = ControlFlow::new(&function);
        let looping = function.block_ids().filter(|&block| flow.is_in_loop(block));
        let insts: Vec<Inst> = looping.flat_map(|block| function.block(block).insts.clone()).collect();
        let count = |is: fn(&Op) -> bool| insts.iter().filter(|&&inst| is(function.op(inst))).count();
        (count(|op| matches!(op, Op::Load { .. })), count(|op| matches!(op, Op::Store { .. })))
    }

    const OTHERS: &str = "  %10: i64 = load %6, align 8\n";

    #[test]
    fn a_version_for_disjoint_buffers() {
        let sum = format!("{OTHERS}  %11: i64 = load %0, align 8\n  %12: i64 = add %10, %11\n");
        // One load for disjoint buffers; else one load and one store.
        assert_eq!(in_versions(&format!("{sum}  store %0, %12, align 8\n")), (2, 1));
        // What does not change is loaded in front of the loop.
        assert_eq!(in_versions(&format!("{sum}  store %6, %12, align 8\n")), (1 + 2, 2));
        assert_eq!(
            in_versions(&format!("{sum}  store volatile %6, %12, align 8\n")),
            (2, 1),
            "in one version"
        );
        assert_eq!(in_versions(&sum), (2, 0), "it may wait for another work-item's store");
        let near = "  %11: i64 = load %1, align 8\n  %12: i64 = add %10, %11\n  store %1, %12, align 8\n";
        assert_eq!(in_versions(&format!("{OTHERS}{near}")), (1, 1), "the sum lies in what is summed up");
    }

    #[test]
    fn a_load_that_comes_last_is_never_made_before() {
        assert_eq!(
            loads("  store %0, %3, align 8\n  %4: i64 = load %0, align 8\n  store %1, %4, align 8\n"),
            1
        );
    }
}
