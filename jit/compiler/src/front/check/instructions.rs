//! Instructions: which there are, on what types, and what is called.

use super::findings::Findings;
use super::rules::{self, Rule};
use super::symbols::odd_types;
use super::types::{self, described, is_bool_vector, is_generic_pointer, is_odd_integer, is_odd_vector};
use super::{blocks, builtins};
use crate::builtin::enqueue;
use crate::front::{blocks::is_of_blocks, limits};
use crate::llvm::{Call, Function, Instruction, Layout, Value};
use inkwell::llvm_sys::LLVMOpcode::{self, *};
use inkwell::llvm_sys::LLVMValueKind;

/// What is asked of an instruction besides itself.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'m> {
    pub layout: Layout<'m>,
    /// Whether the module is of OpenCL C 2.0 or later.
    pub has_blocks: bool,
    /// Whether it says that it is of SPIR 1.2.
    pub is_of_1_2: bool,
}

/// All instructions of a function.
pub(super) fn function<'m>(function: Function<'m>, around: Surroundings<'m>, findings: &mut Findings) {
    let name = function.name();
    for instruction in function.instructions() {
        if let Some((rule, what)) = forbidden(instruction, around.has_blocks) {
            let text = format!("the function `{name}` contains {what}, which SPIR doesn't allow");
            findings.at(rule, instruction, text);
            continue;
        }
        if let Some(what) = types::foreign(instruction) {
            let text = format!("the function `{name}` contains {what}, which SPIR doesn't allow");
            findings.at(&rules::TYPES, instruction, text);
            continue;
        }
        if let Some(what) = types::excessive(instruction) {
            let text = format!("the function `{name}` contains {what}, which SPIR doesn't allow");
            findings.at(&rules::SIZE, instruction, text);
        }
        if instruction.allocated_type().is_some()
            && let Some((rule, what)) = limits::private(around.layout, instruction)
        {
            findings.at(rule, instruction, format!("the function `{name}` has {what}"));
        }
        if let Some(other) = around.has_blocks.then(|| misused_function(instruction)).flatten() {
            let text = format!(
                "the function `{name}` uses the address of `{}` for something else than a block; OpenCL C has no \
                 function pointers",
                other.name()
            );
            findings.at(&rules::FUNCTION_POINTER, instruction, text);
        }
        if let Some(call) = instruction.as_call() {
            self::call(&name, call, findings);
        }
        if findings.wants_remarks() {
            remarks(&name, instruction, around, findings);
        }
    }
}

fn call(name: &str, call: Call, findings: &mut Findings) {
    let Some(callee) = call.called_function() else { return };
    if call.called_type() != callee.value_type() {
        let text =
            format!("the function `{name}` calls `{}` with another signature than its own", callee.name());
        findings.at(&rules::SIGNATURE, *call, text);
    }
    if let Some(bytes) = limits::excessive_copy(call) {
        let text =
            format!("the function `{name}` copies or fills {bytes} bytes at once; no memory has so many");
        findings.at(&rules::SIZE, *call, text);
    }
}

/// A value without the casts around it.
fn without_casts<'m>(mut value: Value<'m>) -> Value<'m> {
    while matches!(value.operation(), Some(LLVMBitCast | LLVMAddrSpaceCast))
        && let Some(operand) = value.operand(0)
    {
        value = operand;
    }
    value
}

/// A function whose address an instruction uses otherwise than to make or to enqueue a block (SPIR 2.0, 2.1.3.7): today's
/// clang also keeps it in the block's memory.
fn misused_function<'m>(instruction: Instruction<'m>) -> Option<Function<'m>> {
    let address = |value: &Value<'m>| without_casts(*value).as_function();
    match instruction.opcode() {
        LLVMStore => address(&instruction.operand(1)?),
        LLVMBitCast | LLVMAddrSpaceCast => None,
        LLVMCall => {
            let call = instruction.as_call()?;
            let takes_blocks = call.called_function().is_some_and(|callee| is_of_blocks(&callee.name()));
            call.arguments().iter().filter(|_| !takes_blocks).find_map(address)
        }
        _ => instruction.operands().iter().find_map(address),
    }
}

/// Whether what is called may be a block's function: SPIR's, or what clang reads from a block.
fn is_blocks_call(callee: Value) -> bool {
    let callee = without_casts(callee);
    let is_read = callee.operation() == Some(LLVMOpcode::LLVMLoad);
    let function = callee.as_instruction().and_then(Instruction::called_function);
    is_read || function.is_some_and(|function| function.name() == enqueue::INVOKE)
}

/// What is wrong with an instruction (SPIR 1.2, tables 14 and 15), in words.
fn forbidden(instruction: Instruction, has_blocks: bool) -> Option<(&'static Rule, &'static str)> {
    let what = match instruction.opcode() {
        LLVMIndirectBr => "an indirectbr",
        LLVMInvoke | LLVMResume | LLVMLandingPad | LLVMCleanupRet | LLVMCatchRet | LLVMCatchPad
        | LLVMCleanupPad | LLVMCatchSwitch => "exception handling",
        LLVMVAArg => "a va_arg",
        LLVMFence => return Some((&rules::ATOMIC, "a fence (builtins are for that)")),
        LLVMAtomicCmpXchg | LLVMAtomicRMW => {
            return Some((&rules::ATOMIC, "an atomic instruction (builtins are for that)"));
        }
        LLVMLoad | LLVMStore if instruction.is_atomic() => {
            return Some((&rules::ATOMIC, "an atomic load or store (builtins are for that)"));
        }
        LLVMCallBr => return Some((&rules::ASSEMBLY, "inline assembly")),
        LLVMCall => {
            return match instruction.as_call()?.callee().kind() {
                LLVMValueKind::LLVMFunctionValueKind => None,
                LLVMValueKind::LLVMInlineAsmValueKind => Some((&rules::ASSEMBLY, "inline assembly")),
                _ if has_blocks && is_blocks_call(instruction.as_call()?.callee()) => None,
                _ => Some((&rules::FUNCTION_POINTER, "a call through a pointer")),
            };
        }
        _ => return None,
    };
    Some((&rules::INSTRUCTION, what))
}

