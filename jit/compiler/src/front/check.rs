//! The rules of SPIR 1.2 and 2.0. What isn't of this device's kind is an invalid binary; a broken rule is
//! a finding of the build log. What a producer did beyond the letter but without ambiguity is accepted.

mod versions;

use super::blocks;
use super::call_graph::CallGraph;
use super::intrinsics;
use super::limits;
use crate::builtin::enqueue;
use crate::llvm::{Function, Global, Instruction, Layout, Module, Symbol, Type, Value, View};
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind, LLVMValueKind};
use spirula_interface::options::{CompileError, CompileOptions};
pub(crate) use versions::language;
use versions::{requirements, version, versions};

/// Findings that a log lists; a hostile module may have any number.
const MAX_FINDINGS: usize = 20;

/// Structures within arrays within structures; more than a program has, and few enough to walk.
const MAX_TYPE_DEPTH: u32 = 64;

/// Globals that tell LLVM which symbols to keep, and mean nothing here.
const IGNORED_GLOBALS: [&str; 2] = ["llvm.used", "llvm.compiler.used"];

/// Checks a module that was read. Errors: `InvalidBinary` for another device's or version's module, `Failed` with a
/// line for each broken rule.
pub(crate) fn check(module: &Module, options: &CompileOptions) -> Result<(), CompileError> {
    let module = module.view();
    target(module)?;
    version(module, options)?;
    let mut findings = Findings(Vec::new());
    requirements(module, &mut findings);
    if !module.assembly().is_empty() {
        findings.add("module-level inline assembly is not allowed in SPIR (section 3.15)".into());
    }
    module
        .indirect_symbols()
        .iter()
        .for_each(|symbol| findings.add(format!("`{}` is an alias, which SPIR doesn't have", symbol.name())));
    let layout = module.layout();
    let mut data = 0;
    for global in module.globals() {
        global_variable(global, &mut findings);
        if !is_foreign(global.value_type(), 0) {
            limits::variable(layout, global, &mut data).into_iter().for_each(|finding| findings.add(finding));
        }
    }
    let has_blocks = may_have_blocks(module);
    for function in module.functions() {
        self::function(function, layout, has_blocks, &mut findings);
    }
    recursion(module).unwrap_or_else(|finding| findings.add(finding));
    findings.into_result()
}

/// Whether a module is of OpenCL C 2.0 or later.
fn may_have_blocks(module: View) -> bool {
    let versions = versions(module, c"opencl.ocl.version").unwrap_or_default();
    versions.into_iter().any(|version| version >= (2, 0))
}

/// The finding if functions call each other in a circle.
pub(crate) fn recursion(module: View) -> Result<(), String> {
    let Some(cycle) = CallGraph::new(module).cycle() else { return Ok(()) };
    let path: Vec<String> = cycle.iter().map(|name| format!("`{name}`")).collect();
    Err(format!("recursion is not allowed in OpenCL C (6.9.i): {}", path.join(" calls ")))
}

/// Whether a function is used for anything but to be called.
pub(crate) fn has_address_taken<'m>(function: Function<'m>) -> bool {
    let calls = |user: Value<'m>| {
        user.as_call().is_some_and(|call| {
            call.called_function() == Some(function) && call.arguments().iter().all(|a| *a != **function)
        })
    };
    !function.users().into_iter().all(calls)
}

struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, finding: String) {
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn into_result(mut self) -> Result<(), CompileError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let more = self.0.len().saturating_sub(MAX_FINDINGS);
        self.0.truncate(MAX_FINDINGS);
        let mut log: String = self.0.iter().map(|finding| format!("error: {finding}\n")).collect();
        if more > 0 {
            log.push_str(&format!("{more} more findings\n"));
        }
        Err(CompileError::Failed(log))
    }
}

fn invalid(text: String) -> Result<(), CompileError> {
    Err(CompileError::InvalidBinary(text))
}

