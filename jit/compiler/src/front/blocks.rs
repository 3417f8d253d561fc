//! Blocks (OpenCL C 2.0, 6.12.5), before the builtins are linked: calls of blocks become calls of functions, and blocks that are
//! enqueued become kernels of the program, so that no function's address is left.
//!
//! In Khronos's form a block is what `spir_block_bind` returns; here that is private memory, which holds the function and what
//! it captured. In today's clang's form it is a structure that begins with its size, and whoever enqueues it also names
//! a kernel that calls it. In both, OpenCL C's rules make sure that a block is known where it is used: inlining and the
//! promotion of private memory to values, repeated because a block may call blocks, leave constants there.

use super::call_graph::CallGraph;
use super::harden::kernel_symbol;
use super::link::{add_definitions, readable};
use super::{HardenedModule, check};
use crate::builtin::enqueue::{self, ENQUEUE, KERNEL_OPERAND, Options, QUERY};
use crate::builtin::{Definition, source_name};
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Call, Edit, Function, Instruction, Module, Session, Value, View};
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use inkwell::targets::TargetMachine;
use spirula_interface::options::CompileError;
use spirula_interface::program::{
    AccessQualifier, AddressQualifier, ArgumentInfo, ArgumentKind, KernelSignature, TypeQualifiers,
};
use std::collections::{BTreeSet, HashSet};

/// The function that makes a block, and what stands for it.
const BIND: &str = "spir_block_bind";
const BOUND: &str = "spirula.block.bind";

/// Blocks that call blocks that call blocks: more rounds than a program needs.
const MAX_ROUNDS: usize = 32;

/// What makes blocks known where they are used.
const PASSES: &str =
    "always-inline,globaldce,function(sroa<modify-cfg>,early-cse,sroa<modify-cfg>),globaldce";

/// Words of 64 bits in the memory that is a bound block: function, captures, the captures' size, and one that makes it a vector.
const BLOCK_WORDS: u32 = 4;

/// Resolves blocks. Errors: `Failed` with a line for each that isn't known where it is used, or can't be enqueued.
pub(crate) fn resolve<'s>(
    session: &'s Session,
    hardened: &mut HardenedModule<'s>,
    machine: &TargetMachine,
    options: Options,
) -> Result<(), CompileError> {
    let HardenedModule { module, kernels, checks, .. } = hardened;
    if !has_blocks(module.view()) {
        return Ok(());
    }
    bind(session, module, machine, options)?;
    make_known(module, machine, checks.any())?;
    let blocks = enqueued(module.view())?;
    let first = kernels.len();
    become_kernels(session, module, machine, &blocks, kernels)?;
    if !blocks.is_empty() {
        number(session, module, machine, first, options)?;
    }
    module.edit(|edit| {
        edit.defined_functions().into_iter().for_each(|function| edit.forget_addresses(function));
    });
    Ok(())
}

fn has_blocks(module: View) -> bool {
    let functions = module.functions();
    functions.into_iter().any(|function| {
        let declared = function.is_declaration() && is_of_blocks(&function.name());
        declared || !function.is_declaration() && check::has_address_taken(function)
    })
}

/// Whether a declared function makes, takes apart, enqueues or asks about blocks.
pub(crate) fn is_of_blocks(name: &str) -> bool {
    name == BIND || [enqueue::INVOKE, enqueue::CONTEXT].contains(&name) || enqueue::is_one(source_name(name))
}

/// Calls of declared functions that `is_wanted`.
fn calls_of<'m>(module: View<'m>, is_wanted: impl Fn(&str) -> bool) -> Vec<Call<'m>> {
    let declared = module.functions().into_iter().filter(|f| f.is_declaration());
    let wanted: HashSet<Function> = declared.filter(|function| is_wanted(&function.name())).collect();
    let instructions = module.defined_functions().into_iter().flat_map(|function| function.instructions());
    let calls = instructions.filter_map(Instruction::as_call);
    calls.filter(|call| call.called_function().is_some_and(|callee| wanted.contains(&callee))).collect()
}

