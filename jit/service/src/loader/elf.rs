//! One relocatable object: which of its sections are to be mapped, what its symbols name, and its relocations. All that
//! later steps rely on is checked here, against an allowlist of what LLVM writes for code of our kind. Nothing takes
//! more memory than a small multiple of the object's bytes.

use super::error::{Cause, RelocationFault, SectionFault, SymbolFault, readable};
use super::relocate::Kind;
use object::elf::*;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, ReadRef, pod};

/// Alignment of a section at most: what mapped memory has by itself. OpenCL's largest type has 128.
const MAX_ALIGNMENT: u64 = super::memory::PAGE as u64;
/// Bytes of a name at most. Without a limit, names that overlap take quadratic time.
const MAX_NAME: u64 = 1 << 16;
/// Flags that a mapped section may have.
const MAPPED_FLAGS: u32 = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS;
/// Flags that other sections may have: that of relocations says that `sh_info` is a section.
const OTHER_FLAGS: u32 = SHF_INFO_LINK | SHF_MERGE | SHF_STRINGS;

/// An object's parts that count.
#[derive(Debug)]
pub(super) struct Object<'a> {
    /// By their numbers in the object; None for those that aren't mapped.
    pub sections: Vec<Option<Section<'a>>>,
    /// By their numbers in the object.
    pub symbols: Vec<Symbol<'a>>,
    pub relocations: Vec<Relocation>,
    /// The functions that are visible outside.
    pub functions: Vec<Function<'a>>,
}

/// What a section is to become part of, in their order in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Code,
    /// Read-only once it is relocated.
    Constants,
    /// Variables of the program's that have a value at first.
    Data,
    /// Variables that are zero at first.
    Zeros,
}

/// A section that is to be mapped.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub part: Part,
    pub name: &'a [u8],
    /// Its first bytes; the rest is zero.
    pub bytes: &'a [u8],
    pub size: usize,
    /// A power of two.
    pub align: usize,
}

/// What a symbol names.
#[derive(Debug)]
pub(super) struct Symbol<'a> {
    pub name: &'a [u8],
    pub place: Place,
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a section that is mapped, at most at its end.
    Here { section: usize, offset: usize },
    /// Outside of the program.
    External,
    /// In no memory: a file's name, or in a section that isn't mapped.
    Nowhere,
}

/// A function that is visible outside.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub name: &'a [u8],
    pub section: usize,
    pub offset: usize,
}

/// Something to be filled in when all addresses are known.
#[derive(Debug)]
pub(super) struct Relocation {
    /// A section with bytes; those from `offset` on that the kind changes are inside.
    pub section: usize,
    pub offset: usize,
    pub kind: Kind,
    pub symbol: usize,
    pub addend: i64,
}

type Header = FileHeader64<LittleEndian>;
type SectionEntry = SectionHeader64<LittleEndian>;
type SymbolEntry = Sym64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

impl<'a> Object<'a> {
    /// Reads and checks an object.
    pub(super) fn read(file: &'a [u8]) -> Result<Object<'a>, Cause> {
        let reader = Reader::new(file)?;
        reader.check_ranges()?;
        let sections = reader.mapped_sections()?;
        let mut object =
            Object { sections, symbols: Vec::new(), relocations: Vec::new(), functions: Vec::new() };
        let table = reader.symbol_table()?;
        if let Some(table) = &table {
            for (number, entry) in table.entries.iter().enumerate() {
                let symbol = object.symbol(table, number, entry)?;
                object.symbols.push(symbol);
            }
        }
        for (number, entry) in reader.entries.iter().enumerate() {
            if entry.sh_type(LE) == SHT_RELA {
                object.read_relocations(&reader, table.as_ref(), number, entry)?;
            }
        }
        Ok(object)
    }

    /// A symbol, which is noted if it is a function that is visible outside.
    fn symbol(
        &mut self,
        table: &SymbolTable<'a>,
        number: usize,
        entry: &SymbolEntry,
    ) -> Result<Symbol<'a>, Cause> {
        let name = table.name(entry);
        let fail = |fault| {
            let shown = name.filter(|name| !name.is_empty()).map(readable);
            Cause::Symbol { symbol: shown.unwrap_or_else(|| format!("#{number}")), fault }
        };
        let name = name.ok_or_else(|| fail(SymbolFault::Name))?;
        let (kind, binding) = (entry.st_type(), entry.st_bind());
        match kind {
            STT_NOTYPE | STT_OBJECT | STT_FUNC | STT_SECTION | STT_FILE => {}
            STT_COMMON => return Err(fail(SymbolFault::Common)),
            kind => return Err(fail(SymbolFault::Type(kind))),
        }
        if !matches!(binding, STB_LOCAL | STB_GLOBAL) {
            return Err(fail(SymbolFault::Binding(binding)));
        }
        let nowhere = Ok(Symbol { name, place: Place::Nowhere });
        let section = match entry.st_shndx(LE) {
            // The first symbol of every table is nameless and undefined.
            SHN_UNDEF if number == 0 => return nowhere,
            SHN_UNDEF if binding == STB_GLOBAL => return Ok(Symbol { name, place: Place::External }),
            SHN_ABS if kind == STT_FILE => return nowhere,
            SHN_ABS | SHN_UNDEF => return Err(fail(SymbolFault::Absolute)),
            SHN_COMMON => return Err(fail(SymbolFault::Common)),
            section => section,
        };
        let slot = self.sections.get(usize::from(section));
        let Some(mapped) = slot.ok_or_else(|| fail(SymbolFault::Section(section)))? else { return nowhere };
        let (start, size) = (entry.st_value(LE), entry.st_size(LE));
        let end = start.checked_add(size).filter(|&end| end <= mapped.size as u64);
        end.ok_or_else(|| fail(SymbolFault::Outside))?;
        let (section, offset) = (usize::from(section), start as usize);
        if kind == STT_FUNC {
            // At a section's very end too: LLVM leaves nothing of a function that does nothing that is defined.
            if mapped.part != Part::Code {
                return Err(fail(SymbolFault::NotCode));
            }
            if binding == STB_GLOBAL {
                self.functions.push(Function { name, section, offset });
            }
        }
        Ok(Symbol { name, place: Place::Here { section, offset } })
    }

