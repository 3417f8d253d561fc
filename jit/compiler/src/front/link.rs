//! Linking: [`join`] makes one of the modules of clLinkProgram, and [`link`] adds the builtins that it uses: each
//! undefined symbol gets the definition that `builtin` writes for it, and the Rust library what those call.

use super::call_graph::CallGraph;
use super::harden::{kernel_symbol, own_globals};
use super::opaque::SAMPLER_INITIALIZER;
use super::{HardenedModule, LinkedModule, blocks, printf, variables};
use crate::builtin::enqueue::Options;
use crate::builtin::{self, Resolution, Signature};
use crate::llvm::{self, Function, LlvmError, Module, Session, Symbol, Type, Value, View};
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::targets::TargetMachine;
use spirula_interface::check::Checks;
use spirula_interface::options::{CompileError, MathOptions};
use spirula_interface::program::{HiddenKind, KernelSignature};
use spirula_interface::target::TargetFacts;
use std::collections::{BTreeSet, HashMap};

/// Builtins that need builtins that need builtins: more rounds than any does.
const MAX_ROUNDS: usize = 8;

/// Joins SPIR modules. Errors: `Failed` naming each symbol that several of them define.
pub(crate) fn join<'s>(session: &'s Session, modules: Vec<Module<'s>>) -> Result<Module<'s>, CompileError> {
    clashes(&modules)?;
    let mut modules = modules.into_iter();
    let Some(mut first) = modules.next() else {
        return Err(CompileError::Failed("error: there is nothing to link\n".into()));
    };
    for module in modules {
        llvm::link_in(session, &mut first, module).map_err(|error| {
            CompileError::Failed(format!("error: the modules can't be linked: {error}\n"))
        })?;
    }
    Ok(first)
}

fn clashes(modules: &[Module]) -> Result<(), CompileError> {
    let mut homes: HashMap<String, usize> = HashMap::new();
    let mut log = String::new();
    for (index, module) in modules.iter().enumerate() {
        for symbol in module.view().symbols() {
            let strong = !symbol.is_declaration() && symbol.linkage() == LLVMLinkage::LLVMExternalLinkage;
            if let Some(other) = strong.then(|| homes.insert(symbol.name(), index)).flatten() {
                let name = readable(symbol);
                log.push_str(&format!(
                    "error: {name} is defined by both module {other} and module {index}\n"
                ));
            }
        }
    }
    if log.is_empty() { Ok(()) } else { Err(CompileError::Failed(log)) }
}

/// A symbol for a log, as in the source: from its mangled name, or else from its types.
pub(crate) fn readable(symbol: Symbol) -> String {
    let name = symbol.name();
    match builtin::demangle(&name) {
        Some(text) => format!("`{text}` ({name})"),
        None if symbol.as_function().is_some() => {
            let ty = symbol.value_type();
            let mut types: Vec<String> = ty.parameter_types().into_iter().map(source_type).collect();
            types.extend(ty.is_variadic().then(|| "...".to_owned()));
            let ret = ty.return_type().map_or_else(|| "void".into(), source_type);
            format!("`{ret} {name}({})`", types.join(", "))
        }
        None => format!("`{name}`"),
    }
}

/// A type as OpenCL C may have written it: signs and pointees are gone.
fn source_type(ty: Type) -> String {
    const SPACES: [&str; 5] = ["", "global ", "constant ", "local ", "generic "];
    let text = ty.to_string();
    let known = [
        ("i8", "char"),
        ("i16", "short"),
        ("i32", "int"),
        ("i64", "long"),
        ("half", "half"),
        ("float", "float"),
        ("double", "double"),
        ("void", "void"),
    ];
    if ty.is_pointer() {
        return format!("{}void *", SPACES.get(ty.address_space() as usize).unwrap_or(&""));
    }
    let scalar = ty.scalar().to_string();
    match known.iter().find(|(llvm, _)| *llvm == scalar) {
        Some((_, name)) if ty.is_vector() => format!("{name}{}", ty.element_count()),
        Some((_, name)) => (*name).to_string(),
        None => text,
    }
}

