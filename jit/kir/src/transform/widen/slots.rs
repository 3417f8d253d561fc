//! Widening: where the lanes' private memory lies. A slot whose accesses are all of one element size, some perhaps of such elements as
//! vectors of smaller ones, is interleaved: element by element, each for all lanes, so that lanes with the same index access neighbours.
//! Functions that packs call in lanes access such a slot in the same way. Other slots lie lane after lane.

use crate::analysis::Divisors;
use crate::transform::ContextKind;
use crate::{
    AddressSpace, Block, CastOp, Constant, Function, Inst, Op, Scalar, Slot, SlotData, Terminator, Type,
    Value, ValueDef,
};
use fixedbitset::FixedBitSet;
use std::collections::{BTreeSet, HashMap};

/// The slots of a widened body.
pub(super) struct SlotPlan {
    /// Bytes between the same variable of two neighbouring lanes.
    pub strides: Vec<i64>,
    /// Their sizes for all lanes together.
    pub slots: Vec<SlotData>,
    /// The pointers into interleaved slots.
    pub interleaved: FixedBitSet,
    /// Bytes of these slots' elements.
    elements: HashMap<Value, u64>,
}

impl SlotPlan {
    pub fn new(body: &Function, context: &[ContextKind], lanes: u32) -> Self {
        let mut plan = SlotPlan {
            strides: Vec::new(),
            slots: Vec::new(),
            interleaved: FixedBitSet::with_capacity(body.value_count()),
            elements: HashMap::new(),
        };
        let given = context.iter().any(|kind| matches!(kind, ContextKind::Interleaved { .. }));
        if body.slots.is_empty() && !given {
            return plan;
        }
        let uses = Uses::new(body);
        if given {
            for (pointer, element) in given_pointers(body, context) {
                plan.add(&uses.addresses(body, pointer), element);
            }
        }
        for (i, slot) in body.slots.iter().enumerate() {
            let align = u64::from(slot.align.max(1));
            let accesses = uses.accesses(body, Slot(i as u32), lanes);
            let (stride, size) = match accesses.and_then(|all| Some((all.element()?, all.pointers))) {
                Some((element, pointers)) => {
                    plan.add(&pointers, element);
                    (element, slot.size.next_multiple_of(element))
                }
                None => {
                    let size = slot.size.next_multiple_of(align);
                    (size, size)
                }
            };
            plan.strides.push(stride as i64);
            plan.slots.push(SlotData { size: size * u64::from(lanes), align: slot.align.max(64) });
        }
        plan
    }

    fn add(&mut self, pointers: &FixedBitSet, element: u64) {
        self.elements.extend(pointers.ones().map(|pointer| (Value(pointer as u32), element)));
        self.interleaved.union_with(pointers);
    }

    /// Bytes of the elements of the interleaved slot that a pointer leads into; none if it doesn't lead into one.
    pub fn element(&self, pointer: Value) -> Option<u64> {
        self.elements.get(&pointer).copied()
    }

    /// Whether a pointer leads into an interleaved slot.
    pub fn is_interleaved(&self, pointer: Value) -> bool {
        self.interleaved.contains(pointer.index())
    }

    /// Whether the components that a lane accesses lie apart, each among those of the other lanes: not those within an element.
    pub fn is_interleaved_by(&self, pointer: Value, component_bytes: i64) -> bool {
        self.elements.get(&pointer).is_some_and(|&element| element as i64 == component_bytes)
    }
}

/// The pointers into interleaved slots that a called function was given.
fn given_pointers(body: &Function, context: &[ContextKind]) -> Vec<(Value, u64)> {
    let pointer = |inst: Inst| match *body.op(inst) {
        Op::ContextLoad(slot) => match context[slot.0 as usize] {
            ContextKind::Interleaved { element, .. } => Some((body.result(inst)?, element)),
            _ => None,
        },
        _ => None,
    };
    body.insts().filter_map(pointer).collect()
}

/// All that is done with a slot, where that is known.
pub(super) struct Accesses {
    /// Loads and stores, with the bytes of a component and of all.
    pub accessed: Vec<(Inst, u64, u64)>,
    /// The same of loads and stores in functions that are called.
    called: BTreeSet<(u64, u64)>,
    /// That lead into it.
    pointers: FixedBitSet,
    /// All offsets are made of multiples of these.
    steps: Vec<i64>,
}

/// What a function does with the private memory that an argument leads to.
#[derive(Debug)]
pub(super) struct ArgumentAccesses {
    /// The bytes of components that are loaded and stored, and of all of them.
    pub sizes: BTreeSet<(u64, u64)>,
    /// All offsets are made of multiples of these.
    pub steps: Vec<i64>,
}

