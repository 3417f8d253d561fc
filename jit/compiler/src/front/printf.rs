//! printf, before the builtins are linked: each call of printf becomes a call of a function of its own that leaves a record in the
//! launch's buffer, and each kernel learns what it may print.

use super::HardenedModule;
use super::call_graph::CallGraph;
use super::harden::kernel_symbol;
use super::link::{add_definitions, readable};
use crate::builtin::{self, Definition};
use crate::llvm::{self, Function, Global, Layout, Session, Value, View};
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::targets::TargetMachine;
use spirula_interface::options::CompileError;
use spirula_interface::printf::{Argument, Call, conversions};
use spirula_interface::program::{HiddenKind, KernelSignature};
use std::collections::HashSet;

/// Where a value is looked for, as a chain of casts, offsets and variables; a hostile one may be long, or a circle.
const MAX_STEPS: usize = 64;

/// Replaces the calls of printf. Errors: `Failed` with a line for each call whose format isn't known, or that has an
/// argument which can't be printed.
pub(crate) fn replace<'s>(
    session: &'s Session,
    hardened: &mut HardenedModule<'s>,
    machine: &TargetMachine,
) -> Result<(), CompileError> {
    let HardenedModule { module, kernels, .. } = hardened;
    let Records { calls, definitions } = records(module.view())?;
    if calls.is_empty() {
        return Ok(());
    }
    add_definitions(session, module, &definitions, machine)?;
    module.edit(|edit| {
        for (site, (name, _)) in sites(*edit).into_iter().zip(&definitions) {
            let Some(function) = edit.function_named(name) else { continue };
            edit.replace_in(&site.users(), **site, edit.before(*site).call(function, &arguments(site)));
            edit.erase_instruction(*site);
        }
        edit.functions().into_iter().filter(is_printf).for_each(|function| edit.erase_function(function));
    });
    describe(module.view(), calls, kernels);
    Ok(())
}

/// The calls of printf in the order of the text, to which linking adds none.
fn sites(module: View) -> Vec<llvm::Call> {
    let printfs: HashSet<Function> = module.functions().into_iter().filter(is_printf).collect();
    if printfs.is_empty() {
        return Vec::new();
    }
    let instructions = module.defined_functions().into_iter().flat_map(|function| function.instructions());
    let calls = instructions.filter_map(|instruction| instruction.as_call());
    calls.filter(|call| call.called_function().is_some_and(|callee| printfs.contains(&callee))).collect()
}

/// What each call prints, and the function that is called in its place.
#[derive(Default)]
struct Records {
    calls: Vec<Call>,
    definitions: Vec<(String, Definition)>,
}

fn records(module: View) -> Result<Records, CompileError> {
    let (mut records, mut log) = (Records::default(), String::new());
    for (number, site) in (0..).zip(sites(module)) {
        match call(site, module.layout()) {
            Ok(call) => {
                let types: Vec<String> = arguments(site).iter().map(|value| value.ty().to_string()).collect();
                let name = symbol(number);
                let definition = builtin::printf::define(&name, number, &types, &call.arguments);
                records.definitions.push((name, definition));
                records.calls.push(call);
            }
            Err(what) => {
                let function = readable(*site.parent_function());
                log.push_str(&format!("error: a call of printf in {function} {what}\n"));
            }
        }
    }
    if log.is_empty() { Ok(records) } else { Err(CompileError::Failed(log)) }
}

fn symbol(number: u32) -> String {
    format!("spirula.printf.{number}")
}

/// SPIR names it without its types; other producers may mangle it.
/// Whether it is the declared function.
pub(super) fn is_printf(function: &Function) -> bool {
    let name = function.name();
    function.is_declaration()
        && (name == "printf"
            || builtin::source_name(&name) == "__spirv_ocl_printf"
            || builtin::demangle(&name).is_some_and(|text| text.starts_with("printf(")))
}

