//! Objects by hand: sections, symbols and relocations to the bytes of an ELF file, with whatever is to be wrong in it.

use object::elf::*;

/// An object; tests change it before it is written.
pub struct Elf {
    /// From number 1 on.
    pub sections: Vec<Section>,
    /// From number 0 on.
    pub symbols: Vec<Symbol>,
    /// Changes the headers of all sections: those above, [`Elf::symbol_table`], its strings, relocations.
    pub headers: fn(&mut Vec<Header>),
    /// Changes the bytes.
    pub bytes: fn(&mut Vec<u8>),
}

#[derive(Clone, Default)]
pub struct Section {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u32,
    pub align: u64,
    pub bytes: Vec<u8>,
    /// For a section without bytes.
    pub size: u64,
    /// Offset, type, symbol, addend.
    pub relocations: Vec<(u64, u32, u32, i64)>,
}

#[derive(Clone)]
pub struct Symbol {
    pub name: &'static str,
    pub kind: u8,
    pub binding: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

/// A section's header, in the file's order.
#[derive(Default)]
pub struct Header {
    pub name: u32,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry: u64,
}

const FILE_HEADER: usize = 64;
const SECTION_HEADER: u16 = 64;

impl Elf {
    /// The number of the symbol table; its strings follow, then a table of relocations for each section that has any.
    pub fn symbol_table(&self) -> usize {
        1 + self.sections.len()
    }

    pub fn section(&mut self, name: &str) -> &mut Section {
        self.sections.iter_mut().find(|section| section.name == name).expect("the test's own section")
    }

    pub fn symbol(&mut self, name: &str) -> &mut Symbol {
        self.symbols.iter_mut().find(|symbol| symbol.name == name).expect("the test's own symbol")
    }

    pub fn write(&self) -> Vec<u8> {
        let mut file = vec![0; FILE_HEADER];
        let mut strings = vec![0];
        let mut name = |text: &str| -> u32 {
            let at = strings.len() as u32;
            strings.extend(text.bytes().chain([0]));
            if text.is_empty() { 0 } else { at }
        };
        let mut append = |bytes: &[u8]| -> u64 {
            file.resize(file.len().next_multiple_of(8), 0);
            let at = file.len() as u64;
            file.extend(bytes);
            at
        };

        let mut headers = vec![Header::default()];
        for section in &self.sections {
            headers.push(Header {
                name: name(section.name),
                kind: section.kind,
                flags: section.flags.into(),
                offset: append(&section.bytes),
                size: section.size.max(section.bytes.len() as u64),
                align: section.align,
                ..Header::default()
            });
        }
        let mut symbols = Vec::new();
        for symbol in &self.symbols {
            symbols.extend(name(symbol.name).to_le_bytes());
            symbols.extend([symbol.binding << 4 | symbol.kind, 0]);
            symbols.extend(symbol.section.to_le_bytes());
            symbols.extend(symbol.value.to_le_bytes());
            symbols.extend(symbol.size.to_le_bytes());
        }
        let table = self.symbol_table() as u32;
        headers.push(Header {
            name: name(".symtab"),
            kind: SHT_SYMTAB,
            offset: append(&symbols),
            size: symbols.len() as u64,
            link: table + 1,
            entry: 24,
            ..Header::default()
        });
        let strings_name = name(".strtab");
        let relocations_name = name(".rela");
        headers.push(Header {
            name: strings_name,
            kind: SHT_STRTAB,
            offset: append(&strings),
            size: strings.len() as u64,
            ..Header::default()
        });
        for (number, section) in
            (1..).zip(&self.sections).filter(|(_, section)| !section.relocations.is_empty())
        {
            let entries = section.relocations.iter().flat_map(|&(offset, kind, symbol, addend)| {
                let info = u64::from(symbol) << 32 | u64::from(kind);
                [offset, info, addend as u64].into_iter().flat_map(u64::to_le_bytes)
            });
            let entries: Vec<u8> = entries.collect();
            headers.push(Header {
                name: relocations_name,
                kind: SHT_RELA,
                flags: SHF_INFO_LINK.into(),
                offset: append(&entries),
                size: entries.len() as u64,
                link: table,
                info: number,
                entry: 24,
                ..Header::default()
            });
        }
        (self.headers)(&mut headers);

        let at = append(&[]);
        let mut list = Vec::new();
        for header in &headers {
            list.extend([header.name, header.kind].into_iter().flat_map(u32::to_le_bytes));
            let Header { flags, address, offset, size, .. } = *header;
            list.extend([flags, address, offset, size].into_iter().flat_map(u64::to_le_bytes));
            list.extend([header.link, header.info].into_iter().flat_map(u32::to_le_bytes));
            list.extend([header.align, header.entry].into_iter().flat_map(u64::to_le_bytes));
        }
        append(&list);

        let mut start = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        start.extend([ET_REL, EM_X86_64].into_iter().flat_map(u16::to_le_bytes));
        start.extend(1_u32.to_le_bytes());
        start.extend([0, 0, at].into_iter().flat_map(u64::to_le_bytes));
        start.extend(0_u32.to_le_bytes());
        let (count, names) = (headers.len() as u16, table as u16 + 1);
        start.extend(
            [FILE_HEADER as u16, 0, 0, SECTION_HEADER, count, names].into_iter().flat_map(u16::to_le_bytes),
        );
        file[..FILE_HEADER].copy_from_slice(&start);
        (self.bytes)(&mut file);
        file
    }
}

/// x86-64 code and the references in it.
#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
    relocations: Vec<(u64, u32, u32, i64)>,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) -> &mut Code {
        self.bytes.extend(bytes);
        self
    }

    /// An instruction that ends in four bytes of distance to a symbol.
    fn refer(&mut self, opcode: &[u8], kind: u32, symbol: u32) -> &mut Code {
        self.bytes.extend(opcode);
        self.relocations.push((self.bytes.len() as u64, kind, symbol, -4));
        self.put(&[0; 4])
    }
}