impl ArgumentAccesses {
    /// Of the function's own parameter.
    pub fn new(function: &Function, parameter: Value) -> Option<Self> {
        let accesses = Uses::new(function).accesses_by(function, vec![parameter], None)?;
        let sizes = accesses.sizes().chain(accesses.called.iter().copied()).collect();
        let mut steps = accesses.steps;
        steps.sort_unstable();
        steps.dedup();
        Some(ArgumentAccesses { sizes, steps })
    }
}

impl Accesses {
    /// The size of the elements as which alone it is accessed, be it as vectors of smaller ones; none if there are several.
    pub fn element(&self) -> Option<u64> {
        let sizes = || self.sizes().chain(self.called.iter().copied());
        let size = sizes().map(|(component, _)| component).max()?;
        let fits = sizes().all(|(component, whole)| component == size || whole == size);
        (fits && self.are_of(size)).then_some(size)
    }

    /// The size of the smallest components, if all others lie where such do, and called functions access nothing else.
    pub fn smallest(&self) -> Option<u64> {
        let size = self.sizes().map(|(component, _)| component).min()?;
        let others = self.called.iter().any(|&(component, _)| component != size);
        (self.are_of(size) && !others).then_some(size)
    }

    fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.accessed.iter().map(|&(_, component, whole)| (component, whole))
    }

    /// Whether pointers are multiples of so many bytes.
    fn are_of(&self, size: u64) -> bool {
        self.steps.iter().all(|step| step % size as i64 == 0)
    }
}

/// Who uses each value.
pub(super) struct Uses {
    by: Vec<Vec<Inst>>,
    passed_on: FixedBitSet,
    divisors: Divisors,
}

impl Uses {
    pub fn new(body: &Function) -> Self {
        let mut uses = Uses {
            by: vec![Vec::new(); body.value_count()],
            passed_on: FixedBitSet::with_capacity(body.value_count()),
            divisors: Divisors::new(body),
        };
        for block in &body.blocks {
            for &inst in &block.insts {
                body.op(inst).visit_operands(|v| uses.by[v.index()].push(inst));
            }
            let operands = Terminator::operands(&block.terminator);
            uses.passed_on.extend(operands.iter().map(|v| v.index()));
        }
        uses
    }

    /// How a slot is accessed, if packs have so many lanes; none if that isn't known, or pointers into it are kept.
    pub fn accesses(&self, body: &Function, slot: Slot, lanes: u32) -> Option<Accesses> {
        let addresses = body.blocks.iter().flat_map(|b| &b.insts);
        let pointers = addresses.filter(|&&i| *body.op(i) == Op::SlotAddress(slot));
        self.accesses_by(body, pointers.filter_map(|&i| body.result(i)).collect(), Some(lanes))
    }

    /// What is accessed by some pointers. Those of called functions that have too much private memory for so many lanes are not known.
    pub fn accesses_by(&self, body: &Function, mut work: Vec<Value>, lanes: Option<u32>) -> Option<Accesses> {
        let mut accessed: Vec<(Inst, u64, u64)> = Vec::new();
        let mut called = BTreeSet::new();
        let mut pointers = FixedBitSet::with_capacity(body.value_count());
        let mut steps: Vec<i64> = Vec::new();
        while let Some(pointer) = work.pop() {
            if self.passed_on.contains(pointer.index()) {
                return None;
            }
            pointers.insert(pointer.index());
            for &user in &self.by[pointer.index()] {
                let ty = match body.op(user) {
                    Op::Call { function, arguments, .. } => {
                        let numbers = (0..arguments.len()).filter(|&number| arguments[number] == pointer);
                        for number in numbers {
                            let of_argument = body.callees.accesses(function, number, lanes)?;
                            called.extend(&of_argument.sizes);
                            steps.extend(&of_argument.steps);
                        }
                        continue;
                    }
                    Op::Address { base, index, scale, offset, .. }
                        if *base == pointer && *index != Some(pointer) =>
                    {
                        steps.push(*offset);
                        // Elements are of 8 bytes at most.
                        steps.extend(index.map(|index| scale << self.divisors.of(index).min(3)));
                        work.extend(body.result(user));
                        continue;
                    }
                    Op::Load { volatile: false, ordering: None, .. } => body.result(user).map(|v| body.ty(v)),
                    Op::Store { value, volatile: false, ordering: None, .. } if *value != pointer => {
                        Some(body.ty(*value))
                    }
                    _ => None,
                };
                let component = access_size(ty?)?;
                accessed.push((user, component, component * u64::from(ty?.lanes())));
            }
        }
        Some(Accesses { accessed, called, pointers, steps })
    }

    /// A pointer, and the addresses that are made of it.
    fn addresses(&self, body: &Function, pointer: Value) -> FixedBitSet {
        let (mut found, mut work) = (FixedBitSet::with_capacity(body.value_count()), vec![pointer]);
        while let Some(pointer) = work.pop() {
            found.insert(pointer.index());
            let users = self.by[pointer.index()].iter();
            let addresses =
                users.filter(|&&user| matches!(body.op(user), Op::Address { base, .. } if *base == pointer));
            work.extend(addresses.filter_map(|&user| body.result(user)));
        }
        found
    }
}

