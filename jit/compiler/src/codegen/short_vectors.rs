//! Arithmetic on vectors of two or three floats, which LLVM makes of pairs of scalars, in registers of four: the lanes behind them hold
//! what was there before, and where that is a denormal number, an instruction takes a hundred and fifty cycles. They become zeros here.
//! (FinanceBench's Monte Carlo took 11.7 or 4.9 ms, depending on what an index had left in a register.)

use crate::llvm::{Call, Edit, Instruction, Value};
use inkwell::llvm_sys::LLVMOpcode::{self, *};
use inkwell::llvm_sys::LLVMTypeKind::LLVMFloatTypeKind;
use std::collections::HashMap;

/// Floats of a register.
const LANES: u32 = 4;

/// Has all such arithmetic done on whole registers.
pub(super) fn fill(edit: Edit) {
    for function in edit.defined_functions() {
        // In the order of blocks' instructions, so that what is made of filled registers is one.
        let mut filled = HashMap::new();
        for inst in function.instructions() {
            fill_one(edit, inst, &mut filled);
        }
    }
}

/// Replaces an operation by one of whole registers and its first lanes.
fn fill_one<'e>(edit: Edit<'e>, inst: Instruction<'e>, filled: &mut HashMap<Value<'e>, Value<'e>>) {
    let ty = inst.ty();
    let is_short = ty.is_vector() && ty.element_count() < LANES.into() && ty.element_count() > 1;
    if !is_short || ty.scalar().kind() != LLVMFloatTypeKind {
        return;
    }
    let arguments = match inst.as_call() {
        Some(call) if is_slow_with_denormals(call) => call.arguments(),
        None if ARITHMETIC.contains(&inst.opcode()) => inst.operands(),
        _ => return,
    };
    let builder = edit.before(inst);
    let wide: Vec<Value> = arguments
        .iter()
        .map(|value| filled.get(value).copied().unwrap_or_else(|| builder.with_zeros(*value, LANES)))
        .collect();
    let whole = builder.likewise(inst, &wide);
    let lanes = builder.first_lanes(whole, ty.element_count() as u32);
    edit.replace_in(&inst.users(), *inst, lanes);
    filled.insert(lanes, whole);
}

/// (Comparisons, minima and moves take denormal numbers as any others.)
const ARITHMETIC: [LLVMOpcode; 4] = [LLVMFAdd, LLVMFSub, LLVMFMul, LLVMFDiv];

fn is_slow_with_denormals(call: Call) -> bool {
    let name = call.called_function().map(|function| function.name()).unwrap_or_default();
    ["llvm.fma.", "llvm.fmuladd.", "llvm.sqrt."].into_iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::{self, Session};

    fn filled(body: &str) -> String {
        let text = format!(
            "declare <2 x float> @llvm.fma.v2f32(<2 x float>, <2 x float>, <2 x float>)
            define <2 x float> @f(<2 x float> %a, <2 x float> %b) {{\n {body}\n ret <2 x float> %r\n}}"
        );
        let session = Session::new();
        let mut module = llvm::parse_text(&session, &text).unwrap();
        module.edit(fill);
        llvm::verify(&module).unwrap();
        llvm::print_text(&module)
    }

    #[test]
    fn arithmetic_of_two_floats_fills_a_register() {
        let text = filled(
            "%s = fadd nnan <2 x float> %a, %b
             %r = call <2 x float> @llvm.fma.v2f32(<2 x float> %s, <2 x float> %b, <2 x float> splat (float 2.0))",
        );
        assert!(text.contains("fadd nnan <4 x float>"), "{text}");
        assert!(text.contains("@llvm.fma.v4f32(<4 x float>"), "{text}");
        // Of two parameters, one twice; a constant needs none, and the sum has zeros where they had.
        assert_eq!(text.matches("call <4 x float> @llvm.arithmetic.fence").count(), 3, "{text}");
    }

    #[test]
    fn what_is_no_arithmetic_of_floats_stays() {
        let text = filled(
            "br label %l\nl:\n %p = phi <2 x float> [ %a, %0 ]\n %x = bitcast <2 x float> %p to <2 x i32>
             %y = add <2 x i32> %x, %x\n %r = bitcast <2 x i32> %y to <2 x float>",
        );
        assert!(!text.contains("<4 x"), "{text}");
    }
}
