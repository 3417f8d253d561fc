//! Reading: bytes to an LLVM module, verified, with its debug information as far as that is sound.

use super::check::rules;
use super::container;
use crate::llvm::{self, Module, Session};
use crate::spirv;
use spirula_interface::options::CompileError;

/// Reads a module of any bitcode version that LLVM upgrades, raw or wrapped. Errors: `InvalidBinary`, with the
/// reason in words of ours (the container) or LLVM's (what's in it).
pub(crate) fn read<'s>(session: &'s Session, bytes: &[u8]) -> Result<Module<'s>, CompileError> {
    if spirv::is_spirv(bytes) {
        return read_spirv(session, bytes);
    }
    let stream = container::raw_stream(bytes)
        .map_err(|error| invalid(format!("The binary is no readable SPIR: {error}.")))?;
    let module = llvm::parse_bitcode(session, stream)
        .map_err(|error| invalid(format!("The binary is damaged: {error}")))?;
    llvm::verify(&module).map_err(|error| {
        invalid(format!("The binary is not well-formed LLVM IR:\n{}", error.0.trim_end()))
    })?;
    Ok(module)
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