/// Whether a pointer leads into private memory, by what is seen of it. One that was loaded (as a number where pointers have 32 bits) leads
/// to where memory is what it is for one lane: builtins, which know one address space, load those of images' texels, and where they do so in
/// a loop it may have been loaded before it.
pub(super) fn leads_to_slot(body: &Function, pointer: Value) -> bool {
    let is_loaded = |value: Value| matches!(body.defining_op(value), Some(Op::Load { .. }));
    let (mut pointers, mut next) = (vec![pointer], 0);
    while let Some(&pointer) = pointers.get(next) {
        next += 1;
        let is_private = body.ty(pointer).scalar() == Some(Scalar::Pointer(AddressSpace::Private));
        let sources = match body.defining_op(pointer) {
            _ if !is_private || is_loaded(pointer) => continue,
            Some(&Op::Cast { op: CastOp::IntToPtr, value, .. }) if is_loaded(value) => continue,
            Some(Op::Address { base, .. }) => vec![*base],
            Some(Op::Cast { op: CastOp::AddrSpaceCast | CastOp::BitCast, value, .. }) => vec![*value],
            Some(Op::Select { then, otherwise, .. }) => vec![*then, *otherwise],
            Some(_) => return true,
            None => match *body.def(pointer) {
                ValueDef::BlockParam(block, number) => incoming(body, block, number as usize),
                ValueDef::Constant(Constant::Poison) => continue,
                _ => return true,
            },
        };
        for source in sources {
            if !pointers.contains(&source) {
                pointers.push(source);
            }
        }
        if pointers.len() > MOST_SOURCES {
            return true;
        }
    }
    false
}

/// What a block's parameter may be.
fn incoming(body: &Function, block: Block, number: usize) -> Vec<Value> {
    let targets = body.blocks.iter().flat_map(|data| data.terminator.targets());
    targets.filter(|target| target.block == block).map(|target| target.arguments[number]).collect()
}

/// A pointer is not followed to more values that it may come from.
const MOST_SOURCES: usize = 64;

/// Bytes of a scalar, or of a vector's elements, if they fill their bytes.
pub(super) fn access_size(ty: &Type) -> Option<u64> {
    let (Type::Scalar(s) | Type::Vector(s, _)) = ty else { return None };
    matches!(s.bits(), 8 | 16 | 32 | 64).then(|| s.bits() / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// What counts as an element of a slot that is accessed as these.
    fn element(accessed: &[&str]) -> Option<u64> {
        let load = |(n, ty): (usize, &&str)| format!("  %{}: {ty} = load %1, align 1\n", n + 2);
        let loads: String = accessed.iter().enumerate().map(load).collect();
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\n  slot $0: 64 align 8\nb0:\n  %1: ptr(private) = slot_address $0\n{loads}  return\n}}"
        );
        let body = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let plan = SlotPlan::new(&body, &[], 16);
        plan.elements.into_values().next()
    }

    #[test]
    fn elements_are_as_large_as_the_largest_that_is_accessed() {
        assert_eq!(element(&["i32", "<4 x i32>"]), Some(4));
        assert_eq!(element(&["<2 x i32>", "i64"]), Some(8));
        assert_eq!(element(&["<8 x i8>", "<2 x f64>", "i64"]), Some(8));
        assert_eq!([element(&["i32", "i64"]), element(&["<4 x i32>", "i64"])], [None, None]);
    }

    #[test]
    fn pointers_that_are_loaded_do_not_lead_to_slots() {
        let leads = |pointer: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0) {{\n  slot $0: 64 align 8\nb0:\n  %1: i32 = load %0, align 4\n  %2: i32 = add %1, 4:i32\n\
                 {pointer}  %4: ptr(private) = address %3 + 4\n  return\n}}"
            );
            let body = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let value = body.insts().filter_map(|inst| body.result(inst)).last().unwrap();
            leads_to_slot(&body, value)
        };
        assert!(leads("  %3: ptr(private) = slot_address $0\n"));
        assert!(!leads("  %3: ptr(private) = load %0, align 8\n"));
        assert!(!leads("  %3: ptr(private) = inttoptr %1\n"));
        assert!(leads("  %3: ptr(private) = inttoptr %2\n"));
        let met = |other: &str| {
            format!(
                "  %5: ptr(private) = load %0, align 8\n  jump b1(%5)\nb1(%3: ptr(private)):\n  %7: ptr(private) = {other}\n  %6: i1 = icmp eq %1, 4:i32\n  branch %6, b1({}), b2\nb2:\n",
                "%7"
            )
        };
        assert!(!leads(&met("load %0, align 8")));
        assert!(!leads(&met("address %3 + 4")));
        assert!(leads(&met("slot_address $0")));
    }
}
