//! Transform: packs of work-items run through a barrier region together, one in each SIMD lane.
//!
//! 1. `slots` decides where the lanes' private memory lies,
//! 2. the analyses say what is uniform, affine or varying, where lanes part, and which blocks share a mask,
//! 3. `schedule` puts the blocks into a line in which uniform branches remain, and `leaving` says which loops lanes leave seldom,
//! 4. the widener (here) walks along that line and writes the new body: `instruction`, `division`, `long_division`, `memory`, `strided` (with `distance`), `tables`, `wrapping`, `bit_indices`, `interleaved`, `whole`, `aos`, `intrinsic`,
//!    `collectives` and `lanes` say
//!    what becomes of an instruction, `values` of a value, and `variables` turns what changes under masks into SSA form (with `dominance`).
//!
//! What bodies call is widened as they are (`calls`), and so is what one work-item calls for each element of a vector (`element_calls`).
//!
//! Before that, `choice` (with `registers`) may have `slot_elements` give private memory elements of one size, `quotients` write a second way for packs that lie
//! within a row, `rows` load strips of rows, and `adjacent` merge accesses.
//!
//! Floating-point results are those of the scalar code: nothing is reassociated. Inactive lanes compute whatever they
//! hold, but touch no memory and divide by one.

mod adjacent;
mod alternatives;
mod aos;
mod atomics;
mod bit_indices;
mod calls;
mod choice;
mod collectives;
mod conflicts;
mod cost;
mod distance;
mod division;
mod dominance;
mod element_calls;
mod instruction;
mod interleaved;
mod intrinsic;
mod lanes;
mod leaving;
mod long_division;
mod memory;
mod quotients;
mod registers;
mod rows;
mod schedule;
mod slot_elements;
mod slots;
mod strided;
mod tables;
mod values;
mod variables;
mod whole;
mod wrapping;

pub use alternatives::{alternatives, described};
pub use calls::Callees;
pub use choice::{Choice, Wanted, choose, choose_sub_groups, usual_sub_groups};
pub use conflicts::RowStride;
pub use element_calls::call_for_elements;
pub use tables::Tables;

pub(super) use quotients::{Divisor, divisor};
pub(super) use wrapping::Wrapping;

use super::{ContextKind, Region};
use crate::analysis::{ControlFlow, LoopId, Loops, Mask, Masks, MemoryShape, Node, Shape, Shapes};
use crate::{Block, Constant, Function, IntPredicate, Op, Scalar, Target, Terminator, Type, Value};
use aos::AosVectors;
use fixedbitset::FixedBitSet;
use interleaved::Groups;
use leaving::{SeldomLeft, WayOut};
use rows::Walks;
use schedule::{Schedule, schedule};
use slots::SlotPlan;
use std::collections::{HashMap, HashSet};
use strided::may_be_taken_apart;
use variables::{Header, Variable, Variables};

/// A region's body for so many neighbouring work-items at once. Block 0 is the group's, as in the region's own body;
/// ids are those of the first lane.
#[derive(Clone, Debug)]
pub struct WideBody {
    /// Vectors have that many lanes.
    pub lanes: u32,
    /// Ends in `Return`, or in a branch to it: the way the group goes is told by `SetExit`.
    pub body: Function,
    /// Whether it is for launches only whose buffers have no memory in common.
    pub disjoint: bool,
    /// Packs are worth it unless one of these is a multiple of what it says.
    pub rows: Vec<RowStride>,
}

/// What is known of a region's body before it is widened.
struct Facts {
    loops: Loops,
    shapes: Shapes,
    masks: Masks,
    groups: Groups,
    walks: Walks,
    aos: AosVectors,
    slots: SlotPlan,
    /// So few accesses that strided ones are taken apart.
    is_small: bool,
    seldom_left: SeldomLeft,
    /// What lanes do without, as they find what it leads to in registers.
    left_out: FixedBitSet,
    flow: ControlFlow,
    /// Values that some instruction or terminator reads.
    used: FixedBitSet,
}