// The symbols of `everything`.
pub const CODE: u32 = 2;
pub const CONSTANTS: u32 = 3;
pub const POINTERS: u32 = 4;
pub const VALUE: u32 = 5;
pub const COUNTER: u32 = 6;
pub const HELPER: u32 = 7;
pub const VARIABLE: u32 = 9;
pub const FUNCTION: u32 = 10;

/// An object with one of everything that the loader takes. Its function `entry` gets a pointer to 12 numbers of 32 bits:
///
/// - 0, 1: constants (7, 8), the second one through a pointer that is relocated;
/// - 2, 3: variables that each call increments, the first from 9, the second from 0;
/// - 4: the value of the external variable `variable`;
/// - 5, 6: what the object's own function returns (11), and the external function `function`;
/// - 8 and 9, 10 and 11: addresses of the first constant and the first variable.
pub fn everything() -> Elf {
    let mut code = Code::default();
    code.put(&[0x53]); // push rbx
    code.put(&[0x48, 0x8b, 0x1f]); // mov rbx, [rdi]
    code.refer(&[0x8b, 0x05], R_X86_64_PC32, CONSTANTS).put(&[0x89, 0x03]); // mov eax, […]; mov [rbx], eax
    code.refer(&[0x48, 0x8b, 0x05], R_X86_64_PC32, POINTERS); // mov rax, […]
    code.put(&[0x8b, 0x00, 0x89, 0x43, 4]); // mov eax, [rax]; mov [rbx + 4], eax
    code.refer(&[0xff, 0x05], R_X86_64_PC32, VALUE); // inc dword […]
    code.refer(&[0x8b, 0x05], R_X86_64_PC32, VALUE).put(&[0x89, 0x43, 8]);
    code.refer(&[0xff, 0x05], R_X86_64_PC32, COUNTER);
    code.refer(&[0x8b, 0x05], R_X86_64_PC32, COUNTER).put(&[0x89, 0x43, 12]);
    code.refer(&[0x48, 0x8b, 0x05], R_X86_64_REX_GOTPCRELX, VARIABLE).put(&[0x8b, 0x00, 0x89, 0x43, 16]);
    code.refer(&[0xe8], R_X86_64_PLT32, HELPER).put(&[0x89, 0x43, 20]); // call
    code.refer(&[0xe8], R_X86_64_PLT32, FUNCTION).put(&[0x89, 0x43, 24]);
    code.refer(&[0x48, 0x8d, 0x05], R_X86_64_PC32, CONSTANTS); // lea rax, […]
    code.put(&[0x48, 0x89, 0x43, 32]); // mov [rbx + 32], rax
    code.refer(&[0x48, 0x8d, 0x05], R_X86_64_PC32, VALUE).put(&[0x48, 0x89, 0x43, 40]);
    code.put(&[0x5b, 0xc3]); // pop rbx; ret
    let helper = code.bytes.len() as u64;
    code.put(&[0xb8, 11, 0, 0, 0, 0xc3]); // mov eax, 11; ret
    let size = code.bytes.len() as u64;

    let section = |name, flags, align, bytes: &[u8]| {
        let (bytes, relocations) = (bytes.to_vec(), Vec::new());
        Section { name, kind: SHT_PROGBITS, flags, align, bytes, size: 0, relocations }
    };
    let writable = SHF_ALLOC | SHF_WRITE;
    let symbol =
        |name, kind, binding, section, value, size| Symbol { name, kind, binding, section, value, size };
    Elf {
        sections: vec![
            Section {
                relocations: code.relocations,
                ..section(".text", SHF_ALLOC | SHF_EXECINSTR, 16, &code.bytes)
            },
            section(".rodata.cst4", SHF_ALLOC | SHF_MERGE, 4, &[7, 0, 0, 0, 8, 0, 0, 0]),
            Section {
                relocations: vec![(0, R_X86_64_64, CONSTANTS, 4)],
                ..section(".data.rel.ro", writable, 8, &[0; 8])
            },
            section(".data", writable, 4, &[9, 0, 0, 0]),
            Section { kind: SHT_NOBITS, size: 8, ..section(".bss", writable, 64, &[]) },
            Section {
                kind: SHT_X86_64_UNWIND,
                relocations: vec![(1, R_X86_64_PC32, CODE, 0)],
                ..section(".eh_frame", SHF_ALLOC, 8, &[1; 8])
            },
            section(".comment", SHF_MERGE | SHF_STRINGS, 1, b"by hand\0"),
            section(".note.GNU-stack", 0, 1, &[]),
        ],
        symbols: vec![
            symbol("", STT_NOTYPE, STB_LOCAL, SHN_UNDEF, 0, 0),
            symbol("module", STT_FILE, STB_LOCAL, SHN_ABS, 0, 0),
            symbol("", STT_SECTION, STB_LOCAL, 1, 0, 0),
            symbol("constants", STT_OBJECT, STB_LOCAL, 2, 0, 8),
            symbol("", STT_SECTION, STB_LOCAL, 3, 0, 0),
            symbol("value", STT_OBJECT, STB_LOCAL, 4, 0, 4),
            symbol("counter", STT_OBJECT, STB_LOCAL, 5, 0, 4),
            symbol("helper", STT_FUNC, STB_LOCAL, 1, helper, size - helper),
            symbol("entry", STT_FUNC, STB_GLOBAL, 1, 0, helper),
            symbol("variable", STT_NOTYPE, STB_GLOBAL, SHN_UNDEF, 0, 0),
            symbol("function", STT_NOTYPE, STB_GLOBAL, SHN_UNDEF, 0, 0),
        ],
        headers: |_| {},
        bytes: |_| {},
    }
}
