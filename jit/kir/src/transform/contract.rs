//! Transform: contraction. Which products and sums become one operation that rounds once is decided here, so that every back
//! end computes the same bits; nothing is left that allows a back end to decide.
//!
//! It decides as LLVM does for x86: a sum takes over a product that nothing else uses, the left one of two. A product with
//! several uses stays, for with each it would be computed again.
//! Sums that may be reassociated are left to LLVM, which finds more in them than products, and promises no bits for them.

use crate::analysis::{ControlFlow, Loops};
use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, Block, Flags, Function, Inst, Intrinsic, Op, Scalar, Type, UnaryOp, Value, ValueDef};
use fixedbitset::FixedBitSet;
use spirula_interface::target::TargetFacts;

/// Fuses products and sums where they may be and the processor gains, and takes the permission away.
pub fn decide_contraction(function: &mut Function, facts: &TargetFacts) {
    let places = Places::new(function);
    let mut fused = FixedBitSet::with_capacity(function.inst_count());
    rewrite(function, |builder, inst| {
        let result = builder.function.result(inst);
        let fuses = facts.fuses && result.is_some_and(|value| is_fused(builder.function.ty(value)));
        match *builder.function.op(inst) {
            Op::Intrinsic { intrinsic: Intrinsic::MultiplyAdd, flags, ref arguments } => {
                let &[x, y, z] = &arguments[..] else { return false };
                multiply_add(builder, inst, without(flags), [x, y, z], fuses);
                true
            }
            Op::Binary { op: op @ (BinaryOp::FAdd | BinaryOp::FSub), flags, lhs, rhs }
                if fuses && may_contract(flags) =>
            {
                let block = builder.at;
                let product = |value| places.product(builder.function, value, block);
                let (left, right) = (product(lhs), product(rhs));
                let subtracts = op == BinaryOp::FSub;
                let (product, other, is_left) = match (left, right) {
                    (Some(product), _) if lhs != rhs => (product, rhs, true),
                    (None, Some(product)) => (product, lhs, false),
                    _ => return false,
                };
                product.insts.into_iter().flatten().for_each(|inst| fused.insert(inst.index()));
                let x = match product.negative != (subtracts && !is_left) {
                    true => negate(builder, product.factors[0]),
                    false => product.factors[0],
                };
                let z = if subtracts && is_left { negate(builder, other) } else { other };
                multiply_add(builder, inst, without(flags), [x, product.factors[1], z], true);
                true
            }
            _ => false,
        }
    });
    for inst in function.insts().collect::<Vec<_>>() {
        settle(function, inst);
    }
    if !fused.is_clear() {
        function.blocks.iter_mut().for_each(|block| block.insts.retain(|inst| !fused.contains(inst.index())));
    }
}

/// Half is none of the types for which processors have the instruction.
fn is_fused(ty: &Type) -> bool {
    matches!(ty.scalar(), Some(Scalar::Float | Scalar::Double))
}

fn may_contract(flags: Flags) -> bool {
    flags.0 & Flags::CONTRACT != 0 && flags.0 & Flags::REASSOC == 0
}

fn without(flags: Flags) -> Flags {
    Flags(flags.0 & !Flags::CONTRACT)
}

/// Takes the permission away.
fn settle(function: &mut Function, inst: Inst) {
    match function.op_mut(inst) {
        Op::Unary { flags, .. }
        | Op::Binary { flags, .. }
        | Op::Compare { flags, .. }
        | Op::Cast { flags, .. }
        | Op::Select { flags, .. }
        | Op::Intrinsic { flags, .. }
            if may_contract(*flags) =>
        {
            *flags = without(*flags);
        }
        _ => {}
    }
}

fn negate(builder: &mut Builder, value: Value) -> Value {
    builder.push(builder.ty(value), Op::Unary { op: UnaryOp::FNeg, flags: Flags::NONE, value })
}

