//! The lines of the source that an object's code is of, as its debug information (DWARF) says.

use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, EndianSlice, LineProgramHeader, LineRow, LittleEndian,
};
use object::LittleEndian as LE;
use object::elf::{FileHeader64, R_X86_64_64, Rela64, SHT_RELA};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// From where on code is of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub address: usize,
    pub file: Arc<str>,
    /// From 1; 0 if none is known.
    pub line: u32,
}

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// An object's lines, sections of which lie where `place` says; none if it has none that can be read.
pub(super) fn lines(object: &[u8], place: impl Fn(usize) -> Option<usize>) -> Vec<Line> {
    let table = relocated(object, place);
    table.and_then(|table| rows(&table).ok()).unwrap_or_default()
}

/// The section of lines with the code's addresses in it.
fn relocated(object: &[u8], place: impl Fn(usize) -> Option<usize>) -> Option<Vec<u8>> {
    let header = FileHeader64::<LE>::parse(object).ok()?;
    let sections = header.sections(LE, object).ok()?;
    let symbols = sections.symbols(LE, object, object::elf::SHT_SYMTAB).ok()?;
    let (own, section) = sections.section_by_name(LE, b".debug_line")?;
    let mut table = section.data(LE, object).ok()?.to_vec();
    for relocations in sections.iter().filter(|section| section.sh_type(LE) == SHT_RELA) {
        if relocations.sh_info(LE) as usize != own.0 {
            continue;
        }
        for rela in relocations.data_as_array::<Rela64<LE>, _>(LE, object).ok()? {
            if rela.r_type(LE, false) != R_X86_64_64 {
                continue;
            }
            let symbol = symbols.symbol(object::SymbolIndex(rela.r_sym(LE, false) as usize)).ok()?;
            let base = place(usize::from(symbol.st_shndx(LE)))? as u64;
            let address = base.wrapping_add(symbol.st_value(LE)).wrapping_add_signed(rela.r_addend(LE));
            let at = usize::try_from(rela.r_offset(LE)).ok()?;
            table.get_mut(at..at.checked_add(8)?)?.copy_from_slice(&address.to_le_bytes());
        }
    }
    Some(table)
}

/// In the order of the code.
fn rows(table: &[u8]) -> gimli::Result<Vec<Line>> {
    let program = DebugLine::new(table, LittleEndian).program(DebugLineOffset(0), 8, None, None)?;
    let mut files: HashMap<u64, Arc<str>> = HashMap::new();
    let (mut rows, mut lines) = (program.rows(), Vec::new());
    while let Some((header, row)) = rows.next_row()? {
        if row.end_sequence() {
            continue;
        }
        let file = files.entry(row.file_index()).or_insert_with(|| file_of(header, row)).clone();
        let line = row.line().map_or(0, |line| line.get() as u32);
        lines.push(Line { address: row.address() as usize, file, line });
    }
    lines.sort_by_key(|line| line.address);
    Ok(lines)
}

/// A row's file, with its folder.
fn file_of(header: &LineProgramHeader<Bytes>, row: &LineRow) -> Arc<str> {
    let text = |value: Option<AttributeValue<Bytes>>| match value {
        Some(AttributeValue::String(text)) => text.to_string_lossy().into_owned(),
        _ => String::new(),
    };
    let file = row.file(header);
    let name = text(file.map(|file| file.path_name()));
    let folder = text(file.and_then(|file| file.directory(header)));
    Path::new(&folder).join(name).to_string_lossy().into()
}
