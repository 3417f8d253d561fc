//! LLVM's bit stream, taken apart far enough to damage any part of it and to put it together again: blocks, the definitions of
//! abbreviations, and the fields of records.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// A raw stream's first bytes.
const MAGIC: [u8; 4] = *b"BC\xC0\xDE";
/// Blocks within blocks.
const MAX_DEPTH: u32 = 32;
const BLOCKINFO: u64 = 0;
/// Of the module's block and the metadata's, the codes of those records that say at which bit others are.
const OFFSETS: [(u64, &[u64]); 2] = [(8, &[13]), (15, &[38, 39])];

/// What a number in the stream is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A record's code or operand.
    Operand,
    /// A definition of an abbreviation.
    Definition,
    /// The head of a block: its length.
    Length,
}

/// A number in the stream, which can be changed where it is as long as it stays as wide.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// What it belongs to.
    pub role: Role,
    /// The block that has it.
    pub block: u64,
    at: u64,
    /// Bits of a piece; of each the last says whether there is another, if it is a VBR.
    width: u64,
    pieces: u64,
    is_vbr: bool,
}

impl Field {
    fn payload(self) -> u64 {
        if self.is_vbr { self.width - 1 } else { self.width }
    }

    /// The number.
    pub fn read(self, bytes: &[u8]) -> u64 {
        (0..self.pieces).fold(0, |value, piece| {
            let bits = get(bytes, self.at + piece * self.width, self.payload());
            value | bits.checked_shl((piece * self.payload()) as u32).unwrap_or(0)
        })
    }

    /// Sets as many of the number's low bits as there is room for.
    pub fn write(self, bytes: &mut [u8], value: u64) {
        for piece in 0..self.pieces {
            let bits = value.checked_shr((piece * self.payload()) as u32).unwrap_or(0);
            put(bytes, self.at + piece * self.width, self.payload(), bits);
        }
    }
}

fn get(bytes: &[u8], at: u64, width: u64) -> u64 {
    (0..width).fold(0, |value, bit| {
        let place = at + bit;
        let is_set = bytes[(place / 8) as usize] >> (place % 8) & 1;
        value | u64::from(is_set) << bit
    })
}

fn put(bytes: &mut [u8], at: u64, width: u64, value: u64) {
    for bit in 0..width {
        let (place, mask) = (((at + bit) / 8) as usize, 1 << ((at + bit) % 8));
        if value >> bit & 1 == 1 { bytes[place] |= mask } else { bytes[place] &= !mask }
    }
}

/// A part of a block.
#[derive(Clone, Debug)]
pub enum Item {
    /// A record or the definition of an abbreviation, as it is written.
    Bits {
        /// The stream that it is from.
        of: Rc<[u8]>,
        /// Where it is there.
        range: Range<u64>,
        /// A record's code.
        code: Option<u64>,
    },
    /// A block in the block.
    Block(Block),
}

/// A block with what is in it.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it is for.
    pub id: u64,
    /// Bits of an abbreviation's number.
    pub width: u64,
    /// In their order.
    pub items: Vec<Item>,
}

/// A stream taken apart.
#[derive(Debug)]
pub struct Stream {
    /// The blocks at the top.
    pub blocks: Vec<Block>,
    /// All numbers, where they are.
    pub fields: Vec<Field>,
}

impl Stream {
    /// Takes a raw stream apart; `None` for what is none, or is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Stream> {
        if bytes.get(..4)? != MAGIC {
            return None;
        }
        let whole: Rc<[u8]> = bytes.into();
        let mut reader =
            Reader { bytes: whole, at: 32, shared: HashMap::new(), fields: Vec::new(), block: 0 };
        let mut blocks = Vec::new();
        while reader.at + 64 <= reader.bits() {
            if reader.fixed(2)? != 1 {
                break; // Padding.
            }
            blocks.push(reader.block(0)?);
        }
        Some(Stream { blocks, fields: reader.fields })
    }

    /// Writes blocks as a stream. Records that say at which bit others are would be wrong, and are left out: readers do without.
    pub fn write(blocks: &[Block]) -> Vec<u8> {
        let mut writer = Writer { bytes: MAGIC.to_vec(), at: 32 };
        blocks.iter().for_each(|block| writer.block(block, 2));
        writer.bytes
    }
}

