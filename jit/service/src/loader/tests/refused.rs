//! Hand-written objects: one that uses everything runs; each that breaks one rule is refused in words that name it.

use super::writer::*;
use super::*;
use object::elf::*;
use std::sync::atomic::AtomicU32;

extern "C" fn function() -> u32 {
    12
}

fn externals() -> [External<'static>; 2] {
    static VARIABLE: AtomicU32 = AtomicU32::new(10);
    [
        External { name: "variable", address: VARIABLE.as_ptr() as usize },
        External { name: "function", address: function as *const () as usize },
    ]
}

fn load_object(elf: &Elf, limits: Limits) -> Result<(LoadedProgram, Vec<RawWorkGroupFn>), LoadError> {
    load_with(&program(vec![elf.write()], &["entry"]), &externals(), limits, None)
}

/// What is said of an object; fails if it is loaded.
fn refusal(elf: &Elf) -> String {
    load_object(elf, Limits::default()).expect_err("refused").to_string()
}

/// The protection of the page at an address, as the system tells it.
fn protection(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (number(start)?..number(end)?).contains(&address).then(|| rest[..4].to_owned())
    });
    found.expect("mapped")
}

#[test]
fn one_of_everything_is_linked_and_protected() {
    let (_program, entries) = load_object(&everything(), Limits::default()).unwrap();
    let mut data = [0_u32; 12];
    call(entries[0], &mut data);
    assert_eq!(data[..7], [7, 8, 10, 1, 10, 11, 12]);
    call(entries[0], &mut data);
    assert_eq!(data[..7], [7, 8, 11, 2, 10, 11, 12]);
    let address = |at: usize| data[at] as usize | (data[at + 1] as usize) << 32;
    let places = [entries[0] as usize, address(8), address(10)];
    assert_eq!(places.map(protection), ["r-xp", "r--p", "rw-p"]);
}

#[test]
fn several_objects_have_one_mapping_and_their_own_data() {
    let mut other = everything();
    other.symbol("entry").name = "other";
    other.section(".rodata.cst4").bytes = vec![70, 0, 0, 0, 80, 0, 0, 0];
    let objects = vec![everything().write(), other.write()];
    let (_program, entries) =
        load_with(&program(objects, &["other", "entry"]), &externals(), Limits::default(), None).unwrap();
    let mut data = [0_u32; 12];
    call(entries[0], &mut data);
    assert_eq!(data[..4], [70, 80, 10, 1]);
    call(entries[1], &mut data);
    assert_eq!(data[..4], [7, 8, 10, 1]);
    let twice = program(vec![everything().write(), everything().write()], &["entry"]);
    let error = load_with(&twice, &externals(), Limits::default(), None).unwrap_err().to_string();
    assert!(error.ends_with("the symbol `entry` is defined twice"), "{error}");
}

#[test]
fn a_program_may_be_empty() {
    assert!(load(&program(Vec::new(), &[])).unwrap().1.is_empty());
    let error = load(&program(Vec::new(), &["entry"])).unwrap_err().to_string();
    assert!(error.ends_with("there is no function `entry` to be called from outside"), "{error}");
}

#[test]
fn a_function_without_code_is_a_trap() {
    let mut elf = everything();
    let end = elf.section(".text").bytes.len() as u64;
    *elf.symbol("entry") = Symbol { value: end, size: 0, ..elf.symbol("entry").clone() };
    let (_program, entries) = load_object(&elf, Limits::default()).unwrap();
    // SAFETY: the address of a function, whose code can be read.
    assert_eq!(unsafe { (entries[0] as *const u8).read() }, 0xcc);
}

