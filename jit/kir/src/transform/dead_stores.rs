//! Transform: removes stores to private variables that are not loaded afterwards (dead store elimination), across blocks and loops.
//!
//! The clean-up's, LLVM's, looks so many accesses ahead and no further: a hash whose schedule lies in registers, in front of ten rounds of
//! AES, keeps storing it. Scalar code pays little for that; packs scatter each of these stores.
//!
//! Backward data flow over parts of variables. A store ends the life of the parts that it covers, whatever may load from a variable
//! begins that of all that it may load. Variables whose addresses are kept are left alone.

use crate::analysis::{ControlFlow, SlotAddresses};
use crate::transform::remove_dead_code;
use crate::{Block, CastOp, Function, Inst, Op, Shape, Slot, Type, Value};
use fixedbitset::FixedBitSet;
use std::ops::Range;

/// Bytes that are looked at together, at least.
const LEAST_PART: u64 = 4;

/// A variable has at most so many parts.
const MOST_PARTS: u64 = 256;

/// All of them together; further ones are left alone.
const MOST_TOGETHER: usize = 16_384;

/// So many sums of addresses are followed from an access to its variable.
const MOST_STEPS: usize = 64;

/// Removes the stores, and what was computed for them only.
pub fn remove_dead_stores(function: &mut Function) {
    if function.slots.is_empty() {
        return;
    }
    let places = Places::new(function);
    if places.parts == 0 {
        return;
    }
    let dead = dead_stores(function, &places);
    if dead.is_clear() {
        return;
    }
    function.blocks.iter_mut().for_each(|block| block.insts.retain(|inst| !dead.contains(inst.index())));
    remove_dead_code(function);
}

fn dead_stores(function: &Function, places: &Places) -> FixedBitSet {
    let flow = ControlFlow::new(function);
    let accesses: Vec<Vec<(Inst, Access)>> =
        function.block_ids().map(|block| places.accesses(function, block)).collect();
    let mut live_in = vec![FixedBitSet::with_capacity(places.parts); function.blocks.len()];
    let live_out = |live_in: &[FixedBitSet], block: Block| {
        let mut live = FixedBitSet::with_capacity(places.parts);
        flow.successors(block).iter().for_each(|to| live.union_with(&live_in[to.index()]));
        live
    };
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &block in flow.reverse_post_order().iter().rev() {
            let mut live = live_out(&live_in, block);
            accesses[block.index()].iter().rev().for_each(|(_, access)| access.step_back(&mut live));
            changed |= live != live_in[block.index()];
            live_in[block.index()] = live;
        }
    }
    let mut dead = FixedBitSet::with_capacity(function.inst_count());
    for &block in flow.reverse_post_order() {
        let mut live = live_out(&live_in, block);
        for (inst, access) in accesses[block.index()].iter().rev() {
            if access.is_dead(&live) {
                dead.insert(inst.index());
            } else {
                access.step_back(&mut live);
            }
        }
    }
    dead
}

/// What an instruction does with variables.
#[derive(Default)]
struct Access {
    /// Parts that it may load from.
    loaded: Vec<Range<usize>>,
    /// If it does nothing but store to one variable: parts that it may store to.
    stored: Option<Range<usize>>,
    /// Parts that it stores to from end to end.
    covered: Range<usize>,
}

impl Access {
    fn is_dead(&self, live: &FixedBitSet) -> bool {
        self.stored.clone().is_some_and(|parts| live.count_ones(parts) == 0)
    }

    /// From what is live behind it to what is live in front of it.
    fn step_back(&self, live: &mut FixedBitSet) {
        live.remove_range(self.covered.clone());
        self.loaded.iter().for_each(|parts| live.insert_range(parts.clone()));
    }
}

/// A variable that can be followed.
#[derive(Clone)]
struct Variable {
    /// Its parts among those of all.
    parts: Range<usize>,
    /// Bytes of one.
    part: u64,
    size: u64,
}

impl Variable {
    /// The parts that have some of the bytes at a place; all if it isn't known which these are.
    fn touched(&self, at: Option<u64>, size: Option<u64>) -> Range<usize> {
        match self.bytes(at, size) {
            Some(bytes) => self.part(bytes.start / self.part)..self.part(bytes.end.div_ceil(self.part)),
            None => self.parts.clone(),
        }
    }

    /// The parts all of whose bytes are at a place; none if it isn't known which these are.
    fn covered(&self, at: Option<u64>, size: Option<u64>) -> Range<usize> {
        let Some(bytes) = self.bytes(at, size) else { return 0..0 };
        let first = bytes.start.div_ceil(self.part);
        let last = if bytes.end == self.size { self.size.div_ceil(self.part) } else { bytes.end / self.part };
        self.part(first)..self.part(last.max(first))
    }

    fn part(&self, number: u64) -> usize {
        self.parts.start + number as usize
    }

    fn bytes(&self, at: Option<u64>, size: Option<u64>) -> Option<Range<u64>> {
        let start = at?;
        let end = start.checked_add(size?)?;
        (end <= self.size).then_some(start..end)
    }
}

