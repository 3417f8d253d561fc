//! Modules: bitcode and text in and out, verification, linking.

use super::{LlvmError, Session, Symbol, View, take_message};
use inkwell::llvm_sys::prelude::{LLVMMemoryBufferRef, LLVMModuleRef};
use inkwell::llvm_sys::{LLVMLinkage, analysis, bit_reader, core, ir_reader, linker};
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::targets::TargetMachine;
use spirula_interface::address_bits::AddressBits;
use std::collections::HashSet;
use std::ptr::null_mut;

/// A module of a session. Whatever may free something that it contains takes it `&mut`.
#[derive(Debug)]
pub struct Module<'s>(inkwell::module::Module<'s>);

impl<'s> Module<'s> {
    /// # Safety
    /// A module of the session's context that nobody else owns.
    unsafe fn own(_: &'s Session, raw: LLVMModuleRef) -> Self {
        // SAFETY: stated above.
        Module(unsafe { inkwell::module::Module::new(raw) })
    }

    pub(super) fn raw(&self) -> LLVMModuleRef {
        self.0.as_mut_ptr()
    }

    /// For code generation, which is inkwell's.
    pub(super) fn inkwell(&mut self) -> &inkwell::module::Module<'s> {
        &self.0
    }

    /// Gives the module up to one that consumes it.
    fn into_raw(self) -> LLVMModuleRef {
        std::mem::ManuallyDrop::new(self.0).as_mut_ptr()
    }

    /// Removes all debug information.
    pub(crate) fn strip_debug_info(&mut self) {
        self.0.strip_debug_info();
    }
}

/// Reads bitcode of any version that LLVM still upgrades. LLVM may abort on damaged input: only the compiler
/// process calls this with bytes from outside.
pub fn parse_bitcode<'s>(session: &'s Session, bitcode: &[u8]) -> Result<Module<'s>, LlvmError> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "module");
    let mut module = null_mut();
    // SAFETY: context and buffer are alive; the reader copies what it needs of the buffer.
    let failed = unsafe {
        bit_reader::LLVMParseBitcodeInContext2(session.context().raw(), buffer.as_mut_ptr(), &mut module)
    };
    if failed != 0 {
        return Err(LlvmError(session.take_errors()));
    }
    // SAFETY: just made in the session's context.
    Ok(unsafe { Module::own(session, module) })
}

/// Reads LLVM assembly.
pub fn parse_text<'s>(session: &'s Session, text: &str) -> Result<Module<'s>, LlvmError> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "kernel");
    let (mut module, mut message) = (null_mut(), null_mut());
    // SAFETY: context and buffer are alive; the buffer (a copy that ends in a zero byte) stays ours.
    let failed = unsafe {
        ir_reader::LLVMParseIRInContext2(
            session.context().raw(),
            buffer.as_mut_ptr(),
            &mut module,
            &mut message,
        )
    };
    // SAFETY: null, or a message that is ours.
    let message = unsafe { take_message(message) };
    if failed != 0 {
        return Err(LlvmError(message));
    }
    // SAFETY: just made in the session's context.
    Ok(unsafe { Module::own(session, module) })
}

/// The module as bitcode of this LLVM.
pub fn write_bitcode(module: &Module) -> Vec<u8> {
    module.0.write_bitcode_to_memory().as_slice().to_vec()
}

/// The module as LLVM assembly.
pub fn print_text(module: &Module) -> String {
    module.0.print_to_string().to_string_lossy().into_owned()
}

/// LLVM's verifier; its findings are the error.
pub fn verify(module: &Module) -> Result<(), LlvmError> {
    let mut message = null_mut();
    let action = analysis::LLVMVerifierFailureAction::LLVMReturnStatusAction;
    // SAFETY: the module is alive; the message is ours in either case.
    let (failed, message) =
        unsafe { (analysis::LLVMVerifyModule(module.raw(), action, &mut message), take_message(message)) };
    if failed != 0 { Err(LlvmError(message)) } else { Ok(()) }
}