impl Facts {
    /// None if a cycle has several entries.
    fn new(body: &Function, context: &[ContextKind], lanes: u32) -> Option<Self> {
        let flow = ControlFlow::new(body);
        let loops = Loops::new(&flow)?;
        let slots = SlotPlan::new(body, context, lanes);
        let memory = MemoryShape { context, slot_strides: &slots.strides, interleaved: &slots.interleaved };
        let shapes = Shapes::new(body, &flow, &loops, &memory);
        let masks = Masks::new(body, &flow, &loops, &shapes);
        let groups = Groups::new(body, &shapes, &masks, lanes);
        let seldom_left = SeldomLeft::new(body, (&flow, &loops), (&shapes, &masks));
        let walks = Walks::new(body, &loops, &shapes, lanes);
        let finder = aos::Finder {
            body,
            flow: &flow,
            loops: &loops,
            shapes: &shapes,
            slots: &slots,
            walks: &walks,
            lanes,
        };
        let aos = finder.find();
        let used = body.used_values();
        let is_small = may_be_taken_apart(body, lanes);
        let left_out = tables::left_out(body, &shapes);
        Some(Facts {
            loops,
            shapes,
            masks,
            groups,
            walks,
            aos,
            slots,
            is_small,
            seldom_left,
            left_out,
            flow,
            used,
        })
    }
}

/// Widens a region's body; none if it can't be done.
pub fn widen(
    region: &Region,
    return_exit: Option<u32>,
    context: &[ContextKind],
    lanes: u32,
) -> Option<WideBody> {
    let body = &region.body;
    let facts = Facts::new(body, context, lanes)?;
    let plan = schedule(body, &facts, context);
    let mut function = Function::new(&format!("{}.x{lanes}", body.name));
    for param in &body.params {
        function.add_param(body.ty(param.value).clone(), param.offset, param.passing);
    }
    function.local_size = body.local_size;
    function.required_work_group_size = body.required_work_group_size;
    function.row_dimension = body.row_dimension;
    function.required_sub_group_size = body.required_sub_group_size;
    function.remainder_groups = body.remainder_groups;
    function.group_factors = body.group_factors;
    function.id_factor = body.id_factor;
    let mut widener = new_widener(body, context, lanes, &facts, function);
    widener.return_exit = return_exit;
    widener.run(&plan, None);
    Some(WideBody { lanes, body: widener.out.finish(), disjoint: false, rows: Vec::new() })
}

/// What writes a body in lanes into a function that has its parameters.
fn new_widener<'a>(
    body: &'a Function,
    context: &'a [ContextKind],
    lanes: u32,
    facts: &'a Facts,
    mut function: Function,
) -> Widener<'a> {
    function.take_locations(body);
    function.slots = facts.slots.slots.clone();
    let mut left = left_behind(body, &facts.shapes);
    let left_at_exits = facts.seldom_left.take_known(body, (&facts.flow, &facts.loops), &mut left);
    Widener {
        body,
        context,
        lanes,
        facts,
        return_exit: None,
        arguments: Vec::new(),
        left,
        left_at_exits,
        out: Variables::new(function, body, (&facts.flow, &facts.loops)),
        at: Block(0),
        user: Block(0),
        spread: HashMap::new(),
        in_order: HashMap::new(),
        repeated: HashMap::new(),
        pieces: HashMap::new(),
        temporaries: 0,
    }
}

/// Values that some user sees behind a divergent loop.
fn left_behind(body: &Function, shapes: &Shapes) -> HashSet<Value> {
    let mut left = HashSet::new();
    for block in body.block_ids() {
        let data = body.block(block);
        let operands = data.insts.iter().flat_map(|&i| body.op(i).operands());
        let operands = operands.chain(data.terminator.operands());
        left.extend(operands.filter(|&v| shapes.leaves_divergent_loop(v, block)));
    }
    left
}

/// Lanes that an instruction compares at most, if they are of words or longer.
const LANES_OF_COMPARISON: u32 = 16;

/// Writes the new body.
struct Widener<'a> {
    body: &'a Function,
    context: &'a [ContextKind],
    lanes: u32,
    facts: &'a Facts,
    return_exit: Option<u32>,
    /// What a called function's context slots hold: vectors, one for each component, or one pointer.
    arguments: Vec<Vec<Value>>,
    /// Values to be kept for users behind divergent loops.
    left: HashSet<Value>,
    /// Those that are kept where a loop that is seldom left is left.
    left_at_exits: HashMap<LoopId, Vec<Value>>,
    out: Variables<'a>,
    /// The new block that is being written.
    at: Block,
    /// The body's block that it comes from.
    user: Block,
    /// Values that are spread over the lanes already, by new block and user.
    spread: HashMap<(Block, Block, Value), Vec<Value>>,
    /// Vectors that were put into memory's order already.
    in_order: HashMap<(Block, Block, Value), Vec<Value>>,
    /// Masks of blocks in which each lane's bit stands so often.
    repeated: HashMap<(Block, Value, u32), Value>,
    /// What was loaded for a group of interleaved loads.
    pieces: HashMap<usize, Vec<Value>>,
    temporaries: u32,
}

