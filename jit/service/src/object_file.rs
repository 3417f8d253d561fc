//! What an object file needs from outside, and what it may need: checked when it is made and when it is loaded.

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol, elf};

/// A function that LLVM may call in any code, and its address in this process.
pub struct RuntimeFunction {
    /// The symbol.
    pub name: &'static str,
    /// Where it is.
    pub address: usize,
}

unsafe extern "C" {
    fn fma(x: f64, y: f64, z: f64) -> f64;
    fn fmaf(x: f32, y: f32, z: f32) -> f32;
    fn fmod(x: f64, y: f64) -> f64;
    fn fmodf(x: f32, y: f32) -> f32;
}

/// All that generated code may call: block copies, which LLVM makes of loops and aggregates, and the two arithmetic
/// operations that a CPU may lack. Mathematics comes from our own builtin library, never from libm.
pub fn runtime_functions() -> [RuntimeFunction; 8] {
    let function = |name, address: *const ()| RuntimeFunction { name, address: address as usize };
    [
        function("memcpy", libc::memcpy as *const ()),
        function("memmove", libc::memmove as *const ()),
        function("memset", libc::memset as *const ()),
        function("memcmp", libc::memcmp as *const ()),
        function("fma", fma as *const ()),
        function("fmaf", fmaf as *const ()),
        function("fmod", fmod as *const ()),
        function("fmodf", fmodf as *const ()),
    ]
}

/// Why an object can't be linked into this process.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ObjectError {
    /// The bytes are no object file for this CPU.
    #[error("not a relocatable ELF object of this CPU: {0}")]
    Malformed(String),
    /// It calls what nobody provides.
    #[error("nothing provides {}", .0.join(", "))]
    Unresolved(Vec<String>),
}

/// Checks that the bytes are a relocatable object for this CPU that needs nothing but [`runtime_functions`]. This
/// is no protection against an object made with evil intent: code is code.
pub fn check(object: &[u8]) -> Result<(), ObjectError> {
    let malformed = |what: &dyn std::fmt::Display| ObjectError::Malformed(what.to_string());
    let file = ElfFile64::<Endianness>::parse(object).map_err(|error| malformed(&error))?;
    let (header, endian) = (file.elf_header(), file.endian());
    let machine = if cfg!(target_arch = "x86_64") { elf::EM_X86_64 } else { elf::EM_AARCH64 };
    if header.e_machine(endian) != machine || header.e_type(endian) != elf::ET_REL {
        return Err(malformed(&"its header names another kind of file or CPU"));
    }
    let known = runtime_functions();
    let mut unresolved = Vec::new();
    // The first symbol of every table is the null symbol: undefined, and nameless.
    for symbol in file.symbols().filter(ObjectSymbol::is_undefined) {
        let name = symbol.name().map_err(|error| malformed(&error))?;
        if !name.is_empty() && name != "_GLOBAL_OFFSET_TABLE_" && !known.iter().any(|k| k.name == name) {
            unresolved.push(name.to_owned());
        }
    }
    if unresolved.is_empty() { Ok(()) } else { Err(ObjectError::Unresolved(unresolved)) }
}