/// Adds the builtins. Errors: `Failed` with a line for each symbol that can't be resolved and the kernels that need it.
pub fn link<'s>(
    session: &'s Session,
    hardened: HardenedModule<'s>,
    machine: &TargetMachine,
) -> Result<LinkedModule<'s>, CompileError> {
    let mut hardened = hardened;
    strangers(hardened.module.view(), &hardened.kernels)?;
    let options = Options { names_errors: hardened.is_debug, addresses: llvm::addresses(&hardened.module) };
    blocks::resolve(session, &mut hardened, machine, options)?;
    printf::replace(session, &mut hardened, machine)?;
    let HardenedModule { mut module, mut kernels, math, checks, .. } = hardened;
    for round in 0..MAX_ROUNDS {
        let mut definitions = resolve(&module, &kernels, math)?;
        if round == 0 {
            // Only now: what no kernel needs is to be defined as well. It may be most of a module, if the source included a library.
            llvm::run_passes(&mut module, "globaldce", machine).map_err(|error| internal(&error))?;
            definitions.retain(|(name, _)| module.view().function_named(name).is_some());
        }
        if definitions.is_empty() {
            break;
        }
        add_definitions(session, &mut module, &definitions, machine)?;
    }
    if checks.contains(Checks::MEMORY) {
        look_at_images(&mut module);
    }
    let facts = llvm::facts(machine);
    if !facts.fuses {
        replace_fused(session, &mut module, machine)?;
    }
    if module.view().functions().into_iter().any(is_library_symbol) {
        llvm::link_lazily(session, &mut module, builtin::library(facts.fuses), machine)
            .map_err(|error| internal(&error))?;
        tell_of_processor(session, &mut module, facts, machine)?;
    }
    describe(module.view(), &mut kernels, checks);
    unify(&mut module, &kernels);
    missing(module.view())?;
    llvm::verify(&module).map_err(|error| internal(&error))?;
    Ok(LinkedModule { module, kernels, checks })
}

/// Adds functions to a module, which may already declare them.
pub(crate) fn add_definitions<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    definitions: &[(String, builtin::Definition)],
    machine: &TargetMachine,
) -> Result<(), CompileError> {
    llvm::link_text(session, module, &assemble(definitions), machine).map_err(|error| internal(&error))
}

/// A fault of ours, not of the program.
fn internal(error: &LlvmError) -> CompileError {
    CompileError::Failed(format!("error: the builtins can't be linked (a fault in Spirula): {error}\n"))
}

fn is_library_symbol(function: Function) -> bool {
    function.is_declaration() && function.name().starts_with("spirula_")
}

/// Has fused sums of products computed by the library: what a processor has no instruction for would be a call for each lane.
fn replace_fused<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    machine: &TargetMachine,
) -> Result<(), CompileError> {
    let mut definitions = Vec::new();
    module.edit(|edit| {
        for function in edit.functions() {
            let name = function.name();
            let Some(suffix) = name.strip_prefix("llvm.fma.").filter(|_| function.has_uses()) else {
                continue;
            };
            let own = format!("spirula.fma.{suffix}");
            if let Some(definition) = builtin::fused(&own, &signature(function)) {
                edit.set_name(*function, &own);
                definitions.push((own, definition));
            }
        }
    });
    if definitions.is_empty() { Ok(()) } else { add_definitions(session, module, &definitions, machine) }
}

/// Answers what the library asks of the processor.
fn tell_of_processor<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    facts: TargetFacts,
    machine: &TargetMachine,
) -> Result<(), CompileError> {
    let asks = module.view().function_named(SCALES).is_some_and(|function| function.is_declaration());
    if !asks {
        return Ok(());
    }
    let ir = format!("define zeroext i1 @\"{SCALES}\"() alwaysinline {{\n  ret i1 {}\n}}\n", facts.avx512);
    let definition = builtin::Definition { ir, declarations: BTreeSet::new() };
    add_definitions(session, module, &[(SCALES.to_owned(), definition)], machine)
}

