//! Analysis: which private variables' addresses are kept. One that is not is used only by instructions that get its address
//! handed on from its `slot_address`.

use crate::{CastOp, Function, Op, Shape, Slot, Terminator, Value};
use fixedbitset::FixedBitSet;

/// The slots whose addresses get where nobody follows them: memory, integers, functions.
pub fn escaping_slots(function: &Function) -> FixedBitSet {
    SlotAddresses::new(function).escaping(function)
}

/// Whether the result leads where its operands do, or nothing comes of them at all.
fn hands_on(op: &Op) -> bool {
    match op {
        Op::Address { .. } | Op::Select { .. } | Op::Unary { .. } | Op::Compare { .. } => true,
        Op::Cast { op, .. } => *op == CastOp::AddrSpaceCast,
        Op::Call { nocapture, .. } => *nocapture,
        Op::Intrinsic { intrinsic, .. } => intrinsic.shape() == Shape::SpaceTest,
        _ => false,
    }
}

/// How many of an operation's first operands are the places where it accesses memory.
pub(crate) fn place_count(op: &Op) -> usize {
    match op {
        Op::Load { .. }
        | Op::Store { .. }
        | Op::NontemporalStore { .. }
        | Op::MaskedLoad { .. }
        | Op::MaskedStore { .. }
        | Op::AtomicRmw { .. }
        | Op::CompareExchange { .. } => 1,
        Op::Intrinsic { intrinsic, .. } => match intrinsic.shape() {
            Shape::Copy => 2,
            Shape::Fill | Shape::Prefetch => 1,
            _ => 0,
        },
        _ => 0,
    }
}

/// For each value the slots that it may be an address of.
pub struct SlotAddresses(Vec<FixedBitSet>);

impl SlotAddresses {
    /// Of all of a function's values.
    pub fn new(function: &Function) -> Self {
        let none = FixedBitSet::with_capacity(function.slots.len());
        let mut of = vec![none; function.value_count()];
        for inst in function.insts() {
            if let (Op::SlotAddress(Slot(number)), Some(result)) = (function.op(inst), function.result(inst))
            {
                of[result.index()].insert(*number as usize);
            }
        }
        let mut addresses = SlotAddresses(of);
        addresses.spread(function);
        addresses
    }

    /// The slots that this value may be an address of.
    pub fn of(&self, value: Value) -> impl Iterator<Item = Slot> + '_ {
        self.0[value.index()].ones().map(|slot| Slot(slot as u32))
    }

    /// See [`escaping_slots`].
    pub fn escaping(&self, function: &Function) -> FixedBitSet {
        let mut escaping = FixedBitSet::with_capacity(function.slots.len());
        for inst in function.insts() {
            let op = function.op(inst);
            if !hands_on(op) {
                let kept = &op.operands()[place_count(op)..];
                kept.iter().for_each(|value| escaping.union_with(&self.0[value.index()]));
            }
        }
        for block in &function.blocks {
            if let Terminator::Return(Some(value)) = block.terminator {
                escaping.union_with(&self.0[value.index()]);
            }
        }
        escaping
    }

    /// To what hands them on, until nothing changes.
    fn spread(&mut self, function: &Function) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for block in &function.blocks {
                for &inst in &block.insts {
                    let op = function.op(inst);
                    let Some(result) = function.result(inst).filter(|_| is_address(op)) else {
                        continue;
                    };
                    op.operands().into_iter().for_each(|from| changed |= self.add(from, result));
                }
                for target in block.terminator.targets() {
                    let params = &function.block(target.block).params;
                    let pairs = target.arguments.iter().zip(params);
                    pairs.for_each(|(&from, &to)| changed |= self.add(from, to));
                }
            }
        }
    }

    fn add(&mut self, from: Value, to: Value) -> bool {
        let new = !self.0[from.index()].is_subset(&self.0[to.index()]);
        if new {
            let from = self.0[from.index()].clone();
            self.0[to.index()].union_with(&from);
        }
        new
    }
}

fn is_address(op: &Op) -> bool {
    hands_on(op) && !matches!(op, Op::Compare { .. } | Op::Intrinsic { .. } | Op::Call { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn escaping(body: &str) -> Vec<usize> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i1 @ 8) {{\n  slot $0: 8 align 8\n  slot $1: 8 align 8\nb0:\n  \
             %2: ptr(private) = slot_address $0\n  %3: ptr(private) = slot_address $1\n{body}  return\n}}\n"
        );
        let function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        escaping_slots(&function).ones().collect()
    }

    #[test]
    fn accesses_keep_no_address() {
        let text = "  %4: ptr(generic) = addrspacecast %2\n  %5: ptr(private) = select %1, %2, %3\n  \
                    %6: i32 = load %4, align 4\n  store %5, %6, align 4\n  %7: i1 = icmp eq %2, %3\n";
        assert_eq!(escaping(text), [0; 0]);
    }

    #[test]
    fn what_is_stored_escapes_with_all_that_it_may_be() {
        assert_eq!(escaping("  store %2, %3, align 8\n"), [1]);
        assert_eq!(escaping("  %4: ptr(private) = select %1, %2, %3\n  store %0, %4, align 8\n"), [0, 1]);
        assert_eq!(escaping("  store %2, %2, align 8\n"), [0]);
        assert_eq!(escaping("  %4: i64 = ptrtoint %3\n"), [1]);
        assert_eq!(escaping("  %4: ptr(private) = call pure @\"f\"(%3)\n"), [1]);
        assert_eq!(escaping("  call nocapture @\"f\"(%3)\n"), [0; 0]);
        assert_eq!(escaping("  jump b1(%3)\nb1(%4: ptr(private)):\n  store %0, %4, align 8\n"), [1]);
    }
}