#[derive(Clone, Copy, Debug)]
enum Encoding {
    Literal(u64),
    Fixed(u64),
    Vbr(u64),
    Array,
    Blob,
}

struct Reader {
    bytes: Rc<[u8]>,
    at: u64,
    /// Abbreviations that BLOCKINFO gives to blocks.
    shared: HashMap<u64, Vec<Rc<[Encoding]>>>,
    fields: Vec<Field>,
    block: u64,
}

impl Reader {
    fn bits(&self) -> u64 {
        self.bytes.len() as u64 * 8
    }

    fn fixed(&mut self, width: u64) -> Option<u64> {
        if width > 64 || self.at + width > self.bits() {
            return None;
        }
        let value = get(&self.bytes, self.at, width);
        self.at += width;
        Some(value)
    }

    fn vbr(&mut self, width: u64) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let piece = self.fixed(width)?;
            let payload = piece & !(1 << (width - 1));
            value |= payload.checked_shl(shift).unwrap_or(0);
            if payload == piece {
                return Some(value);
            }
            shift += width as u32 - 1;
        }
    }

    /// Reads a number and notes where it is.
    fn field(&mut self, role: Role, width: u64, is_vbr: bool) -> Option<u64> {
        let at = self.at;
        let value = if is_vbr { self.vbr(width)? } else { self.fixed(width)? };
        if let Some(pieces) = (self.at - at).checked_div(width) {
            self.fields.push(Field { role, block: self.block, at, width, pieces, is_vbr });
        }
        Some(value)
    }

    fn align(&mut self) -> Option<()> {
        self.at = self.at.next_multiple_of(32);
        (self.at <= self.bits()).then_some(())
    }

    /// A block behind the number that says so.
    fn block(&mut self, depth: u32) -> Option<Block> {
        let id = self.vbr(8)?;
        let width = self.vbr(4)?;
        if depth > MAX_DEPTH || !(2..=32).contains(&width) {
            return None;
        }
        self.align()?;
        let outer = std::mem::replace(&mut self.block, id);
        self.field(Role::Length, 32, false)?;
        let mut abbreviations = self.shared.get(&id).cloned().unwrap_or_default();
        let (mut items, mut described) = (Vec::new(), None);
        loop {
            let start = self.at;
            let number = self.fixed(width)?;
            let code = match number {
                0 => break,
                1 => {
                    items.push(Item::Block(self.block(depth + 1)?));
                    continue;
                }
                2 => {
                    let abbreviation = self.definition()?;
                    match described {
                        Some(block) => self.shared.entry(block).or_default().push(abbreviation),
                        None => abbreviations.push(abbreviation),
                    }
                    None
                }
                3 => {
                    let (code, first) = self.unabbreviated()?;
                    if id == BLOCKINFO && code == 1 {
                        described = first;
                    }
                    Some(code)
                }
                _ => {
                    let abbreviation = abbreviations.get(number as usize - 4)?.clone();
                    Some(self.abbreviated(&abbreviation)?)
                }
            };
            items.push(Item::Bits { of: self.bytes.clone(), range: start..self.at, code });
        }
        self.align()?;
        self.block = outer;
        Some(Block { id, width, items })
    }

    fn definition(&mut self) -> Option<Rc<[Encoding]>> {
        let count = self.field(Role::Definition, 5, true)?;
        let mut list = Vec::new();
        for _ in 0..count {
            if self.fixed(1)? == 1 {
                list.push(Encoding::Literal(self.field(Role::Definition, 8, true)?));
                continue;
            }
            list.push(match self.field(Role::Definition, 3, false)? {
                1 => Encoding::Fixed(self.field(Role::Definition, 5, true)?),
                2 => Encoding::Vbr(self.field(Role::Definition, 5, true)?.max(2)),
                3 => Encoding::Array,
                4 => Encoding::Fixed(6),
                5 => Encoding::Blob,
                _ => return None,
            });
        }
        Some(list.into())
    }

    /// The code and the first operand.
    fn unabbreviated(&mut self) -> Option<(u64, Option<u64>)> {
        let code = self.field(Role::Operand, 6, true)?;
        let count = self.field(Role::Operand, 6, true)?;
        let mut first = None;
        for _ in 0..count {
            let operand = self.field(Role::Operand, 6, true)?;
            first = first.or(Some(operand));
        }
        Some((code, first))
    }

    /// Returns the code.
    fn abbreviated(&mut self, abbreviation: &[Encoding]) -> Option<u64> {
        let mut operands = abbreviation.iter();
        let code = self.scalar(*operands.next()?)?;
        while let Some(&operand) = operands.next() {
            match operand {
                Encoding::Array => {
                    let count = self.field(Role::Operand, 6, true)?;
                    let &element = operands.next()?;
                    for _ in 0..count {
                        self.scalar(element)?;
                    }
                }
                Encoding::Blob => {
                    let count = self.field(Role::Operand, 6, true)?;
                    self.align()?;
                    for _ in 0..count {
                        self.field(Role::Operand, 8, false)?;
                    }
                    self.align()?;
                }
                other => drop(self.scalar(other)?),
            }
        }
        Some(code)
    }

    fn scalar(&mut self, encoding: Encoding) -> Option<u64> {
        match encoding {
            Encoding::Literal(value) => Some(value),
            Encoding::Fixed(width) => self.field(Role::Operand, width, false),
            Encoding::Vbr(width) => self.field(Role::Operand, width, true),
            Encoding::Array | Encoding::Blob => None,
        }
    }
}