/// Triple and data layout (SPIR 2.0, 3.1 and 3.2).
fn target(module: View) -> Result<(), CompileError> {
    let triple = module.triple();
    match triple.split('-').next().unwrap_or("") {
        "spir64" => {}
        "spir" => {
            return invalid(format!(
                "The binary is a 32-bit module (triple {triple}) on a 64-bit device; it must be compiled for spir64."
            ));
        }
        "" => return invalid("The binary has no target triple; SPIR's is spir64-unknown-unknown.".into()),
        other => {
            return invalid(format!(
                "The binary is for {other} (triple {triple}); SPIR's is spir64-unknown-unknown."
            ));
        }
    }
    let layout = module.layout();
    if module.data_layout().is_empty() {
        return Ok(()); // Any SPIR module has one and the same.
    }
    if !layout.is_little_endian() || (0..=4).any(|space| layout.pointer_bytes(space) != 8) {
        return invalid(
            "The binary's data layout isn't spir64's: little-endian with 64-bit pointers.".into(),
        );
    }
    let natural = [
        (module.integer_type(8), 1),
        (module.integer_type(16), 2),
        (module.integer_type(32), 4),
        (module.integer_type(64), 8),
        (module.float_type(), 4),
        (module.double_type(), 8),
        (module.float_type().vector(3), 16),
        (module.double_type().vector(16), 128),
    ];
    for (ty, expected) in natural {
        let found = layout.alignment(ty);
        if found != expected {
            return invalid(format!(
                "The binary's data layout isn't spir64's: it aligns {ty} to {found} bytes instead of {expected}."
            ));
        }
    }
    Ok(())
}

/// The linkage types of SPIR 1.2, table 16.
fn linkage_is_allowed(linkage: LLVMLinkage) -> bool {
    use LLVMLinkage::*;
    matches!(
        linkage,
        LLVMExternalLinkage
            | LLVMInternalLinkage
            | LLVMPrivateLinkage
            | LLVMAvailableExternallyLinkage
            | LLVMCommonLinkage
    )
}

fn linkage(symbol: Symbol, findings: &mut Findings) {
    if !linkage_is_allowed(symbol.linkage()) {
        let name = format!("{:?}", symbol.linkage());
        let name = name.trim_start_matches("LLVM").trim_end_matches("Linkage").to_lowercase();
        findings.add(format!("`{}` has {name} linkage, which SPIR doesn't allow (table 16)", symbol.name()));
    }
}

fn global_variable(global: Global, findings: &mut Findings) {
    let name = global.name();
    if IGNORED_GLOBALS.contains(&name.as_str()) {
        return;
    }
    linkage(*global, findings);
    if global.is_thread_local() {
        findings.add(format!("the variable `{name}` is thread-local, which SPIR doesn't have"));
    }
    if global.ty().address_space() > 4 {
        let space = global.ty().address_space();
        findings.add(format!("the variable `{name}` is in address space {space}; SPIR's are 0 to 4"));
    }
    if is_foreign(global.value_type(), 0) {
        findings.add(format!("the variable `{name}` has {}", described(global.value_type())));
    }
}

fn function<'m>(function: Function<'m>, layout: Layout<'m>, has_blocks: bool, findings: &mut Findings) {
    let name = function.name();
    if name.starts_with("llvm.") {
        intrinsic(function, findings);
        return;
    }
    linkage(*function, findings);
    if !has_blocks && has_address_taken(function) {
        findings.add(format!(
            "the address of the function `{name}` is taken; OpenCL C has no function pointers (6.9.a)"
        ));
    }
    for parameter in function.parameters().into_iter().filter(|parameter| is_foreign(parameter.ty(), 0)) {
        findings.add(format!("the function `{name}` has a parameter of {}", described(parameter.ty())));
    }
    for instruction in function.instructions() {
        if let Some(ty) = instruction.allocated_type()
            && !is_foreign(ty, 0)
            && let Some(what) = limits::private(layout, instruction)
        {
            findings.add(format!("the function `{name}` has {what}"));
        }
        if let Some(other) = has_blocks.then(|| misused_function(instruction)).flatten() {
            let other = other.name();
            findings.add(format!(
                "the function `{name}` uses the address of `{other}` for something else than a block; OpenCL C has \
                 no function pointers (6.9.a)"
            ));
        }
        if let Some(what) = forbidden(instruction, has_blocks) {
            findings.add(format!("the function `{name}` contains {what}, which SPIR doesn't allow"));
        }
        if let Some(call) = instruction.as_call()
            && let Some(callee) = call.called_function()
            && call.called_type() != callee.value_type()
        {
            findings.add(format!(
                "the function `{name}` calls `{}` with another signature than its own",
                callee.name()
            ));
        }
    }
}

