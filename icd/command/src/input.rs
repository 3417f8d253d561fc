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
        let bytes = if kind == Kind::OpenClC { named(path, &bytes) } else { bytes };
        Ok(Input { kind, bytes })
    }
}

/// A source that says which file it is, for what is told of its lines.
fn named(path: &Path, source: &[u8]) -> Vec<u8> {
    let name = path.display().to_string();
    if name.contains(|character: char| character.is_control()) {
        return source.to_vec();
    }
    let name = name.replace('\\', "\\\\").replace('"', "\\\"");
    // A byte order mark is none behind a line.
    let source = source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source);
    [format!("#line 1 \"{name}\"\n").as_bytes(), source].concat()
}

fn kind(bytes: &[u8]) -> Option<Kind> {
    const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
    const SPIRV: [&[u8]; 2] = [b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"];
    let starts = |magics: &[&[u8]]| magics.iter().any(|magic| bytes.starts_with(magic));
    match bytes {
        _ if starts(&BITCODE) => Some(Kind::Spir),
        _ if starts(&SPIRV) => Some(Kind::SpirV),
        _ if bytes.starts_with(b"SPIRULA") && bytes.contains(&0) => Some(Kind::Binary),
        _ if is_text(bytes) => Some(Kind::OpenClC),
        _ => None,
    }
}

/// Of whatever encoding: comments may be of another than the compiler's.
fn is_text(bytes: &[u8]) -> bool {
    let is_written = |byte: &u8| *byte >= b' ' || (b'\t'..=b'\r').contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_say_which_file_they_are() {
        let named = |path: &str| String::from_utf8(named(Path::new(path), b"\xef\xbb\xbfint i;")).unwrap();
        assert_eq!(named("a/b.cl"), "#line 1 \"a/b.cl\"\nint i;");
        assert_eq!(named("a\"\\.cl"), "#line 1 \"a\\\"\\\\.cl\"\nint i;");
        assert_eq!(named("a\nb.cl"), "\u{feff}int i;");
    }

    #[test]
    fn kinds_are_told_by_the_first_bytes() {
        assert_eq!(kind(b"BC\xc0\xde\0\0"), Some(Kind::Spir));
        assert_eq!(kind(b"\xde\xc0\x17\x0b\0"), Some(Kind::Spir));
        assert_eq!(kind(b"\x03\x02\x23\x07\0"), Some(Kind::SpirV));
        assert_eq!(kind(b"SPIRULA\x03\0\0"), Some(Kind::Binary));
        assert_eq!(kind(b"kernel void k() {}"), Some(Kind::OpenClC));
        assert_eq!(kind(b"// gr\xfc\xdfe\r\n\tkernel void k() {}"), Some(Kind::OpenClC), "Latin-1");
        assert_eq!((kind(b"\x7fELF\0"), kind(b""), kind(b"\x01\x02kernel")), (None, None, None));
    }
}
