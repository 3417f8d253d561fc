//! Loops of known length that shift vectors by what they count, as those that go through the bits of a word, are unrolled. By a constant a
//! shift is one operation, and two shifts are a rotation. LLVM weighs that up for scalars; it doesn't see that a vector whose elements are
//! all one number that is counted is a constant as well.

use crate::llvm::loops::{self, Loop, MAX_BLOCKS};
use crate::llvm::{Edit, Function, Instruction, Value};
use inkwell::llvm_sys::LLVMOpcode::*;
use std::collections::HashSet;

/// More iterations no word has bits.
const MAX_ITERATIONS: u64 = 64;
/// What all iterations may come to, in instructions that stay.
const MAX_UNROLLED: u64 = 600;

/// Marks the loops of all functions.
pub(super) fn unroll(edit: Edit) {
    for function in edit.defined_functions() {
        wanted(function).into_iter().for_each(|latch| edit.unroll_fully(latch));
    }
}

/// The branches back of such loops.
fn wanted<'m>(function: Function<'m>) -> Vec<Instruction<'m>> {
    if function.blocks().len() > MAX_BLOCKS || !function.instructions().into_iter().any(is_vector_shift) {
        return Vec::new();
    }
    let loops = loops::loops(function);
    let found = loops.iter().filter(|found| is_wanted(found) && loops::is_innermost(found, &loops));
    // What is said of a loop already holds.
    found
        .filter_map(|found| found.latch.terminator())
        .filter(|latch| !latch.has_loop_hint("llvm.loop."))
        .collect()
}

fn is_vector_shift(inst: Instruction) -> bool {
    inst.ty().is_vector() && matches!(inst.opcode(), LLVMShl | LLVMLShr | LLVMAShr)
}

fn is_wanted<'m>(found: &Loop<'m>) -> bool {
    let Some(iterations) = loops::last_number(found).filter(|&last| last <= MAX_ITERATIONS) else {
        return false;
    };
    let counted = counted(found);
    let all = || found.blocks.iter().flat_map(|block| block.instructions());
    let by_counted = |inst: Instruction<'m>| {
        let by = inst.operand(1).and_then(Value::as_instruction);
        is_vector_shift(inst) && by.is_some_and(|by| counted.contains(&by))
    };
    let stays =
        |inst: &Instruction<'m>| !counted.contains(inst) && !matches!(inst.opcode(), LLVMPHI | LLVMBr);
    all().any(by_counted) && iterations * all().filter(stays).count() as u64 <= MAX_UNROLLED
}

/// What is a constant in each iteration of a loop: its counters, and what is computed of them alone.
fn counted<'m>(found: &Loop<'m>) -> HashSet<Instruction<'m>> {
    let counters = found.header.instructions().into_iter().filter(|inst| loops::counts(*inst));
    let mut rest: Vec<Instruction> = counters.collect();
    let mut counted: HashSet<Instruction> = rest.iter().copied().collect();
    while let Some(inst) = rest.pop() {
        for user in inst.users().into_iter().filter_map(Value::as_instruction) {
            let is_known = |value: &Value<'m>| {
                value.is_constant() || value.as_instruction().is_some_and(|inst| counted.contains(&inst))
            };
            let folds = is_folded(user) && found.blocks.contains(&user.block());
            if folds && user.operands().iter().all(is_known) && counted.insert(user) {
                rest.push(user);
            }
        }
    }
    counted
}

/// Whether LLVM computes it where its operands are constants.
fn is_folded(inst: Instruction) -> bool {
    matches!(
        inst.opcode(),
        LLVMAdd
            | LLVMSub
            | LLVMMul
            | LLVMShl
            | LLVMLShr
            | LLVMAShr
            | LLVMAnd
            | LLVMOr
            | LLVMXor
            | LLVMZExt
            | LLVMSExt
            | LLVMTrunc
            | LLVMICmp
            | LLVMSelect
            | LLVMInsertElement
            | LLVMShuffleVector
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::{self, Session};

    /// A loop that goes to `last` and does this with %x, a vector, and %c, all of whose elements are `counted`.
    fn looping(counted: &str, last: &str, body: &str) -> String {
        format!(
            "define <4 x i32> @f(<4 x i32> %x, i32 %n, i32 %m) {{
             br label %h\nh:\n %i = phi i32 [ 1, %0 ], [ %j, %b ]\n %r = phi <4 x i32> [ %x, %0 ], [ %s, %b ]
             %go = icmp ult i32 %i, {last}\n br i1 %go, label %b, label %e
             b:\n %k = {counted}\n %one = insertelement <4 x i32> poison, i32 %k, i32 0
             %c = shufflevector <4 x i32> %one, <4 x i32> poison, <4 x i32> zeroinitializer
             {body}\n %s = or <4 x i32> %r, %y\n %j = add i32 %i, 1\n br label %h\ne:\n ret <4 x i32> %r\n}}"
        )
    }

    fn is_unrolled(text: &str) -> bool {
        let session = Session::new();
        let mut module = llvm::parse_text(&session, text).unwrap();
        module.edit(unroll);
        llvm::verify(&module).unwrap();
        llvm::print_text(&module).contains("llvm.loop.unroll.full")
    }

    #[test]
    fn shifts_by_what_is_counted_are_by_constants() {
        for shift in ["shl", "lshr", "ashr"] {
            let text = looping("sub i32 32, %i", "32", &format!("%y = {shift} <4 x i32> %x, %c"));
            assert!(is_unrolled(&text), "{text}");
        }
    }

    #[test]
    fn other_loops_stay() {
        let shift = "%y = lshr <4 x i32> %x, %c";
        for (counted, last, body) in [
            ("sub i32 %m, %i", "32", shift),
            ("sub i32 32, %i", "%n", shift),
            ("sub i32 32, %i", "65", shift),
            ("sub i32 32, %i", "32", "%y = lshr <4 x i32> %c, %x"),
            ("sub i32 32, %i", "32", "%y = add <4 x i32> %x, %c"),
        ] {
            assert!(!is_unrolled(&looping(counted, last, body)), "{counted} {last} {body}");
        }
        let long: String = (0..20).map(|i| format!("%a{i} = udiv <4 x i32> %x, %r\n ")).collect();
        assert!(!is_unrolled(&looping("sub i32 32, %i", "32", &(long + shift))));
        let hinted = looping("sub i32 32, %i", "32", shift).replace("%h\ne:", "%h, !llvm.loop !0\ne:")
            + "\n!0 = distinct !{!0, !1}\n!1 = !{!\"llvm.loop.vectorize.enable\", i1 false}";
        assert!(hinted.contains("!llvm.loop") && !is_unrolled(&hinted));
    }
}