/// An intrinsic must be one that is known, by what calls it.
fn intrinsic(function: Function, findings: &mut Findings) {
    let name = function.name();
    if !function.is_declaration() {
        findings.add(format!("the function `{name}` has a name that only LLVM's intrinsics have"));
        return;
    }
    if intrinsics::meaning(&name).is_some() {
        return;
    }
    // A mere declaration does nothing.
    for caller in function.using_functions() {
        let caller = caller.name();
        findings
            .add(format!("the function `{caller}` calls the intrinsic `{name}`, which SPIR doesn't have"));
    }
}

/// A value without the casts around it.
fn without_casts<'m>(mut value: Value<'m>) -> Value<'m> {
    use LLVMOpcode::*;
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
    use LLVMOpcode::*;
    let address = |value: &Value<'m>| without_casts(*value).as_function();
    match instruction.opcode() {
        LLVMStore => address(&instruction.operand(1)?),
        LLVMBitCast | LLVMAddrSpaceCast => None,
        LLVMCall => {
            let call = instruction.as_call()?;
            let takes_blocks =
                call.called_function().is_some_and(|callee| blocks::is_of_blocks(&callee.name()));
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
fn forbidden(instruction: Instruction, has_blocks: bool) -> Option<String> {
    use LLVMOpcode::*;
    let what = match instruction.opcode() {
        LLVMIndirectBr => "an indirectbr",
        LLVMInvoke | LLVMResume | LLVMLandingPad | LLVMCleanupRet | LLVMCatchRet | LLVMCatchPad
        | LLVMCleanupPad | LLVMCatchSwitch => "exception handling",
        LLVMVAArg => "a va_arg",
        LLVMFence => "a fence (builtins are for that)",
        LLVMAtomicCmpXchg | LLVMAtomicRMW => "an atomic instruction (builtins are for that)",
        LLVMLoad | LLVMStore if instruction.is_atomic() => "an atomic load or store (builtins are for that)",
        LLVMCallBr => "inline assembly",
        LLVMCall => match instruction.as_call()?.callee().kind() {
            LLVMValueKind::LLVMFunctionValueKind => return type_of(instruction),
            LLVMValueKind::LLVMInlineAsmValueKind => "inline assembly",
            _ if has_blocks && is_blocks_call(instruction.as_call()?.callee()) => {
                return type_of(instruction);
            }
            _ => "a call through a pointer",
        },
        _ => return type_of(instruction),
    };
    Some(what.to_owned())
}

/// A type in an instruction that no OpenCL C program has.
fn type_of(instruction: Instruction) -> Option<String> {
    let types = [Some(instruction.ty()), instruction.allocated_type(), instruction.element_pointer_type()];
    let operands = instruction.operands().into_iter().map(Value::ty);
    if let Some(foreign) = types.into_iter().flatten().chain(operands).find(|ty| is_foreign(*ty, 0)) {
        return Some(format!("a value of {}", described(foreign)));
    }
    let ty = instruction.ty();
    (elements(ty) > MAX_ELEMENTS).then(|| format!("a value of {}, which is too large for one", described(ty)))
}

/// A type for a log: one that is nested without end is not written out.
fn described(ty: Type) -> String {
    /// Characters of LLVM's text.
    const READABLE: usize = 100;
    if consists_of(ty, 0, &mut 0, &|_| false) {
        return format!(
            "a type that is nested more than {MAX_TYPE_DEPTH} deep, or has more than {MAX_TYPE_NODES} parts"
        );
    }
    let text = ty.to_string();
    match text.char_indices().nth(READABLE) {
        Some((end, _)) => format!("type {} …", &text[..end]),
        None => format!("type {text}"),
    }
}

/// What a value consists of: so much that LLVM, which takes it apart, does not finish, is no program's.
const MAX_ELEMENTS: u64 = 4096;

fn elements(ty: Type) -> u64 {
    let members = ty.members().into_iter().map(elements).fold(0_u64, u64::saturating_add);
    match ty.element() {
        Some(element) => elements(element).saturating_mul(ty.element_count()),
        None => members.max(1),
    }
}

/// Types that a type consists of, counted as often as they occur; more than a program has.
const MAX_TYPE_NODES: u32 = 10_000;

fn is_foreign(ty: Type, depth: u32) -> bool {
    consists_of(ty, depth, &mut 0, &is_foreign_scalar)
}

/// Whether a type is or has a part of a kind, or more parts than there are to look at.
fn consists_of(ty: Type, depth: u32, nodes: &mut u32, kind: &impl Fn(Type) -> bool) -> bool {
    *nodes += 1;
    if depth > MAX_TYPE_DEPTH || *nodes > MAX_TYPE_NODES || kind(ty) {
        return true;
    }
    let mut parts = ty.members().into_iter().chain(ty.element());
    parts.any(|part| consists_of(part, depth + 1, nodes, kind))
}

fn is_foreign_scalar(ty: Type) -> bool {
    use LLVMTypeKind::*;
    match ty.kind() {
        LLVMX86_FP80TypeKind
        | LLVMFP128TypeKind
        | LLVMPPC_FP128TypeKind
        | LLVMBFloatTypeKind
        | LLVMScalableVectorTypeKind
        | LLVMX86_AMXTypeKind
        | LLVMTokenTypeKind => true,
        LLVMIntegerTypeKind => ty.integer_width() > 128,
        LLVMPointerTypeKind => ty.address_space() > 4,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing::{self, HEADER};
    use crate::llvm::{self, Session};

    fn check_text(text: &str) -> Result<(), CompileError> {
        let session = Session::new();
        let module = llvm::parse_text(&session, text).unwrap_or_else(|e| panic!("{e}"));
        check(&module, &CompileOptions::default())
    }

    fn finding(body: &str) -> String {
        match check_text(&format!("{HEADER}{body}")) {
            Err(CompileError::Failed(log)) => log,
            other => panic!("{other:?} for {body}"),
        }
    }

    fn invalidity(text: &str) -> String {
        match check_text(text) {
            Err(CompileError::InvalidBinary(log)) => log,
            other => panic!("{other:?} for {text}"),
        }
    }

    #[test]
    fn other_targets_are_named() {
        assert!(invalidity("target triple = \"spir-unknown-unknown\"").contains("32-bit module"));
        assert!(invalidity("target triple = \"x86_64-pc-linux-gnu\"").contains("x86_64"));
        assert!(invalidity("").contains("no target triple"));
        let triple = "target triple = \"spir64\"\n";
        for layout in ["e-p:32:32:32", "E-p:64:64:64", "e-i64:32", "e-v96:32"] {
            let text = invalidity(&format!("{triple}target datalayout = \"{layout}\""));
            assert!(text.contains("data layout"), "{layout}: {text}");
        }
        let modern = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-G1";
        assert!(check_text(&format!("{triple}target datalayout = \"{modern}\"")).is_ok());
    }

    #[test]
    fn versions_are_compared() {
        let with = |spir: &str| format!("{HEADER}!opencl.spir.version = !{{!0}}\n!0 = !{{{spir}}}\n");
        assert!(check_text(&with("i32 1, i32 2")).is_ok());
        assert!(check_text(HEADER).is_ok());
        assert!(check_text(&with("i32 3, i32 0")).is_ok());
        assert!(check_text(&with("i32 2, i32 0")).is_ok());
        assert!(invalidity(&with("i32 2, i32 1")).contains("SPIR 2.1, which isn't known"));
        assert!(invalidity(&with("i32 1")).contains("malformed"));
        assert!(invalidity(&with("!\"1\", !\"2\"")).contains("malformed"));
        let session = Session::new();
        let against = |version: &str, std: &str| {
            let module = llvm::parse_text(&session, &with(version)).unwrap();
            let options = CompileOptions { spir_std: Some(std.into()), ..Default::default() };
            check(&module, &options).map_err(|error| error.to_string())
        };
        for (version, std) in [("1", "1.2"), ("1", "2.0"), ("2", "2.0"), ("3", "1.2")] {
            let version = format!("i32 {version}, i32 {}", if version == "1" { 2 } else { 0 });
            assert_eq!(against(&version, std), Ok(()), "{version} {std}");
        }
        let error = against("i32 2, i32 0", "1.2").unwrap_err();
        assert!(error.contains("SPIR 2.0") && error.contains("-spir-std=1.2"), "{error}");
        assert!(against("i32 1, i32 2", "9.7").unwrap_err().contains("-spir-std=9.7"));
    }

    #[test]
    fn a_module_is_of_its_parts_newest_language() {
        let with = |list: &str| {
            let numbers =
                "!0 = !{i32 1, i32 2}\n!1 = !{i32 2, i32 0}\n!2 = !{i32 4, i32 0}\n!3 = !{!\"2\"}\n";
            format!("{HEADER}!opencl.ocl.version = !{{{list}}}\n{numbers}")
        };
        assert!(invalidity(&with("!0, !2")).contains("OpenCL C 4.0, which isn't known"));
        assert!(invalidity(&with("!3")).contains("malformed"));
        let session = Session::new();
        for (list, newest) in [("!0", (1, 2)), ("!0, !1", (2, 0)), ("!1, !0", (2, 0))] {
            let module = llvm::parse_text(&session, &with(list)).unwrap();
            assert_eq!(language(&module), newest, "{list}");
        }
    }

    #[test]
    fn what_the_device_lacks_is_named() {
        let with = |list: &str, name: &str| format!("!opencl.used.{list} = !{{!0}}\n!0 = !{{!\"{name}\"}}\n");
        let log = finding(&with("extensions", "cl_khr_mipmap_image"));
        assert_eq!(
            log,
            "error: the module uses the extension `cl_khr_mipmap_image`, which this device doesn't have\n"
        );
        let log = finding(&with("optional.core.features", "cl_tensors"));
        assert!(log.contains("the optional core feature `cl_tensors`"), "{log}");
        for (list, name) in [("extensions", "cl_khr_gl_sharing"), ("optional.core.features", "cl_doubles")] {
            assert!(check_text(&format!("{HEADER}{}", with(list, name))).is_ok(), "{name}");
        }
    }

    #[test]
    fn each_forbidden_thing_has_its_finding() {
        let cases = [
            ("@g = weak addrspace(1) global i32 0", "`g` has weakany linkage"),
            ("@g = thread_local addrspace(1) global i32 0", "thread-local"),
            ("@g = addrspace(1) global i32 0\n@a = alias i32, ptr addrspace(1) @g", "alias"),
            ("@g = addrspace(1) global [99999999 x i32] zeroinitializer", "`g` has 399999996 bytes"),
            (
                "@g = addrspace(2) constant [4611686018427387904 x i32] zeroinitializer",
                "`g` has more than 2^64",
            ),
            (
                "@g = addrspace(3) global [4611686018427387904 x i32] undef",
                "local variable `g` has more than",
            ),
            ("@g = addrspace(1) global i32 0, align 1048576", "`g` is aligned to 1048576"),
            // What LLVM's C API calls 0, as if there were none.
            ("@g = addrspace(1) global i32 0, align 4294967296", "`g` is aligned to 4294967296"),
            (
                "@g = addrspace(3) global i32 undef, section \"a\", align 4294967296, !x !{}",
                "`g` is aligned to 4294967296",
            ),
            (
                "define void @f() {\n %p = alloca i32, align 4294967296\n ret void\n}",
                "`f` has a private variable that is aligned to 4294967296",
            ),
            (
                "define void @f(ptr %p) {\n store i1024 0, ptr %p\n ret void\n}",
                "`f` contains a value of type i1024, which",
            ),
            (
                "define void @f() {\n %p = alloca i32, align 16777216\n ret void\n}",
                "`f` has a private variable that is aligned",
            ),
            (
                "define void @f() {\n %p = alloca [1152921504606846976 x i128]\n ret void\n}",
                "`f` has a private variable of more than 2^64",
            ),
            (
                "define void @f(ptr %p) {\n %v = load [100000 x i32], ptr %p\n ret void\n}",
                "`f` contains a value of type [100000 x i32], which is too large",
            ),
            ("module asm \"nop\"", "module-level inline assembly"),
            (
                "define void @llvm.mine() {\n ret void\n}",
                "`llvm.mine` has a name that only LLVM's intrinsics have",
            ),
            (
                "declare void @llvm.trap()\ndefine void @f() {\n call void @llvm.trap()\n ret void\n}",
                "`f` calls the intrinsic `llvm.trap`",
            ),
            (
                "declare void @llvm.stackrestore.p0(ptr)\ndefine void @g(ptr %p) {\n call void @llvm.stackrestore.p0(ptr %p)\n ret void\n}",
                "`g` calls the intrinsic `llvm.stackrestore.p0`",
            ),
            ("define void @f() {\n call void asm \"nop\", \"\"()\n ret void\n}", "inline assembly"),
            ("define void @f(ptr %p) {\n call void %p()\n ret void\n}", "a call through a pointer"),
            ("define void @f() {\n fence seq_cst\n ret void\n}", "a fence"),
            (
                "define void @f(ptr %p) {\n %x = atomicrmw add ptr %p, i32 1 seq_cst\n ret void\n}",
                "an atomic instruction",
            ),
            (
                "define void @f(ptr %p) {\n %x = load atomic i32, ptr %p seq_cst, align 4\n ret void\n}",
                "an atomic load",
            ),
            ("define void @f(ptr %p) {\n %x = va_arg ptr %p, i32\n ret void\n}", "a va_arg"),
            ("define void @f(ptr %p) {\n indirectbr ptr %p, []\n}", "an indirectbr"),
            ("define void @f(ptr %p) {\n store ptr @f, ptr %p\n ret void\n}", "address of the function `f`"),
            (
                "declare void @g(i32)\ndefine void @f() {\n call void @g(i64 1)\n ret void\n}",
                "another signature",
            ),
            ("define void @f(x86_fp80 %x) {\n ret void\n}", "a parameter of type x86_fp80"),
            ("define void @f() {\n %x = alloca <vscale x 4 x i32>\n ret void\n}", "type <vscale x 4 x i32>"),
            ("define void @f(i32 %x) {\n %y = zext i32 %x to i256\n ret void\n}", "type i256"),
            (&deep_type(1000), "`f` contains a value of a type that is nested more than 64 deep"),
            (
                "define void @f() {\n call void @g()\n ret void\n}\ndefine void @g() {\n call void @f()\n ret void\n}",
                "recursion is not allowed in OpenCL C (6.9.i): `f` calls `g` calls `f`",
            ),
        ];
        for (body, expected) in cases {
            let log = finding(body);
            assert!(log.contains(expected), "{log}");
            assert!(log.lines().all(|line| line.starts_with("error: ")), "{log}");
        }
    }

    /// A variable of a structure in a structure in a structure.
    fn deep_type(depth: usize) -> String {
        let ty = format!("{}i32{}", "{".repeat(depth), "}".repeat(depth));
        format!("%T = type {ty}\ndefine void @f() {{\n %p = alloca %T\n ret void\n}}")
    }

    #[test]
    fn findings_stay_readable() {
        let members = vec!["x86_fp80"; 1000].join(", ");
        let log = finding(&format!("define void @f() {{\n %p = alloca {{ {members} }}\n ret void\n}}"));
        assert!(log.len() < 250 && log.contains("type { x86_fp80, x86_fp80,"), "{log}");
    }

    #[test]
    fn every_fixture_passes() {
        for (name, bytes) in testing::fixtures() {
            let session = Session::new();
            let module = crate::front::read::read(&session, &bytes).unwrap();
            let result = check(&module, &CompileOptions::default());
            assert!(result.is_ok(), "{name}: {result:?}");
        }
    }
}
