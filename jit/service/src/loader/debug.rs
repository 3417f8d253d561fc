//! What debuggers and profilers are told of code, if `SPIRULA_DEBUG` asks for it: its functions' names and places, kernels by the names
//! that the application knows.
//!
//! GDB gets objects with their sections' addresses filled in, through its JIT interface (`gdb`), and reads the debug information in them by
//! itself; perf gets a line for each function in the file that it looks for (`perf`), and code with its lines (`lines`) in a file of its own
//! kind (`jitdump`).

mod gdb;
mod jitdump;
mod lines;
mod perf;

use super::image::Layout;
use crate::settings::Debuggers;
use object::LittleEndian as LE;
use object::elf::{FileHeader64, SHT_SYMTAB, STT_FUNC, SectionHeader64, Sym64};
use object::pod::slice_from_all_bytes;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use std::ffi::CStr;

/// Code that debuggers know, as long as this lives, and its lines, in its order.
#[derive(Debug, Default)]
pub(super) struct Known {
    _objects: Vec<gdb::Registered>,
    lines: Vec<lines::Line>,
}

impl Known {
    /// The line that the code at an address is of, as `FILE:LINE`.
    pub(super) fn line(&self, address: usize) -> Option<String> {
        let behind = self.lines.partition_point(|line| line.address <= address);
        let line = self.lines.get(behind.checked_sub(1)?).filter(|line| line.line != 0)?;
        Some(format!("{}:{}", line.file, line.line))
    }
}

/// A function in memory.
#[derive(Debug, PartialEq)]
struct Function {
    address: usize,
    size: usize,
    name: String,
}

/// What the compiler puts before a kernel's name, up to its number.
const PREFIX: &str = "spirula.group.";

/// Tells of objects that are loaded at that address, where there are these bytes.
pub(super) fn tell(
    objects: &[Vec<u8>],
    layout: &Layout,
    (address, bytes): (usize, &[u8]),
    whom: Debuggers,
) -> Known {
    let mut known = Known::default();
    if !whom.lines {
        return known;
    }
    let mut functions = Vec::new();
    for (number, bytes) in objects.iter().enumerate() {
        let place = |section| layout.section(number, section).map(|offset| address + offset);
        // What was loaded was checked before; what it is called is nobody's problem if not.
        let Some((image, here)) = placed(bytes, place) else { continue };
        functions.extend(here);
        known.lines.extend(lines::lines(bytes, place));
        if whom.gdb {
            known._objects.push(gdb::Registered::new(image));
        }
    }
    known.lines.sort_by_key(|line| line.address);
    if whom.perf {
        perf::write(&functions);
        let code = |function: &Function| {
            let start = function.address.checked_sub(address)?;
            bytes.get(start..start.checked_add(function.size)?).map(<[u8]>::to_vec)
        };
        jitdump::write(&functions, code, &known.lines);
    }
    known
}

/// An object with its sections' addresses in it, kernels under their plain names, and its functions.
fn placed(object: &[u8], place: impl Fn(usize) -> Option<usize>) -> Option<(Vec<u8>, Vec<Function>)> {
    let header = FileHeader64::<LE>::parse(object).ok()?;
    let sections = header.section_headers(LE, object).ok()?;
    let first = usize::try_from(header.e_shoff.get(LE)).ok()?;
    let (mut image, mut functions) = (object.to_vec(), Vec::new());
    for (number, section) in sections.iter().enumerate() {
        if let Some(address) = place(number) {
            let at = first
                + number * size_of::<SectionHeader64<LE>>()
                + std::mem::offset_of!(SectionHeader64<LE>, sh_addr);
            image.get_mut(at..at + 8)?.copy_from_slice(&(address as u64).to_le_bytes());
        }
        if section.sh_type(LE) != SHT_SYMTAB {
            continue;
        }
        let start = usize::try_from(section.sh_offset(LE)).ok()?;
        let symbols: &[Sym64<LE>] = slice_from_all_bytes(section.data(LE, object).ok()?).ok()?;
        let strings = sections.get(section.sh_link(LE) as usize)?.data(LE, object).ok()?;
        for (index, symbol) in symbols.iter().enumerate().filter(|(_, symbol)| symbol.st_type() == STT_FUNC) {
            let Some(base) = place(usize::from(symbol.st_shndx(LE))) else { continue };
            let name = CStr::from_bytes_until_nul(strings.get(symbol.st_name(LE) as usize..)?).ok()?;
            let name = name.to_str().ok()?;
            let plain = plain(name);
            // A name's end is a name, too: it ends with the same zero.
            let skipped = (name.len() - plain.len()) as u32;
            let at = start + index * size_of::<Sym64<LE>>() + std::mem::offset_of!(Sym64<LE>, st_name);
            image.get_mut(at..at + 4)?.copy_from_slice(&(symbol.st_name(LE) + skipped).to_le_bytes());
            functions.push(Function {
                address: base + symbol.st_value(LE) as usize,
                size: symbol.st_size(LE) as usize,
                name: plain.to_owned(),
            });
        }
    }
    Some((image, functions))
}

/// A kernel's own name, of `spirula.group.NUMBER.NAME`.
fn plain(symbol: &str) -> &str {
    let rest = symbol.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.'));
    rest.map(|(_, name)| name).filter(|name| !name.is_empty()).unwrap_or(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_their_own_names() {
        assert_eq!(plain("spirula.group.12.saxpy"), "saxpy");
        assert_eq!(plain("spirula.group.12."), "spirula.group.12.");
        assert_eq!(plain("helper"), "helper");
        assert_eq!(plain("spirula.group"), "spirula.group");
    }

    #[test]
    fn code_is_of_the_line_that_begins_before_it() {
        let line = |address, line| lines::Line { address, file: "a.cl".into(), line };
        let known = Known { lines: vec![line(10, 3), line(20, 0), line(30, 7)], ..Known::default() };
        let of = |address| known.line(address);
        assert_eq!((of(9), of(10), of(19)), (None, Some("a.cl:3".into()), Some("a.cl:3".into())));
        assert_eq!((of(25), of(99)), (None, Some("a.cl:7".into())));
    }

    #[test]
    fn what_is_no_object_is_not_told_of() {
        assert_eq!(placed(b"", |_| None), None);
        assert_eq!(placed(&[0x7f; 100], |_| None), None);
    }
}