/// What SPIR's letter says besides.
fn remarks<'m>(name: &str, instruction: Instruction<'m>, around: Surroundings<'m>, findings: &mut Findings) {
    let ty = instruction.ty();
    let mut note = |rule: &'static Rule, what: String| {
        findings.at(rule, instruction, format!("the function `{name}` {what}"));
    };
    odd_types(is_odd_integer(ty.scalar()), is_odd_vector(ty), |rule| {
        note(rule, format!("has a value of {}", described(ty)));
    });
    if let Some(what) = misused_bools(instruction) {
        note(&rules::BOOL_VECTORS, what.to_owned());
    }
    if around.is_of_1_2 && is_generic_pointer(ty) {
        note(&rules::GENERIC_SPACE, "has a generic pointer, in a module of SPIR 1.2".into());
    }
    if instruction.operands().iter().any(|operand| operand.is_poison()) {
        note(&rules::POISON, "uses a poison value".into());
    }
    match instruction.opcode() {
        LLVMFNeg | LLVMFreeze => note(
            &rules::NEWER_INSTRUCTION,
            format!("contains {}", if instruction.opcode() == LLVMFNeg { "fneg" } else { "freeze" }),
        ),
        LLVMLShr | LLVMAShr | LLVMShl => {
            if instruction.opcode() != LLVMShl && instruction.is_exact() {
                note(&rules::EXACT_SHIFT, "contains an exact shift".into());
            }
            let amount = instruction.operand(1).and_then(Value::constant_bits);
            if amount.is_some_and(|amount| amount >= u64::from(ty.scalar().integer_width())) {
                note(&rules::SHIFT_AMOUNT, format!("shifts by {} bits", amount.unwrap_or(0)));
            }
        }
        LLVMTrunc | LLVMZExt | LLVMSExt | LLVMFPTrunc | LLVMFPExt | LLVMFPToUI | LLVMFPToSI | LLVMUIToFP
        | LLVMSIToFP
            if ty.is_vector() =>
        {
            // Of comparisons' results 2.1.2 allows it.
            let is_allowed = matches!(instruction.opcode(), LLVMZExt | LLVMSExt)
                && instruction.operand(0).is_some_and(|operand| is_bool_vector(operand.ty()));
            if !is_allowed {
                note(&rules::VECTOR_CONVERSION, format!("converts a vector to {}", described(ty)));
            }
        }
        LLVMAddrSpaceCast => {
            let from = instruction.operand(0).map_or(0, |operand| operand.ty().scalar().address_space());
            let to = ty.scalar().address_space();
            if from != to && (from != 4 && to != 4 || from == 2 || to == 2) {
                let text = format!("casts a pointer from address space {from} to {to}");
                note(&rules::SPACE_CAST, text);
            }
        }
        LLVMAlloca => {
            if instruction.operand(0).is_some_and(|count| count.constant_bits().is_none()) {
                note(&rules::VARIABLE_LENGTH, "has a private array whose length isn't constant".into());
            }
            let natural = instruction.allocated_type().map_or(1, |ty| around.layout.alignment(ty));
            if instruction.alignment() < natural {
                let text = format!(
                    "has a private variable that is aligned to {} bytes instead of {natural}",
                    instruction.alignment()
                );
                note(&rules::VARIABLE_ALIGNMENT, text);
            }
        }
        LLVMLoad | LLVMStore => {
            let stored = instruction.operand(0).filter(|_| instruction.opcode() == LLVMStore);
            let natural = around.layout.alignment(stored.map_or(ty, |value| value.ty()));
            if instruction.alignment() < natural {
                let text = format!(
                    "accesses memory aligned to {} bytes instead of {natural}",
                    instruction.alignment()
                );
                note(&rules::ACCESS_ALIGNMENT, text);
            }
        }
        LLVMCall => {
            let Some(call) = instruction.as_call() else { return };
            if let Some(callee) = call.called_function() {
                let is_intrinsic = callee.name().starts_with("llvm.");
                if !is_intrinsic && call.calling_convention() != callee.calling_convention() {
                    let text =
                        format!("calls `{}` by another calling convention than its own", callee.name());
                    note(&rules::CALL_CONVENTION, text);
                }
                builtins::call(name, call, &callee.name(), findings);
                blocks::call(name, call, &callee.name(), findings);
            }
        }
        _ => {}
    }
}

/// What a vector of i1 is used for that it is not for (SPIR 2.0, 2.1.2).
fn misused_bools(instruction: Instruction) -> Option<&'static str> {
    let opcode = instruction.opcode();
    let combines = matches!(
        opcode,
        LLVMExtractElement | LLVMInsertElement | LLVMShuffleVector | LLVMAnd | LLVMOr | LLVMXor
    );
    if is_bool_vector(instruction.ty()) && !combines && !matches!(opcode, LLVMICmp | LLVMFCmp) {
        return Some("computes a vector of i1 otherwise than by a comparison");
    }
    let takes = instruction.operands().iter().any(|operand| is_bool_vector(operand.ty()));
    (takes && !combines && !matches!(opcode, LLVMSExt | LLVMZExt))
        .then_some("uses a vector of i1 for something else than to extend it")
}