/// Gives bound blocks their memory, and has whoever uses blocks read that.
fn bind<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    machine: &TargetMachine,
    options: Options,
) -> Result<(), CompileError> {
    let mut definitions = enqueue::block_functions(BOUND);
    // Each call gets a function of its own: some take any number of arguments.
    let mut names = Vec::new();
    for (number, call) in
        calls_of(module.view(), |name| enqueue::is_one(source_name(name))).iter().enumerate()
    {
        let callee = call.called_function().map(|callee| callee.name()).unwrap_or_default();
        let types: Vec<String> = call.arguments().iter().map(|argument| argument.ty().to_string()).collect();
        let name = format!("spirula.enqueue.{number}");
        let definition = enqueue::define(&name, source_name(&callee), &types, options);
        let definition = definition.filter(|_| call.ty().integer_width() == 32).ok_or_else(|| {
            let types = types.join(", ");
            failed(format!("error: `{callee}` is called with the types ({types}), which it doesn't have\n"))
        })?;
        definitions.push((name.clone(), definition));
        names.push(name);
    }
    add_definitions(session, module, &definitions, machine)?;
    module.edit(|edit| {
        let sites = calls_of(*edit, |name| enqueue::is_one(source_name(name)));
        for (site, name) in sites.into_iter().zip(&names) {
            let Some(function) = edit.function_named(name) else { continue };
            edit.replace_in(&site.users(), **site, edit.before(*site).call(function, &site.arguments()));
            edit.erase_instruction(*site);
        }
        // So that they go when they are inlined.
        for (name, _) in &definitions {
            let function = edit.function_named(name);
            function.into_iter().for_each(|f| edit.set_linkage(*f, LLVMLinkage::LLVMInternalLinkage));
        }
        let Some(bound) = edit.function_named(BOUND) else { return };
        for site in calls_of(*edit, |name| name == BIND) {
            let entry = site.parent_function().blocks().first().map(|block| block.instructions());
            let Some(&first) = entry.as_ref().and_then(|entry| entry.first()) else { continue };
            let memory = edit.before(first).alloca(edit.integer_type(64).vector(BLOCK_WORDS), 8);
            let arguments: Vec<Value> = [memory].into_iter().chain(site.arguments()).collect();
            let types = arguments.iter().map(|argument| argument.ty());
            if types.eq(bound.value_type().parameter_types()) {
                edit.replace_in(&site.users(), **site, edit.before(*site).call(bound, &arguments));
                edit.erase_instruction(*site);
            }
        }
    });
    let wrong = calls_of(module.view(), |name| name == BIND);
    match wrong.first() {
        Some(call) => {
            Err(failed(format!("error: `{BIND}` is called with other types than it has: {call}\n")))
        }
        None => Ok(()),
    }
}