/// Bytes that a store of that type changes in any case, if all lie together.
fn certain_bytes(ty: &Type) -> Option<u64> {
    match ty {
        Type::Scalar(scalar) => Some(scalar.bits() / 8),
        Type::Vector(scalar, lanes) => Some(scalar.bits() * u64::from(*lanes) / 8),
        Type::Struct(_) | Type::Array(..) => None,
    }
}

/// Where pointers lead.
struct Places {
    addresses: SlotAddresses,
    /// By slot; none for those whose addresses are kept.
    variables: Vec<Option<Variable>>,
    /// Of all variables.
    parts: usize,
}

impl Places {
    fn new(function: &Function) -> Self {
        let addresses = SlotAddresses::new(function);
        let escaping = addresses.escaping(function);
        let mut parts = 0;
        let followed = |(number, slot): (usize, &crate::SlotData)| {
            let part = slot.size.div_ceil(MOST_PARTS).max(1).next_multiple_of(LEAST_PART);
            let first = parts;
            let end = first + slot.size.div_ceil(part) as usize;
            (slot.size > 0 && !escaping.contains(number) && end <= MOST_TOGETHER).then(|| {
                parts = end;
                Variable { parts: first..end, part, size: slot.size }
            })
        };
        let variables = function.slots.iter().enumerate().map(followed).collect();
        Places { addresses, variables, parts }
    }

    /// In order, those that touch variables.
    fn accesses(&self, function: &Function, block: Block) -> Vec<(Inst, Access)> {
        let insts = function.block(block).insts.iter();
        insts.filter_map(|&inst| Some((inst, self.access(function, function.op(inst), inst)?))).collect()
    }

    fn access(&self, function: &Function, op: &Op, inst: Inst) -> Option<Access> {
        let mut access = Access::default();
        match op {
            // Only hand addresses on.
            Op::Address { .. }
            | Op::Select { .. }
            | Op::Compare { .. }
            | Op::Unary { .. }
            | Op::Cast { .. } => {
                return None;
            }
            Op::Load { pointer, .. } => {
                let size = function.result(inst).map(|value| function.ty(value).size());
                self.loads(function, *pointer, size, &mut access);
            }
            Op::Store { pointer, value, volatile: false, ordering: None, .. }
            | Op::NontemporalStore { pointer, value, .. } => {
                let ty = function.ty(*value);
                self.stores(function, *pointer, (Some(ty.size()), certain_bytes(ty)), &mut access);
            }
            Op::Intrinsic { intrinsic, arguments, .. }
                if matches!(intrinsic.shape(), Shape::Copy | Shape::Fill) =>
            {
                let size = function.constant_int(arguments[2]).and_then(|size| u64::try_from(size).ok());
                if function.constant_int(arguments[3]) == Some(0) {
                    self.stores(function, arguments[0], (size, size), &mut access);
                }
                if intrinsic.shape() == Shape::Copy {
                    self.loads(function, arguments[1], size, &mut access);
                }
            }
            Op::Intrinsic { intrinsic, .. } if intrinsic.shape() == Shape::Prefetch => return None,
            _ => op.visit_operands(|operand| self.loads(function, operand, None, &mut access)),
        }
        (access.stored.is_some() || !access.loaded.is_empty()).then_some(access)
    }

    /// A load of so many bytes from where a pointer leads.
    fn loads(&self, function: &Function, pointer: Value, size: Option<u64>, access: &mut Access) {
        if let Some((variable, at)) = self.exactly(function, pointer) {
            return access.loaded.push(variable.touched(at, size));
        }
        let variables = self.addresses.of(pointer).filter_map(|slot| self.variables[slot.index()].as_ref());
        access.loaded.extend(variables.map(|variable| variable.parts.clone()));
    }

    /// A store of at most and at least so many bytes.
    fn stores(
        &self,
        function: &Function,
        pointer: Value,
        (most, least): (Option<u64>, Option<u64>),
        access: &mut Access,
    ) {
        if let Some((variable, at)) = self.exactly(function, pointer) {
            access.stored = Some(variable.touched(at, most));
            access.covered = variable.covered(at, least);
        }
    }