/// x*y + z.
fn multiply_add(builder: &mut Builder, inst: Inst, flags: Flags, [x, y, z]: [Value; 3], fuses: bool) {
    if fuses {
        let intrinsic = Intrinsic::FusedMultiplyAdd;
        return builder.replace(inst, Op::Intrinsic { intrinsic, flags, arguments: vec![x, y, z] });
    }
    let product = builder.binary(BinaryOp::FMul, flags.0, x, y);
    builder.replace(inst, Op::Binary { op: BinaryOp::FAdd, flags, lhs: product, rhs: z });
}

/// A product that may become part of a sum.
struct Product {
    factors: [Value; 2],
    /// Its negative is meant.
    negative: bool,
    /// What computes it.
    insts: [Option<Inst>; 2],
}

/// Where values are computed and how often they are used.
struct Places {
    uses: Vec<u32>,
    block: Vec<Option<Block>>,
    loops: Option<Loops>,
}

impl Places {
    fn new(function: &Function) -> Self {
        let mut uses = vec![0; function.value_count()];
        let mut places = vec![None; function.value_count()];
        for block in function.block_ids() {
            let data = function.block(block);
            data.terminator.operands().into_iter().for_each(|value| uses[value.index()] += 1);
            for &inst in &data.insts {
                function.op(inst).visit_operands(|value| uses[value.index()] += 1);
                if let Some(result) = function.result(inst) {
                    places[result.index()] = Some(block);
                }
            }
        }
        Places { uses, block: places, loops: Loops::new(&ControlFlow::new(function)) }
    }

    /// The product or its negative that is computed for that block alone, and as often.
    fn product(&self, function: &Function, value: Value, at: Block) -> Option<Product> {
        let ValueDef::Inst(inst) = *function.def(value) else { return None };
        if self.uses.get(value.index()) != Some(&1) || !self.is_as_frequent(value, at) {
            return None;
        }
        match *function.op(inst) {
            Op::Binary { op: BinaryOp::FMul, flags, lhs, rhs } if may_contract(flags) => {
                Some(Product { factors: [lhs, rhs], negative: false, insts: [Some(inst), None] })
            }
            Op::Unary { op: UnaryOp::FNeg, value, .. } => {
                let product = self.product(function, value, at).filter(|product| !product.negative)?;
                Some(Product { negative: true, insts: [product.insts[0], Some(inst)], ..product })
            }
            _ => None,
        }
    }