/// The library's question whether an instruction is m 2^k.
const SCALES: &str = "spirula.scales";

/// Has images accessed by the library's functions that look where.
fn look_at_images(module: &mut Module) {
    module.edit(|edit| {
        for function in edit.functions().into_iter().filter(|&function| is_library_symbol(function)) {
            let name = function.name();
            let rest = name.strip_prefix("spirula_").unwrap_or_default();
            if rest.starts_with("write_image") || rest.starts_with("read_image") {
                edit.set_name(*function, &format!("spirula_checked_{rest}"));
            }
        }
    });
}

/// A definition for each undefined function that is used.
fn resolve(
    module: &Module,
    kernels: &[KernelSignature],
    math: MathOptions,
) -> Result<Vec<(String, builtin::Definition)>, CompileError> {
    let (addresses, module) = (llvm::addresses(module), module.view());
    let mut definitions = Vec::new();
    let mut unresolved = Vec::new();
    for function in module.functions().into_iter().filter(|function| function.is_declaration()) {
        let name = function.name();
        let is_ours = name.starts_with("llvm.") || name.starts_with(OWN_NAMES);
        if is_ours || !function.has_uses() {
            continue;
        }
        if name == SAMPLER_INITIALIZER {
            definitions.push((name, sampler_initializer(&signature(function))));
            continue;
        }
        match builtin::resolve(&name, &signature(function), math, addresses) {
            Resolution::Definition(definition) => definitions.push((name, definition)),
            Resolution::WrongSignature { expected } => {
                let declared = declaration(&name, &signature(function));
                let what = format!(
                    "{} is declared with other types than it has: `{declared}`, not `{expected}`",
                    readable(*function)
                );
                unresolved.push((*function, what));
            }
            Resolution::Unknown => {
                unresolved.push((*function, format!("{} is not defined", readable(*function))))
            }
        }
    }
    for variable in module.globals() {
        // Constants that nobody uses any longer may be of a built-in variable.
        let is_gone = variables::is_one(variable) && variable.using_functions().is_empty();
        if variable.is_declaration() && variable.has_uses() && !is_gone {
            unresolved.push((*variable, format!("the variable `{}` is not defined", variable.name())));
        }
    }
    refuse(&unresolved, module, kernels)?;
    Ok(definitions)
}

/// What the builtins' primitives and library begin with.
const OWN_NAMES: &str = "spirula";

/// Refuses what a program itself uses by such a name without defining it: it can't know what there is.
fn strangers(module: View, kernels: &[KernelSignature]) -> Result<(), CompileError> {
    let functions = module.functions().into_iter();
    let undefined =
        functions.filter(|f| f.is_declaration() && f.has_uses() && f.name().starts_with(OWN_NAMES));
    let unresolved: Vec<_> = undefined.map(|f| (*f, format!("{} is not defined", readable(*f)))).collect();
    refuse(&unresolved, module, kernels)
}

