//! Analysis: loops in which an address is made of a counter that wraps: `a[4 * i + (i & 3)]`.
//!
//! To LLVM's scalar evolution `i & 3` is a counter of two bits, of which the loop vectorizer supposes that it does not wrap and
//! means to ask so before the loop. It drops that question where it asks the same of a wider counter, because one that is as
//! fast and does not wrap is taken to imply it whatever the widths (LLVM before 23, issue 191382), and then reads strided vectors where
//! there are none. Where the question is kept it mostly says no.

use super::{ControlFlow, LoopId, Loops};
use crate::{BinaryOp, Block, CastOp, Function, Op, Type, Value};
use fixedbitset::FixedBitSet;

/// No counter of so many bits is taken for one that wraps: wider ones' questions are of pointers.
const WIDE: u32 = 32;
/// Nor is the id in a loop over a row's work-items, of which so many bits are kept: it has no more. Of what is computed of it nobody knows.
const WIDE_ID: u32 = 16;

/// The blocks that lead back to the header of such a loop.
pub fn wrapping_loops(function: &Function) -> FixedBitSet {
    let mut found = FixedBitSet::with_capacity(function.blocks.len());
    let flow = ControlFlow::new(function);
    let Some(loops) = Loops::new(&flow) else { return found };
    for id in (0..loops.count()).map(LoopId) {
        let header = loops.get(id).header;
        let latches = flow.predecessors(header).iter().copied();
        let latches: Vec<Block> = latches.filter(|&block| loops.contains(id, block)).collect();
        if Counters::of(function, &flow, &loops, id, &latches).reach_address() {
            found.extend(latches.iter().map(|block| block.index()));
        }
    }
    found
}

/// What a loop's counters are made to, by whole numbers' arithmetic.
struct Counters<'a> {
    function: &'a Function,
    blocks: Vec<Block>,
    /// Ids, and the same in other types.
    ids: FixedBitSet,
    /// Computed of a counter.
    counted: FixedBitSet,
    /// Computed of a counter that wraps.
    wrapped: FixedBitSet,
}

impl<'a> Counters<'a> {
    fn of(
        function: &'a Function,
        flow: &ControlFlow,
        loops: &Loops,
        id: LoopId,
        latches: &[Block],
    ) -> Counters<'a> {
        let hints = latches.iter().find_map(|&block| function.block(block).loop_hints);
        let of_work_items = hints.is_some_and(|hints| hints.parallel.is_some());
        let order = flow.reverse_post_order().iter().copied();
        let none = FixedBitSet::with_capacity(function.value_count());
        let mut counters = Counters {
            function,
            blocks: order.filter(|&block| loops.contains(id, block)).collect(),
            ids: none.clone(),
            counted: none.clone(),
            wrapped: none,
        };
        for &param in &function.block(loops.get(id).header).params {
            counters.ids.set(param.index(), of_work_items);
            counters.add(param, false);
        }
        while counters.follow() {}
        counters
    }

    /// One walk over the loop; whether anything was found.
    fn follow(&mut self) -> bool {
        let mut found = false;
        for number in 0..self.blocks.len() {
            let data = self.function.block(self.blocks[number]);
            for &inst in &data.insts {
                let Some(result) = self.function.result(inst) else { continue };
                let (sources, narrows) = self.sources(self.function.op(inst));
                self.find_id(result);
                let counted = |v: &&Value| self.counted.contains(v.index());
                let wrapped = |v: &&Value| self.wrapped.contains(v.index());
                if sources.iter().any(|v| counted(&v)) {
                    let wraps = narrows || sources.iter().any(|v| wrapped(&v));
                    found |= self.add(result, wraps);
                }
            }
            for target in data.terminator.targets() {
                for (&argument, &param) in
                    target.arguments.iter().zip(&self.function.block(target.block).params)
                {
                    if self.counted.contains(argument.index()) {
                        found |= self.add(param, self.wrapped.contains(argument.index()));
                    }
                }
            }
        }
        found
    }

    /// Whether a value is the id itself.
    fn find_id(&mut self, value: Value) {
        let id = match self.function.defining_op(value) {
            Some(&Op::Cast { op: CastOp::Trunc | CastOp::ZExt | CastOp::SExt, value, .. }) => value,
            Some(&Op::Binary { op: BinaryOp::And, lhs, rhs, .. }) if self.kept(lhs, rhs) >= WIDE_ID => lhs,
            _ => return,
        };
        let is_whole = int_bits(self.function.ty(value)).is_some_and(|bits| bits >= WIDE_ID);
        self.ids.set(value.index(), is_whole && self.ids.contains(id.index()));
    }

    /// Bits that a mask leaves.
    fn kept(&self, lhs: Value, rhs: Value) -> u32 {
        let mask = [lhs, rhs].into_iter().find_map(|v| self.function.constant_int(v));
        mask.map_or(u128::BITS, |mask| u128::BITS - mask.leading_zeros())
    }

    fn add(&mut self, value: Value, wraps: bool) -> bool {
        let Some(bits) = int_bits(self.function.ty(value)).filter(|&bits| bits > 1) else { return false };
        let new = !self.counted.put(value.index());
        let wraps = (wraps || bits < WIDE) && !self.ids.contains(value.index());
        new | (wraps && !self.wrapped.put(value.index()))
    }

    /// What a counter is if these are, and whether less is kept of it.
    fn sources(&self, op: &Op) -> (Vec<Value>, bool) {
        match *op {
            Op::Binary { op: BinaryOp::And, lhs, rhs, .. } => (vec![lhs, rhs], self.kept(lhs, rhs) < WIDE),
            Op::Binary { op: BinaryOp::URem, lhs, rhs, .. } => {
                (vec![lhs], self.function.constant_int(rhs).is_some_and(u128::is_power_of_two))
            }
            Op::Binary {
                op:
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl,
                lhs,
                rhs,
                ..
            } => (vec![lhs, rhs], false),
            Op::Cast { op: CastOp::Trunc | CastOp::ZExt | CastOp::SExt, value, .. }
            | Op::Unary { value, .. } => (vec![value], false),
            _ => (Vec::new(), false),
        }
    }

    fn reach_address(&self) -> bool {
        let insts = self.blocks.iter().flat_map(|&block| &self.function.block(block).insts);
        insts.into_iter().any(|&inst| match self.function.op(inst) {
            Op::Address { index: Some(index), .. } => self.wrapped.contains(index.index()),
            _ => false,
        })
    }
}