    /// Whether a value isn't computed in front of a loop that the block is in, nor, in a region, in front of the loop over
    /// work-items, which begins behind the entry: there it is cheaper.
    fn is_as_frequent(&self, value: Value, at: Block) -> bool {
        let Some(block) = self.block[value.index()] else { return false };
        match &self.loops {
            _ if block == at => true,
            Some(loops) if block != Block(0) => loops.innermost(block) == loops.innermost(at),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, verify};

    /// The operations that are left of a function of six floats; %6 is what it yields. They are numbered anew in turn.
    fn decided(body: &str, fuses: bool) -> String {
        let params: Vec<String> = (0..6).map(|n| format!("%{n}: f32")).collect();
        let text =
            format!("function \"f\"({}) yields f32 {{\nb0:\n{body}  return %6\n}}\n", params.join(", "));
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{text}"));
        decide_contraction(&mut function, &TargetFacts { fuses, ..TargetFacts::with_vectors(256) });
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        let text = function.to_string();
        let operations = text.lines().filter_map(|line| line.split_once(": f32 = "));
        operations.map(|(_, operation)| operation).collect::<Vec<_>>().join("; ")
    }

    fn of(operations: &[(u32, &str)]) -> String {
        operations.iter().map(|(value, operation)| format!("  %{value}: f32 = {operation}\n")).collect()
    }

    const PRODUCT: (u32, &str) = (7, "fmul contract %0, %1");

    #[test]
    fn a_sum_takes_over_a_product() {
        let fused = |sum| decided(&of(&[PRODUCT, (6, sum)]), true);
        assert_eq!(fused("fadd contract %7, %2"), "intrinsic fma(%0, %1, %2)");
        assert_eq!(fused("fadd nnan contract %2, %7"), "intrinsic nnan fma(%0, %1, %2)");
        assert_eq!(fused("fsub contract %7, %2"), "fneg %2; intrinsic fma(%0, %1, %8)");
        assert_eq!(fused("fsub contract %2, %7"), "fneg %0; intrinsic fma(%8, %1, %2)");
        assert_eq!(fused("fadd %7, %2"), "fmul %0, %1; fadd %6, %2", "the sum doesn't allow it");
        let forbidden = decided(&of(&[(7, "fmul %0, %1"), (6, "fadd contract %7, %2")]), true);
        assert_eq!(forbidden, "fmul %0, %1; fadd %6, %2", "the product doesn't");
    }

    #[test]
    fn of_two_products_the_left_one() {
        let two = of(&[PRODUCT, (8, "fmul contract %2, %3"), (6, "fadd contract %7, %8")]);
        assert_eq!(decided(&two, true), "fmul %2, %3; intrinsic fma(%0, %1, %7)");
        let three = of(&[
            PRODUCT,
            (8, "fmul contract %2, %3"),
            (9, "fmul contract %4, %5"),
            (10, "fadd contract %7, %8"),
            (6, "fadd contract %10, %9"),
        ]);
        assert_eq!(
            decided(&three, true),
            "fmul %2, %3; intrinsic fma(%0, %1, %7); intrinsic fma(%4, %5, %9)"
        );
    }

    #[test]
    fn a_product_of_several_uses_stays() {
        let twice = of(&[PRODUCT, (8, "fadd contract %7, %2"), (6, "fadd contract %7, %8")]);
        assert_eq!(decided(&twice, true), "fmul %0, %1; fadd %6, %2; fadd %6, %7");
        let double = of(&[PRODUCT, (6, "fadd contract %7, %7")]);
        assert_eq!(decided(&double, true), "fmul %0, %1; fadd %6, %6");
    }

    #[test]
    fn a_negative_product_is_one_too() {
        let negative = of(&[PRODUCT, (8, "fneg contract %7"), (6, "fadd contract %2, %8")]);
        assert_eq!(decided(&negative, true), "fneg %0; intrinsic fma(%9, %1, %2)");
        let twice = of(&[PRODUCT, (8, "fneg contract %7"), (6, "fsub contract %2, %8")]);
        assert_eq!(decided(&twice, true), "intrinsic fma(%0, %1, %2)");
    }

    #[test]
    fn the_processor_decides() {
        let sum = of(&[PRODUCT, (6, "fadd contract %7, %2")]);
        assert_eq!(decided(&sum, false), "fmul %0, %1; fadd %6, %2");
        let either = of(&[(6, "intrinsic fmuladd(%0, %1, %2)")]);
        assert_eq!(decided(&either, true), "intrinsic fma(%0, %1, %2)");
        assert_eq!(decided(&either, false), "fmul %0, %1; fadd %7, %2");
    }

    #[test]
    fn what_may_be_reassociated_is_left_alone() {
        let any = "fmul reassoc contract %0, %1; fadd reassoc contract %6, %2";
        let body = of(&[(7, "fmul reassoc contract %0, %1"), (6, "fadd reassoc contract %7, %2")]);
        assert_eq!(decided(&body, true), any);
    }

    #[test]
    fn a_product_in_front_of_a_loop_stays_there() {
        let text = "function \"f\"(%0: f32, %1: f32, %2: i1) yields f32 {\nb0:\n  %3: f32 = fmul contract %0, %1\n  jump b1(%0)\n\
                    b1(%4: f32):\n  %5: f32 = fadd contract %4, %3\n  branch %2, b1(%5), b2\nb2:\n  return %5\n}\n";
        let mut function = parse(text).unwrap();
        decide_contraction(&mut function, &TargetFacts { fuses: true, ..TargetFacts::with_vectors(256) });
        assert!(function.to_string().contains("fadd %"), "{function}");
    }
}
