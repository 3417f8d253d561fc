//! Transform: copies what lies between two borders into a function of its own.
//!
//! A region's body begins with what is the same for the whole group (block 0), then comes what each work-item does
//! (block 1 on). Values from other regions are loaded at its start, values for other regions are stored at its exits.

use super::borders::{Borders, cut};
use super::context::{Context, crosses_border};
use super::offsets::sink_offsets;
use super::{ContextKind, Region, RegionExit, WorkGroup, collectives, remove_dead_code};
use crate::ContextSlot;
use crate::analysis::{ControlFlow, Liveness, LoopId, Loops, Uniformity, escaping_slots};
use crate::{Block, Function, Op, Slot, Target, Terminator, Type, Value, ValueDef};
use fixedbitset::FixedBitSet;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Cuts a kernel into barrier regions.
pub fn form_regions(mut kernel: Function) -> WorkGroup {
    let collectives = collectives::expand(&mut kernel);
    sink_offsets(&mut kernel);
    let flow = ControlFlow::new(&kernel);
    let uniformity = Uniformity::new(&kernel, &flow);
    let borders = cut(&mut kernel, &flow, &uniformity);
    let flow = ControlFlow::new(&kernel);
    let liveness = Liveness::new(&kernel, &flow);
    let context = Context::new(collectives, &kernel, &flow, &liveness, &uniformity, &borders);
    let starts: Vec<Block> =
        kernel.block_ids().filter(|&b| borders.contains(b) && flow.is_reachable(b)).collect();
    let cut_loops = cut_loops(&flow, &borders);
    let mut former =
        Former { kernel, uniformity, liveness, borders, context, starts, cut_loops, finished: None };
    if (0..former.starts.len()).any(|r| former.mixes_return(r)) {
        former.finished = Some(former.context.add(ContextKind::Varying(Type::int(8))));
    }
    if former.finished.is_none() {
        former.context.find_affine(&former.kernel, &flow);
    }
    let mut regions: Vec<Region> = (0..former.starts.len()).map(|r| former.form(r)).collect();
    expand_shared_slots(&mut regions, &mut former.context);
    WorkGroup {
        context: former.context.kinds,
        regions,
        streams: false,
        sub_group_size: 1,
        alternatives: Vec::new(),
    }
}

/// Where loops begin that have borders in them.
fn cut_loops(flow: &ControlFlow, borders: &Borders) -> Vec<Block> {
    let Some(loops) = Loops::new(flow) else { return Vec::new() };
    let starts = flow.reverse_post_order().iter().filter(|&&block| borders.contains(block));
    let cut: BTreeSet<LoopId> = starts.flat_map(|&start| loops.around(loops.innermost(start))).collect();
    cut.into_iter().map(|id| loops.get(id).header).collect()
}

struct Former {
    kernel: Function,
    uniformity: Uniformity,
    liveness: Liveness,
    borders: Borders,
    context: Context,
    /// The block with which each region begins.
    starts: Vec<Block>,
    cut_loops: Vec<Block>,
    /// Set for a work-item that returned while others go on; only if that can happen.
    finished: Option<ContextSlot>,
}

impl Former {
    /// The control flow from a region's start to its borders.
    fn region_flow(&self, region: usize) -> ControlFlow {
        let within = |block: Block| {
            let targets = self.kernel.block(block).terminator.targets();
            let mut to: Vec<Block> =
                targets.iter().map(|t| t.block).filter(|&b| !self.borders.contains(b)).collect();
            to.sort();
            to.dedup();
            to
        };
        ControlFlow::from_successors(self.kernel.block_ids().map(within).collect(), self.starts[region])
    }

    /// Whether some work-items may return from the region while others go on.
    fn mixes_return(&self, region: usize) -> bool {
        let flow = self.region_flow(region);
        let ends = |is: &dyn Fn(&Terminator) -> bool| {
            flow.reverse_post_order().iter().any(|&b| is(&self.kernel.block(b).terminator))
        };
        ends(&|t| matches!(t, Terminator::Return(_))) && ends(&|t| crosses_border(t, &self.borders))
    }

