//! Calls of builtins: which of their arguments must be constants, and of which values.

use super::findings::Findings;
use super::rules::{self, Rule};
use super::types::is_double;
use crate::builtin;
use crate::llvm::{Call, Function, Value};
use inkwell::llvm_sys::LLVMTypeKind::{LLVMFloatTypeKind, LLVMHalfTypeKind};

/// Functions whose first argument is fence flags.
const FENCES: [&str; 7] = [
    "barrier",
    "work_group_barrier",
    "sub_group_barrier",
    "mem_fence",
    "read_mem_fence",
    "write_mem_fence",
    "atomic_work_item_fence",
];

/// Numbers that stand for an enumeration's values, by the type's name in a mangled name, and the most.
const NUMBERS: [(&str, &Rule, u64); 2] =
    [("memory_order", &rules::MEMORY_ORDER, 5), ("memory_scope", &rules::MEMORY_SCOPE, 4)];

/// A declared function whose name should be mangled.
pub(super) fn declaration(function: Function, findings: &mut Findings) {
    let name = function.name();
    if name.starts_with("_Z") && builtin::parameters(&name).is_none() {
        findings.about(
            &rules::MANGLED_NAME,
            *function,
            format!("`{name}` is not mangled as OpenCL C's builtins are"),
        );
    }
}

/// A call of a declared function.
pub(super) fn call(name: &str, call: Call, symbol: &str, findings: &mut Findings) {
    if !call.called_function().is_some_and(|callee| callee.is_declaration()) {
        return;
    }
    let arguments = call.arguments();
    let mut note = |rule: &'static Rule, what: String| {
        findings.at(rule, *call, format!("the function `{name}` {what}"));
    };
    let (callee, types) =
        builtin::parameters(symbol).unwrap_or_else(|| (builtin::source_name(symbol).to_owned(), Vec::new()));
    let number = |index: usize| arguments.get(index).copied().and_then(Value::constant_bits);
    if FENCES.contains(&callee.as_str()) && number(0).is_none_or(|flags| flags > 7) {
        note(
            &rules::FENCE_FLAGS,
            format!("calls `{callee}` with flags that are no constant of bits 1, 2 and 4"),
        );
    }
    for (index, ty) in types.iter().enumerate() {
        for (kind, rule, most) in NUMBERS {
            if ty == kind && number(index).is_none_or(|value| value > most) {
                note(rule, format!("calls `{callee}` with a {kind} that is no constant of 0 to {most}"));
            }
        }
        if ty == "sampler_t"
            && let Some(bits) = number(index)
            && !is_sampler(bits)
        {
            note(&rules::SAMPLER_VALUE, format!("calls `{callee}` with the sampler {bits:#x}"));
        }
    }
    if callee == "enqueue_kernel" && number(1).is_none_or(|flags| flags > 2) {
        note(
            &rules::ENQUEUE_FLAGS,
            "calls `enqueue_kernel` with flags that are no constant of 0 to 2".into(),
        );
    }
    let is_of_pipes = types.iter().any(|ty| ty.contains("pipe_t"));
    if is_of_pipes && arguments.iter().rev().take(2).any(|value| value.constant_bits().is_none()) {
        note(&rules::PIPE_PACKET, format!("calls `{callee}` with a packet's size that isn't constant"));
    }
    if callee == "printf" {
        if arguments.first().is_some_and(|format| format.ty().address_space() != 2) {
            note(
                &rules::PRINTF_FORMAT,
                "calls `printf` with a format that is not in the constant address space".into(),
            );
        }
        let is_short = |value: &Value| matches!(value.ty().kind(), LLVMFloatTypeKind | LLVMHalfTypeKind);
        if arguments.iter().skip(1).any(is_short) {
            note(&rules::PRINTF_FLOAT, "calls `printf` with a float that is not converted to double".into());
        }
    }
}

/// Whether something but a conversion for `printf` yields a double.
pub(super) fn uses_double(value: Value) -> bool {
    use inkwell::llvm_sys::LLVMOpcode::LLVMFPExt;
    is_double(value.ty().scalar()) && value.operation() != Some(LLVMFPExt)
}

/// Table 4: coordinates in one bit, addressing in three, a filter.
fn is_sampler(bits: u64) -> bool {
    let (addressing, filter) = (bits & 0xe, bits & !0xf);
    addressing <= 8 && [0, 0x10, 0x20].contains(&filter)
}