/// The new blocks of a step.
#[derive(Clone, Copy)]
struct Place {
    /// Where control comes to.
    entry: Block,
    /// Where it does its work.
    body: Block,
}

impl Widener<'_> {
    /// Writes all of it; a called function's ends with the block and value that it returns.
    fn run(&mut self, plan: &Schedule, result: Option<(Block, Value)>) {
        let places = self.places(plan);
        let end = places[plan.steps.len()].entry;
        self.at = places[0].body;
        self.reset(None);
        for (step, &place) in plan.steps.iter().zip(&places) {
            if let Node::Block(block) = step.node {
                self.user = block;
            }
            // A header is closed at its loop's end.
            let is_header = self.is_header(step.node);
            if !is_header || step.skip.is_some() {
                self.out.close(place.entry);
            }
            if let Some(skip) = step.skip {
                self.at = place.entry;
                if let Some(mask) = self.mask() {
                    self.branch_if_active(mask, place.body, places[skip].entry);
                }
                if !is_header {
                    self.out.close(place.body);
                }
            }
            self.at = place.body;
            match step.node {
                Node::Block(block) => self.block(block, &step.ways, plan, &places),
                Node::Loop(id) => self.loop_end(id, &step.ways, plan, &places),
            }
        }
        self.out.close(end);
        let result = result.map(|(block, value)| {
            (self.at, self.user) = (end, block);
            self.returned(value)
        });
        self.out.end(end, Terminator::Return(result));
    }

    /// One block for each step, in order, then the guards' and the end.
    fn places(&mut self, plan: &Schedule) -> Vec<Place> {
        let bodies: Vec<Block> = (plan.steps.iter())
            .map(|step| match step.node {
                Node::Block(block) => match self.header_of(block) {
                    Some(id) => self.out.add_header(Header::Loop(id)),
                    None => self.out.add_block(),
                },
                Node::Loop(_) => self.out.add_block(),
            })
            .collect();
        let places = plan.steps.iter().zip(bodies).map(|(step, body)| {
            let entry = if step.skip.is_some() { self.out.add_block() } else { body };
            Place { entry, body }
        });
        let mut places: Vec<Place> = places.collect();
        let end = self.out.add_block();
        places.push(Place { entry: end, body: end });
        places
    }

    fn header_of(&self, block: Block) -> Option<LoopId> {
        self.facts.loops.innermost(block).filter(|&id| self.facts.loops.get(id).header == block)
    }

    fn is_header(&self, node: Node) -> bool {
        matches!(node, Node::Block(block) if self.header_of(block).is_some())
    }

    /// The lanes that are active where the widener writes; none if all are.
    fn mask(&mut self) -> Option<Value> {
        match self.facts.masks.of(self.user) {
            Mask::Full => None,
            Mask::Of(first) => Some(self.out.read(self.at, Variable::Mask(first))),
        }
    }

    fn block(&mut self, block: Block, ways: &[usize], plan: &Schedule, places: &[Place]) {
        if let Some(id) = self.header_of(block) {
            self.reset(Some(id));
        }
        for &param in &self.body.block(block).params {
            self.leave(param);
        }
        for &inst in &self.body.block(block).insts {
            self.out.function.at_location = self.body.location(inst);
            self.instruction(inst);
        }
        self.out.function.at_location = None;
        let next = |way: usize| places[ways[way]].entry;
        let body = self.body;
        let way_out = self.way_out(block).map(|way| (way, self.outside(way, plan, places)));
        match &body.block(block).terminator {
            Terminator::Exit(exit) => {
                if Some(*exit) != self.return_exit {
                    self.out.function.push_effect(self.at, Op::SetExit(*exit));
                }
                self.out.jump(self.at, next(0));
            }
            Terminator::Return(_) | Terminator::Unreachable => self.out.jump(self.at, next(0)),
            terminator if self.facts.shapes.is_divergent_branch(block) => {
                match way_out {
                    Some((way, outside)) => self.part_seldom(block, way, outside),
                    None => self.part(block, terminator),
                }
                self.out.jump(self.at, next(0));
            }
            Terminator::Jump(target) | Terminator::Barrier(target) => {
                let mask = self.mask();
                self.pass(block, target, mask);
                self.out.jump(self.at, next(0));
            }
            terminator => {
                let to: Vec<Block> = (0..ways.len()).map(next).collect();
                self.choose_way(block, terminator, &to, way_out);
            }
        }
    }

    /// A uniform branch stays one; what its edges bring is written on blocks of their own.
    fn choose_way(
        &mut self,
        block: Block,
        terminator: &Terminator,
        to: &[Block],
        way_out: Option<(WayOut, Block)>,
    ) {
        let mut new = terminator.clone();
        if let Some(condition) = new.condition_mut() {
            *condition = self.first_lane(*condition);
        }
        let edges: Vec<Block> = to.iter().map(|_| self.out.add_block()).collect();
        for (target, &edge) in new.targets_mut().into_iter().zip(&edges) {
            *target = Target::to(edge);
        }
        self.out.end(self.at, new);
        for (number, (target, edge)) in terminator.targets().into_iter().zip(edges).enumerate() {
            self.out.close(edge);
            self.at = edge;
            let mask = self.mask();
            match way_out.filter(|(way, _)| way.leaves == number) {
                Some((way, outside)) => {
                    self.go_out(block, target, way, mask);
                    self.out.jump(self.at, outside);
                }
                None => {
                    self.pass(block, target, mask);
                    self.out.jump(self.at, to[number]);
                }
            }
        }
    }

    /// Lanes take different edges.
    fn part(&mut self, block: Block, terminator: &Terminator) {
        let mask = self.mask();
        let none = self.constant(self.wide(Scalar::Int(1)), Constant::Zero);
        match terminator {
            Terminator::Branch { condition, then, otherwise } => {
                let condition = self.lanes_of(*condition)[0];
                let [taken, others] = self.parted(block, mask, condition, [then, otherwise]);
                self.pass(block, then, Some(taken));
                self.pass(block, otherwise, Some(others));
            }
            Terminator::Switch { value, cases, default } => {
                let ty = self.body.ty(*value).clone();
                let value = self.lanes_of(*value)[0];
                let mut any = none;
                for (case, target) in cases {
                    let case = self.constant(ty.clone(), Constant::Int(*case));
                    let case = self.splat(case);
                    let taken = self.compare(IntPredicate::Eq, value, case);
                    any = self.binary(crate::BinaryOp::Or, any, taken);
                    let lanes = self.both(mask, taken);
                    self.pass(block, target, Some(lanes));
                }
                let rest = self.opposite(any);
                let lanes = self.both(mask, rest);
                self.pass(block, default, Some(lanes));
            }
            _ => unreachable!("only a branch or a switch parts lanes"),
        }
    }

    /// The lanes of a mask that go to one target, and those that go to the other. For the others LLVM makes a second comparison, the opposite
    /// one. Where a comparison is several instructions they are what is left of the mask instead; what stays in a loop is then computed
    /// first, as the next iteration waits for it.
    fn parted(
        &mut self,
        block: Block,
        mask: Option<Value>,
        condition: Value,
        targets: [&Target; 2],
    ) -> [Value; 2] {
        let opposite = self.opposite(condition);
        let Some(all) = mask.filter(|_| self.lanes > LANES_OF_COMPARISON) else {
            return [condition, opposite].map(|taken| self.both(mask, taken));
        };
        let around = self.facts.loops.innermost(block);
        let [first, second] =
            targets.map(|target| around.is_some_and(|id| self.facts.loops.contains(id, target.block)));
        if second && !first {
            let lanes = self.both(mask, opposite);
            [self.binary(crate::BinaryOp::Xor, all, lanes), lanes]
        } else {
            let lanes = self.both(mask, condition);
            [lanes, self.binary(crate::BinaryOp::Xor, all, lanes)]
        }
    }

    fn opposite(&mut self, condition: Value) -> Value {
        let all = self.all_lanes(self.lanes);
        self.binary(crate::BinaryOp::Xor, condition, all)
    }

    /// The lanes of a mask for which a condition holds; an inactive lane's condition may be poison.
    fn both(&mut self, mask: Option<Value>, condition: Value) -> Value {
        let Some(mask) = mask else { return condition };
        let none = self.constant(self.ty(condition), Constant::Zero);
        self.select(mask, condition, none)
    }

    /// What an edge brings to its target: arguments, and the lanes that take it (none: all).
    fn pass(&mut self, from: Block, target: &Target, lanes: Option<Value>) {
        let back = self.header_of(target.block).filter(|&id| self.facts.loops.contains(id, from));
        let params = self.body.block(target.block).params.clone();
        let brought: Vec<Vec<Value>> =
            params.iter().zip(&target.arguments).map(|(&p, &a)| self.as_kept(p, a)).collect();
        for (&param, values) in params.iter().zip(brought) {
            let varying = self.facts.shapes.shape(param) == Shape::Varying;
            for (c, value) in values.into_iter().enumerate() {
                let c = c as u32;
                let variable =
                    if back.is_some() { Variable::Next(param, c) } else { Variable::Value(param, c) };
                let new = match lanes {
                    Some(lanes) if varying => {
                        let old = self.out.read(self.at, variable);
                        let in_order = self.facts.aos.contains(param) && !self.out.is_poison(old);
                        let count = self.body.ty(param).lanes();
                        let lanes = if in_order { self.mask_in_order(lanes, c, count) } else { lanes };
                        self.select(lanes, value, old)
                    }
                    _ => value,
                };
                self.out.write(self.at, variable, new);
            }
        }
        let waits = match back {
            Some(id) => self.facts.shapes.is_divergent_loop(id).then_some(Variable::Stay(id)),
            None => (self.facts.masks.of(target.block) == Mask::Of(target.block))
                .then_some(Variable::Mask(target.block)),
        };
        if let Some(variable) = waits {
            self.wait(variable, lanes);
        }
    }

    fn wait(&mut self, variable: Variable, lanes: Option<Value>) {
        let lanes = lanes.unwrap_or_else(|| self.all_lanes(self.lanes));
        let old = self.out.read(self.at, variable);
        let none = self.out.function.constant_int(old) == Some(0);
        let new = if none { lanes } else { self.binary(crate::BinaryOp::Or, old, lanes) };
        self.out.write(self.at, variable, new);
    }

    /// An argument in the form in which the parameter is kept.
    fn as_kept(&mut self, param: Value, argument: Value) -> Vec<Value> {
        match self.facts.shapes.shape(param) {
            Shape::Varying if self.facts.aos.contains(param) => self.elements_of(argument),
            Shape::Varying => self.lanes_of(argument),
            _ if self.kept_types(param) == [Type::I64] => vec![self.extended(argument)],
            _ => vec![self.first_lane(argument)],
        }
    }

    /// At the start of a loop's iteration, or of the body: no lane waits anywhere in it yet.
    fn reset(&mut self, level: Option<LoopId>) {
        let none = self.constant(self.wide(Scalar::Int(1)), Constant::Zero);
        for &block in self.facts.flow.reverse_post_order() {
            let header = self.header_of(block);
            let home = self.facts.loops.innermost(block);
            let stands_in = match header {
                Some(id) => self.facts.loops.get(id).parent,
                None => home,
            };
            let params = self.body.block(block).params.clone();
            if stands_in == level {
                self.forget(&params, Variable::Value);
                self.out.write(self.at, Variable::Mask(block), none);
            } else if header.is_some() && header == level {
                self.forget(&params, Variable::Next);
            }
        }
        match level {
            Some(id) => self.out.write(self.at, Variable::Stay(id), none),
            None => self.forget_left(),
        }
    }

    fn forget(&mut self, params: &[Value], variable: fn(Value, u32) -> Variable) {
        for &param in params {
            for (c, ty) in self.kept_types(param).into_iter().enumerate() {
                let poison = self.constant(ty, Constant::Poison);
                self.out.write(self.at, variable(param, c as u32), poison);
            }
        }
    }

    /// Back to the header while lanes stay in the loop.
    fn loop_end(&mut self, id: LoopId, ways: &[usize], plan: &Schedule, places: &[Place]) {
        let header = self.facts.loops.get(id).header;
        let again = places[plan.step_of[header.index()]].body;
        if let Some(&out) = ways.get(1) {
            let stay = self.out.read(self.at, Variable::Stay(id));
            // Of loops that are seldom left it is known that lanes are left.
            if !self.facts.seldom_left.contains(id) {
                let edge = self.out.add_block();
                self.branch_if_active(stay, edge, places[out].entry);
                self.out.close(edge);
                self.at = edge;
            }
            self.out.write(self.at, Variable::Mask(header), stay);
        }
        for &param in &self.body.block(header).params {
            for c in 0..self.kept_types(param).len() as u32 {
                let next = self.out.read(self.at, Variable::Next(param, c));
                self.out.write(self.at, Variable::Value(param, c), next);
            }
        }
        self.out.jump(self.at, again);
        self.out.close(again);
    }
}
