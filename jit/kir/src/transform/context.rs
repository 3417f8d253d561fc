//! Transform: decides how each value gets over a region's border.
//!
//! Cheap values are computed anew (ids, constants, address arithmetic); the rest gets context slots: one for the group
//! where the value is uniform, else one for each work-item. Values that a loop merely hands on share a slot, so that
//! handing on costs nothing.

use super::ContextKind;
use super::borders::Borders;
use crate::ContextSlot;
use crate::analysis::{ControlFlow, Liveness, Loops, MemoryShape, Shape, Shapes, Uniformity};
use crate::{AddressSpace, Block, Function, Op, Scalar, Terminator, Type, Value};
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
        let finder = Recomputation::new(function, flow, uniformity);
        let mut recomputed = HashSet::new();
        let mut crossing = HashMap::new();
        for start in flow.reverse_post_order().iter().copied().filter(|&b| borders.contains(b)) {
            let mut kept = BTreeSet::new();
            for value in liveness.live_in(start) {
                match finder.leaves(value) {
                    Some(leaves) => {
                        let (cheap, other): (Vec<Value>, Vec<Value>) =
                            leaves.into_iter().partition(|&leaf| finder.leaves(leaf).is_some());
                        recomputed.extend(cheap);
                        recomputed.insert(value);
                        kept.extend(other);
                    }
                    None => kept.extend([value]),
                }
            }
            crossing.insert(start, kept.into_iter().collect());
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

/// Which values are computed anew behind a border.
struct Recomputation<'a> {
    function: &'a Function,
    uniformity: &'a Uniformity,
    /// Defined once, outside of all loops.
    once: FixedBitSet,
}

impl<'a> Recomputation<'a> {
    fn new(function: &'a Function, flow: &ControlFlow, uniformity: &'a Uniformity) -> Self {
        let mut once = FixedBitSet::with_capacity(function.value_count());
        if let Some(loops) = Loops::new(flow) {
            let homes = function.homes().into_iter().enumerate();
            let outside = homes.filter(|(_, home)| home.is_some_and(|home| loops.innermost(home).is_none()));
            outside.for_each(|(value, _)| once.insert(value));
        }
        Recomputation { function, uniformity, once }
    }

    /// If a value is a few operations away from parameters, constants, ids and, unless it is one itself, what the group has in common: the
    /// last. That is kept in one slot for all work-items, and how ids differ is still seen.
    fn leaves(&self, value: Value) -> Option<BTreeSet<Value>> {
        if matches!(self.function.defining_op(value), Some(Op::ContextAddress(_))) {
            return None;
        }
        let common = |operand: Value| {
            self.once.contains(operand.index())
                && self.uniformity.is_uniform(operand)
                && !self.uniformity.is_uniform(value)
        };
        let (mut seen, mut leaves) = (HashSet::from([value]), BTreeSet::new());
        let mut work = vec![value];
        while let Some(at) = work.pop() {
            let op = self.function.defining_op(at).filter(|op| self.function.may_speculate(op))?;
            let operands = op.operands().into_iter().filter(|&operand| !self.function.is_given(operand));
            let (kept, computed): (Vec<Value>, Vec<Value>) = operands.partition(|&operand| common(operand));
            leaves.extend(kept);
            work.extend(computed.into_iter().filter(|&operand| seen.insert(operand)));
            if seen.len() > RECOMPUTATION_BUDGET {
                return None;
            }
        }
        Some(leaves)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::transform::form_regions;

    /// Of a kernel that computes %20, an i32, of its ids and of %5, which the group has in common, and stores it behind a barrier.
    fn kept(operations: &str) -> Vec<ContextKind> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(constant) @ 8) {{\nb0:\n  %2: i64 = local_id 0\n  %3: i32 = trunc %2\n  %4: i64 = group_id 0\n\
             %7: ptr(constant) = address %1 + %4*4 + 0\n  %5: i32 = load %7, align 4\n  %6: i32 = add %5, 3:i32\n{operations}\n  barrier b1\nb1:\n\
             %30: ptr(global) = address %0 + %2*4 + 0\n  store %30, %20, align 4\n  return\n}}"
        );
        form_regions(parse(&text).unwrap_or_else(|error| panic!("{error}\\n{text}"))).context
    }

    #[test]
    fn what_the_group_has_in_common_is_kept_rather_than_what_is_made_of_it() {
        let uniform = [ContextKind::Uniform(Type::I32)];
        let clamped = "  %8: i32 = sub %3, 1:i32\n  %9: i1 = icmp slt %8, %6\n  %20: i32 = select %9, %6, %8";
        assert_eq!(kept(clamped), uniform);
        assert_eq!(kept("  %20: i32 = add %6, 1:i32"), uniform);
        // Its own slots, where it takes longer to compute.
        let product = |n: usize| format!("  %{}: i32 = mul %{}, %6\n", n + 1, n);
        let long: String = (10..19).map(product).collect();
        let long = format!("  %10: i32 = add %3, 7:i32\n{long}  %20: i32 = add %19, %5");
        assert_eq!(kept(&long), [ContextKind::Varying(Type::I32)]);
    }

    #[test]
    fn what_a_loop_makes_anew_is_kept_as_it_was() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {
b0:
  %2: i64 = local_id 0
  %3: i32 = trunc %2
  jump b1(0:i32)
b1(%4: i32):
  %5: i32 = load %0, align 4
  %6: i32 = add %3, %4
  barrier b2
b2:
  %7: ptr(global) = address %0 + %2*4 + 0
  store %7, %6, align 4
  %8: i32 = add %4, 1:i32
  %9: i1 = icmp slt %8, %1
  branch %9, b1(%8), b3
b3:
  return
}";
        let group = form_regions(parse(text).unwrap());
        let varying = |kind: &&ContextKind| !matches!(kind, ContextKind::Uniform(_));
        assert_eq!(group.context.iter().filter(varying).count(), 1, "{:?}", group.context);
    }
}