/// Inlines and promotes until each block is known where it is called. `as_written`: whoever has to do with none stays as it is, so that what
/// is wrong in it is found.
fn make_known(module: &mut Module, machine: &TargetMachine, as_written: bool) -> Result<(), CompileError> {
    for _ in 0..MAX_ROUNDS {
        no_recursion(module.view())?;
        let spared = module.edit(|edit| {
            let users = indirect_calls(*edit).into_iter().map(|call| call.parent_function());
            let placeholders = [ENQUEUE, QUERY].into_iter().filter_map(|name| edit.function_named(name));
            for function in CallGraph::new(*edit).reaching(users.chain(placeholders)) {
                if !function.is_declaration() {
                    edit.drop_attribute(function, "noinline");
                    edit.add_attributes(function, &[Attribute::AlwaysInline]);
                }
            }
            if as_written { spare(edit) } else { Vec::new() }
        });
        let before = indirect_calls(module.view()).len();
        llvm::run_passes(module, PASSES, machine)
            .map_err(|error| failed(format!("error: LLVM can't simplify the program: {error}\n")))?;
        module.edit(|edit| {
            for (name, attributes) in &spared {
                let Some(function) = edit.function_named(name) else { continue };
                attributes.iter().for_each(|attribute| edit.drop_attribute(function, attribute));
            }
        });
        let after = indirect_calls(module.view()).len();
        if after == 0 || after == before && !is_resolving(module.view()) {
            break;
        }
    }
    no_recursion(module.view())?;
    let left = indirect_calls(module.view());
    let lines: BTreeSet<String> = left
        .iter()
        .map(|call| {
            let function = readable(*call.parent_function());
            format!(
                "error: {function} calls a block that can't be known when the program is built (6.12.5)\n"
            )
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(failed(lines.into_iter().collect())) }
}

/// Keeps passes away from functions that need not be inlined; the names of attributes that they got for it.
fn spare(edit: Edit) -> Vec<(String, Vec<&'static str>)> {
    let mut spared = Vec::new();
    for function in edit.defined_functions() {
        if ["alwaysinline", "optnone"].iter().any(|name| function.has_attribute(name)) {
            continue;
        }
        let mut attributes = vec!["optnone"];
        if !function.has_attribute("noinline") {
            attributes.push("noinline");
        }
        edit.add_attributes(function, &[Attribute::NoInline, Attribute::OptimizeNone]);
        spared.push((function.name(), attributes));
    }
    spared
}

/// Blocks that are known may turn out to call themselves.
fn no_recursion(module: View) -> Result<(), CompileError> {
    check::recursion(module).map_err(|finding| failed(format!("error: {finding}\n")))
}

/// Calls of what isn't known to be a function, and isn't assembly.
fn indirect_calls(module: View) -> Vec<Call> {
    let instructions = module.defined_functions().into_iter().flat_map(|function| function.instructions());
    let calls = instructions.filter_map(Instruction::as_call);
    calls.filter(|call| call.called_function().is_none()).collect()
}

/// Whether a function that is still to be inlined has blocks as arguments.
fn is_resolving(module: View) -> bool {
    indirect_calls(module).iter().any(|call| call.parent_function().has_uses())
}

/// A block that is enqueued, or asked about.
struct Enqueued {
    /// The function's name.
    function: String,
    /// Its types, without those of the captures.
    locals: usize,
    /// The type of the captures' address.
    captures: String,
}

/// The functions whose blocks are enqueued, in the order of the text. Errors: a line for each that can't be.
fn enqueued(module: View) -> Result<Vec<Enqueued>, CompileError> {
    let (mut blocks, mut log): (Vec<Enqueued>, _) = (Vec::new(), String::new());
    for call in placeholders(module) {
        let user = readable(*call.parent_function());
        match kernel_operand(call).map(|function| (function, enqueueable(function))) {
            None => log.push_str(&format!(
                "error: {user} enqueues a block that can't be known when the program is built (6.12.5)\n"
            )),
            Some((function, None)) => log.push_str(&format!(
                "error: {user} enqueues {}; a block that is enqueued returns nothing and takes pointers to \
                 local memory only (6.13.17.1)\n",
                readable(*function)
            )),
            Some((_, Some(block))) if blocks.iter().all(|other| other.function != block.function) => {
                blocks.push(block)
            }
            Some(_) => {}
        }
    }
    if log.is_empty() { Ok(blocks) } else { Err(failed(log)) }
}

/// What was made of the calls that enqueue and ask.
fn placeholders(module: View) -> Vec<Call> {
    calls_of(module, |name| [ENQUEUE, QUERY].contains(&name))
}

/// The function that a placeholder names.
fn kernel_operand(call: Call<'_>) -> Option<Function<'_>> {
    let name = call.called_function()?.name();
    let index = KERNEL_OPERAND.iter().find(|(other, _)| *other == name)?.1;
    let mut value = *call.arguments().get(index)?;
    while value.operation() == Some(LLVMOpcode::LLVMAddrSpaceCast)
        || value.operation() == Some(LLVMOpcode::LLVMBitCast)
    {
        value = value.operand(0)?;
    }
    value.as_function().filter(|function| !function.is_declaration())
}

fn enqueueable(function: Function) -> Option<Enqueued> {
    let ty = function.value_type();
    let types: Vec<String> = ty.parameter_types().iter().map(|ty| ty.to_string()).collect();
    let (captures, locals) = types.split_first()?;
    let returns = ty.return_type().is_some_and(|ty| !ty.is_void());
    let fits = ["ptr", "ptr addrspace(4)"].contains(&captures.as_str())
        && locals.iter().all(|ty| ty == "ptr addrspace(3)");
    let (function, captures, locals) = (function.name(), captures.clone(), locals.len());
    (fits && !returns).then_some(Enqueued { function, locals, captures })
}

/// Adds a kernel for each block, behind the program's own: its arguments are the block's, and then the captures' address.
fn become_kernels<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    machine: &TargetMachine,
    blocks: &[Enqueued],
    kernels: &mut Vec<KernelSignature>,
) -> Result<(), CompileError> {
    let mut definitions = Vec::new();
    let target = |index: usize| format!("spirula.block.{index}");
    for (index, block) in blocks.iter().enumerate() {
        let plain = block.function.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let name = if plain { block.function.clone() } else { format!("block {index}") };
        let symbol = kernel_symbol(&name);
        definitions.push((symbol.clone(), wrapper(&symbol, &target(index), block)));
        kernels.push(description(&name, block, kernels.first()));
    }
    module.edit(|edit| {
        for (index, block) in blocks.iter().enumerate() {
            if let Some(function) = edit.function_named(&block.function) {
                edit.set_name(*function, &target(index));
                edit.set_linkage(*function, LLVMLinkage::LLVMExternalLinkage);
            }
        }
    });
    add_definitions(session, module, &definitions, machine)?;
    module.edit(|edit| {
        for function in (0..blocks.len()).filter_map(|index| edit.function_named(&target(index))) {
            edit.set_linkage(*function, LLVMLinkage::LLVMInternalLinkage);
        }
    });
    Ok(())
}

/// The kernel that calls a block.
fn wrapper(symbol: &str, target: &str, block: &Enqueued) -> Definition {
    let Enqueued { locals, captures, .. } = block;
    let local = "ptr addrspace(3)";
    let parameters: String = (0..*locals).map(|index| format!("{local} %l{index}, ")).collect();
    let passed: String = (0..*locals).map(|index| format!(", {local} %l{index}")).collect();
    let types = format!(", {local}").repeat(*locals);
    let context = match captures.as_str() {
        "ptr" => ("", "%captures"),
        _ => ("  %c = addrspacecast ptr %captures to ptr addrspace(4)\n", "%c"),
    };
    let ir = format!(
        "define void @\"{symbol}\"({parameters}ptr %captures) {{\n{}  call void @\"{target}\"({captures} {}{passed})\n  ret void\n}}\n",
        context.0, context.1,
    );
    Definition { ir, declarations: [format!("declare void @\"{target}\"({captures}{types})")].into() }
}

/// What the host is told of it.
fn description(name: &str, block: &Enqueued, other: Option<&KernelSignature>) -> KernelSignature {
    let argument = |index: usize| ArgumentInfo {
        kind: ArgumentKind::Local,
        offset: 8 * index as u32,
        address_space: AddressQualifier::Local,
        access: AccessQualifier::None,
        type_name: "void*".into(),
        type_qualifiers: TypeQualifiers::default(),
        name: None,
    };
    KernelSignature {
        name: name.to_owned(),
        arguments: (0..block.locals).map(argument).collect(),
        argument_block_size: 8 * block.locals as u32,
        denormals_are_zero: other.is_some_and(|kernel| kernel.denormals_are_zero),
        remainder_groups: other.is_some_and(|kernel| kernel.remainder_groups),
        block: Some(0),
        ..KernelSignature::default()
    }
}

/// Replaces the functions in the placeholders by the numbers of their kernels, of which the blocks' begin with `first`.
fn number<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    machine: &TargetMachine,
    first: usize,
    options: Options,
) -> Result<(), CompileError> {
    add_definitions(session, module, &enqueue::numbered(options), machine)?;
    module.edit(|edit| {
        for site in placeholders(*edit) {
            let name = site.called_function().map(|callee| callee.name()).unwrap_or_default();
            let index = KERNEL_OPERAND.iter().find(|(other, _)| *other == name).map(|(_, index)| *index);
            let (Some(index), Some(function)) = (index, edit.function_named(&enqueue::numbered_name(&name)))
            else {
                continue;
            };
            let number = kernel_operand(site)
                .and_then(|function| function.name().strip_prefix("spirula.block.")?.parse::<usize>().ok());
            let mut arguments = site.arguments();
            arguments[index] = edit
                .integer_type(32)
                .integer(number.map_or(u64::from(u32::MAX), |number| (first + number) as u64));
            edit.replace_in(&site.users(), **site, edit.before(*site).call(function, &arguments));
            edit.erase_instruction(*site);
        }
    });
    Ok(())
}

