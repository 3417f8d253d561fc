//! Transform: behind a branch that one work-item takes, `if (get_local_id(0) == 0)`, its id is the number that it was compared with.
//!
//! A loop there that adds to `sums[get_local_id(0)]` goes by one address then, the same for all work-items, and what lies there stays in a
//! register; else packs gather and scatter for a single lane. LLVM's value numbering does that for the id itself; here also for
//! what was computed of it in front of the branch, and where only the lower bits were compared.

use crate::analysis::{ControlFlow, Dominators, LoopId, Loops, Uniformity};
use crate::{
    BinaryOp, Block, CastOp, Flags, Function, IntPredicate, Op, Predicate, Scalar, Target, Terminator, Type,
    Value, ValueDef,
};
use std::collections::HashMap;

/// Operations between an id and what is computed of it.
const MOST_STEPS: u32 = 8;

/// Uses what ids were found equal to, in branches with loops.
pub fn substitute_equal_ids(kernel: &mut Function) {
    let places = places(kernel);
    if places.is_empty() {
        return;
    }
    let flow = ControlFlow::new(kernel);
    let Some(loops) = Loops::new(&flow) else { return };
    let dominators = Dominators::new(&flow);
    let headers: Vec<Block> = (0..loops.count()).map(|id| loops.get(LoopId(id)).header).collect();
    let has_loops = |place: &Place| {
        let inside = |at: Block| dominators.dominates(place.block, at);
        // Who comes from elsewhere has been here before.
        let is_only_way =
            flow.predecessors(place.block).iter().all(|&other| other == place.from || inside(other));
        is_only_way && headers.iter().any(|&header| inside(header))
    };
    let places: Vec<Place> = places.into_iter().filter(has_loops).collect();
    if places.is_empty() {
        return;
    }
    let uniformity = Uniformity::new(kernel, &flow);
    for Place { from, block, equal } in places {
        let inside = |at: Block| dominators.dominates(block, at);
        let is_found =
            |fact: &&Equality| uniformity.is_uniform(fact.to) && !uniformity.is_uniform(fact.value);
        let facts: Vec<Equality> = equal.iter().filter(is_found).copied().collect();
        if facts.is_empty() {
            continue;
        }
        let mut blocks: Vec<Block> =
            flow.reverse_post_order().iter().copied().filter(|&at| inside(at)).collect();
        let at = block_on_the_way(kernel, from, block);
        blocks.push(at);
        let used = used_from_outside(kernel, &blocks);
        let mut substitution =
            Substitution { kernel, uniformity: &uniformity, facts, at, known: HashMap::new() };
        let varying: Vec<Value> =
            used.into_iter().filter(|&value| !substitution.uniformity.is_uniform(value)).collect();
        let found: HashMap<Value, Value> =
            varying.into_iter().filter_map(|value| Some((value, substitution.known(value, 0)?))).collect();
        crate::builder::replace_uses_in(kernel, blocks, &found);
    }
}

/// A new block on the way from one to the other.
fn block_on_the_way(kernel: &mut Function, from: Block, to: Block) -> Block {
    let new = kernel.add_block();
    let mut targets = kernel.blocks[from.index()].terminator.targets_mut().into_iter();
    let onward = targets.find(|target| target.block == to).map(|way| std::mem::replace(way, Target::to(new)));
    onward.into_iter().for_each(|onward| kernel.set_terminator(new, Terminator::Jump(onward)));
    new
}

/// The low bits of a value are those of another one.
#[derive(Clone, Copy, Debug)]
struct Equality {
    value: Value,
    /// All of its width, or fewer.
    bits: u32,
    /// Of the value's type, or of a narrower one that has those bits.
    to: Value,
}

/// A block that work-items come to for whom some values are equal.
struct Place {
    from: Block,
    block: Block,
    equal: Vec<Equality>,
}

/// The blocks behind comparisons of integers for equality.
fn places(kernel: &Function) -> Vec<Place> {
    let found = kernel.block_ids().flat_map(|from| {
        let Terminator::Branch { condition, then, otherwise } = &kernel.block(from).terminator else {
            return Vec::new();
        };
        let sides = [(then.block, true), (otherwise.block, false)];
        let sides = sides.into_iter().filter(|_| then.block != otherwise.block);
        sides
            .map(|(block, holds)| Place { from, block, equal: equalities(kernel, *condition, holds) })
            .collect()
    });
    found.filter(|place| !place.equal.is_empty()).collect()
}

