//! Blocks, as SPIR 2.0 has them (2.1.3.7).

use super::findings::Findings;
use super::rules;
use crate::builtin::enqueue;
use crate::llvm::{Call, Instruction, Value};
use inkwell::llvm_sys::LLVMOpcode::*;

/// A call of one of the functions that make blocks or take them apart.
pub(super) fn call(name: &str, call: Call, callee: &str, findings: &mut Findings) {
    let arguments = call.arguments();
    match callee {
        "spir_block_bind" => {
            if arguments.iter().skip(1).take(2).any(|value| value.constant_bits().is_none()) {
                let text =
                    format!("the function `{name}` binds a block whose size or alignment isn't constant");
                findings.at(&rules::BLOCK_SIZES, *call, text);
            }
            let context = arguments.get(3).copied();
            if context.is_some_and(|value| !value.is_null() && source(value).allocated_type().is_none()) {
                let text = format!("the function `{name}` binds a block to captures that no alloca made");
                findings.at(&rules::BLOCK_CONTEXT, *call, text);
            }
        }
        enqueue::INVOKE if !uses(**call).iter().all(|(user, value)| is_callee(*user, *value)) => {
            let text = format!("the function `{name}` uses a block's function otherwise than to call it");
            findings.at(&rules::BLOCK_INVOKE, *call, text);
        }
        enqueue::CONTEXT if !uses(**call).iter().all(|(user, value)| is_argument(*user, *value)) => {
            let text = format!("the function `{name}` uses a block's captures otherwise than to call it");
            findings.at(&rules::BLOCK_ARGUMENT, *call, text);
        }
        _ => {}
    }
}

/// What a pointer was made from by casts.
fn source(mut value: Value) -> Value {
    while matches!(value.operation(), Some(LLVMBitCast | LLVMAddrSpaceCast))
        && let Some(operand) = value.operand(0)
    {
        value = operand;
    }
    value
}

/// The users of a value and of its casts, each with what it uses.
fn uses(value: Value) -> Vec<(Value, Value)> {
    let mut list = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        for user in value.users() {
            match user.operation() {
                Some(LLVMBitCast | LLVMAddrSpaceCast) => open.push(user),
                _ => list.push((user, value)),
            }
        }
    }
    list
}

fn called<'m>(user: Value<'m>) -> Option<Call<'m>> {
    user.as_instruction().and_then(Instruction::as_call)
}

fn is_callee<'m>(user: Value<'m>, value: Value<'m>) -> bool {
    called(user).is_some_and(|call| call.callee() == value && !call.arguments().contains(&value))
}

/// Whether it is passed to what a pointer points to.
fn is_argument<'m>(user: Value<'m>, value: Value<'m>) -> bool {
    called(user).is_some_and(|call| call.called_function().is_none() && call.arguments().contains(&value))
}
