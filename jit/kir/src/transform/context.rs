//! Transform: decides how each value gets over a region's border.
//!
//! Cheap values are computed anew (ids, constants, address arithmetic); the rest gets context slots: one for the group
//! where the value is uniform, else one for each work-item. Values that a loop merely hands on share a slot, so that
//! handing on costs nothing.

use super::ContextKind;
use super::borders::Borders;
use crate::ContextSlot;
use crate::analysis::{ControlFlow, Liveness, Loops, MemoryShape, Shape, Shapes, Uniformity};
use crate::{AddressSpace, Block, Function, Op, Scalar, Terminator, Type, Value, ValueDef};
use fixedbitset::FixedBitSet;
use std::collections::{BTreeSet, HashMap, HashSet};

/// At most that many operations are repeated rather than kept in memory.
const RECOMPUTATION_BUDGET: usize = 8;

/// The slots of all values that cross a border.
pub(super) struct Context {
    /// What each slot holds.
    pub kinds: Vec<ContextKind>,
    slots: HashMap<Value, ContextSlot>,
    crossing: HashMap<Block, Vec<Value>>,
    recomputed: HashSet<Value>,
}

impl Context {
    /// For a kernel whose regions begin at `borders` and which uses the slots of these kinds already.
    pub fn new(
        kinds: Vec<ContextKind>,
        function: &Function,
        flow: &ControlFlow,
        liveness: &Liveness,
        uniformity: &Uniformity,
        borders: &Borders,
    ) -> Self {
        let mut recomputed = HashSet::new();
        let mut crossing = HashMap::new();
        for start in flow.reverse_post_order().iter().copied().filter(|&b| borders.contains(b)) {
            let (cheap, kept): (Vec<Value>, Vec<Value>) =
                liveness.live_in(start).partition(|&v| is_cheap(function, v));
            recomputed.extend(cheap);
            crossing.insert(start, kept);
        }
        let mut context = Context { kinds, slots: HashMap::new(), crossing, recomputed };
        context.assign(function, flow, uniformity);
        context
    }

    /// Finds the slots whose values are affine in dimension 0 wherever they are kept: that of pointers into rows, mostly.
    pub fn find_affine(&mut self, function: &Function, flow: &ControlFlow) {
        let may_be = |kind: &ContextKind| {
            let ContextKind::Varying(Type::Scalar(scalar)) = kind else { return false };
            let is_private = *scalar == Scalar::Pointer(AddressSpace::Private);
            matches!(scalar, Scalar::Int(8..=64) | Scalar::Pointer(_)) && !is_private
        };
        if !self.kinds.iter().any(may_be) {
            return;
        }
        let Some(loops) = Loops::new(flow) else { return };
        let interleaved = FixedBitSet::with_capacity(function.value_count());
        let memory = MemoryShape { context: &self.kinds, slot_strides: &[], interleaved: &interleaved };
        let shapes = Shapes::new(function, flow, &loops, &memory);
        let mut of_slots: HashMap<ContextSlot, Shape> = HashMap::new();
        for (&start, values) in &self.crossing {
            for value in values {
                let Some(slot) = self.slot(*value).filter(|slot| may_be(&self.kinds[slot.0 as usize])) else {
                    continue;
                };
                let here = shapes.shape_at(*value, start);
                of_slots.entry(slot).and_modify(|shape| *shape = shape.join(here)).or_insert(here);
            }
        }
        for (slot, shape) in of_slots {
            let kind = &mut self.kinds[slot.0 as usize];
            if let (ContextKind::Varying(ty), Some(stride)) = (&*kind, shape.stride()) {
                *kind = ContextKind::Affine { ty: ty.clone(), stride, exact: shape.is_exact() };
            }
        }
    }

    /// Adds a slot.
    pub fn add(&mut self, kind: ContextKind) -> ContextSlot {
        self.kinds.push(kind);
        ContextSlot(self.kinds.len() as u32 - 1)
    }

    /// The values that must be in their slots when that region begins.
    pub fn crossing(&self, start: Block) -> &[Value] {
        self.crossing.get(&start).map_or(&[], Vec::as_slice)
    }

    /// The slot of a value that crosses some border.
    pub fn slot(&self, value: Value) -> Option<ContextSlot> {
        self.slots.get(&value).copied()
    }

    /// Whether regions compute the value anew.
    pub fn is_recomputed(&self, value: Value) -> bool {
        self.recomputed.contains(&value)
    }

    /// Whether one value serves the whole group.
    pub fn is_uniform(&self, slot: ContextSlot) -> bool {
        matches!(self.kinds[slot.0 as usize], ContextKind::Uniform(_))
    }