/// The error if any symbol can't be resolved, for the reason beside it.
fn refuse<'m>(
    unresolved: &[(Symbol<'m>, String)],
    module: View<'m>,
    kernels: &[KernelSignature],
) -> Result<(), CompileError> {
    if unresolved.is_empty() {
        return Ok(());
    }
    let graph = CallGraph::new(module);
    let log = unresolved
        .iter()
        .map(|(symbol, what)| format!("error: {what}{}\n", needed_by(*symbol, &graph, kernels)));
    Err(CompileError::Failed(log.collect()))
}

/// Gives a sampler's bits back, in the type that the module has for samplers.
fn sampler_initializer(Signature { ret, .. }: &Signature) -> builtin::Definition {
    let body = match ret.as_str() {
        "i32" => "ret i32 %bits".to_string(),
        pointer => format!("%sampler = inttoptr i32 %bits to {pointer}\n ret {pointer} %sampler"),
    };
    let ir = format!("define {ret} @{SAMPLER_INITIALIZER}(i32 %bits) alwaysinline {{\n {body}\n}}");
    builtin::Definition { ir, declarations: BTreeSet::new() }
}

fn declaration(name: &str, Signature { ret, params }: &Signature) -> String {
    format!("declare {ret} @{name}({})", params.join(", "))
}

fn signature(function: Function) -> Signature {
    let ty = function.value_type();
    Signature {
        ret: ty.return_type().map(|ty| ty.to_string()).unwrap_or_default(),
        params: ty.parameter_types().iter().map(|ty| ty.to_string()).collect(),
    }
}

/// "; the kernels `a`, `b` need it".
fn needed_by<'m>(symbol: Symbol<'m>, graph: &CallGraph<'m>, kernels: &[KernelSignature]) -> String {
    let users = symbol.as_function().map_or_else(|| symbol.using_functions(), |function| vec![function]);
    let reaching = graph.reaching(users);
    let names: BTreeSet<String> = reaching.iter().map(|function| function.name()).collect();
    let needing: Vec<String> = kernels
        .iter()
        .filter(|kernel| names.contains(&kernel_symbol(&kernel.name)))
        .map(|kernel| format!("`{}`", kernel.name))
        .collect();
    match needing.len() {
        0 => String::new(),
        1 => format!("; the kernel {} needs it", needing[0]),
        _ => format!("; the kernels {} need it", needing.join(", ")),
    }
}

/// One module's text of all definitions and what they declare.
fn assemble(definitions: &[(String, builtin::Definition)]) -> String {
    let defined: BTreeSet<&str> = definitions.iter().map(|(name, _)| name.as_str()).collect();
    let declared: BTreeSet<&str> = definitions
        .iter()
        .flat_map(|(_, definition)| definition.declarations.iter().map(String::as_str))
        .filter(|line| !defined.contains(declared_name(line)))
        .collect();
    let bodies = definitions.iter().map(|(_, definition)| definition.ir.as_str());
    declared.into_iter().chain(bodies).flat_map(|text| [text, "\n"]).collect()
}

/// The symbol of a `declare` line.
fn declared_name(line: &str) -> &str {
    let name = line.split_once('@').map_or("", |(_, rest)| rest);
    name.split('(').next().unwrap_or("").trim_matches('"')
}

/// What the memory of a block's captures is aligned to: that of the argument block.
const CAPTURES_ALIGN: u32 = 128;

/// Gives the kernels that use device queues a place for the launch's parent behind their arguments, and those of blocks one for
/// what was captured.
fn describe(module: View, kernels: &mut [KernelSignature], checks: Checks) {
    let primitive = module.function_named("spirula.enqueue_parent");
    let graph = CallGraph::new(module);
    let users: BTreeSet<String> = graph.reaching(primitive).iter().map(|function| function.name()).collect();
    for kernel in kernels {
        if users.contains(&kernel_symbol(&kernel.name)) {
            kernel.take_hidden(HiddenKind::Parent);
        }
        if checks.any() {
            kernel.take_hidden(HiddenKind::Checks);
        }
        if let Some(captures) = &mut kernel.block {
            *captures = kernel.argument_block_size.next_multiple_of(CAPTURES_ALIGN);
            kernel.argument_block_size = *captures;
        }
    }
}

/// Linked-in functions become the program's own: one calling convention, internal linkage.
fn unify(module: &mut Module, kernels: &[KernelSignature]) {
    let kernels: BTreeSet<String> = kernels.iter().map(|kernel| kernel_symbol(&kernel.name)).collect();
    module.edit(|edit| {
        for function in edit.functions().into_iter().filter(|f| !f.name().starts_with("llvm.")) {
            edit.use_c_convention(function);
            if function.is_declaration() {
                edit.erase_function(function);
            } else if !kernels.contains(&function.name()) {
                edit.set_linkage(*function, LLVMLinkage::LLVMInternalLinkage);
            }
            for call in function.users().into_iter().filter_map(Value::as_call) {
                if call.called_function() == Some(function) {
                    edit.use_c_convention(call);
                }
            }
        }
        own_globals(edit);
    });
}