    fn form(&mut self, region: usize) -> Region {
        let flow = self.region_flow(region);
        let mut body = Function::new(&format!("{}.{region}", self.kernel.name));
        for param in &self.kernel.params {
            body.add_param(self.kernel.ty(param.value).clone(), param.offset, param.passing);
        }
        body.take_locations(&self.kernel);
        body.slots = self.kernel.slots.clone();
        body.local_size = self.kernel.local_size;
        body.required_work_group_size = self.kernel.required_work_group_size;
        body.row_dimension = self.kernel.row_dimension;
        body.remainder_groups = self.kernel.remainder_groups;
        body.required_sub_group_size = self.kernel.required_sub_group_size;
        body.group_factors = self.kernel.group_factors;
        body.id_factor = self.kernel.id_factor;
        body.callees = self.kernel.callees.clone();
        body.tables = self.kernel.tables.clone();
        let (group, item) = (body.add_block(), body.add_block());
        body.jump(group, item);
        let mut builder = Builder {
            start: self.starts[region],
            first: region == 0,
            former: self,
            flow: &flow,
            body,
            blocks: HashMap::new(),
            values: HashMap::new(),
            group_values: HashSet::new(),
            defined: HashSet::new(),
            several: BTreeSet::new(),
            at_end: HashMap::new(),
            current: HashMap::new(),
            exits: Vec::new(),
        };
        builder.build();
        let Builder { mut body, exits, blocks, .. } = builder;
        body.cut_loops = self.cut_loops.iter().filter_map(|block| blocks.get(block).copied()).collect();
        remove_dead_code(&mut body);
        let once = self.runs_once(&flow, &body);
        Region { body, exits, once, wide: None, tail: None }
    }

    /// Whether one work-item's walk through the region stands for all.
    fn runs_once(&self, flow: &ControlFlow, body: &Function) -> bool {
        let uniform_context = |slot| self.context.is_uniform(slot);
        let ops_allow = body.blocks.iter().flat_map(|b| &b.insts).all(|&inst| match body.op(inst) {
            Op::ContextLoad(slot) => uniform_context(*slot) || self.context.is_reduction(*slot),
            Op::ContextStore(slot, _) => uniform_context(*slot),
            Op::ContextAddress(_) | Op::SlotAddress(_) => false,
            Op::WorkItem { query, .. } => !query.is_varying(),
            op => !op.has_effect(),
        });
        let together = flow.reverse_post_order().iter().all(|&block| {
            let data = self.kernel.block(block);
            let results = data.insts.iter().filter_map(|&i| self.kernel.result(i));
            let used = results.filter(|v| !self.context.is_recomputed(*v)).collect::<Vec<_>>();
            let condition = data.terminator.condition();
            used.iter().chain(&data.params).chain(&condition).all(|&v| self.uniformity.is_uniform(v))
        });
        // Varying values without a use are gone from the body, but not from the kernel: ask the body first.
        ops_allow && (together || body.blocks.iter().all(|b| b.terminator.condition().is_none()))
    }
}

/// Copies one region.
struct Builder<'a> {
    former: &'a mut Former,
    flow: &'a ControlFlow,
    start: Block,
    first: bool,
    body: Function,
    blocks: HashMap<Block, Block>,
    /// What became of the kernel's values that have one definition here.
    values: HashMap<Value, Value>,
    /// The body's values that stand in the group's block.
    group_values: HashSet<Value>,
    /// The kernel's values that blocks of this region define.
    defined: HashSet<Value>,
    /// Values that both come from another region and are defined here: they need merging.
    several: BTreeSet<Value>,
    at_end: HashMap<(Block, Value), Value>,
    current: HashMap<Value, Value>,
    exits: Vec<RegionExit>,
}

/// The block of a region's body that runs once for the group.
pub(crate) const GROUP: Block = Block(0);
/// The block with which each work-item starts.
pub(crate) const ITEM: Block = Block(1);