    /// The variable that a pointer leads into for sure, and how many bytes behind its beginning, if that is known.
    fn exactly(&self, function: &Function, mut pointer: Value) -> Option<(&Variable, Option<u64>)> {
        let mut at = Some(0i64);
        for _ in 0..MOST_STEPS {
            match function.defining_op(pointer)? {
                Op::Address { base, index, scale, offset, .. } => {
                    let index = index.map_or(Some(0), |index| function.constant_int(index).map(|i| i as i64));
                    let step = index.map(|index| index.wrapping_mul(*scale).wrapping_add(*offset));
                    at = at.zip(step).map(|(at, step)| at.wrapping_add(step));
                    pointer = *base;
                }
                Op::Cast { op: CastOp::AddrSpaceCast, value, .. } => pointer = *value,
                &Op::SlotAddress(Slot(number)) => {
                    let at = at.and_then(|at| u64::try_from(at).ok());
                    return Some((self.variables[number as usize].as_ref()?, at));
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, verify};

    /// What is left of the stores of a body, by their values.
    fn left(body: &str) -> Vec<u128> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8, %2: i1 @ 16) {{\n  slot $0: 64 align 8\nb0:\n  \
             %3: ptr(private) = slot_address $0\n{body}}}\n"
        );
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        remove_dead_stores(&mut function);
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        let stored = |inst| match function.op(inst) {
            Op::Store { value, .. } => function.constant_int(*value),
            _ => None,
        };
        function.insts().filter_map(stored).collect()
    }

    #[test]
    fn what_is_stored_in_a_loop_and_never_loaded_is_gone() {
        let body = |behind: &str| {
            format!(
                "  %4: ptr(private) = address inbounds %3 + %1*1 + 0\n  store %4, 1:i8, align 1\n  %5: i32 = load %3, align 4
  store %0, %5, align 4\n  jump b1\nb1:\n  %6: ptr(private) = address inbounds %3 + 4\n  store %6, 2:i32, align 4
  branch %2, b1, b2\nb2:\n{behind}  return\n"
            )
        };
        assert_eq!(left(&body("")), [1]);
        assert_eq!(left(&body("  %7: i8 = load %3, align 1\n  store %0, %7, align 1\n")), [1]);
        assert_eq!(left(&body("  %7: i8 = load %4, align 1\n  store %0, %7, align 1\n")), [1, 2]);
        assert_eq!(left(&body("  %7: i64 = load %3, align 4\n  store %0, %7, align 1\n")), [1, 2]);
        assert_eq!(left(&body("  call nocapture @\"f\"(%4)\n")), [1, 2]);
        assert_eq!(left(&body("  store %0, %6, align 8\n")), [1, 2]);
    }

    #[test]
    fn what_is_stored_over_is_gone_if_all_of_it_is() {
        let body = |over: &str| {
            format!(
                "  store %3, 1:i32, align 4\n{over}  %5: i32 = load %3, align 4\n  store %0, %5, align 4\n  return\n"
            )
        };
        assert_eq!(left(&body("  store %3, 2:i32, align 4\n")), [2]);
        assert_eq!(left(&body("  store %3, 2:i16, align 2\n")), [1, 2]);
        assert_eq!(left(&body("  store %3, 2:i24, align 4\n")), [1, 2]);
        let either = "  branch %2, b1, b2\nb1:\n  store %3, 2:i32, align 4\n  jump b2\nb2:\n";
        assert_eq!(left(&body(either)), [1, 2]);
        let elsewhere = "  %4: ptr(generic) = addrspacecast %3\n  %6: ptr(generic) = addrspacecast %0\n  \
                         %7: ptr(generic) = select %2, %4, %6\n  store %7, 2:i32, align 4\n";
        assert_eq!(left(&body(elsewhere)), [1, 2]);
    }

    #[test]
    fn fills_and_copies_store_and_load_all_their_bytes() {
        let body = |size: u64, volatile: u8| {
            format!(
                "  store %3, 1:i32, align 4\n  intrinsic memset(%3, 7:i8, {size}:i64, {volatile}:i1)\n  \
                 intrinsic memcpy(%0, %3, 4:i64, 0:i1)\n  return\n"
            )
        };
        assert_eq!(left(&body(4, 0)), [0; 0]);
        assert_eq!(left(&body(3, 0)), [1]);
        assert_eq!(left(&body(4, 1)), [1]);
    }

    /// Of large variables two words are one part.
    #[test]
    fn parts_of_large_variables_live_as_long_as_any_of_their_bytes() {
        let text = |second: &str| {
            format!(
                "kernel \"k\"(%0: ptr(global) @ 0) {{\n  slot $0: 2048 align 8\nb0:\n  %1: ptr(private) = slot_address $0\n  \
                 store %1, 1:i32, align 4\n{second}  %2: i32 = load %1, align 4\n  store %0, %2, align 4\n  return\n}}\n"
            )
        };
        let stores = |second: &str| {
            let mut function = parse(&text(second)).unwrap();
            remove_dead_stores(&mut function);
            function.insts().filter(|&inst| matches!(function.op(inst), Op::Store { .. })).count()
        };
        assert_eq!(stores(""), 2);
        assert_eq!(stores("  store %1, 2:i32, align 4\n"), 3);
        assert_eq!(stores("  store %1, 2:i64, align 8\n"), 2);
    }

    #[test]
    fn what_may_be_seen_stays() {
        assert_eq!(left("  store volatile %3, 1:i32, align 4\n  return\n"), [1]);
        assert_eq!(left("  store %0, 1:i32, align 4\n  return\n"), [1]);
        assert_eq!(left("  store %3, 1:i32, align 4\n  return\n"), [0; 0]);
    }
}