#[test]
fn sizes_are_bounded_before_anything_is_mapped() {
    let mut elf = everything();
    let limits = |image: usize, zeros: usize| Limits { image, zeros };
    assert!(load_object(&elf, limits(3 * 4096, 8)).is_ok());
    let error = |elf: &Elf, limits| load_object(elf, limits).unwrap_err().to_string();
    assert!(
        error(&elf, limits(3 * 4096 - 1, 8))
            .ends_with("its code and data would take more than 12287 bytes of memory")
    );
    let zeros = "its variables without an initial value would take more than 7 bytes of memory";
    assert!(error(&elf, limits(1 << 20, 7)).ends_with(zeros));
    for size in [Limits::default().zeros as u64 + 1, 1 << 40, u64::MAX - 4095, u64::MAX] {
        elf.section(".bss").size = size;
        assert!(refusal(&elf).contains("variables without an initial value"), "{size}");
    }
    // Two whose sum wraps.
    let another = Section { size: 1 << 63, name: ".bss.more", ..elf.section(".bss").clone() };
    elf.section(".bss").size = 1 << 63;
    elf.sections.push(another);
    assert!(refusal(&elf).contains("variables without an initial value"));
    // Distances reach 2 GB, whatever the limit.
    elf.sections.pop();
    elf.section(".bss").size = 1 << 31;
    assert!(error(&elf, limits(usize::MAX, usize::MAX)).contains("more than 2147483647 bytes"));
    elf.section(".bss").size = u64::MAX;
    assert!(error(&elf, limits(usize::MAX, usize::MAX)).contains("more than 2147483647 bytes"));
}