    /// Whether it holds what work-items combine.
    pub fn is_reduction(&self, slot: ContextSlot) -> bool {
        matches!(self.kinds[slot.0 as usize], ContextKind::Reduction(..))
    }

    fn assign(&mut self, function: &Function, flow: &ControlFlow, uniformity: &Uniformity) {
        let values: BTreeSet<Value> = self.crossing.values().flatten().copied().collect();
        // A branch of the group stores what any of its successors needs before it knows which one it takes.
        let exits = flow.reverse_post_order().iter().map(|&b| function.block(b).terminator.targets());
        let together = exits.map(|targets| {
            let needed = targets.iter().flat_map(|t| self.crossing(t.block).iter().copied());
            needed.collect::<BTreeSet<Value>>()
        });
        let mut classes = Classes::new(&values, together);
        for (from, to) in handed_on(function, flow) {
            let alike = function.ty(from) == function.ty(to)
                && uniformity.is_uniform(from) == uniformity.is_uniform(to);
            if alike && values.contains(&from) && values.contains(&to) {
                classes.join(from, to);
            }
        }
        let mut slots: HashMap<Value, ContextSlot> = HashMap::new();
        for &value in &values {
            let leader = classes.leader(value);
            let slot = slots.get(&leader).copied().unwrap_or_else(|| {
                let ty: Type = function.ty(value).clone();
                let uniform = uniformity.is_uniform(value);
                self.add(if uniform { ContextKind::Uniform(ty) } else { ContextKind::Varying(ty) })
            });
            slots.insert(leader, slot);
            self.slots.insert(value, slot);
        }
    }
}

/// Whether a value is a few operations away from parameters, constants and ids.
fn is_cheap(function: &Function, value: Value) -> bool {
    fn cost(function: &Function, value: Value, budget: usize) -> Option<usize> {
        if function.is_given(value) {
            return Some(budget);
        }
        let op = function.defining_op(value).filter(|op| function.may_speculate(op))?;
        op.operands().into_iter().try_fold(budget.checked_sub(1)?, |left, v| cost(function, v, left))
    }
    let merged = matches!(function.def(value), ValueDef::BlockParam(..));
    let holds_memory = matches!(function.defining_op(value), Some(Op::ContextAddress(_)));
    !merged && !holds_memory && cost(function, value, RECOMPUTATION_BUDGET).is_some()
}

/// Pairs of a block's argument and the parameter that it becomes, seen through blocks with one predecessor.
fn handed_on(function: &Function, flow: &ControlFlow) -> Vec<(Value, Value)> {
    let mut incoming: HashMap<Value, Vec<Value>> = HashMap::new();
    for &block in flow.reverse_post_order() {
        for target in function.block(block).terminator.targets() {
            for (&param, &argument) in function.block(target.block).params.iter().zip(&target.arguments) {
                incoming.entry(param).or_default().push(argument);
            }
        }
    }
    let through = |mut value: Value| {
        while let Some([only]) = incoming.get(&value).map(Vec::as_slice) {
            value = *only;
        }
        value
    };
    let mut pairs: Vec<_> = incoming
        .iter()
        .flat_map(|(&param, arguments)| {
            arguments.iter().flat_map(move |&a| [(a, param), (through(a), param)])
        })
        .collect();
    pairs.sort();
    pairs
}

/// Values that share a slot. Two values that are stored at the same exit can't.
struct Classes {
    leader: HashMap<Value, Value>,
    conflicts: HashMap<Value, HashSet<Value>>,
}

impl Classes {
    fn new(values: &BTreeSet<Value>, crossing: impl Iterator<Item = BTreeSet<Value>>) -> Self {
        let mut conflicts: HashMap<Value, HashSet<Value>> = HashMap::new();
        for together in crossing {
            for &value in &together {
                conflicts.entry(value).or_default().extend(together.iter().filter(|&&v| v != value));
            }
        }
        Classes { leader: values.iter().map(|&v| (v, v)).collect(), conflicts }
    }

    fn leader(&self, mut value: Value) -> Value {
        while let Some(&next) = self.leader.get(&value).filter(|&&next| next != value) {
            value = next;
        }
        value
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.leader(a), self.leader(b));
        let empty = HashSet::new();
        let conflict = self.conflicts.get(&a).unwrap_or(&empty).iter().any(|&v| self.leader(v) == b);
        if a == b || conflict {
            return;
        }
        let moved = self.conflicts.remove(&b).unwrap_or_default();
        self.conflicts.entry(a).or_default().extend(moved);
        self.leader.insert(b, a);
    }
}

/// Whether a terminator ends its region.
pub(super) fn crosses_border(terminator: &Terminator, borders: &Borders) -> bool {
    terminator.targets().iter().any(|t| borders.contains(t.block))
}