fn int_bits(ty: &Type) -> Option<u32> {
    match ty {
        Type::Scalar(crate::Scalar::Int(bits)) => Some(*bits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// Blocks that end such loops, of a function whose inner loop computes its index, value 20, so.
    fn found(index: &str, hints: &str) -> Vec<usize> {
        let text = format!(
            "function \"f\"(%0: ptr(global), %1: i64) {{
b0:
  jump b1(0:i64)
b1(%2: i64):
  jump b2(0:i64, 0:i8)
b2(%3: i64, %4: i8):
  %10: i32 = trunc %3
{index}  %30: ptr(global) = address %0 + %20*4 + 0
  %31: i32 = load %30, align 4
  %5: i64 = add %3, 1:i64
  %6: i8 = add %4, 3:i8
  %7: i1 = icmp ult %5, %1
  branch %7, b2(%5, %6), b3{hints}
b3:
  %8: i64 = add %2, 1:i64
  %9: i1 = icmp ult %8, %1
  branch %9, b1(%8), b4
b4:
  return
}}"
        );
        let function = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        wrapping_loops(&function).ones().collect()
    }

    #[test]
    fn narrow_counters_are_found_by_their_loop() {
        let of_mask = |source: &str, mask: u32| {
            format!(
                "  %11: i32 = and {source}, {mask}:i32\n  %12: i32 = add %10, %11\n  %20: i64 = zext %12\n"
            )
        };
        assert_eq!(found(&of_mask("%10", 3), ""), [2]);
        assert_eq!(found("  %12: i64 = add %2, 5:i64\n  %20: i64 = and %12, 31:i64\n", ""), [3]);
        assert_eq!(found("  %20: i64 = zext %4\n", ""), [2]);
        assert_eq!(found("  %20: i64 = urem %3, 8:i64\n", ""), [2]);
        // Ids have no more bits.
        assert_eq!(found(&of_mask("%10", 65535), ""), [2]);
        assert_eq!(found(&of_mask("%10", 65535), ", loop parallel 1"), [] as [usize; 0]);
        // What is added to them may wrap.
        let sum = format!("  %13: i32 = add %10, 9:i32\n{}", of_mask("%13", 65535));
        assert_eq!(found(&sum, ", loop parallel 1"), [2]);
    }

    #[test]
    fn others_are_not() {
        for index in [
            "  %20: i64 = zext %10\n",
            "  %20: i64 = and %3, 8589934591:i64\n",
            "  %20: i64 = urem %3, 5:i64\n",
            // Nothing is counted there.
            "  %11: i64 = lshr %1, 3:i64\n  %20: i64 = and %11, 31:i64\n",
        ] {
            assert_eq!(found(index, ""), [] as [usize; 0], "{index}");
        }
    }
}