fn failed(log: String) -> CompileError {
    CompileError::Failed(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{harden, read_modules, testing};
    use spirula_interface::options::CompileOptions;

    const HEADER: &str = "declare ptr @spir_block_bind(ptr, i32, i32, ptr)
        declare ptr @spir_get_block_invoke(ptr)
        declare ptr @spir_get_block_context(ptr)
        declare spir_func i32 @_Z14enqueue_kernel9ocl_queuei9ndrange_tU13block_pointerFvvE(ptr, i32, ptr, ptr)
        !opencl.ocl.version = !{!9}\n!opencl.spir.version = !{!9}\n!9 = !{i32 2, i32 0}\n";

    /// The kernels and the module's text when blocks are resolved, or the log.
    fn resolved(text: &str) -> Result<(Vec<KernelSignature>, String), String> {
        let session = Session::new();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let (binary, options) = (testing::bitcode(&format!("{HEADER}{text}")), CompileOptions::default());
        let spir = read_modules(&session, &[&binary], &options).map_err(|error| error.to_string())?;
        let mut hardened = harden(spir, &machine);
        resolve(&session, &mut hardened, &machine, Options::default()).map_err(|error| error.to_string())?;
        llvm::verify(&hardened.module).unwrap_or_else(|e| panic!("{e}"));
        Ok((hardened.kernels, llvm::print_text(&hardened.module)))
    }

    const ADD: &str = "define internal spir_func i32 @add(ptr %c, i32 %x) {\n %y = load i32, ptr %c\n \
        %z = add i32 %x, %y\n ret i32 %z\n}\n";
    const WORK: &str = "define internal spir_func void @work(ptr %c) {\n %p = load ptr addrspace(1), ptr %c\n \
        store i32 7, ptr addrspace(1) %p\n ret void\n}\n";
    const CALL: &str = "%f = call ptr @spir_get_block_invoke(ptr %b)\n %c = call ptr @spir_get_block_context(ptr %b)\n \
        %g = bitcast ptr %f to ptr\n %r = call spir_func i32 %g(ptr %c, i32 %x)\n";

    #[test]
    fn a_block_that_is_passed_on_is_called() {
        let (kernels, text) = resolved(&format!(
            "{ADD}define spir_func i32 @apply(ptr %b, i32 %x) noinline {{\n {CALL} ret i32 %r\n}}
             define spir_kernel void @k(ptr addrspace(1) %out, i32 %x) {{
               %m = alloca i32\n %v = alloca ptr\n store i32 %x, ptr %m
               %b = call ptr @spir_block_bind(ptr @add, i32 4, i32 4, ptr %m)\n store ptr %b, ptr %v
               %w = load ptr, ptr %v\n %s = call spir_func i32 @apply(ptr %w, i32 5)
               store i32 %s, ptr addrspace(1) %out\n ret void\n}}"
        ))
        .unwrap();
        assert_eq!(kernels.len(), 1, "nothing is enqueued");
        let called = text.contains("call i32 @add(ptr %m, i32 5)");
        assert!(called && !text.contains("@add,") && !text.contains("call ptr"), "{text}");
    }

    #[test]
    fn what_is_enqueued_becomes_a_kernel_once() {
        let bind =
            |name: &str| format!("%{name} = call ptr @spir_block_bind(ptr @work, i32 8, i32 8, ptr %m)\n");
        let enqueue = |number: u32, block: &str| {
            format!(
                "%e{number} = call spir_func i32 @_Z14enqueue_kernel9ocl_queuei9ndrange_tU13block_pointerFvvE(
                 ptr null, i32 0, ptr %m, ptr %{block})\n"
            )
        };
        let (kernels, text) = resolved(&format!(
            "{WORK}define spir_kernel void @k(ptr addrspace(1) %out) {{\n %m = alloca ptr addrspace(1)
             store ptr addrspace(1) %out, ptr %m\n {}{}{}{} ret void\n}}",
            bind("a"),
            enqueue(1, "a"),
            bind("b"),
            enqueue(2, "b"),
        ))
        .unwrap();
        let names: Vec<_> = kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.block)).collect();
        assert_eq!(names, [("k", None), ("work", Some(0))]);
        assert_eq!(text.matches("i32 1, ptr %m, i64 8, i32 0, ptr null)").count(), 2, "{text}");
        assert!(text.contains("@spirula.kernel.work(ptr %captures)"), "{text}");
    }

    #[test]
    fn what_cannot_be_resolved_is_named() {
        let block = "%m = alloca i32\n %b = call ptr @spir_block_bind(ptr @add, i32 4, i32 4, ptr %m)\n";
        let log = resolved(&format!(
            "{ADD}{}define spir_kernel void @k(ptr addrspace(1) %out, i32 %x, i1 %q) {{\n {block}
             %o = call ptr @spir_block_bind(ptr @other, i32 4, i32 4, ptr %m)
             %b2 = select i1 %q, ptr %b, ptr %o\n {} store i32 %r, ptr addrspace(1) %out\n ret void\n}}",
            ADD.replace("@add", "@other"),
            CALL.replace("%b)", "%b2)")
        ))
        .unwrap_err();
        assert!(log.contains("calls a block that can't be known when the program is built"), "{log}");
        let enqueue = "%e = call spir_func i32 @_Z14enqueue_kernel9ocl_queuei9ndrange_tU13block_pointerFvvE(
            ptr null, i32 0, ptr %m, ptr %b)\n";
        let log = resolved(&format!("{ADD}define spir_kernel void @k() {{\n {block} {enqueue} ret void\n}}"))
            .unwrap_err();
        assert!(log.contains("`k") || log.contains("kernel.k"), "{log}");
        assert!(log.contains("returns nothing and takes pointers to local memory only"), "{log}");
        let log = resolved(&format!(
            "{}define spir_kernel void @k(ptr addrspace(1) %o, i32 %x) {{\n {block} {CALL} ret void\n}}",
            ADD.replace("%z = add i32 %x, %y", "%z = call spir_func i32 @again(i32 %x)").replace(
                "define internal spir_func i32 @add",
                "define internal spir_func i32 @again(i32 %x) {\n %m = alloca i32
                 %b = call ptr @spir_block_bind(ptr @add, i32 4, i32 4, ptr %m)
                 %f = call ptr @spir_get_block_invoke(ptr %b)\n %c = call ptr @spir_get_block_context(ptr %b)
                 %g = bitcast ptr %f to ptr\n %r = call spir_func i32 %g(ptr %c, i32 %x)\n ret i32 %r\n}
                 define internal spir_func i32 @add"
            )
        ))
        .unwrap_err();
        assert!(log.contains("recursion is not allowed"), "{log}");
        let log = resolved(&format!(
            "{ADD}define spir_kernel void @k(ptr addrspace(1) %o) {{\n %n = ptrtoint ptr @add to i64
             store i64 %n, ptr addrspace(1) %o\n ret void\n}}"
        ))
        .unwrap_err();
        assert!(log.contains("uses the address of `add` for something else than a block"), "{log}");
        let log = resolved(
            "define spir_kernel void @k(ptr addrspace(1) %o, i64 %n) {\n %f = inttoptr i64 %n to ptr\n \
             call spir_func void %f()\n ret void\n}",
        )
        .unwrap_err();
        assert!(log.contains("a call through a pointer"), "{log}");
    }
}
