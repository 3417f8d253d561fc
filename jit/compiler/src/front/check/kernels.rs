//! Kernels: which there are, and what is said of their arguments (SPIR 2.0, 2.3 and 2.4). What makes a kernel unusable is
//! found where its metadata is read.

use super::findings::Findings;
use super::functions::SPIR_KERNEL;
use super::rules::{self, Rule};
use crate::llvm::{Function, Node, Value, View};
use inkwell::llvm_sys::LLVMValueKind::LLVMUndefValueValueKind;
use std::collections::HashMap;

/// The lists that each kernel has.
const LISTS: [&str; 5] = [
    "kernel_arg_addr_space",
    "kernel_arg_access_qual",
    "kernel_arg_type",
    "kernel_arg_base_type",
    "kernel_arg_type_qual",
];

type Lists<'m> = HashMap<String, Vec<Option<Value<'m>>>>;

/// All kernels.
pub(super) fn remarks<'m>(module: View<'m>, findings: &mut Findings) {
    let entries = module.named_metadata(c"opencl.kernels");
    let mut listed: HashMap<Function, u32> = HashMap::new();
    for entry in entries {
        let operands = entry.operands();
        let Some(function) = operands.first().copied().flatten().and_then(Value::as_function) else {
            continue;
        };
        *listed.entry(function).or_default() += 1;
        if function.calling_convention() != SPIR_KERNEL {
            let text = format!("the kernel `{}` is not `spir_kernel`", function.name());
            findings.about(&rules::CALLING_CONVENTION, *function, text);
        }
        let nodes = operands.iter().skip(1).flatten().filter_map(|value| value.as_node());
        kernel(function, &nodes.filter_map(named).collect(), findings);
    }
    let defined = module.defined_functions().into_iter();
    for function in defined.filter(|function| function.calling_convention() == SPIR_KERNEL) {
        let count = listed.get(&function).copied().unwrap_or(0);
        if count != 1 {
            let times = if count == 0 { "no entry".to_string() } else { format!("{count} entries") };
            let text = format!("the kernel `{}` has {times} in `opencl.kernels`", function.name());
            findings.about(&rules::KERNEL_UNLISTED, *function, text);
        }
        if count == 0 {
            let attached = |name: &str| Some((name.to_string(), function.attachment(name)?.operands()));
            let names = LISTS.iter().chain(&["kernel_arg_optional_qual", "vec_type_hint"]);
            kernel(function, &names.filter_map(|name| attached(name)).collect(), findings);
        }
        if let Some(caller) = callers(function).first()
            && has_local(module, function)
        {
            let text =
                format!("the kernel `{}` has local variables, and `{caller}` calls it", function.name());
            findings.about(&rules::KERNEL_LOCAL, *function, text);
        }
    }
}

/// `!{!"kernel_arg_type", ...}`.
fn named(node: Node) -> Option<(String, Vec<Option<Value>>)> {
    let operands = node.operands();
    let (first, rest) = operands.split_first()?;
    Some(((*first)?.metadata_string()?, rest.to_vec()))
}

fn callers(function: Function) -> Vec<String> {
    let callers = function.users().into_iter().filter_map(|user| user.as_call());
    callers.map(|call| call.parent_function().name()).collect()
}

fn has_local<'m>(module: View<'m>, function: Function<'m>) -> bool {
    let locals = module.globals().into_iter().filter(|global| global.ty().address_space() == 3);
    locals.into_iter().any(|local| local.using_functions().contains(&function))
}

fn kernel(function: Function, lists: &Lists, findings: &mut Findings) {
    let name = function.name();
    let mut note = |rule: &'static Rule, what: String| {
        findings.about(rule, *function, format!("the kernel `{name}` {what}"));
    };
    let missing: Vec<&str> = LISTS.into_iter().filter(|list| !lists.contains_key(*list)).collect();
    if !missing.is_empty() {
        note(&rules::ARGUMENT_INFO, format!("has no {}", missing.join(", no ")));
    }
    let words = |list: &str| -> Vec<String> {
        let values = lists.get(list).into_iter().flatten();
        values.map(|value| value.and_then(|value| value.metadata_string()).unwrap_or_default()).collect()
    };
    for (index, value) in lists.get("kernel_arg_addr_space").into_iter().flatten().enumerate() {
        let said = value.and_then(Value::constant_bits);
        let parameter = function.parameters().get(index).map(|parameter| parameter.ty());
        let pointer = parameter.filter(|ty| ty.is_pointer()).map(|ty| u64::from(ty.address_space()));
        // What is passed by value, and queues, are pointers in the private address space.
        let agrees = pointer.is_none_or(|space| said == Some(space));
        if said.is_none_or(|said| said > 3) || !agrees {
            note(
                &rules::ARGUMENT_SPACE,
                format!("has an argument {index} of another kernel_arg_addr_space than its type's"),
            );
        }
    }
    for (index, word) in words("kernel_arg_access_qual").iter().enumerate() {
        if !["read_only", "write_only", "read_write", "none"].contains(&word.as_str()) {
            note(
                &rules::ARGUMENT_ACCESS,
                format!("has an argument {index} with the access qualifier `{}`", short(word)),
            );
        }
    }
    for list in ["kernel_arg_type", "kernel_arg_base_type"] {
        for (index, word) in words(list).iter().enumerate() {
            if word.is_empty() || word.contains(char::is_whitespace) {
                note(
                    &rules::ARGUMENT_TYPE,
                    format!("has an argument {index} whose {list} is `{}`", short(word)),
                );
            }
        }
    }
    let known: [(&str, &[&str]); 2] = [
        ("kernel_arg_type_qual", &["const", "restrict", "volatile", "pipe"]),
        ("kernel_arg_optional_qual", &["nosvm", "none"]),
    ];
    for (list, known) in known {
        for (index, text) in words(list).iter().enumerate() {
            if text.split(' ').any(|word| !word.is_empty() && !known.contains(&word)) {
                note(
                    &rules::ARGUMENT_QUALIFIER,
                    format!("has an argument {index} whose {list} is `{}`", short(text)),
                );
            }
        }
    }
    if let Some(hint) = lists.get("vec_type_hint") {
        let is_undefined = |value: Value| value.kind() == LLVMUndefValueValueKind;
        let is_hint =
            matches!(hint[..], [Some(ty), Some(sign)] if is_undefined(ty) && sign.constant_bits().is_some());
        if !is_hint {
            note(&rules::VECTOR_HINT, "has a malformed vec_type_hint".into());
        }
    }
}

/// Of a name that may be anything.
fn short(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}