impl Builder<'_> {
    fn build(&mut self) {
        let order = self.flow.reverse_post_order().to_vec();
        self.find_several_definitions(&order);
        for &block in &order {
            let new = self.body.add_block();
            self.blocks.insert(block, new);
        }
        for &block in &order {
            self.add_parameters(block);
        }
        self.recompute_live_in();
        self.enter();
        for &block in &order {
            self.copy_block(block);
        }
    }

    fn kernel(&self) -> &Function {
        &self.former.kernel
    }

    fn find_several_definitions(&mut self, order: &[Block]) {
        let mut defined = HashSet::new();
        for &block in order {
            let data = self.kernel().block(block);
            defined.extend(data.insts.iter().filter_map(|&i| self.kernel().result(i)));
            defined.extend(&data.params);
        }
        let crossing = self.former.context.crossing(self.start);
        self.several = crossing.iter().copied().filter(|v| defined.contains(v)).collect();
        self.defined = defined;
    }

    /// Ways into a block within the region, with the region's own start counted.
    fn ways_in(&self, block: Block) -> usize {
        let edges = |&p: &Block| {
            self.kernel().block(p).terminator.targets().iter().filter(|t| t.block == block).count()
        };
        self.flow.predecessors(block).iter().map(edges).sum::<usize>() + usize::from(block == self.start)
    }

    /// The values that a block merges from its predecessors besides its own parameters.
    fn merged(&self, block: Block) -> Vec<Value> {
        if self.ways_in(block) < 2 {
            return Vec::new();
        }
        self.several.iter().copied().filter(|&v| self.former.liveness.is_live_in(v, block)).collect()
    }

    fn add_parameters(&mut self, block: Block) {
        let new = self.blocks[&block];
        if self.ways_in(block) >= 2 {
            for param in self.kernel().block(block).params.clone() {
                let value = self.body.add_block_param(new, self.kernel().ty(param).clone());
                if !self.several.contains(&param) {
                    self.values.insert(param, value);
                }
            }
        }
        for value in self.merged(block) {
            let ty = self.kernel().ty(value).clone();
            self.body.add_block_param(new, ty);
        }
    }

    /// Values that are cheaper to compute than to keep are there from the start, wherever their uses stand.
    fn recompute_live_in(&mut self) {
        let live = self.former.liveness.live_in(self.start);
        let cheap: Vec<Value> = live.filter(|&v| self.former.context.is_recomputed(v)).collect();
        for value in cheap {
            self.incoming(value);
        }
    }

    /// From the work-item's first block to the region's; past it if the work-item has returned already.
    fn enter(&mut self) {
        let start = self.blocks[&self.start];
        let arguments = self.merged(self.start).into_iter().map(|v| self.incoming(v)).collect();
        let onward = Target { block: start, arguments };
        match self.former.finished {
            Some(slot) if !self.first => {
                let ty = Type::int(8);
                let finished = self.body.push(ITEM, ty.clone(), Op::ContextLoad(slot));
                let zero = self.body.int(ty, 0);
                let flag = self.body.push(
                    ITEM,
                    Type::BOOL,
                    Op::Compare {
                        predicate: crate::Predicate::Int(crate::IntPredicate::Eq),
                        flags: crate::Flags::NONE,
                        lhs: finished,
                        rhs: zero,
                    },
                );
                let skip = self.body.add_block();
                let exit = self.exit(RegionExit::Return);
                self.body.set_terminator(skip, Terminator::Exit(exit));
                let otherwise = Target::to(skip);
                self.body
                    .set_terminator(ITEM, Terminator::Branch { condition: flag, then: onward, otherwise });
            }
            _ => self.body.set_terminator(ITEM, Terminator::Jump(onward)),
        }
    }

    fn copy_block(&mut self, block: Block) {
        self.current.clear();
        let new = self.blocks[&block];
        // What the block merges: its own parameters, then the values with several definitions.
        let mut merged = self.merged(block);
        if self.ways_in(block) >= 2 {
            merged.splice(0..0, self.kernel().block(block).params.iter().copied());
        }
        for (value, param) in merged.into_iter().zip(self.body.block(new).params.clone()) {
            if self.several.contains(&value) {
                self.current.insert(value, param);
            }
        }
        if let ([only], true) = (self.flow.predecessors(block), self.ways_in(block) == 1) {
            for &value in &self.several {
                if let Some(&at_end) = self.at_end.get(&(*only, value)) {
                    self.current.insert(value, at_end);
                }
            }
            self.bind_single_arguments(*only, block);
        }
        for inst in self.kernel().block(block).insts.clone() {
            self.body.at_location = self.kernel().location(inst);
            self.copy_inst(new, inst);
        }
        self.body.at_location = None;
        self.copy_terminator(block, new);
        for &value in &self.several.clone() {
            if let Some(&now) = self.current.get(&value) {
                self.at_end.insert((block, value), now);
            }
        }
    }

    /// A block with one way in needs no parameters: they are their arguments.
    fn bind_single_arguments(&mut self, predecessor: Block, block: Block) {
        let targets = self.kernel().block(predecessor).terminator.targets();
        let Some(arguments) = targets.into_iter().find(|t| t.block == block).map(|t| t.arguments.clone())
        else {
            return;
        };
        // Parallel assignment: all arguments are read before any parameter of the same name changes.
        let values: Vec<Value> = arguments.into_iter().map(|a| self.value(a)).collect();
        for (param, value) in self.kernel().block(block).params.clone().into_iter().zip(values) {
            self.define(param, value);
        }
    }

    fn define(&mut self, old: Value, new: Value) {
        if self.several.contains(&old) {
            self.current.insert(old, new);
        } else {
            self.values.insert(old, new);
        }
    }

    /// What a value of the kernel is here and now.
    fn value(&mut self, old: Value) -> Value {
        if let Some(&new) = self.current.get(&old) {
            return new;
        }
        if !self.several.contains(&old)
            && let Some(&new) = self.values.get(&old)
        {
            return new;
        }
        match self.kernel().def(old).clone() {
            ValueDef::Param(n) => self.body.params[n as usize].value,
            ValueDef::Constant(constant) => {
                let ty = self.kernel().ty(old).clone();
                self.body.constant(ty, constant)
            }
            _ => self.incoming(old),
        }
    }

    /// A value that another region computed, as it was at this region's start.
    fn incoming(&mut self, old: Value) -> Value {
        if let Some(&new) = self.values.get(&old) {
            return new;
        }
        let new = match self.former.context.slot(old) {
            Some(slot) => {
                let ty = self.kernel().ty(old).clone();
                let uniform = self.former.context.is_uniform(slot);
                self.push(if uniform { GROUP } else { ITEM }, ty, Op::ContextLoad(slot), uniform)
            }
            None => self.recompute(old),
        };
        self.values.insert(old, new);
        new
    }

    fn recompute(&mut self, old: Value) -> Value {
        let ValueDef::Inst(inst) = *self.kernel().def(old) else {
            unreachable!("only instructions are recomputed, {old} is none")
        };
        let mut op = self.kernel().op(inst).clone();
        for operand in op.operands_mut() {
            *operand = self.value_at_start(*operand);
        }
        let ty = self.kernel().ty(old).clone();
        let for_group = self.fits_group(old, &op);
        self.push(if for_group { GROUP } else { ITEM }, ty, op, for_group)
    }

    /// As [`Self::value`], for operands of what is computed at the region's start.
    fn value_at_start(&mut self, old: Value) -> Value {
        if self.kernel().is_given(old) { self.value(old) } else { self.incoming(old) }
    }

    fn push(&mut self, block: Block, ty: Type, op: Op, for_group: bool) -> Value {
        let value = self.body.push(block, ty, op);
        if for_group {
            self.group_values.insert(value);
        }
        value
    }

    /// Whether an operation (with the body's operands) can be computed once for the group, before the work-items.
    fn fits_group(&self, old: Value, op: &Op) -> bool {
        let reduced = matches!(op, Op::ContextLoad(slot) if self.former.context.is_reduction(*slot));
        self.former.uniformity.is_uniform(old)
            && (self.body.may_speculate(op) || reduced)
            && op.operands().iter().all(|v| self.body.is_given(*v) || self.group_values.contains(v))
    }

    fn copy_inst(&mut self, block: Block, inst: crate::Inst) {
        let result = self.kernel().result(inst);
        if let Some(old) = result
            && self.former.context.is_recomputed(old)
            && self.values.contains_key(&old)
        {
            return;
        }
        let mut op = self.kernel().op(inst).clone();
        for operand in op.operands_mut() {
            *operand = self.value(*operand);
        }
        let Some(old) = result else {
            self.body.push_effect(block, op);
            return;
        };
        let ty = self.kernel().ty(old).clone();
        let for_group = !self.several.contains(&old) && self.fits_group(old, &op);
        let new = self.push(if for_group { GROUP } else { block }, ty, op, for_group);
        self.define(old, new);
    }

    fn copy_terminator(&mut self, block: Block, new: Block) {
        let terminator = self.kernel().block(block).terminator.clone();
        let copied = match &terminator {
            Terminator::Return(_) => self.leave_by_return(new),
            t if crosses_border(t, &self.former.borders) => self.leave_by_border(t, new),
            _ => {
                let mut copied = terminator.clone();
                if let Some(condition) = copied.condition_mut() {
                    *condition = self.value(*condition);
                }
                for target in copied.targets_mut() {
                    *target = self.target(target);
                }
                copied
            }
        };
        self.body.set_terminator(new, copied);
    }

    fn target(&mut self, target: &Target) -> Target {
        let mut arguments = Vec::new();
        if self.ways_in(target.block) >= 2 {
            arguments = target.arguments.iter().map(|&a| self.value(a)).collect();
        }
        for value in self.merged(target.block) {
            arguments.push(self.value(value));
        }
        Target { block: self.blocks[&target.block], arguments }
    }

    fn leave_by_return(&mut self, new: Block) -> Terminator {
        self.mark_finished(new, true);
        Terminator::Exit(self.exit(RegionExit::Return))
    }

    /// Keeps what the next regions need, and the condition if a uniform branch chooses between them.
    fn leave_by_border(&mut self, terminator: &Terminator, new: Block) -> Terminator {
        let starts: Vec<Block> = terminator.targets().iter().map(|t| t.block).collect();
        let crossing: BTreeSet<Value> =
            starts.iter().flat_map(|&s| self.former.context.crossing(s).iter().copied()).collect();
        let unchanged = |b: &Self, v: Value| {
            let here = b.current.get(&v).or_else(|| b.values.get(&v));
            here.is_none() && !b.defined.contains(&v)
        };
        // All values are read before any slot changes: slots may be shared.
        let mut stores = Vec::new();
        for old in crossing {
            let Some(slot) = self.former.context.slot(old) else { continue };
            if !unchanged(self, old) {
                let value = self.value(old);
                let same = matches!(self.body.defining_op(value), Some(Op::ContextLoad(s)) if *s == slot);
                if !same {
                    stores.push((slot, value));
                }
            }
        }
        self.mark_finished(new, false);
        for (slot, value) in stores {
            self.body.push_effect(new, Op::ContextStore(slot, value));
        }
        let regions: Vec<usize> = starts.iter().map(|&s| self.region_at(s)).collect();
        let exit = match terminator.condition() {
            None => RegionExit::Region(regions[0]),
            Some(condition) => {
                let ty = self.kernel().ty(condition).clone();
                let value = self.value(condition);
                let slot = self.former.context.add(ContextKind::Uniform(ty));
                self.body.push_effect(new, Op::ContextStore(slot, value));
                choice(terminator, slot, &regions)
            }
        };
        Terminator::Exit(self.exit(exit))
    }

    fn region_at(&self, start: Block) -> usize {
        self.former.starts.binary_search(&start).unwrap_or_else(|_| unreachable!("{start} begins no region"))
    }

    fn mark_finished(&mut self, block: Block, finished: bool) {
        if let Some(slot) = self.former.finished
            && (finished || self.first)
        {
            let flag = self.body.int(Type::int(8), u128::from(finished));
            self.body.push_effect(block, Op::ContextStore(slot, flag));
        }
    }

    fn exit(&mut self, exit: RegionExit) -> u32 {
        let known = self.exits.iter().position(|e| *e == exit);
        known.unwrap_or_else(|| {
            self.exits.push(exit);
            self.exits.len() - 1
        }) as u32
    }
}