/// Gives a module the machine's triple and data layout, but for pointers that are offsets.
pub fn set_target(module: &mut Module, machine: &TargetMachine, addresses: AddressBits) {
    module.0.set_triple(&machine.get_triple());
    let own = machine.get_target_data().get_data_layout();
    match addresses {
        AddressBits::Bits64 => module.0.set_data_layout(&own),
        AddressBits::Bits32 => {
            let text = [own.as_str().to_bytes(), b"-p:32:32\0"].concat();
            // SAFETY: the module is alive, and the text, a layout, ends in a zero byte.
            unsafe { core::LLVMSetDataLayout(module.raw(), text.as_ptr().cast()) }
        }
    }
}

/// Gives a module without a data layout, which SPIR allows, that of SPIR of 32 bits if it is such; LLVM's own is that of 64.
pub(crate) fn complete_layout(module: &mut Module, addresses: AddressBits) {
    if addresses == AddressBits::Bits32 && module.view().data_layout().is_empty() {
        // SAFETY: the module is alive, and the text, a layout, ends in a zero byte.
        unsafe { core::LLVMSetDataLayout(module.raw(), c"e-p:32:32-i64:64".as_ptr()) }
    }
}

/// What a module's pointers are.
pub(crate) fn addresses(module: &Module) -> AddressBits {
    match module.view().layout().pointer_bytes(0) {
        4 => AddressBits::Bits32,
        _ => AddressBits::Bits64,
    }
}

/// Moves everything in `source` into `destination`, both of this session.
pub fn link_in<'s>(
    session: &'s Session,
    destination: &mut Module<'s>,
    source: Module<'s>,
) -> Result<(), LlvmError> {
    assert!(
        destination.view().context() == source.view().context(),
        "modules of two sessions can't be linked"
    );
    // SAFETY: both are alive and of one context, and the source is given up.
    let failed = unsafe { linker::LLVMLinkModules2(destination.raw(), source.into_raw()) };
    if failed != 0 { Err(LlvmError(session.take_errors())) } else { Ok(()) }
}

/// Parses text and links it into a module of this session, as one for that machine.
pub(crate) fn link_text<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    text: &str,
    machine: &TargetMachine,
) -> Result<(), LlvmError> {
    let mut source = parse_text(session, text)?;
    set_target(&mut source, machine, addresses(module));
    link_in(session, module, source)
}

/// Links from bitcode only what the module, of this session, needs of it, if all of that has linkonce linkage.
pub(crate) fn link_lazily<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    bitcode: &'static [u8],
    machine: &TargetMachine,
) -> Result<(), LlvmError> {
    // SAFETY: a buffer that refers to bytes that live forever and need no zero byte behind them; it is given up.
    let mut source = unsafe {
        let (start, length) = (bitcode.as_ptr().cast(), bitcode.len());
        let buffer = core::LLVMCreateMemoryBufferWithMemoryRange(start, length, c"builtins".as_ptr(), 0);
        parse_lazily(session, buffer)?
    };
    set_target(&mut source, machine, addresses(module));
    link_in(session, module, source)
}

/// Reads a module but for its functions' bodies, which are read as they are linked into another module.
///
/// # Safety
/// The buffer is the caller's to give up.
unsafe fn parse_lazily(session: &Session, buffer: LLVMMemoryBufferRef) -> Result<Module<'_>, LlvmError> {
    let mut module = null_mut();
    // SAFETY: the buffer, alive, is the reader's if it succeeds.
    let failed =
        unsafe { bit_reader::LLVMGetBitcodeModuleInContext2(session.context().raw(), buffer, &mut module) };
    if failed != 0 {
        // SAFETY: the reader has not taken it.
        unsafe { core::LLVMDisposeMemoryBuffer(buffer) };
        return Err(LlvmError(session.take_errors()));
    }
    // SAFETY: just made in the session's context.
    Ok(unsafe { Module::own(session, module) })
}

/// A module of which no function's body was read yet.
pub(crate) struct Unread<'s>(Module<'s>);

