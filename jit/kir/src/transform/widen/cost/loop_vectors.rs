//! Widening: loops of a work-item that LLVM's loop vectorizer makes vectors of in scalar code. Kernels that give each work-item a row, as
//! those that were written for processors do, have them: packs would come back to each line once for every element of it.

use super::super::slots::access_size;
use crate::analysis::{Leaps, LoopId, Loops};
use crate::{BinaryOp, Block, Flags, Function, Inst, Op, Predicate, Type, Value};

/// Of what a register's elements would gain, this part is left by what lies across two lines and by iterations that don't fill a register.
const GAINED: f64 = 0.5;
/// More stores would have to be compared with more other places before a loop than is done.
const MOST_STORES: usize = 4;

/// How many times as fast iterations of an innermost loop are in scalar code for LLVM's vectors; 1 if it can make none.
pub(super) fn gain(body: &Function, loops: &Loops, leaps: &Leaps, (id, register_bits): (LoopId, u32)) -> f64 {
    let search = Search { body, loops, leaps, id };
    let elements = search.widest().map_or(1.0, |bits| f64::from(register_bits) / f64::from(bits.max(8)));
    1.0 + GAINED * (elements.max(1.0) - 1.0)
}

struct Search<'a> {
    body: &'a Function,
    loops: &'a Loops,
    leaps: &'a Leaps<'a>,
    id: LoopId,
}

impl Search<'_> {
    /// Bits of the widest element that is accessed, if vectors of them can be.
    fn widest(&self) -> Option<u32> {
        if !self.is_counted() || !self.carries_little() {
            return None;
        }
        let (mut widest, mut stores, mut loads) = (0, Vec::new(), Vec::new());
        for (block, inst) in self.insts() {
            let (pointer, value, stays) = match *self.body.op(inst) {
                Op::Load { pointer, volatile: false, ordering: None, .. } => {
                    loads.push(pointer);
                    (pointer, self.body.result(inst)?, self.leaps.stays_at(block, pointer))
                }
                Op::Store { pointer, value, volatile: false, ordering: None, .. } => {
                    stores.push(pointer);
                    (pointer, value, false)
                }
                ref op if is_vectorized(self.body, op) => continue,
                _ => return None,
            };
            let ty = self.body.ty(value);
            let size = access_size(ty).filter(|_| ty.lanes() == 1)?;
            if !stays && !self.leaps.walk_at(block, pointer, size) {
                return None;
            }
            widest = widest.max(size as u32 * 8);
        }
        let is_apart = |store: &Value| {
            let own = root(self.body, *store);
            let mut others = loads.iter().chain(&stores).filter(|other| *other != store);
            others.all(|other| root(self.body, *other) != own)
        };
        (stores.len() <= MOST_STORES && stores.iter().all(is_apart) && widest > 0).then_some(widest)
    }

    fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.loops.get(self.id).blocks.ones().map(|number| Block(number as u32))
    }

    fn insts(&self) -> impl Iterator<Item = (Block, Inst)> + '_ {
        self.blocks().flat_map(|block| self.body.block(block).insts.iter().map(move |&inst| (block, inst)))
    }

    /// Whether it has one way through, and is left where a comparison of integers says so.
    fn is_counted(&self) -> bool {
        let inside = |block: Block| self.loops.contains(self.id, block);
        let mut exits = 0;
        for block in self.blocks() {
            let terminator = &self.body.block(block).terminator;
            let targets = terminator.targets();
            match targets.iter().filter(|target| inside(target.block)).count() {
                1 if targets.len() == 1 => {}
                1 if targets.len() == 2
                    && terminator.operands().first().is_some_and(|&c| self.compares(c)) =>
                {
                    exits += 1
                }
                _ => return false,
            }
        }
        exits == 1
    }

    fn compares(&self, condition: Value) -> bool {
        let op = self.body.defining_op(condition);
        matches!(op, Some(Op::Compare { predicate: Predicate::Int(_), .. }))
    }

    /// Whether what comes from one iteration into the next are counters and sums in any order.
    fn carries_little(&self) -> bool {
        let header = self.loops.get(self.id).header;
        let again = self.blocks().flat_map(|block| self.body.block(block).terminator.targets());
        let again: Vec<_> = again.filter(|target| target.block == header).collect();
        let params = &self.body.block(header).params;
        let [again] = &again[..] else { return false };
        params.iter().zip(&again.arguments).all(|(param, next)| match self.body.defining_op(*next) {
            Some(&Op::Binary { op, flags, lhs, rhs }) => {
                (lhs == *param || rhs == *param) && is_in_any_order(op, flags)
            }
            Some(&Op::Address { base, .. }) => base == *param,
            _ => next == param,
        })
    }
}

