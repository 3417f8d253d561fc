//! Files with programs, and what kind each is of.

use crate::Result;
use std::path::Path;

/// A program as an application has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    OpenClC,
    /// LLVM's bitcode, raw or wrapped.
    Spir,
    SpirV,
    /// A program binary of Spirula's own.
    Binary,
}

/// A file's bytes.
pub struct Input {
    pub kind: Kind,
    pub bytes: Vec<u8>,
}

impl Input {
    pub fn read(path: &Path) -> Result<Input> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let kind = kind(&bytes).ok_or_else(|| {
            format!("{}: neither SPIR nor SPIR-V, nor the text of OpenCL C", path.display())
        })?;
        Ok(Input { kind, bytes })
    }
}

fn kind(bytes: &[u8]) -> Option<Kind> {
    const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
    const SPIRV: [&[u8]; 2] = [b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"];
    let starts = |magics: &[&[u8]]| magics.iter().any(|magic| bytes.starts_with(magic));
    match bytes {
        _ if starts(&BITCODE) => Some(Kind::Spir),
        _ if starts(&SPIRV) => Some(Kind::SpirV),
        _ if bytes.starts_with(b"SPIRULA") && bytes.contains(&0) => Some(Kind::Binary),
        _ if !bytes.is_empty() && !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => {
            Some(Kind::OpenClC)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_the_first_bytes() {
        assert_eq!(kind(b"BC\xc0\xde\0\0"), Some(Kind::Spir));
        assert_eq!(kind(b"\xde\xc0\x17\x0b\0"), Some(Kind::Spir));
        assert_eq!(kind(b"\x03\x02\x23\x07\0"), Some(Kind::SpirV));
        assert_eq!(kind(b"SPIRULA\x03\0\0"), Some(Kind::Binary));
        assert_eq!(kind(b"kernel void k() {}"), Some(Kind::OpenClC));
        assert_eq!((kind(b"\x7fELF\0"), kind(b"")), (None, None));
    }
}