impl<'s> Unread<'s> {
    /// Reads what a module says of its symbols, and its metadata.
    pub(crate) fn open(session: &'s Session, bitcode: &[u8]) -> Result<Unread<'s>, LlvmError> {
        let (start, length) = (bitcode.as_ptr().cast(), bitcode.len());
        // SAFETY: the buffer is a copy of bytes that are alive; it is given up.
        unsafe {
            let buffer = core::LLVMCreateMemoryBufferWithMemoryRangeCopy(start, length, c"module".as_ptr());
            parse_lazily(session, buffer).map(Unread)
        }
    }

    /// What is known by now: functions have no instructions, and nothing that only they use has uses.
    pub(crate) fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// Reads the function of this name and what it reaches, variables too, and leaves the rest.
    pub(crate) fn read(self, session: &'s Session, root: &str) -> Result<Module<'s>, LlvmError> {
        let Unread(mut source) = self;
        let mut module = parse_text(session, "")?;
        // SAFETY: both modules are alive, and the texts are the source's.
        unsafe {
            core::LLVMSetTarget(module.raw(), core::LLVMGetTarget(source.raw()));
            core::LLVMSetDataLayout(module.raw(), core::LLVMGetDataLayoutStr(source.raw()));
        }
        let is_external = |symbol: Symbol| symbol.linkage() == LLVMLinkage::LLVMExternalLinkage;
        // The linker leaves out what nobody asks for if it is defined anywhere.
        let optional: HashSet<String> = source.edit(|edit| {
            let others = edit.symbols().filter(|symbol| !symbol.is_declaration() && is_external(*symbol));
            let others = others.map(|symbol| (symbol, symbol.name())).filter(|(_, name)| name != root);
            others
                .map(|(symbol, name)| {
                    edit.set_linkage(symbol, LLVMLinkage::LLVMLinkOnceODRLinkage);
                    name
                })
                .collect()
        });
        link_in(session, &mut module, source)?;
        module.edit(|edit| {
            for symbol in edit.symbols().filter(|symbol| optional.contains(&symbol.name())) {
                edit.set_linkage(symbol, LLVMLinkage::LLVMExternalLinkage);
            }
        });
        Ok(module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n";

    #[test]
    fn text_and_bitcode_round_trip() {
        let session = Session::new();
        let module = parse_text(&session, MODULE).unwrap();
        let bitcode = write_bitcode(&module);
        let again = parse_bitcode(&session, &bitcode).unwrap();
        assert!(print_text(&again).contains("%y = add i32 %x, 1"));
        assert!(verify(&again).is_ok());
    }

    #[test]
    fn damaged_input_is_an_error_with_a_reason() {
        let session = Session::new();
        let text = parse_text(&session, "define i32 @f(").unwrap_err().0;
        assert!(text.contains("expected type"), "{text}");
        let bitcode = write_bitcode(&parse_text(&session, MODULE).unwrap());
        let error = parse_bitcode(&session, &bitcode[..bitcode.len() / 2]).unwrap_err().0;
        assert!(!error.is_empty());
        assert_eq!(session.take_errors(), "", "the error was taken");
    }

    #[test]
    fn linking_reports_duplicates() {
        let session = Session::new();
        let [mut one, two] = [MODULE, MODULE].map(|text| parse_text(&session, text).unwrap());
        let error = link_in(&session, &mut one, two).unwrap_err().0;
        assert!(error.contains("multiply defined") && error.contains('f'), "{error}");
    }

    #[test]
    fn of_an_unread_module_only_what_is_reached_is_read() {
        const TEXT: &str = "target triple = \"spir64-unknown-unknown\"\n@table = constant i32 3\n@other = constant i32 4\n\
            define i32 @kernel() {\n  %1 = call i32 @helper()\n  ret i32 %1\n}\n\
            define i32 @helper() {\n  %1 = load i32, ptr @table\n  ret i32 %1\n}\n\
            define i32 @unused() {\n  %1 = load i32, ptr @other\n  ret i32 %1\n}\n";
        let session = Session::new();
        let bitcode = write_bitcode(&parse_text(&session, TEXT).unwrap());
        let unread = Unread::open(&session, &bitcode).unwrap();
        assert_eq!(unread.view().symbols().filter(|symbol| !symbol.is_declaration()).count(), 5);
        let module = unread.read(&session, "kernel").unwrap();
        assert!(verify(&module).is_ok());
        let text = print_text(&module);
        for part in [
            "spir64-unknown-unknown",
            "define i32 @kernel()",
            "define i32 @helper()",
            "@table = constant i32 3",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("@unused") && !text.contains("@other"), "{text}");
        assert!(Unread::open(&session, &bitcode[..bitcode.len() / 2]).is_err());
    }
}