    /// The relocations of one table, unless they are those of a section that isn't mapped.
    fn read_relocations(
        &mut self,
        reader: &Reader<'a>,
        table: Option<&SymbolTable>,
        number: usize,
        entry: &SectionEntry,
    ) -> Result<(), Cause> {
        let fail = |fault| Cause::Section { section: reader.readable_name(number), fault };
        let (link, info) = (entry.sh_link(LE), entry.sh_info(LE));
        if table.is_none_or(|table| table.number != link as usize) {
            return Err(fail(SectionFault::Link(link)));
        }
        let target = info as usize;
        let slot = self.sections.get(target).filter(|_| target != 0);
        let Some(section) = slot.ok_or_else(|| fail(SectionFault::Link(info)))? else { return Ok(()) };
        for rela in reader.table::<Rela64<LittleEndian>>(number)? {
            let offset = rela.r_offset(LE);
            let fail = |fault| Cause::Relocation { section: readable(section.name), offset, fault };
            let (kind, symbol) = (rela.r_type(LE, false), rela.r_sym(LE, false));
            let kind = Kind::of(kind).ok_or_else(|| fail(RelocationFault::Type(kind)))?;
            let end = offset.checked_add(kind.size() as u64);
            end.filter(|&end| end <= section.bytes.len() as u64)
                .ok_or_else(|| fail(RelocationFault::Outside))?;
            if symbol as usize >= self.symbols.len() {
                return Err(fail(RelocationFault::Symbol(symbol)));
            }
            self.relocations.push(Relocation {
                section: target,
                offset: offset as usize,
                kind,
                symbol: symbol as usize,
                addend: rela.r_addend(LE),
            });
        }
        Ok(())
    }
}

/// The object's symbol table.
struct SymbolTable<'a> {
    /// Its section.
    number: usize,
    entries: &'a [SymbolEntry],
    strings: &'a [u8],
}

impl<'a> SymbolTable<'a> {
    fn name(&self, entry: &SymbolEntry) -> Option<&'a [u8]> {
        string(self.strings, entry.st_name(LE))
    }
}