/// Gives each kernel the calls that it may reach, and a place for the buffer's address behind its arguments.
fn describe(module: View, calls: Vec<Call>, kernels: &mut [KernelSignature]) {
    let graph = CallGraph::new(module);
    for (number, call) in (0..).zip(calls) {
        let target = module.function_named(&symbol(number));
        let reaching: HashSet<String> =
            graph.reaching(target).iter().map(|function| function.name()).collect();
        for kernel in kernels.iter_mut().filter(|kernel| reaching.contains(&kernel_symbol(&kernel.name))) {
            kernel.take_hidden(HiddenKind::PrintfBuffer);
            kernel.printf.get_or_insert_default().calls.insert(number, call.clone());
        }
    }
}

/// The arguments behind the format.
fn arguments(site: llvm::Call) -> Vec<Value> {
    site.arguments().into_iter().skip(1).collect()
}

/// What a call prints; the error stands behind "a call of printf in `f` ".
fn call<'m>(site: llvm::Call<'m>, layout: Layout<'m>) -> Result<Call, String> {
    if site.ty().integer_width() != 32 {
        return Err(format!("returns the type {}", site.ty()));
    }
    // 6.12.13.2: the format must be known when the program is compiled.
    let format = site.arguments().first().and_then(|format| constant_text(*format, layout));
    let format = format.ok_or("has a format that is no constant string")?;
    let arguments = conversions(&format).into_iter().zip(arguments(site)).enumerate().map(
        |(index, (conversion, value))| match constant_text(value, layout) {
            Some(text) if conversion.letter == b's' => Ok(Argument::Known(text)),
            None if conversion.letter == b's' && value.ty().is_pointer() => Ok(Argument::Copied),
            _ => {
                let bytes = builtin::printf::bytes(&value.ty().to_string());
                let wrong = || format!("has an argument {} of type {}", index + 1, value.ty());
                bytes.map(Argument::Bytes).ok_or_else(wrong)
            }
        },
    );
    let arguments = arguments.collect::<Result<_, String>>()?;
    Ok(Call { format, arguments })
}

/// The string that a pointer is known to point to.
fn constant_text<'m>(pointer: Value<'m>, layout: Layout<'m>) -> Option<Vec<u8>> {
    if !pointer.ty().is_pointer() {
        return None;
    }
    let (variable, offset) = constant_place(pointer, layout)?;
    text_at(variable.constant_initializer()?, offset, layout)
}

/// The variable that an address lies in, and where.
fn constant_place<'m>(address: Value<'m>, layout: Layout<'m>) -> Option<(Global<'m>, u64)> {
    use LLVMOpcode::*;
    let (mut current, mut offset) = (address, 0_u64);
    for _ in 0..MAX_STEPS {
        if let Some(variable) = current.as_global() {
            return Some((variable, offset));
        }
        let operand = current.operand(0)?;
        current = match current.operation()? {
            LLVMBitCast | LLVMAddrSpaceCast | LLVMIntToPtr | LLVMPtrToInt => operand,
            LLVMGetElementPtr => {
                offset = offset.checked_add_signed(layout.constant_offset(current)?)?;
                operand
            }
            // Code without optimization keeps the pointer in a variable.
            LLVMLoad => stored(operand)?,
            _ => return None,
        };
    }
    None
}