/// What breaks a rule, and how that begins which is said of it behind "can't load the compiled program: ".
type Case = (fn(&mut Elf), &'static str);

fn check(cases: &[Case]) {
    for (number, (damage, expected)) in cases.iter().enumerate() {
        let mut elf = everything();
        damage(&mut elf);
        let said = refusal(&elf);
        let expected = format!("can't load the compiled program: {expected}");
        assert!(said.starts_with(&expected), "case {number}: {said:?} instead of {expected:?}");
    }
}

#[test]
fn files_of_another_kind_are_refused() {
    let other = "an object's header names another kind of file or CPU";
    check(&[
        (
            |elf| elf.bytes = |file| file.clear(),
            "an object is no ELF file of 64 bits: Invalid ELF header size or alignment",
        ),
        (|elf| elf.bytes = |file| file[0] = 0, "an object is no ELF file of 64 bits: Unsupported ELF header"),
        (|elf| elf.bytes = |file| file[4] = 1, "an object is no ELF file of 64 bits: Unsupported ELF header"),
        (|elf| elf.bytes = |file| file[5] = 2, "an object is no ELF file of 64 bits: Unsupported ELF endian"),
        (|elf| elf.bytes = |file| file[16] = ET_DYN as u8, other),
        (|elf| elf.bytes = |file| file[18] = EM_386 as u8, other),
        (|elf| elf.bytes = |file| file[56] = 1, other), // It has a program header.
        (
            |elf| elf.bytes = |file| file[58] = 63,
            "an object is no ELF file of 64 bits: Invalid ELF section header entry size",
        ),
        (
            |elf| elf.bytes = |file| file[60..62].fill(0xff),
            "an object is no ELF file of 64 bits: Invalid ELF section header offset/size/alignment",
        ),
        (
            |elf| elf.bytes = |file| file[62] = 0,
            "an object is no ELF file of 64 bits: Missing ELF e_shstrndx",
        ),
        (|elf| elf.bytes = |file| file[62] = 200, "the section `#200` refers to section 200"),
        (|elf| elf.bytes = |file| file[62] = 1, "the section `#1` refers to section 1"),
    ]);
}

#[test]
fn sections_of_other_kinds_are_refused() {
    check(&[
        (|elf| elf.section(".comment").kind = SHT_GROUP, "the section `.comment` is of type 0x11"),
        (|elf| elf.section(".comment").kind = SHT_REL, "the section `.comment` is of type 0x9"),
        (|elf| elf.section(".comment").kind = SHT_SYMTAB_SHNDX, "the section `.comment` is of type 0x12"),
        (
            |elf| elf.section(".comment").kind = SHT_X86_64_UNWIND,
            "the section `.comment` is of type 0x70000001",
        ),
        (|elf| elf.section(".data").kind = SHT_INIT_ARRAY, "the section `.data` is of type 0xe"),
        (|elf| elf.section(".data").kind = SHT_STRTAB, "the section `.data` is of type 0x3"),
        (|elf| elf.section(".eh_frame").flags |= SHF_WRITE, "the section `.eh_frame` is of type 0x70000001"),
        (|elf| elf.section(".bss").flags = SHF_ALLOC, "the section `.bss` is of type 0x8"),
        (|elf| elf.section(".bss").flags |= SHF_EXECINSTR, "the section `.bss` is of type 0x8"),
        (|elf| elf.section(".data").flags |= SHF_TLS, "the section `.data` has the flags 0x403"),
        (|elf| elf.section(".data").flags |= SHF_COMPRESSED, "the section `.data` has the flags 0x803"),
        (|elf| elf.section(".text").flags |= SHF_GROUP, "the section `.text` has the flags 0x206"),
        (|elf| elf.section(".comment").flags |= SHF_COMPRESSED, "the section `.comment` has the flags 0x830"),
        (
            |elf| elf.headers = |all| all[1].flags |= 1 << 40,
            "the section `.text` has the flags 0x10000000006",
        ),
        (
            |elf| elf.section(".text").flags |= SHF_WRITE,
            "the section `.text` is both writable and executable",
        ),
        (|elf| elf.section(".text").align = 3, "the section `.text` is aligned to 3"),
        (|elf| elf.section(".data").align = 8192, "the section `.data` is aligned to 8192"),
        (|elf| elf.section(".bss").align = u64::MAX, "the section `.bss` is aligned to 18446744073709551615"),
    ]);
}

#[test]
fn sections_out_of_the_file_or_upon_each_other_are_refused() {
    check(&[
        (
            |elf| elf.headers = |all| all[2].offset = 1 << 20,
            "the section `.rodata.cst4` reaches beyond the end of the object",
        ),
        (
            |elf| elf.headers = |all| all[2].offset = u64::MAX,
            "the section `.rodata.cst4` reaches beyond the end of the object",
        ),
        (
            |elf| elf.headers = |all| all[2].size = u64::MAX,
            "the section `.rodata.cst4` reaches beyond the end of the object",
        ),
        (
            |elf| elf.headers = |all| all[7].size = u64::MAX,
            "the section `.comment` reaches beyond the end of the object",
        ),
        (
            |elf| elf.headers = |all| all[10].size = u64::MAX,
            "the section `#10` reaches beyond the end of the object",
        ),
        (|elf| elf.headers = |all| all[2].offset = all[1].offset, "the section `.rodata.cst4` shares bytes"),
        (|elf| elf.headers = |all| all[1].offset -= 1, "the section `.text` shares bytes"),
        (|elf| elf.headers = |all| all.last_mut().unwrap().size += 24, "the section `.rela` shares bytes"),
        (|elf| elf.headers = |all| all[9].offset = all[4].offset, "the section `.symtab` shares bytes"),
        (|elf| elf.headers = |all| all[3].name = 1 << 20, "the section `#3` has no name in the string table"),
    ]);
}

#[test]
fn tables_of_another_form_are_refused() {
    check(&[
        (|elf| elf.headers = |all| all[9].size -= 1, "the section `.symtab` is no whole and aligned table"),
        (|elf| elf.headers = |all| all[11].size -= 1, "the section `.rela` is no whole and aligned table"),
        (|elf| elf.headers = |all| all[9].link = 1, "the section `.symtab` refers to section 1"),
        (|elf| elf.headers = |all| all[9].link = 99, "the section `.symtab` refers to section 99"),
        (|elf| elf.section(".comment").kind = SHT_SYMTAB, "the section `.symtab` is a second symbol table"),
        (|elf| elf.headers = |all| all[11].link = 10, "the section `.rela` refers to section 10"),
        (|elf| elf.headers = |all| all[11].info = 99, "the section `.rela` refers to section 99"),
        (|elf| elf.headers = |all| all[11].info = 0, "the section `.rela` refers to section 0"),
        (|elf| elf.headers = |all| all[9].kind = SHT_NULL, "the section `.rela` refers to section 9"),
    ]);
}

#[test]
fn symbols_of_other_kinds_are_refused() {
    check(&[
        (|elf| elf.symbol("value").kind = STT_TLS, "the symbol `value` is of type 6"),
        (|elf| elf.symbol("helper").kind = STT_GNU_IFUNC, "the symbol `helper` is of type 10"),
        (|elf| elf.symbol("value").kind = STT_COMMON, "the symbol `value` is a common symbol"),
        (|elf| elf.symbol("value").section = SHN_COMMON, "the symbol `value` is a common symbol"),
        (|elf| elf.symbol("value").binding = STB_WEAK, "the symbol `value` has binding 2"),
        (|elf| elf.symbol("value").section = SHN_ABS, "the symbol `value` has the address of no section"),
        (|elf| elf.symbol("value").section = SHN_UNDEF, "the symbol `value` has the address of no section"),
        (
            |elf| elf.symbol("value").section = 200,
            "the symbol `value` is in section 200, which doesn't exist",
        ),
        (
            |elf| elf.symbol("value").section = SHN_XINDEX,
            "the symbol `value` is in section 65535, which doesn't exist",
        ),
        (|elf| elf.symbol("value").value = 5, "the symbol `value` lies outside of its section"),
        (|elf| elf.symbol("value").value = 1, "the symbol `value` lies outside of its section"),
        (|elf| elf.symbol("value").value = u64::MAX, "the symbol `value` lies outside of its section"),
        (|elf| elf.symbol("entry").size = u64::MAX, "the symbol `entry` lies outside of its section"),
        (|elf| elf.symbol("entry").value = 1 << 40, "the symbol `entry` lies outside of its section"),
        (|elf| elf.symbol("value").kind = STT_FUNC, "the symbol `value` is a function outside of code"),
        (
            |elf| *elf.symbol("entry") = Symbol { section: 4, size: 0, ..elf.symbol("entry").clone() },
            "the symbol `entry` is a function outside of code",
        ),
        (
            |elf| elf.symbol("entry").kind = STT_OBJECT,
            "there is no function `entry` to be called from outside",
        ),
        (
            |elf| elf.symbol("entry").binding = STB_LOCAL,
            "there is no function `entry` to be called from outside",
        ),
        (
            |elf| elf.symbol("entry").name = "entry\n\u{7}",
            "there is no function `entry` to be called from outside",
        ),
        (|elf| elf.symbol("variable").name = "absent", "nothing provides absent"),
        (
            |elf| {
                elf.symbol("variable").name = "printf";
                elf.symbol("function").name = "system\n";
            },
            "nothing provides printf, system\\n",
        ),
        (
            |elf| {
                let entry = elf.symbol("entry").clone();
                elf.symbols.push(entry);
            },
            "the symbol `entry` is defined twice",
        ),
    ]);
}

#[test]
fn names_out_of_the_table_or_without_end_are_refused() {
    let long: &'static str = "long".repeat(20_000).leak();
    let mut elf = everything();
    elf.symbol("value").name = long;
    assert!(refusal(&elf).ends_with("the symbol `#5` has no name in the string table, or too long a one"));
    let mut elf = everything();
    elf.symbol("variable").name = &long[..60_000];
    let said = refusal(&elf);
    assert!(said.contains("nothing provides longlong") && said.len() < 300, "{said}");
    // The table ends within a name.
    let mut elf = everything();
    elf.headers = |all| all[10].size = u64::from(all[3].name) + 3;
    assert!(refusal(&elf).ends_with("the section `#3` has no name in the string table"), "{}", refusal(&elf));
}

#[test]
fn relocations_of_other_kinds_are_refused() {
    fn first(elf: &mut Elf) -> &mut (u64, u32, u32, i64) {
        &mut elf.section(".text").relocations[0]
    }
    fn pointer(elf: &mut Elf) -> &mut (u64, u32, u32, i64) {
        &mut elf.section(".data.rel.ro").relocations[0]
    }
    check(&[
        (|elf| first(elf).1 = R_X86_64_NONE, "the relocation at 0x6 of the section `.text` is of type 0"),
        (|elf| first(elf).1 = R_X86_64_32, "the relocation at 0x6 of the section `.text` is of type 10"),
        (|elf| first(elf).1 = R_X86_64_32S, "the relocation at 0x6 of the section `.text` is of type 11"),
        (|elf| first(elf).1 = R_X86_64_TPOFF32, "the relocation at 0x6 of the section `.text` is of type 23"),
        (
            |elf| first(elf).1 = R_X86_64_IRELATIVE,
            "the relocation at 0x6 of the section `.text` is of type 37",
        ),
        (|elf| first(elf).1 = u32::MAX, "the relocation at 0x6 of the section `.text` is of type 4294967295"),
        (
            |elf| first(elf).0 = u64::MAX - 1,
            "the relocation at 0xfffffffffffffffe of the section `.text` lies outside of the section's contents",
        ),
        (
            |elf| pointer(elf).0 = 1,
            "the relocation at 0x1 of the section `.data.rel.ro` lies outside of the section's contents",
        ),
        (
            |elf| elf.section(".bss").relocations.push((0, R_X86_64_64, CODE, 0)),
            "the relocation at 0x0 of the section `.bss` lies outside of the section's contents",
        ),
        (
            |elf| first(elf).2 = 11,
            "the relocation at 0x6 of the section `.text` names symbol 11, which doesn't exist",
        ),
        (
            |elf| first(elf).2 = u32::MAX,
            "the relocation at 0x6 of the section `.text` names symbol 4294967295, which doesn't exist",
        ),
        (
            |elf| first(elf).2 = 0,
            "the relocation at 0x6 of the section `.text` refers to ``, which isn't mapped",
        ),
        (
            |elf| first(elf).2 = 1,
            "the relocation at 0x6 of the section `.text` refers to `module`, which isn't mapped",
        ),
        (
            |elf| elf.symbol("constants").section = 7,
            "the relocation at 0x6 of the section `.text` refers to `constants`, which isn't mapped",
        ),
        (
            |elf| first(elf).2 = VARIABLE,
            "the relocation at 0x6 of the section `.text` needs `variable` within 2 GB",
        ),
        (
            |elf| first(elf).1 = R_X86_64_GOTPCREL,
            "the relocation at 0x6 of the section `.text` asks for a table's slot for `constants`",
        ),
        (
            |elf| first(elf).3 = i64::MAX,
            "the relocation at 0x6 of the section `.text` has a value that doesn't fit",
        ),
        (
            |elf| first(elf).3 = i64::MIN,
            "the relocation at 0x6 of the section `.text` has a value that doesn't fit",
        ),
        (
            |elf| first(elf).3 = 1 << 31,
            "the relocation at 0x6 of the section `.text` has a value that doesn't fit",
        ),
        (
            |elf| pointer(elf).3 = i64::MIN,
            "the relocation at 0x0 of the section `.data.rel.ro` has a value that doesn't fit",
        ),
    ]);
}

#[test]
fn an_address_of_something_outside_is_filled_in_at_any_distance() {
    let mut elf = everything();
    elf.section(".data.rel.ro").relocations[0] = (0, R_X86_64_64, VARIABLE, 0);
    let (_program, entries) = load_object(&elf, Limits::default()).unwrap();
    let mut data = [0_u32; 12];
    call(entries[0], &mut data);
    assert_eq!(data[1], data[4]);
}