struct Writer {
    bytes: Vec<u8>,
    at: u64,
}

impl Writer {
    fn fixed(&mut self, width: u64, value: u64) {
        self.bytes.resize((self.at + width).div_ceil(8) as usize, 0);
        put(&mut self.bytes, self.at, width, value);
        self.at += width;
    }

    fn vbr(&mut self, width: u64, mut value: u64) {
        let more = 1 << (width - 1);
        while value >= more {
            self.fixed(width, value & (more - 1) | more);
            value >>= width - 1;
        }
        self.fixed(width, value);
    }

    fn align(&mut self) {
        self.at = self.at.next_multiple_of(32);
        self.bytes.resize((self.at / 8) as usize, 0);
    }

    fn block(&mut self, block: &Block, outer_width: u64) {
        self.fixed(outer_width, 1);
        self.vbr(8, block.id);
        self.vbr(4, block.width);
        self.align();
        let head = self.at;
        self.fixed(32, 0);
        for item in block.items.iter().filter(|item| !says_where_others_are(block.id, item)) {
            match item {
                Item::Block(inner) => self.block(inner, block.width),
                Item::Bits { of, range, .. } => {
                    for at in range.clone().step_by(32) {
                        let width = (range.end - at).min(32);
                        self.fixed(width, get(of, at, width));
                    }
                }
            }
        }
        self.fixed(block.width, 0);
        self.align();
        let words = (self.at - head) / 32 - 1;
        put(&mut self.bytes, head, 32, words);
    }
}

fn says_where_others_are(block: u64, item: &Item) -> bool {
    let Item::Bits { code: Some(code), .. } = item else { return false };
    OFFSETS.iter().any(|(id, codes)| *id == block && codes.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn streams_are_put_together_as_they_were() {
        for path in fixtures::spir12() {
            let bytes = fixtures::load(&path);
            let stream = Stream::parse(&bytes).unwrap_or_else(|| panic!("{path}"));
            let numbers = |stream: &Stream, bytes: &[u8]| -> Vec<u64> {
                let operands = stream.fields.iter().filter(|field| field.role != Role::Length);
                operands.map(|field| field.read(bytes)).collect()
            };
            let again = Stream::write(&stream.blocks);
            let read = Stream::parse(&again).unwrap_or_else(|| panic!("{path}, written"));
            let (before, after) = (numbers(&stream, &bytes), numbers(&read, &again));
            assert!(after.len() > before.len() * 9 / 10 && after.len() <= before.len(), "{path}");
            assert_eq!(Stream::write(&read.blocks), again, "{path}");
        }
    }

    #[test]
    fn a_field_is_changed_where_it_is() {
        let mut bytes = fixtures::load("spir12/vadd.bc64");
        let stream = Stream::parse(&bytes).unwrap();
        for field in stream.fields.iter().filter(|field| field.role == Role::Operand).step_by(7) {
            let value = field.read(&bytes);
            field.write(&mut bytes, !value);
            assert_ne!(field.read(&bytes), value);
            field.write(&mut bytes, value);
        }
        assert_eq!(bytes, fixtures::load("spir12/vadd.bc64"));
    }
}