/// What a variable always holds: a constant, or a private variable that is written once.
fn stored(variable: Value<'_>) -> Option<Value<'_>> {
    if let Some(value) = variable.as_global().and_then(Global::constant_initializer) {
        return Some(value);
    }
    variable.allocated_type()?;
    let (loads, others): (Vec<_>, Vec<_>) =
        variable.users().into_iter().partition(|user| user.operation() == Some(LLVMOpcode::LLVMLoad));
    match others[..] {
        [store] if store.operation() == Some(LLVMOpcode::LLVMStore) && !loads.is_empty() => {
            store.operand(0).filter(|value| *value != variable)
        }
        _ => None,
    }
}

/// The bytes of an array of characters from an offset to the next NUL, or to its end.
fn text_at<'m>(initializer: Value<'m>, offset: u64, layout: Layout<'m>) -> Option<Vec<u8>> {
    let (mut array, mut offset) = (initializer, offset);
    loop {
        if array.is_null() {
            return Some(Vec::new());
        }
        let element = array.ty().element()?;
        let size = layout.size(element);
        if element.integer_width() == 8 {
            break;
        }
        array = array.aggregate_element(u32::try_from(offset.checked_div(size)?).ok()?)?;
        offset %= size;
    }
    let count = u32::try_from(array.ty().element_count()).ok()?;
    let bytes = (u32::try_from(offset).ok()?..count)
        .map(|index| array.aggregate_element(index)?.constant_bits().map(|byte| byte as u8));
    bytes.take_while(|byte| *byte != Some(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{harden, read_modules, testing};
    use crate::llvm;
    use spirula_interface::options::CompileOptions;

    const DECLARATIONS: &str = "declare spir_func i32 @printf(ptr addrspace(2), ...)
        @format = private addrspace(2) constant [9 x i8] c\"x%d%s%%\\0A\\00\"
        @word = addrspace(2) constant [5 x i8] c\"word\\00\"\n";

    /// The kernels' tables and the module's text.
    fn replaced(text: &str) -> Result<(Vec<KernelSignature>, String), String> {
        let session = Session::new();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let options = CompileOptions::default();
        let binary = testing::bitcode(&format!("{DECLARATIONS}{text}"));
        let spir = read_modules(&session, &[&binary], &options).map_err(|error| error.to_string())?;
        let mut hardened = harden(spir, &machine);
        replace(&session, &mut hardened, &machine).map_err(|error| error.to_string())?;
        llvm::verify(&hardened.module).unwrap_or_else(|e| panic!("{e}"));
        Ok((hardened.kernels, llvm::print_text(&hardened.module)))
    }

    /// What the one call in `body` prints.
    fn one(body: &str) -> Result<Call, String> {
        let kernel = "define spir_kernel void @k(ptr addrspace(1) %p, i32 %x, ptr addrspace(2) %s) {";
        let (kernels, _) = replaced(&format!("{kernel}\n {body}\n ret void\n}}"))?;
        Ok(kernels[0].printf.as_ref().unwrap().calls[&0].clone())
    }

    fn call(arguments: &str) -> String {
        format!("%r = call spir_func i32 (ptr addrspace(2), ...) @printf({arguments})")
    }

    #[test]
    fn calls_leave_records_and_kernels_know_them() {
        let calls = |format: &str| call(&format!("ptr addrspace(2) {format}, i32 %x"));
        let (kernels, text) = replaced(&format!(
            "define spir_func i32 @f(i32 %x) {{\n {}\n ret i32 %r\n}}
             define spir_kernel void @a(i8 %c, i32 %x) {{\n %y = call spir_func i32 @f(i32 %x)\n {}\n ret void\n}}
             define spir_kernel void @b(ptr addrspace(1) %p) {{
               %y = call spir_func i32 @f(i32 1)\n store i32 %y, ptr addrspace(1) %p\n ret void\n}}
             define spir_kernel void @silent(i8 %c) {{\n ret void\n}}",
            calls("@format"),
            calls("@word"),
        ))
        .unwrap();
        assert!(!text.contains("@printf") && text.contains("ret i32 %1"), "{text}");
        let places: Vec<_> = kernels
            .iter()
            .map(|kernel| {
                let printf = kernel.printf.as_ref();
                let formats = printf.into_iter().flat_map(|p| p.calls.values().map(|c| c.format.clone()));
                let offset = kernel.hidden_offset(HiddenKind::PrintfBuffer);
                (offset, kernel.argument_block_size, formats.map(|f| f.len()).collect::<Vec<_>>())
            })
            .collect();
        let [(a, a_size, a_formats), (b, b_size, b_formats), silent] = &places[..] else { panic!("three") };
        assert_eq!((*a, *a_size, *b, *b_size), (Some(8), 16, Some(8), 16));
        assert_eq!((a_formats.len(), &b_formats[..]), (2, &[8][..]), "{places:?}");
        assert_eq!(*silent, (None, 1, vec![]));
    }

    #[test]
    fn formats_are_found_behind_casts_offsets_and_variables() {
        for (format, before, found) in [
            ("@format", "", "x%d%s%%\n"),
            ("getelementptr (i8, ptr addrspace(2) @format, i64 1)", "", "%d%s%%\n"),
            ("getelementptr ([9 x i8], ptr addrspace(2) @format, i64 0, i64 3)", "", "%s%%\n"),
            ("inttoptr (i64 ptrtoint (ptr @private to i64) to ptr addrspace(2))", "", "private"),
            ("addrspacecast (ptr @private to ptr addrspace(2))", "", "private"),
            ("getelementptr (i8, ptr addrspace(2) @rows, i64 4)", "", "row"),
            ("@zeros", "", ""),
            ("@unterminated", "", "ab"),
            ("%f", "%f = load ptr addrspace(2), ptr addrspace(2) @pointer", "word"),
            (
                "%f",
                "%v = alloca ptr addrspace(2)\n store ptr addrspace(2) @word, ptr %v\n %f = load ptr addrspace(2), ptr %v",
                "word",
            ),
        ] {
            let more = "@private = private constant [8 x i8] c\"private\\00\"
                @rows = addrspace(2) constant [2 x [4 x i8]] [[4 x i8] c\"abc\\00\", [4 x i8] c\"row\\00\"]
                @zeros = addrspace(2) constant [4 x i8] zeroinitializer\n@unterminated = addrspace(2) constant [2 x i8] c\"ab\"
                @pointer = addrspace(2) constant ptr addrspace(2) @word\n";
            let text = format!(
                "{more}define spir_kernel void @k() {{\n {before}\n {}\n ret void\n}}",
                call(&format!("ptr addrspace(2) {format}"))
            );
            let (kernels, _) = replaced(&text).unwrap_or_else(|e| panic!("{format}: {e}"));
            let call = &kernels[0].printf.as_ref().unwrap().calls[&0];
            assert_eq!(String::from_utf8_lossy(&call.format), found, "{format}");
        }
    }

    #[test]
    fn arguments_are_numbers_and_strings() {
        let known = Argument::Known(b"word".to_vec());
        let all = one(&call("ptr addrspace(2) @format, i32 %x, ptr addrspace(2) @word, i64 1")).unwrap();
        assert_eq!(all.arguments, [Argument::Bytes(4), known]);
        let copied = one(&call("ptr addrspace(2) @format, <3 x float> zeroinitializer, ptr addrspace(2) %s"));
        assert_eq!(copied.unwrap().arguments, [Argument::Bytes(12), Argument::Copied]);
        let pointer = one(&call("ptr addrspace(2) @format, ptr addrspace(1) %p"));
        assert_eq!(pointer.unwrap().arguments, [Argument::Bytes(8)]);
        let number = one(&call("ptr addrspace(2) @format, i32 1, i32 2"));
        assert_eq!(number.unwrap().arguments, [Argument::Bytes(4), Argument::Bytes(4)]);
    }

    #[test]
    fn what_cannot_be_printed_is_named() {
        let error = one(&call("ptr addrspace(2) %s")).unwrap_err();
        assert!(error.contains("printf in `void") && error.contains("no constant string"), "{error}");
        let circle = "%v = alloca ptr addrspace(2)\n %f = load ptr addrspace(2), ptr %v
             store ptr addrspace(2) %f, ptr %v\n";
        let error = one(&format!("{circle}{}", call("ptr addrspace(2) %f"))).unwrap_err();
        assert!(error.contains("no constant string"), "{error}");
        let error = one(&call("ptr addrspace(2) @format, i128 1")).unwrap_err();
        assert!(error.contains("an argument 1 of type i128"), "{error}");
    }

    #[test]
    fn a_function_of_the_program_may_be_called_printf() {
        let text = "define spir_func i32 @_Z6printfi(i32 %x) {\n ret i32 42\n}
             define spir_kernel void @k() {\n %r = call spir_func i32 @_Z6printfi(i32 1)\n ret void\n}";
        let (kernels, text) = replaced(text).unwrap();
        assert!(kernels[0].printf.is_none() && text.contains("ret i32 42"), "{text}");
    }
}