/// Whether sums, or what it makes, may be computed in any order.
fn is_in_any_order(op: BinaryOp, flags: Flags) -> bool {
    use BinaryOp::{Add, And, FAdd, FMul, Mul, Or, Xor};
    match op {
        Add | Mul | And | Or | Xor => true,
        FAdd | FMul => flags.0 & Flags::REASSOC != 0,
        _ => false,
    }
}

/// Whether an operation is one of vectors as well.
fn is_vectorized(body: &Function, op: &Op) -> bool {
    use BinaryOp::{FRem, SDiv, SRem, UDiv, URem};
    let is_scalar =
        |value: &Value| body.ty(*value).lanes() == 1 && !matches!(body.ty(*value), Type::Struct(_));
    let is_one = match op {
        Op::Binary { op, .. } => !matches!(op, FRem | SDiv | SRem | UDiv | URem),
        Op::Intrinsic { intrinsic, .. } => intrinsic.is_elementwise(),
        Op::Unary { .. } | Op::Compare { .. } | Op::Select { .. } | Op::Cast { .. } | Op::Address { .. } => {
            true
        }
        _ => false,
    };
    is_one && op.operands().iter().all(is_scalar)
}

/// What a pointer leads into, as far as is seen.
fn root(body: &Function, pointer: Value) -> Value {
    let mut root = pointer;
    while let Some(&Op::Address { base, .. }) = body.defining_op(root) {
        root = base;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::ControlFlow;
    use crate::parse;

    /// Of a loop whose counter is %4: %3 is the work-item's row, %0 and %1 are buffers, %5 is carried and %6 the next one.
    fn gain_of(body: &str) -> f64 {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {{\nb0:\n  %10: i64 = global_id 0\n  %3: i64 = mul %10, %2\n  \
             jump b1(0:i64, 0x0:f32)\nb1(%4: i64, %5: f32):\n  %11: i64 = add %3, %4\n  %12: ptr(global) = address %0 + %11*4 + 0\n  \
             %13: f32 = load %12, align 4\n{body}  %8: i64 = add %4, 1:i64\n  %9: i1 = icmp ult %8, %2\n  branch %9, b1(%8, %6), b2\nb2:\n  \
             %7: ptr(global) = address %1 + %10*4 + 0\n  store %7, %6, align 4\n  return\n}}"
        );
        let body = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let loops = Loops::new(&ControlFlow::new(&body)).unwrap();
        gain(&body, &loops, &Leaps::new(&body, &loops), (LoopId(0), 512))
    }

    #[test]
    fn rows_whose_elements_do_not_wait_for_each_other_are_vectors() {
        let store = |root: u32, place: &str| {
            format!(
                "  %20: i64 = {place}\n  %21: ptr(global) = address %{root} + %20*4 + 0\n  %22: f32 = fmul %13, %13\n  store %21, %22, align 4\n"
            )
        };
        let same = "  %6: f32 = fadd %5, 0x0:f32\n".replace("fadd", "fadd reassoc");
        let of_store = |root, place| gain_of(&format!("{}{same}", store(root, place)));
        assert!(of_store(1, "add %11, 0:i64") > 4.0);
        assert_eq!(of_store(1, "mul %11, 2:i64"), 1.0, "every other element");
        assert_eq!(of_store(0, "add %11, 1:i64"), 1.0, "the next one is loaded again");
        assert_eq!(gain_of("  %6: f32 = fadd %5, %13\n"), 1.0, "sums of floats have an order");
        assert!(gain_of("  %6: f32 = fadd reassoc %5, %13\n") > 4.0);
        assert_eq!(gain_of("  %6: f32 = fmul %13, %13\n"), 1.0, "what was found before");
    }
}