/// What is equal where a condition holds, or doesn't.
fn equalities(kernel: &Function, condition: Value, holds: bool) -> Vec<Equality> {
    let is = |value: Value, bit: u128| kernel.constant_int(value) == Some(bit);
    match kernel.defining_op(condition) {
        Some(&Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. })
            if predicate == if holds { IntPredicate::Eq } else { IntPredicate::Ne } =>
        {
            [(lhs, rhs), (rhs, lhs)].into_iter().flat_map(|(value, to)| compared(kernel, value, to)).collect()
        }
        Some(&Op::Binary { op, lhs, rhs, .. }) if op == if holds { BinaryOp::And } else { BinaryOp::Or } => {
            [lhs, rhs].into_iter().flat_map(|part| equalities(kernel, part, holds)).collect()
        }
        Some(&Op::Select { condition, then, otherwise, .. })
            if (holds && is(otherwise, 0)) || (!holds && is(then, 1)) =>
        {
            let other = if holds { then } else { otherwise };
            [condition, other].into_iter().flat_map(|part| equalities(kernel, part, holds)).collect()
        }
        _ => Vec::new(),
    }
}

/// What follows for a value that equals another one: it, and what it has the lower bits of.
fn compared(kernel: &Function, value: Value, to: Value) -> Vec<Equality> {
    let Some(bits) = width(kernel, value) else { return Vec::new() };
    if matches!(kernel.def(value), ValueDef::Constant(_)) {
        return Vec::new();
    }
    let lower = match kernel.defining_op(value) {
        Some(&Op::Binary { op: BinaryOp::And, lhs, rhs, .. }) => kernel
            .constant_int(rhs)
            .filter(|mask| (mask + 1).is_power_of_two())
            .map(|mask| (lhs, mask.count_ones())),
        Some(&Op::Cast { op: CastOp::Trunc, value: of, .. }) => Some((of, bits)),
        _ => None,
    };
    let lower = lower.map(|(value, bits)| Equality { value, bits, to });
    std::iter::once(Equality { value, bits, to }).chain(lower).collect()
}

/// Of an integer.
fn width(kernel: &Function, value: Value) -> Option<u32> {
    match *kernel.ty(value) {
        Type::Scalar(Scalar::Int(bits @ 8..=64)) => Some(bits),
        _ => None,
    }
}

/// What blocks use that is computed elsewhere, each once.
fn used_from_outside(kernel: &Function, blocks: &[Block]) -> Vec<Value> {
    let mut inside = fixedbitset::FixedBitSet::with_capacity(kernel.value_count());
    let mut used = inside.clone();
    for &block in blocks {
        let data = kernel.block(block);
        let results = data.insts.iter().filter_map(|&inst| kernel.result(inst));
        results.chain(data.params.iter().copied()).for_each(|value| inside.insert(value.index()));
        data.insts
            .iter()
            .for_each(|&inst| kernel.op(inst).visit_operands(|value| used.insert(value.index())));
        data.terminator.operands().into_iter().for_each(|value| used.insert(value.index()));
    }
    used.difference_with(&inside);
    used.ones().map(|index| Value(index as u32)).collect()
}

struct Substitution<'a> {
    kernel: &'a mut Function,
    uniformity: &'a Uniformity,
    facts: Vec<Equality>,
    /// Where what is known is computed.
    at: Block,
    known: HashMap<Value, Option<Value>>,
}

