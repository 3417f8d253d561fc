mod validator;

use super::*;
use crate::llvm::{self, Session};
use std::path::PathBuf;

/// SPIR-V modules of the fixtures, by name.
fn fixtures() -> Vec<(String, Vec<u8>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/spirv");
    let folders = ["spir12", "spir20"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the fixtures are there"));
    let paths = files.map(|file| file.expect("a readable folder").path());
    let mut list: Vec<(String, Vec<u8>)> = paths
        .map(|path| (path.display().to_string(), std::fs::read(&path).expect("a readable file")))
        .collect();
    list.sort();
    list
}

fn fixture(name: &str) -> Vec<u8> {
    let found = fixtures().into_iter().find(|(path, _)| path.ends_with(&format!("/{name}.spv")));
    found.unwrap_or_else(|| panic!("there is no {name}")).1
}

/// A module of these instructions, whose first words lack the count.
fn assembled(instructions: &[&[u32]]) -> Vec<u8> {
    let header = [spirv::MAGIC_NUMBER, 0x0001_0400, 0, 100, 0];
    let counted = instructions.iter().flat_map(|own| {
        let first = (own.len() as u32) << 16 | own[0];
        [first].into_iter().chain(own[1..].iter().copied()).collect::<Vec<_>>()
    });
    header.into_iter().chain(counted).flat_map(u32::to_le_bytes).collect()
}

use spirv::Op;

const fn op(op: Op) -> u32 {
    op as u32
}

const KERNEL: &[u32] = &[op(Op::Capability), 6];
const ADDRESSES: &[u32] = &[op(Op::Capability), 4];
const MODEL: &[u32] = &[op(Op::MemoryModel), 2, 2];
const VOID: &[u32] = &[op(Op::TypeVoid), 1];
const FUNCTION: &[u32] = &[op(Op::TypeFunction), 2, 1];
const INT: &[u32] = &[op(Op::TypeInt), 3, 32, 0];

/// A module whose kernel `k` has this body behind its label.
fn kernel(globals: &[&[u32]], body: &[&[u32]]) -> Vec<u8> {
    let entry: &[u32] = &[op(Op::EntryPoint), 6, 10, u32::from(b'k')];
    let begin: [&[u32]; 2] = [&[op(Op::Function), 1, 10, 0, 2], &[op(Op::Label), 11]];
    let end: [&[u32]; 2] = [&[op(Op::Return)], &[op(Op::FunctionEnd)]];
    let list =
        [&[KERNEL, ADDRESSES, MODEL, entry, VOID, FUNCTION, INT], globals, &begin, body, &end].concat();
    assembled(&list)
}

/// The text, which LLVM takes.
fn text(bytes: &[u8]) -> String {
    let text = to_llvm(bytes).unwrap_or_else(|error| panic!("{error}"));
    let session = Session::new();
    let module = llvm::parse_text(&session, &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    llvm::verify(&module).unwrap_or_else(|error| panic!("{error}\n{text}"));
    text
}

#[test]
fn every_fixture_is_read() {
    let list = fixtures();
    assert!(list.len() > 40, "{}", list.len());
    for (name, bytes) in list {
        let text = text(&bytes);
        assert!(name.ends_with("_lib.spv") || text.contains("define spir_kernel void @"), "{name}");
    }
}

#[test]
fn modules_become_the_documents_form() {
    for name in ["vadd", "reqd", "link_lib", "loops_fib", "volatiles"] {
        insta::assert_snapshot!(name, text(&fixture(name)));
    }
}

#[test]
fn both_orders_of_bytes_are_read() {
    let bytes = fixture("vadd");
    let swapped: Vec<u8> = bytes.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    assert!(is_spirv(&swapped) && is_spirv(&bytes) && !is_spirv(b"BC\xC0\xDE"));
    assert_eq!(to_llvm(&swapped), to_llvm(&bytes));
}

#[test]
fn specialization_constants_are_computed() {
    let ten: &[u32] = &[op(Op::SpecConstant), 3, 20, 10];
    let three: &[u32] = &[op(Op::Constant), 3, 21, 3];
    let bool_ty: &[u32] = &[op(Op::TypeBool), 4];
    let operation = |number: Op, result: u32| [op(Op::SpecConstantOp), 3, result, op(number), 20, 21];
    let (sum, rest) = (operation(Op::IAdd, 22), operation(Op::SRem, 23));
    let less = [op(Op::SpecConstantOp), 4, 24, op(Op::SLessThan), 21, 20];
    let chosen = [op(Op::SpecConstantOp), 3, 25, op(Op::Select), 24, 22, 23];
    let array: &[u32] = &[op(Op::TypeArray), 5, 3, 25];
    let pointer: &[u32] = &[op(Op::TypePointer), 6, 7, 5];
    let globals: [&[u32]; 9] = [ten, three, bool_ty, &sum, &rest, &less, &chosen, array, pointer];
    let text = text(&kernel(&globals, &[&[op(Op::Variable), 6, 30, 7]]));
    assert!(text.contains("alloca [13 x i32]"), "{text}");
}

#[test]
fn a_block_that_is_reached_twice_has_its_value_twice() {
    let constants: [&[u32]; 2] = [&[op(Op::Constant), 3, 20, 1], &[op(Op::Constant), 3, 21, 2]];
    let body: [&[u32]; 4] = [
        &[op(Op::Switch), 20, 12, 5, 12, 11, 12],
        &[op(Op::Label), 12],
        &[op(Op::Phi), 3, 30, 21, 11],
        &[op(Op::Line), 40, 7, 3],
    ];
    let string: &[u32] = &[op(Op::String), 40, u32::from_le_bytes(*b"a.cl"), 0];
    let text = text(&kernel(&[&[string][..], &constants].concat(), &body));
    assert_eq!(text.matches("[ 2, %b11 ]").count(), 3, "{text}");
    assert!(text.contains("!DILocation(line: 7, column: 3"), "{text}");
    assert!(text.contains("!DIFile(filename: \"a.cl\""), "{text}");
}

#[test]
fn lines_of_debug_information_are_locations() {
    let name: Vec<u32> = "NonSemantic.Shader.DebugInfo.100\0\0\0\0"
        .as_bytes()
        .chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect();
    let set: Vec<u32> = [op(Op::ExtInstImport), 9].into_iter().chain(name).collect();
    let constants: [&[u32]; 2] = [&[op(Op::Constant), 3, 20, 42], &[op(Op::Constant), 3, 21, 5]];
    let source: [&[u32]; 2] =
        [&[op(Op::String), 22, u32::from_le_bytes(*b"b.cl"), 0], &[op(Op::ExtInst), 1, 23, 9, 35, 22]];
    let body: [&[u32]; 2] =
        [&[op(Op::ExtInst), 1, 30, 9, 103, 23, 20, 20, 21, 21], &[op(Op::IAdd), 3, 31, 20, 21]];
    let text = text(&kernel(&[&[&set[..]][..], &constants, &source].concat(), &body));
    assert!(text.contains("!DIFile(filename: \"b.cl\""), "{text}");
    assert!(text.contains("!DILocation(line: 42, column: 5"), "{text}");
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let why = |bytes: &[u8]| to_llvm(bytes).unwrap_err().0;
    let capability: &[u32] = &[op(Op::Capability), 1];
    let name = u32::from_le_bytes(*b"SPV_");
    let extension: &[u32] = &[op(Op::Extension), name, u32::from_le_bytes(*b"XYZ\0")];
    let set: &[u32] = &[op(Op::ExtInstImport), 9, u32::from_le_bytes(*b"GLSL"), 0];
    let logical: &[u32] = &[op(Op::MemoryModel), 0, 2];
    for (list, expected) in [
        (&[capability][..], "the capability Shader, which"),
        (&[&[op(Op::Capability), 0xFFFF]], "the capability 65535, which isn't known"),
        (&[KERNEL, extension], "the extension SPV_XYZ, which"),
        (&[set], "the instruction set GLSL, which"),
        (&[logical], "addressing model is Logical"),
        (&[KERNEL], "no OpMemoryModel"),
        (&[&[0xFFFF]], "the opcode 65535, which isn't known"),
        (&[MODEL, VOID, VOID], "the id 1 is defined twice"),
        (&[MODEL, &[op(Op::TypeVoid), 100]], "the bound is 100"),
        (&[MODEL, &[op(Op::TypeInt), 3, 24, 0]], "integers of 24 bits"),
        (&[MODEL, &[op(Op::TypeFloat), 3, 16, 0]], "the encoding 0"),
        (&[MODEL, INT, &[op(Op::TypeVector), 4, 3, 5]], "a vector of 5 components"),
        (&[MODEL, &[op(Op::TypeArray), 4, 5, 6]], "used as a type and is none"),
        (&[MODEL, &[op(Op::EntryPoint), 0, 7, 0]], "an entry point for Some(Vertex)"),
    ] {
        let said = why(&assembled(list));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let unsupported = kernel(&[], &[&[op(Op::Kill)]]);
    assert!(why(&unsupported).contains("OpKill isn't supported"));
    let unknown = kernel(&[], &[&[op(Op::IAdd), 3, 30, 31, 32]]);
    assert!(why(&unknown).contains("the id 31 is used as a value and is none"), "{}", why(&unknown));
    assert!(why(b"\x03\x02\x23\x07").contains("incomplete"));
    assert!(why(b"\x03\x02\x23").contains("no whole number of words"));
}

#[test]
fn capabilities_have_their_numbers() {
    for (number, name) in spirula_interface::spirv::CAPABILITIES {
        let known = spirv::Capability::from_u32(*number).map(|known| format!("{known:?}"));
        assert_eq!(known.as_deref(), Some(*name));
    }
}

#[test]
fn what_nests_without_end_is_refused() {
    // Arrays of arrays, each of which would be written out.
    let mut list: Vec<Vec<u32>> = vec![vec![op(Op::Constant), 3, 9, 2]];
    for id in 20..80 {
        let of = if id == 20 { 3 } else { id - 1 };
        list.push(vec![op(Op::TypeArray), id, of, 9]);
    }
    let globals: Vec<&[u32]> = list.iter().map(Vec::as_slice).collect();
    assert!(to_llvm(&kernel(&globals, &[])).is_ok(), "2^60 elements are a number");
    let more: Vec<Vec<u32>> = (80..90).map(|id| vec![op(Op::TypeArray), id, id - 1, 9]).collect();
    let globals: Vec<&[u32]> = list.iter().chain(&more).map(Vec::as_slice).collect();
    let why = to_llvm(&kernel(&globals, &[])).unwrap_err().0;
    assert!(why.contains("a type is nested too deeply"), "{why}");
    // A composite of two of the one before, which has 2^60 parts.
    let mut list: Vec<Vec<u32>> = vec![vec![op(Op::Constant), 3, 9, 2]];
    for step in 0..30 {
        let (ty, value) = (30 + step, 60 + step);
        let (of, part) = if step == 0 { (3, 9) } else { (ty - 1, value - 1) };
        list.push(vec![op(Op::TypeArray), ty, of, 9]);
        list.push(vec![op(Op::ConstantComposite), ty, value, part, part]);
    }
    let globals: Vec<&[u32]> = list.iter().map(Vec::as_slice).collect();
    let why = to_llvm(&kernel(&globals, &[])).unwrap_err().0;
    assert!(why.contains("its constants are too large"), "{why}");
}

/// A sequence of numbers for damage, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn damaged_modules_are_read_or_refused() {
    let numbers = &mut Numbers(0x9E37_79B9_7F4A_7C15);
    let originals = fixtures();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..6_000 {
        let mut bytes = originals[numbers.below(originals.len())].1.clone();
        for _ in 0..1 + numbers.below(2) {
            let at = numbers.below(bytes.len() / 4) * 4;
            match numbers.below(3) {
                0 => bytes[at + numbers.below(4)] ^= 1 << numbers.below(8),
                1 => bytes[at..at + 4].copy_from_slice(&(numbers.below(300) as u32).to_le_bytes()),
                _ => {
                    let other = &originals[numbers.below(originals.len())].1;
                    let from = numbers.below(other.len() / 4) * 4;
                    let count = (4 * (1 + numbers.below(16))).min(other.len() - from).min(bytes.len() - at);
                    bytes[at..at + count].copy_from_slice(&other[from..from + count]);
                }
            }
        }
        match to_llvm(&bytes) {
            Ok(_) => read += 1,
            Err(why) => {
                assert!(!why.0.is_empty());
                refused += 1;
            }
        }
    }
    assert!(read > 300 && refused > 300, "{read} read, {refused} refused");
}
