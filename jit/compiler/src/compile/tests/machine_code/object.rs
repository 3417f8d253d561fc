//! An object as it will lie in memory: its sections one behind the other, relocated.

use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind,
    SymbolSection,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Where the outside is, for calls whose targets are looked up by where they stand.
const OUTSIDE: i64 = 1 << 40;

pub struct Image {
    pub bytes: Vec<u8>,
    /// Of the sections with code.
    pub code: Vec<Range<usize>>,
    /// Of those that are only read, code included.
    pub constant: Vec<Range<usize>>,
    /// Functions by their names.
    pub functions: BTreeMap<String, usize>,
    /// Where addresses of the outside are put in, and of what; the others stand in `bytes`.
    pub symbols: HashMap<usize, String>,
}

impl Image {
    pub fn new(file: &[u8]) -> Image {
        let file = ElfFile64::<Endianness>::parse(file).expect("an object");
        let mut image = Image {
            bytes: vec![0; 4096],
            code: Vec::new(),
            constant: Vec::new(),
            functions: BTreeMap::new(),
            symbols: HashMap::new(),
        };
        let mut starts = HashMap::new();
        for section in file.sections() {
            let is_code = section.kind() == SectionKind::Text;
            let is_constant =
                matches!(section.kind(), SectionKind::ReadOnlyData | SectionKind::ReadOnlyString);
            if !is_code && !is_constant && !matches!(section.kind(), SectionKind::Data) {
                continue;
            }
            let start = image.bytes.len().next_multiple_of(section.align().max(64) as usize);
            image.bytes.resize(start, 0);
            image.bytes.extend(section.data().expect("its bytes"));
            // A relocated constant is one that the loader writes: it is only read by code.
            let range = start..image.bytes.len();
            image.constant.push(range.clone());
            if is_code {
                image.code.push(range);
            }
            starts.insert(section.index(), start);
        }
        for symbol in file.symbols() {
            if let SymbolSection::Section(section) = symbol.section()
                && let (Some(start), Ok(name)) = (starts.get(&section), symbol.name())
                && !name.is_empty()
                && image.code.iter().any(|range| range.start == *start)
            {
                image.functions.insert(name.to_owned(), start + symbol.address() as usize);
            }
        }
        for section in file.sections().filter(|section| starts.contains_key(&section.index())) {
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("{relocation:?}") };
                let symbol = file.symbol_by_index(symbol).expect("its symbol");
                let known = symbol.section_index().and_then(|section| starts.get(&section));
                let known = known.map(|start| start + symbol.address() as usize);
                let at = starts[&section.index()] + offset as usize;
                let object::RelocationFlags::Elf { r_type } = relocation.flags() else { panic!("no ELF") };
                image.relocate(at, r_type, (known, symbol.name().expect("its name")), relocation.addend());
            }
        }
        image
    }

    /// Code alone, with a function at its beginning, in which symbols stand at some places.
    pub fn of_code(code: &[u8], symbols: &[(usize, &str)]) -> Image {
        let start = 4096;
        let range = start..start + code.len();
        Image {
            bytes: [&vec![0; start], code].concat(),
            code: vec![range.clone()],
            constant: vec![range],
            functions: BTreeMap::from([("f".to_owned(), start)]),
            symbols: symbols.iter().map(|(at, name)| (start + at, (*name).to_owned())).collect(),
        }
    }

    fn relocate(&mut self, at: usize, kind: u32, (known, name): (Option<usize>, &str), addend: i64) {
        use object::elf::*;
        let target = match (kind, known) {
            (R_X86_64_64, None) => {
                assert_eq!(addend, 0, "{name}");
                self.symbols.insert(at, name.to_owned());
                return;
            }
            (R_X86_64_64, Some(known)) => {
                let address = known as i64 + addend;
                self.bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
                self.symbols.insert(at, String::new());
                return;
            }
            (R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX, None) => self.slot(name),
            (R_X86_64_PC32 | R_X86_64_PLT32, Some(known)) => known as i64,
            (R_X86_64_PC32 | R_X86_64_PLT32, None) => OUTSIDE,
            _ => panic!("relocation {kind} of {name}"),
        };
        // Those of the outside are far away: the field is found again by where it lies.
        if target >= OUTSIDE {
            self.symbols.insert(at, name.to_owned());
            return;
        }
        let distance = i32::try_from(target + addend - at as i64).expect("near");
        self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// A slot that holds the address of a symbol.
    fn slot(&mut self, name: &str) -> i64 {
        let at = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(at + 8, 0);
        self.symbols.insert(at, name.to_owned());
        self.constant.push(at..at + 8);
        at as i64
    }

    /// Whether all of these bytes are only read, and by nothing but code.
    pub fn is_constant(&self, low: i64, end: i64) -> bool {
        let holds = |range: &Range<usize>| range.start as i64 <= low && end <= range.end as i64;
        self.constant.iter().any(holds)
    }

    /// So many bytes, unless the loader puts something in.
    pub fn constant(&self, at: i64, size: usize) -> Option<&[u8]> {
        let start = usize::try_from(at).ok()?;
        let is_symbol = (start.saturating_sub(7)..start + size).any(|at| self.symbols.contains_key(&at));
        (!is_symbol && self.is_constant(at, at + size as i64)).then(|| &self.bytes[start..start + size])
    }
}