impl Substitution<'_> {
    fn is_uniform(&self, value: Value) -> bool {
        self.uniformity.is_uniform(value)
    }

    /// What a varying value is, computed of what is the same for all work-items.
    fn known(&mut self, value: Value, depth: u32) -> Option<Value> {
        if let Some(&known) = self.known.get(&value) {
            return known;
        }
        let exact = |fact: &Equality, bits| fact.value == value && fact.bits == bits;
        let bits = width(self.kernel, value);
        let equal =
            self.facts.iter().find(|fact| bits.is_some_and(|bits| exact(fact, bits))).map(|fact| fact.to);
        let known = equal.or_else(|| self.computed(value, depth));
        self.known.insert(value, known);
        known
    }

    fn computed(&mut self, value: Value, depth: u32) -> Option<Value> {
        let mut op = self.kernel.defining_op(value).filter(|_| depth < MOST_STEPS)?.clone();
        let computes = matches!(op, Op::Binary { .. } | Op::Cast { .. } | Op::Address { .. });
        if !computes || !self.kernel.may_speculate(&op) {
            return None;
        }
        let low = self.by_lower_bits(value, &op);
        for operand in op.operands_mut() {
            if let Some((of, to)) = low
                && of == *operand
            {
                *operand = self.resized(to, of);
            } else if !self.is_uniform(*operand) {
                *operand = self.known(*operand, depth + 1)?;
            }
        }
        if low.is_some() {
            // Promises were made of the upper bits as well.
            match &mut op {
                Op::Binary { flags, .. } | Op::Cast { flags, .. } => *flags = Flags::NONE,
                _ => {}
            }
        }
        let ty = self.kernel.ty(value).clone();
        Some(self.kernel.push(self.at, ty, op))
    }

    /// A value in the type of another one, which is no narrower.
    fn resized(&mut self, value: Value, like: Value) -> Value {
        let ty = self.kernel.ty(like).clone();
        if *self.kernel.ty(value) == ty {
            return value;
        }
        match self.kernel.constant_int(value) {
            Some(bits) => self.kernel.int(ty, bits),
            None => self.kernel.push(self.at, ty, Op::Cast { op: CastOp::ZExt, flags: Flags::NONE, value }),
        }
    }

    /// An operand of which only bits that are known matter, and what stands for it.
    fn by_lower_bits(&self, value: Value, op: &Op) -> Option<(Value, Value)> {
        let (of, needed) = match *op {
            Op::Cast { op: CastOp::Trunc, value: of, .. } => (of, width(self.kernel, value)?),
            Op::Binary { op: BinaryOp::And, lhs, rhs, .. } => {
                (lhs, u128::BITS - self.kernel.constant_int(rhs)?.leading_zeros())
            }
            Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. } => {
                let by = u32::try_from(self.kernel.constant_int(rhs)?).ok()?;
                (lhs, width(self.kernel, value)?.checked_sub(by)?)
            }
            _ => return None,
        };
        let fact = self.facts.iter().find(|fact| fact.value == of && fact.bits >= needed)?;
        Some((of, fact.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// A kernel whose work-items add to what `address` leads to where `condition` holds, in a loop or once.
    fn kernel(condition: &str, again: bool) -> String {
        let latch = if again { "branch %20, b1(%19), b2" } else { "jump b2" };
        let mut function = parse(&format!(
            "kernel \"k\"(%0: ptr(local) @ 0 local_offset, %1: i32 @ 8) {{
b0:
  %2: i64 = local_id 0
  %3: i64 = local_id 1
  %4: i64 = add %2, %3
  %5: i64 = shl nsw %4, 32:i64
  %6: i64 = ashr exact %5, 30:i64
  %7: ptr(local) = address inbounds %0 + %6*1 + 0
  %8: i32 = trunc %4
{condition}  branch %9, b1(0:i32), b2
b1(%15: i32):
  %16: i32 = load %7, align 4
  %17: i32 = add %16, %15
  store %7, %17, align 4
  %19: i32 = add %15, 1:i32
  %20: i1 = icmp ult %19, 9:i32
  {latch}
b2:
  return
}}"
        ))
        .unwrap_or_else(|error| panic!("{error}"));
        substitute_equal_ids(&mut function);
        crate::verify(&function).unwrap_or_else(|error| panic!("{error}"));
        function.to_string()
    }

    fn is_substituted(text: &str) -> bool {
        text.matches(" = address").count() == 2
    }

    #[test]
    fn addresses_go_by_what_the_id_was_found_equal_to() {
        for condition in [
            "  %9: i1 = icmp eq %8, 0:i32\n",
            "  %9: i1 = icmp eq %4, 5:i64\n",
            "  %10: i64 = and %4, 4294967295:i64\n  %9: i1 = icmp eq %10, 0:i64\n",
            "  %11: i1 = icmp slt %1, 8:i32\n  %10: i1 = icmp eq %1, %8\n  %9: i1 = select %11, %10, 0:i1\n",
        ] {
            let text = kernel(condition, true);
            assert!(is_substituted(&text), "{text}");
        }
        let text = kernel("  %10: i64 = and %4, 4294967295:i64\n  %9: i1 = icmp eq %10, 0:i64\n", true);
        assert!(text.contains("shl 0:i64, 32:i64"), "promises of the upper bits are gone: {text}");
    }

    #[test]
    fn what_does_not_follow_stays() {
        for condition in [
            "  %9: i1 = icmp ne %4, 5:i64\n",
            "  %9: i1 = icmp ult %4, 5:i64\n",
            "  %9: i1 = icmp eq %4, %2\n",
            "  %10: i64 = and %4, 65535:i64\n  %9: i1 = icmp eq %10, 0:i64\n",
            "  %11: i1 = icmp slt %1, 8:i32\n  %10: i1 = icmp eq %4, 3:i64\n  %9: i1 = or %11, %10\n",
        ] {
            assert!(!is_substituted(&kernel(condition, true)), "{condition}");
        }
        assert!(!is_substituted(&kernel("  %9: i1 = icmp eq %4, 5:i64\n", false)), "no loop");
    }
}
