//! Reading: bytes to an LLVM module, verified, with its debug information as far as that is sound.

use super::blocks::is_of_blocks;
use super::check::rules;
use super::container;
use super::printf::is_printf;
use crate::llvm::{self, Function, Global, LlvmError, Module, Session, View};
use crate::spirv;
use spirula_interface::options::CompileError;

/// The address space of local memory (SPIR 1.2, 2.2).
const LOCAL: u32 = 3;

/// Reads a module of any bitcode version that LLVM upgrades, raw or wrapped. Errors: `InvalidBinary`, with the
/// reason in words of ours (the container) or LLVM's (what's in it).
pub(crate) fn read<'s>(session: &'s Session, bytes: &[u8]) -> Result<Module<'s>, CompileError> {
    if spirv::is_spirv(bytes) {
        return read_spirv(session, bytes);
    }
    let stream = container::raw_stream(bytes)
        .map_err(|error| invalid(format!("The binary is no readable SPIR: {error}.")))?;
    verified(llvm::parse_bitcode(session, stream).map_err(|error| damaged(&error))?)
}

/// Reads of a module of bitcode no more than one of its kernels needs: most modules of so many bytes are libraries, of which a kernel
/// needs a tenth. None if that is not to be known before all is read, or if there is something in the module that belongs to all kernels.
pub(crate) fn read_kernel<'s>(
    session: &'s Session,
    bytes: &[u8],
    kernel: &str,
) -> Result<Option<Module<'s>>, CompileError> {
    // Other forms, and broken ones, are for `read`.
    let Ok(stream) = container::raw_stream(bytes) else { return Ok(None) };
    let unread = llvm::Unread::open(session, stream).map_err(|error| damaged(&error))?;
    if !has_kernels_apart(unread.view(), kernel) {
        return Ok(None);
    }
    let module = unread.read(session, kernel).map_err(|error| damaged(&error))?;
    verified(module).map(Some)
}

/// Whether the function of that name is defined, and kernels share nothing that is numbered or laid out for all of them together:
/// their list, variables, blocks, formats of printf.
fn has_kernels_apart(module: View, kernel: &str) -> bool {
    let functions = module.functions();
    let is_shared = |function: &Function| {
        function.is_declaration() && is_of_blocks(&function.name()) || is_printf(function)
    };
    // (Every kernel has local variables of its own.)
    let is_variable =
        |global: &Global| !global.is_constant_variable() && global.ty().address_space() != LOCAL;
    module.named_metadata(c"opencl.kernels").is_empty()
        && functions.iter().any(|function| !function.is_declaration() && function.name() == kernel)
        && !functions.iter().any(is_shared)
        && !module.globals().iter().any(is_variable)
        && module.indirect_symbols().is_empty()
}

fn verified(module: Module) -> Result<Module, CompileError> {
    llvm::verify(&module).map_err(|error| {
        invalid(format!("The binary is not well-formed LLVM IR:\n{}", error.0.trim_end()))
    })?;
    Ok(module)
}

fn damaged(error: &LlvmError) -> CompileError {
    invalid(format!("The binary is damaged: {error}"))
}

/// Reads a SPIR-V binary, whose text LLVM has to take as well.
fn read_spirv<'s>(session: &'s Session, bytes: &[u8]) -> Result<Module<'s>, CompileError> {
    let refused = |why: String| CompileError::InvalidBinary(format!("The SPIR-V module is refused: {why}."));
    let text = spirv::to_llvm(bytes).map_err(|error| refused(error.0))?;
    let wrong =
        |error: llvm::LlvmError| refused(format!("what it says has no meaning: {}", error.0.trim_end()));
    let module = llvm::parse_text(session, &text).map_err(wrong)?;
    llvm::verify(&module).map_err(wrong)?;
    Ok(module)
}

fn invalid(text: String) -> CompileError {
    CompileError::InvalidBinary(format!("{text} [{}]", rules::READABLE.cited()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;

    #[test]
    fn reads_what_llvm_writes() {
        let session = Session::new();
        let bytes = testing::bitcode("define spir_kernel void @k() {\n ret void\n}");
        let module = read(&session, &bytes).unwrap();
        assert!(module.view().function_named("k").is_some());
    }

    #[test]
    fn reads_every_fixture() {
        for (name, bytes) in testing::fixtures() {
            let session = Session::new();
            assert!(read(&session, &bytes).is_ok(), "{name}");
        }
    }

    #[test]
    fn damage_is_an_invalid_binary() {
        let session = Session::new();
        for bytes in [&b""[..], b"BC\xC0\xDE", b"not bitcode at all"] {
            let error = read(&session, bytes).unwrap_err();
            assert!(
                matches!(&error, CompileError::InvalidBinary(text) if text.contains("no readable SPIR")),
                "{error}"
            );
        }
    }
}