/// What is left undefined must be a primitive of ours or an intrinsic.
fn missing(module: View) -> Result<(), CompileError> {
    let left: Vec<String> = module
        .functions()
        .iter()
        .filter(|function| function.is_declaration())
        .map(|function| function.name())
        .filter(|name| !name.starts_with("llvm.") && !name.starts_with("spirula."))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(internal(&LlvmError(format!("nothing defines {}", left.join(", ")))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{read_modules, testing};
    use spirula_interface::options::CompileOptions;
    use spirula_interface::target::Target;

    fn linked(texts: &[&str]) -> Result<String, String> {
        linked_for(&llvm::host(), texts)
    }

    fn linked_for(target: &Target, texts: &[&str]) -> Result<String, String> {
        let session = Session::new();
        let machine = llvm::machine(target, true).unwrap();
        let options = CompileOptions::default();
        let binaries: Vec<Vec<u8>> = texts.iter().map(|text| testing::bitcode(text)).collect();
        let binaries: Vec<&[u8]> = binaries.iter().map(Vec::as_slice).collect();
        let spir = read_modules(&session, &binaries, &options).map_err(|error| error.to_string())?;
        let hardened = crate::front::harden(spir, &machine);
        link(&session, hardened, &machine)
            .map(|linked| llvm::print_text(&linked.module))
            .map_err(|error| error.to_string())
    }

    const KERNEL: &str = "define spir_kernel void @k(ptr addrspace(1) %p) {\n";

    #[test]
    fn the_libraries_can_be_linked_lazily_on_any_machine() {
        for fuses in [true, false] {
            let session = Session::new();
            let library = llvm::parse_bitcode(&session, builtin::library(fuses)).unwrap();
            let is_public =
                |symbol: &Symbol| symbol.name().starts_with("spirula_") && !symbol.is_declaration();
            let public: Vec<_> = library.view().symbols().filter(is_public).collect();
            assert!(public.len() > 100);
            for symbol in public {
                assert_eq!(symbol.linkage(), LLVMLinkage::LLVMLinkOnceODRLinkage, "{}", symbol.name());
            }
            let text = llvm::print_text(&library);
            assert_eq!(text.contains("@llvm.fma."), fuses);
            let is_of_machine = |word: &str| text.contains(&format!("\"{word}\"="));
            assert!(
                !["target-cpu", "target-features", "probe-stack"].into_iter().any(is_of_machine),
                "{text}"
            );
            // Else each build's log would say that they differ.
            let machine = llvm::machine(&llvm::host(), true).unwrap();
            let layout = machine.get_target_data().get_data_layout();
            assert!(text.contains(&format!("target datalayout = {:?}", layout.as_str().to_string_lossy())));
        }
    }

    #[test]
    fn a_processor_without_fused_sums_has_them_from_the_library() {
        let text = format!(
            "{KERNEL} %f = load <2 x float>, ptr addrspace(1) %p
             %y = call spir_func <2 x float> @_Z3fmaDv2_fS_S_(<2 x float> %f, <2 x float> %f, <2 x float> %f)
             %z = call spir_func <2 x float> @_Z3sinDv2_f(<2 x float> %y)
             store <2 x float> %z, ptr addrspace(1) %p\n ret void\n}}
             declare spir_func <2 x float> @_Z3fmaDv2_fS_S_(<2 x float>, <2 x float>, <2 x float>)
             declare spir_func <2 x float> @_Z3sinDv2_f(<2 x float>)"
        );
        for (features, fuses) in [("+avx2,+fma", true), ("+sse4.1", false)] {
            let target = Target { cpu: "x86-64".into(), features: features.into(), threads: 1 };
            let text = linked_for(&target, &[&text]).unwrap();
            assert_eq!(text.contains("@llvm.fma."), fuses, "{text}");
            assert_eq!(text.contains(" = call float @spirula_fma_f32("), !fuses, "{text}");
        }
    }

    #[test]
    fn modules_join_and_keep_their_statics_apart() {
        let one = format!(
            "{KERNEL} %x = call spir_func i32 @f()\n %y = call spir_func i32 @s()\n %z = add i32 %x, %y
             store i32 %z, ptr addrspace(1) %p\n ret void\n}}\ndeclare spir_func i32 @f()
             define internal spir_func i32 @s() {{\n ret i32 1\n}}"
        );
        let two = "define internal spir_func i32 @s() {\n ret i32 2\n}
             define spir_func i32 @f() {\n %x = call spir_func i32 @s()\n ret i32 %x\n}";
        let text = linked(&[&one, two]).unwrap();
        assert!(text.contains("ret i32 1") && text.contains("ret i32 2"), "{text}");
        assert!(!text.contains("spir_func") && !text.contains("declare i32 @f"), "{text}");
    }

    #[test]
    fn names_of_ours_are_nobodys() {
        // An undefined one, one of the library's, and one of the primitives, declared otherwise than we do.
        for name in ["spirula_compiler_process", "spirula_tan_f32", "spirula.barrier"] {
            let text = format!(
                "{KERNEL} call spir_func void @{name}(i64 1)\n ret void\n}}\ndeclare spir_func void @{name}(i64)"
            );
            let log = linked(&[&text]).unwrap_err();
            assert_eq!(log, format!("error: `void {name}(long)` is not defined; the kernel `k` needs it\n"));
        }
        // A program's own function may be called so, and is no builtin.
        let own = format!(
            "{KERNEL} %x = call spir_func i32 @spirula_tan_f32(i32 7)\n store i32 %x, ptr addrspace(1) %p\n ret void\n}}
             define spir_func i32 @spirula_tan_f32(i32 %x) {{\n ret i32 %x\n}}"
        );
        assert!(linked(&[&own]).is_ok());
    }

    #[test]
    fn clashes_name_the_symbol() {
        let f = "define spir_func i32 @f() {\n ret i32 2\n}";
        let log = linked(&[f, f]).unwrap_err();
        assert_eq!(log, "error: `int f()` is defined by both module 0 and module 1\n");
        let other = "declare spir_func i64 @f()\ndefine spir_kernel void @k() {\n %x = call spir_func i64 @f()\n ret void\n}";
        let log = linked(&[f, other]).unwrap_err();
        assert!(log.contains("`k` calls `f` with another signature"), "{log}");
    }

    #[test]
    fn recursion_across_modules_is_found() {
        let one = "declare spir_func void @g()\ndefine spir_func void @f() {\n call spir_func void @g()\n ret void\n}";
        let two = "declare spir_func void @f()\ndefine spir_func void @g() {\n call spir_func void @f()\n ret void\n}";
        assert!(linked(&[one, two]).unwrap_err().contains("recursion"));
    }

    #[test]
    fn unresolved_symbols_name_signature_and_kernels() {
        let text = "declare spir_func i32 @_Z7nowhereiPU3AS1f(i32, ptr addrspace(1))\ndeclare spir_func <4 x float> @lost(i8)
             @data = external addrspace(2) constant i32
             define internal spir_func i32 @via(ptr addrspace(1) %p) {
               %x = call spir_func i32 @_Z7nowhereiPU3AS1f(i32 1, ptr addrspace(1) %p)\n ret i32 %x\n}
             define spir_kernel void @a(ptr addrspace(1) %p) {\n %x = call spir_func i32 @via(ptr addrspace(1) %p)
               %y = call spir_func <4 x float> @lost(i8 1)\n ret void\n}
             define spir_kernel void @b(ptr addrspace(1) %p) {\n %x = call spir_func i32 @via(ptr addrspace(1) %p)
               %y = load i32, ptr addrspace(2) @data\n ret void\n}";
        let log = linked(&[text]).unwrap_err();
        for line in [
            "error: `nowhere(int, global float *)` (_Z7nowhereiPU3AS1f) is not defined; the kernels `a`, `b` need it\n",
            "error: `float4 lost(char)` is not defined; the kernel `a` needs it\n",
            "error: the variable `data` is not defined; the kernel `b` needs it\n",
        ] {
            assert!(log.contains(line), "{line} in {log}");
        }
    }

    #[test]
    fn what_no_kernel_needs_goes_but_has_to_be_defined() {
        let module = |callee: &str| {
            format!(
                "{KERNEL} ret void\n}}\ndeclare spir_func float @{callee}(float)
                 define spir_func float @library(float %x) {{\n %y = call spir_func float @{callee}(float %x)\n ret float %y\n}}"
            )
        };
        let text = linked(&[&module("_Z3sinf")]).unwrap();
        assert!(!text.contains("sin") && !text.contains("library"), "{text}");
        let log = linked(&[&module("_Z7nowheref")]).unwrap_err();
        assert!(log.contains("`nowhere(float)` (_Z7nowheref) is not defined\n"), "{log}");
    }

    #[test]
    fn builtins_with_wrong_types_are_named() {
        let text = "declare spir_func i32 @_Z13get_global_idj(i32)
             define spir_kernel void @k() {\n %x = call spir_func i32 @_Z13get_global_idj(i32 0)\n ret void\n}";
        let log = linked(&[text]).unwrap_err();
        assert!(log.contains("`get_global_id(uint)`") && log.contains("declare i64"), "{log}");
    }

    #[test]
    fn builtins_are_defined_and_library_functions_pulled_in() {
        let text = format!(
            "{KERNEL} %x = call spir_func i64 @_Z13get_global_idj(i32 0)\n call spir_func void @_Z7barrierj(i32 1)
             %f = load float, ptr addrspace(1) %p\n %y = call spir_func float @_Z4sqrtf(float %f)
             store float %y, ptr addrspace(1) %p\n ret void\n}}\ndeclare spir_func i64 @_Z13get_global_idj(i32)
             declare spir_func void @_Z7barrierj(i32)\ndeclare spir_func float @_Z4sqrtf(float)"
        );
        let text = linked(&[&text]).unwrap();
        assert!(text.contains("define internal i64 @_Z13get_global_idj"), "{text}");
        assert!(text.contains("declare void @spirula.barrier(i32)"), "{text}");
        assert!(!text.contains("declare float @spirula_") && !text.contains("target-cpu"), "{text}");
    }

    #[test]
    fn inline_definitions_are_used_unless_there_is_an_external_one() {
        let inline = "@g = available_externally addrspace(2) constant i32 1
             define spir_kernel void @k(ptr addrspace(1) %p) {\n %x = load i32, ptr addrspace(2) @g
             store i32 %x, ptr addrspace(1) %p\n ret void\n}";
        assert!(linked(&[inline]).unwrap().contains("@g = internal addrspace(2) constant i32 1"));
        let text = linked(&[inline, "@g = addrspace(2) constant i32 2"]).unwrap();
        assert!(text.contains("@g = internal addrspace(2) constant i32 2"), "{text}");
    }

    #[test]
    fn user_functions_may_have_the_builtins_names() {
        let text = "define spir_func float @sqrt(float %x) {\n ret float %x\n}
             define spir_func i32 @_Z3maxii(i32 %a, i32 %b) {\n ret i32 42\n}
             define spir_kernel void @floor(ptr addrspace(1) %p) {\n %x = call spir_func i32 @_Z3maxii(i32 1, i32 2)
             store i32 %x, ptr addrspace(1) %p\n ret void\n}";
        let text = linked(&[text]).unwrap();
        assert!(text.contains("ret i32 42") && text.contains("@spirula.kernel.floor"), "{text}");
    }
}
