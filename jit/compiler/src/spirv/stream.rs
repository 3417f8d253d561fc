//! The stream of instructions: bytes to words to instructions whose parts are known, by the grammar of the specification.

use super::{Id, Result, refuse, spirv};
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind};
use spirv::Op;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Words before the first instruction.
const HEADER: usize = 5;

/// The largest bound that the specification asks for (universal limits).
const MAX_BOUND: u32 = 0x3F_FFFF;

/// What the grammar says of an opcode.
#[derive(Clone, Copy)]
struct Form {
    op: Op,
    has_type: bool,
    has_result: bool,
}

static FORMS: LazyLock<HashMap<u32, Form>> = LazyLock::new(|| {
    let form = |inst: &rspirv::grammar::Instruction<'static>| {
        let has = |kind| inst.operands.iter().any(|operand| operand.kind == kind);
        let (has_type, has_result) = (has(OperandKind::IdResultType), has(OperandKind::IdResult));
        (inst.opcode as u32, Form { op: inst.opcode, has_type, has_result })
    };
    INSTRUCTION_TABLE.iter().map(form).collect()
});

/// The opcode of this number, as `OpSpecConstantOp` has it.
pub fn opcode(number: u32) -> Option<Op> {
    FORMS.get(&number).map(|form| form.op)
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction<'a> {
    pub op: Op,
    /// 0 if it has none.
    pub ty: Id,
    /// 0 if it has none.
    pub result: Id,
    /// The words behind type and result.
    pub operands: &'a [u32],
}

impl<'a> Instruction<'a> {
    /// A word that must be there.
    pub fn word(&self, index: usize) -> Result<u32> {
        match self.operands.get(index) {
            Some(&word) => Ok(word),
            None => refuse(format!("Op{:?} has too few operands", self.op)),
        }
    }

    /// So many words, and those behind them.
    pub fn words<const N: usize>(&self) -> Result<([u32; N], &'a [u32])> {
        match self.operands.split_first_chunk::<N>() {
            Some((words, rest)) => Ok((*words, rest)),
            None => refuse(format!("Op{:?} has too few operands", self.op)),
        }
    }

    /// A string that begins at a word, and the index of the word behind it.
    pub fn string(&self, index: usize) -> Result<(String, usize)> {
        let words = self.operands.get(index..).unwrap_or_default();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let Some(length) = bytes.iter().position(|&byte| byte == 0) else {
            return refuse(format!("a string of Op{:?} has no end", self.op));
        };
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        Ok((text, index + length / 4 + 1))
    }
}

/// The words of a module, in this machine's order. Checks the header.
pub fn words(bytes: &[u8]) -> Result<Vec<u32>> {
    if !bytes.len().is_multiple_of(4) {
        return refuse(format!("its {} bytes are no whole number of words", bytes.len()));
    }
    let is_swapped = bytes.starts_with(&spirv::MAGIC_NUMBER.to_be_bytes());
    let (chunks, _) = bytes.as_chunks::<4>();
    let word =
        |chunk: &[u8; 4]| if is_swapped { u32::from_be_bytes(*chunk) } else { u32::from_le_bytes(*chunk) };
    let words: Vec<u32> = chunks.iter().map(word).collect();
    let [_, version, _, bound, _, ..] = words[..] else { return refuse("its header is incomplete") };
    let [_, major, minor, _] = version.to_be_bytes();
    if major != 1 || minor > 6 {
        return refuse(format!("it is SPIR-V {major}.{minor}, which isn't known; 1.0 to 1.6 are"));
    }
    if bound > MAX_BOUND {
        return refuse(format!("its bound of ids is {bound}; the most is {MAX_BOUND}"));
    }
    Ok(words)
}

/// The instructions of a module's words.
pub fn instructions(words: &[u32]) -> Result<Vec<Instruction<'_>>> {
    let bound = words.get(3).copied().unwrap_or(0);
    let mut rest = words.get(HEADER..).unwrap_or_default();
    let mut list = Vec::new();
    while let Some(&first) = rest.first() {
        let at = words.len() - rest.len();
        let (count, number) = ((first >> 16) as usize, first & 0xFFFF);
        if count == 0 || count > rest.len() {
            return refuse(format!(
                "the instruction at word {at} has {count} words, of which {} are there",
                rest.len()
            ));
        }
        let Some(form) = FORMS.get(&number) else {
            return refuse(format!(
                "the instruction at word {at} has the opcode {number}, which isn't known"
            ));
        };
        let (own, behind) = rest.split_at(count);
        rest = behind;
        list.push(instruction(*form, &own[1..], bound)?);
    }
    Ok(list)
}

fn instruction(form: Form, words: &[u32], bound: u32) -> Result<Instruction<'_>> {
    let mut operands = words;
    let mut id = |wanted: bool| -> Result<Id> {
        if !wanted {
            return Ok(0);
        }
        match operands.split_first() {
            Some((&id, behind)) if id != 0 && id < bound => {
                operands = behind;
                Ok(id)
            }
            Some((id, _)) => refuse(format!("Op{:?} has the id {id}; the bound is {bound}", form.op)),
            None => refuse(format!("Op{:?} has too few operands", form.op)),
        }
    };
    let (ty, result) = (id(form.has_type)?, id(form.has_result)?);
    Ok(Instruction { op: form.op, ty, result, operands })
}