fn choice(terminator: &Terminator, condition: ContextSlot, regions: &[usize]) -> RegionExit {
    match terminator {
        Terminator::Switch { cases, .. } => RegionExit::Choice {
            condition,
            cases: cases.iter().zip(regions).map(|((value, _), &region)| (*value, region)).collect(),
            default: regions[cases.len()],
        },
        _ => RegionExit::Choice { condition, cases: vec![(1, regions[0])], default: regions[1] },
    }
}

/// A cache's line, and work-items' memory whose size is a multiple of this many drives itself out of it: 64 neighbours' elements of one
/// number would lie in 8 of its 64 sets, or in fewer.
const LINE: u64 = 64;
const LINES_IN_CONFLICT: u64 = 8;

/// As many bytes, or a line more where else neighbours' lines would drive each other out of the cache.
fn spread(size: u64) -> u64 {
    let in_conflict = size > 0 && size.is_multiple_of(LINES_IN_CONFLICT * LINE);
    if in_conflict { size.saturating_add(LINE) } else { size }
}

/// A private slot that several regions use becomes context memory of each work-item.
fn expand_shared_slots(regions: &mut [Region], context: &mut Context) {
    let count = regions.first().map_or(0, |r| r.body.slots.len());
    // Where its address is kept, in memory or in a context slot, any region may use it.
    let mut escaping = FixedBitSet::with_capacity(count);
    if regions.len() > 1 {
        regions.iter().for_each(|region| escaping.union_with(&escaping_slots(&region.body)));
    }
    for slot in (0..count as u32).map(Slot) {
        let users = regions.iter().filter(|r| r.body.uses_slot(slot)).count();
        if users < 2 && !escaping.contains(slot.index()) {
            continue;
        }
        let data = regions[0].body.slots[slot.index()];
        let memory = context.add(ContextKind::Memory { size: spread(data.size), align: data.align });
        for region in regions.iter_mut() {
            replace_slot(&mut region.body, slot, memory);
        }
    }
}

fn replace_slot(body: &mut Function, slot: Slot, memory: ContextSlot) {
    let insts: Vec<_> = body.blocks.iter().flat_map(|b| b.insts.iter().copied()).collect();
    for inst in insts {
        if *body.op(inst) == Op::SlotAddress(slot) {
            *body.op_mut(inst) = Op::ContextAddress(memory);
        }
    }
}