/// The file and its section headers.
struct Reader<'a> {
    file: &'a [u8],
    header: &'a Header,
    entries: &'a [SectionEntry],
    names: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(file: &'a [u8]) -> Result<Reader<'a>, Cause> {
        let malformed = |error: object::Error| Cause::Malformed(error.to_string());
        let header = Header::parse(file).map_err(malformed)?;
        header.endian().map_err(malformed)?;
        if header.e_machine(LE) != EM_X86_64 || header.e_type(LE) != ET_REL || header.e_phnum(LE) != 0 {
            return Err(Cause::NotRelocatable);
        }
        let entries = header.section_headers(LE, file).map_err(malformed)?;
        let number = header.section_strings_index(LE, file).map_err(malformed)?.0;
        let reader = Reader { file, header, entries, names: &[] };
        Ok(Reader {
            names: reader.strings(number).map_err(|fault| reader.section_error(number, fault))?,
            ..reader
        })
    }

    /// A section's name for a message.
    fn readable_name(&self, number: usize) -> String {
        let name = self.entries.get(number).and_then(|entry| string(self.names, entry.sh_name(LE)));
        name.filter(|name| !name.is_empty()).map_or_else(|| format!("#{number}"), readable)
    }

    fn section_error(&self, number: usize, fault: SectionFault) -> Cause {
        Cause::Section { section: self.readable_name(number), fault }
    }

    /// A section's bytes; none for one that has only a size.
    fn bytes(&self, entry: &SectionEntry) -> Result<&'a [u8], SectionFault> {
        entry.data(LE, self.file).map_err(|_| SectionFault::OutOfFile)
    }

    /// The string table in a section.
    fn strings(&self, number: usize) -> Result<&'a [u8], SectionFault> {
        let entry = self.entries.get(number).filter(|entry| entry.sh_type(LE) == SHT_STRTAB);
        self.bytes(entry.ok_or(SectionFault::Link(number as u32))?)
    }

    /// A section's bytes as a table.
    fn table<T: pod::Pod>(&self, number: usize) -> Result<&'a [T], Cause> {
        let bytes = self.entries.get(number).map_or(Ok(&[][..]), |entry| self.bytes(entry));
        let bytes = bytes.map_err(|fault| self.section_error(number, fault))?;
        pod::slice_from_all_bytes(bytes).map_err(|()| self.section_error(number, SectionFault::Table))
    }

    /// No two sections share bytes of the file, nor with the file's header or the table of sections: then all that is
    /// mapped together is no larger than the file, but for alignment and zeros.
    fn check_ranges(&self) -> Result<(), Cause> {
        let header = (0, size_of::<Header>() as u64, 0);
        let table = (self.header.e_shoff(LE), size_of_val(self.entries) as u64, 0);
        let mut ranges = vec![header, table];
        for (number, entry) in self.entries.iter().enumerate() {
            self.bytes(entry).map_err(|fault| self.section_error(number, fault))?;
            let range = entry.file_range(LE).filter(|&(_, size)| size > 0);
            ranges.extend(range.map(|(start, size)| (start, size, number)));
        }
        ranges.sort_unstable();
        // All ends are inside the file.
        let overlap = ranges.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        match overlap {
            Some(pair) => Err(self.section_error(pair[0].2.max(pair[1].2), SectionFault::Overlap)),
            None => Ok(()),
        }
    }

    fn mapped_sections(&self) -> Result<Vec<Option<Section<'a>>>, Cause> {
        let section =
            |(number, entry)| self.mapped_section(entry).map_err(|fault| self.section_error(number, fault));
        self.entries.iter().enumerate().map(section).collect()
    }

    /// None for what isn't to be mapped.
    fn mapped_section(&self, entry: &SectionEntry) -> Result<Option<Section<'a>>, SectionFault> {
        let (kind, all_flags) = (entry.sh_type(LE), entry.sh_flags(LE));
        let flags = u32::try_from(all_flags).map_err(|_| SectionFault::Flags(all_flags))?;
        let is_mapped = flags & SHF_ALLOC != 0;
        if flags & !(if is_mapped { MAPPED_FLAGS } else { OTHER_FLAGS }) != 0 {
            return Err(SectionFault::Flags(all_flags));
        }
        let (writable, executable) = (flags & SHF_WRITE != 0, flags & SHF_EXECINSTR != 0);
        match (kind, is_mapped) {
            (SHT_PROGBITS, true) => {}
            (SHT_NOBITS, true) if writable && !executable => {}
            // For debuggers' unwinding; nothing here follows it.
            (SHT_X86_64_UNWIND, true) if !writable && !executable => {}
            (SHT_NULL | SHT_PROGBITS | SHT_NOTE | SHT_STRTAB | SHT_SYMTAB | SHT_RELA, false) => {
                return Ok(None);
            }
            _ => return Err(SectionFault::Type(kind)),
        }
        let name = string(self.names, entry.sh_name(LE)).ok_or(SectionFault::Name)?;
        let is_relocated_constant = name == b".data.rel.ro" || name.starts_with(b".data.rel.ro.");
        let part = match (writable, executable) {
            (true, true) => return Err(SectionFault::WritableCode),
            (false, true) => Part::Code,
            (false, false) => Part::Constants,
            (true, false) if kind == SHT_NOBITS => Part::Zeros,
            (true, false) if is_relocated_constant => Part::Constants,
            (true, false) => Part::Data,
        };
        let align = entry.sh_addralign(LE).max(1);
        if !align.is_power_of_two() || align > MAX_ALIGNMENT {
            return Err(SectionFault::Alignment(align, MAX_ALIGNMENT));
        }
        let size = usize::try_from(entry.sh_size(LE)).map_err(|_| SectionFault::OutOfFile)?;
        Ok(Some(Section { part, name, bytes: self.bytes(entry)?, size, align: align as usize }))
    }

    /// The symbol table, of which there is at most one.
    fn symbol_table(&self) -> Result<Option<SymbolTable<'a>>, Cause> {
        let mut tables = (0..self.entries.len()).filter(|&n| self.entries[n].sh_type(LE) == SHT_SYMTAB);
        let Some(number) = tables.next() else { return Ok(None) };
        if let Some(second) = tables.next() {
            return Err(self.section_error(second, SectionFault::SecondSymbolTable));
        }
        let strings = self.strings(self.entries[number].sh_link(LE) as usize);
        let strings = strings.map_err(|fault| self.section_error(number, fault))?;
        Ok(Some(SymbolTable { number, entries: self.table(number)?, strings }))
    }
}

/// The string that begins at an offset of a table.
fn string(table: &[u8], offset: u32) -> Option<&[u8]> {
    let start = u64::from(offset);
    let end = (start + MAX_NAME + 1).min(table.len() as u64);
    table.read_bytes_at_until(start..end, 0).ok()
}
