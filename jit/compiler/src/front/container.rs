//! Reading, the bitcode container. Walks blocks, abbreviations and records of an untrusted file, so that
//! LLVM's reader, which may abort on damaged input, only sees a well-formed bit stream.

use std::rc::Rc;

/// A file's wrapper magic, little-endian.
const WRAPPER_MAGIC: u32 = 0x0B17_C0DE;
/// A raw stream's first bytes.
const RAW_MAGIC: [u8; 4] = *b"BC\xC0\xDE";
/// Blocks within blocks that a producer could mean; LLVM recurses.
const MAX_DEPTH: u32 = 32;
/// Bits of a field, LLVM's limit for abbreviations' operands.
const MAX_FIELD: u64 = 32;

const BLOCKINFO_BLOCK: u64 = 0;
const MODULE_BLOCK: u64 = 8;
const FUNCTION_BLOCK: u64 = 12;
const METADATA_BLOCK: u64 = 15;

/// Metadata records that are no node of their own: names, kinds, lists of nodes, attachments and indices.
const NO_NODES: [u64; 7] = [4, 6, 10, 11, 36, 38, 39];
/// Many strings in one record.
const STRINGS: u64 = 35;
/// Lists of other nodes, by their numbers from 1.
const NODES: [u64; 2] = [3, 5];

/// Why a file isn't a bitcode container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ContainerError {
    #[error("it is empty")]
    Empty,
    #[error("it doesn't begin with a bitcode signature")]
    NoSignature,
    #[error("its wrapper says {size} bytes from {offset}, but the file has {available}")]
    Wrapper { offset: u32, size: u32, available: usize },
    #[error("it ends in the middle of a block; it is truncated")]
    Truncated,
    #[error("it is damaged near byte {byte}: {what}")]
    Damaged { byte: usize, what: &'static str },
    #[error("it holds {0} modules instead of one")]
    Modules(usize),
}

/// Takes the raw bit stream out of a file and checks its structure.
pub(crate) fn raw_stream(file: &[u8]) -> Result<&[u8], ContainerError> {
    if file.is_empty() {
        return Err(ContainerError::Empty);
    }
    let stream = unwrap(file)?;
    if stream.get(..4) != Some(&RAW_MAGIC) {
        return Err(ContainerError::NoSignature);
    }
    let end = Walker::new(stream).stream()?;
    Ok(&stream[..end])
}

fn unwrap(file: &[u8]) -> Result<&[u8], ContainerError> {
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    if word(0) != Some(WRAPPER_MAGIC) {
        return Ok(file);
    }
    let (Some(offset), Some(size)) = (word(8), word(12)) else { return Err(ContainerError::Truncated) };
    let start = offset as usize;
    start.checked_add(size as usize).and_then(|end| file.get(start..end)).ok_or(ContainerError::Wrapper {
        offset,
        size,
        available: file.len(),
    })
}

/// How an abbreviation's operand is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Literal(u64),
    Fixed(u64),
    Vbr(u64),
    Array,
    Char6,
    Blob,
}

/// Shared: each record of a block is read by one.
type Abbreviation = Rc<[Encoding]>;

struct Walker<'a> {
    stream: &'a [u8],
    /// In bits.
    at: u64,
    /// Abbreviations that BLOCKINFO gives to blocks by their id.
    shared: Vec<(u64, Vec<Abbreviation>)>,
    /// The record's code and operands, if somebody asks for them.
    record: Option<Vec<u64>>,
    /// Metadata nodes so far.
    nodes: u64,
}

impl<'a> Walker<'a> {
    fn new(stream: &'a [u8]) -> Self {
        Walker { stream, at: 32, shared: Vec::new(), record: None, nodes: 0 }
    }

    fn bits(&self) -> u64 {
        self.stream.len() as u64 * 8
    }

    fn damaged<T>(&self, what: &'static str) -> Result<T, ContainerError> {
        Err(ContainerError::Damaged { byte: (self.at / 8) as usize, what })
    }

    /// The next `width` bits, at most 64.
    fn fixed(&mut self, width: u64) -> Result<u64, ContainerError> {
        if self.at + width > self.bits() {
            return Err(ContainerError::Truncated);
        }
        let first = (self.at / 8) as usize;
        // A word holds most fields, wherever in its first byte they begin.
        if let Some((&word, _)) = self.stream[first..].split_first_chunk().filter(|_| width <= 56) {
            let value = u64::from_le_bytes(word) >> (self.at % 8);
            self.at += width;
            return Ok(value & ((1 << width) - 1));
        }
        let last = ((self.at + width).div_ceil(8)) as usize;
        let mut value: u128 = 0;
        for (i, &byte) in self.stream[first..last].iter().enumerate() {
            value |= u128::from(byte) << (8 * i);
        }
        value >>= self.at % 8;
        self.at += width;
        Ok(if width == 64 { value as u64 } else { value as u64 & ((1 << width) - 1) })
    }

    fn vbr(&mut self, width: u64) -> Result<u64, ContainerError> {
        let more = 1 << (width - 1);
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let piece = self.fixed(width)?;
            let bits = piece & (more - 1);
            if shift >= 64 && bits != 0 {
                return self.damaged("a number of more than 64 bits");
            }
            value |= bits.checked_shl(shift).unwrap_or(0);
            if piece & more == 0 {
                return Ok(value);
            }
            shift += width as u32 - 1;
            if shift > 128 {
                return self.damaged("a number without end");
            }
        }
    }

    fn align(&mut self) -> Result<(), ContainerError> {
        self.at = self.at.next_multiple_of(32);
        if self.at > self.bits() { Err(ContainerError::Truncated) } else { Ok(()) }
    }

    /// The blocks side by side; returns the byte at which the last one ends.
    fn stream(&mut self) -> Result<usize, ContainerError> {
        let mut modules = 0;
        while self.at + 64 <= self.bits() {
            if self.stream[(self.at / 8) as usize..].iter().all(|&byte| byte == 0) {
                break; // Padding.
            }
            if self.fixed(2)? != 1 {
                return self.damaged("something other than a block at the top");
            }
            let id = self.vbr(8)?;
            modules += usize::from(id == MODULE_BLOCK);
            self.block(id, 0)?;
        }
        if modules == 1 { Ok((self.at / 8) as usize) } else { Err(ContainerError::Modules(modules)) }
    }

    /// A block behind its id.
    fn block(&mut self, id: u64, depth: u32) -> Result<(), ContainerError> {
        if depth > MAX_DEPTH {
            return self.damaged("blocks within blocks without end");
        }
        let width = self.vbr(4)?;
        self.align()?;
        let words = self.fixed(32)?;
        let end = self.at + words * 32;
        if end > self.bits() {
            return Err(ContainerError::Truncated);
        }
        if !(2..=MAX_FIELD).contains(&width) {
            return self.damaged("an abbreviation width that can't be");
        }
        let mut abbreviations = self.shared_abbreviations(id).cloned().unwrap_or_default();
        let mut described = None;
        let (outer_nodes, mut last_node) = (self.nodes, 0);
        loop {
            if self.at >= end {
                return self.damaged("a block that goes on behind its end");
            }
            self.record = (id == METADATA_BLOCK).then(Vec::new);
            match self.fixed(width)? {
                0 => break,
                1 => {
                    let inner = self.vbr(8)?;
                    self.block(inner, depth + 1)?;
                }
                2 => {
                    let abbreviation = self.definition()?;
                    match described {
                        None if id == BLOCKINFO_BLOCK => return self.damaged("an abbreviation for no block"),
                        None => abbreviations.push(abbreviation),
                        Some(block) => self.share(block, abbreviation),
                    }
                }
                3 => {
                    let (code, first) = self.unabbreviated()?;
                    if id == BLOCKINFO_BLOCK && code == 1 {
                        described = first;
                    }
                }
                number => match abbreviations.get(number as usize - 4) {
                    Some(abbreviation) => {
                        let abbreviation = abbreviation.clone();
                        self.abbreviated(&abbreviation, end)?;
                    }
                    None => return self.damaged("an abbreviation that isn't defined"),
                },
            }
            if let Some(record) = self.record.take() {
                last_node = last_node.max(self.metadata(&record));
            }
        }
        // LLVM's reader would look for them behind its list's end.
        if last_node > self.nodes {
            return self.damaged("metadata that refers to what isn't there");
        }
        if id == FUNCTION_BLOCK {
            self.nodes = outer_nodes;
        }
        self.align()?;
        if self.at == end { Ok(()) } else { self.damaged("a block whose length is wrong") }
    }

    /// Counts a metadata record's nodes; returns the highest number of those that it refers to, from 1.
    fn metadata(&mut self, record: &[u64]) -> u64 {
        let Some((code, operands)) = record.split_first() else { return 0 };
        let defined = match *code {
            STRINGS => operands.first().copied().unwrap_or(0),
            code => u64::from(!NO_NODES.contains(&code)),
        };
        self.nodes = self.nodes.saturating_add(defined);
        if NODES.contains(code) { operands.iter().copied().max().unwrap_or(0) } else { 0 }
    }

    /// Keeps a number of the record.
    fn keep(&mut self, value: u64) {
        if let Some(record) = &mut self.record {
            record.push(value);
        }
    }

    fn shared_abbreviations(&self, id: u64) -> Option<&Vec<Abbreviation>> {
        self.shared.iter().find(|(block, _)| *block == id).map(|(_, list)| list)
    }

    fn share(&mut self, id: u64, abbreviation: Abbreviation) {
        match self.shared.iter_mut().find(|(block, _)| *block == id) {
            Some((_, list)) => list.push(abbreviation),
            None => self.shared.push((id, vec![abbreviation])),
        }
    }

    fn definition(&mut self) -> Result<Abbreviation, ContainerError> {
        let count = self.vbr(5)?;
        let mut operands = Vec::new();
        while (operands.len() as u64) < count {
            let literal = self.fixed(1)? == 1;
            let encoding = if literal {
                Encoding::Literal(self.vbr(8)?)
            } else {
                match self.fixed(3)? {
                    1 => Encoding::Fixed(self.vbr(5)?),
                    2 => Encoding::Vbr(self.vbr(5)?),
                    3 => Encoding::Array,
                    4 => Encoding::Char6,
                    5 => Encoding::Blob,
                    _ => return self.damaged("an operand encoding that doesn't exist"),
                }
            };
            let position = operands.len() as u64;
            let well_placed = match encoding {
                Encoding::Fixed(width) | Encoding::Vbr(width) if width > MAX_FIELD => false,
                Encoding::Vbr(1) => false,
                Encoding::Array => position + 2 == count,
                Encoding::Blob => position + 1 == count && operands.last() != Some(&Encoding::Array),
                _ => true,
            };
            if !well_placed {
                return self.damaged("an abbreviation that can't be read");
            }
            operands.push(encoding);
        }
        match operands.first() {
            None | Some(Encoding::Array | Encoding::Blob) => {
                self.damaged("an abbreviation without a record code")
            }
            Some(_) => Ok(operands.into()),
        }
    }

    /// Returns the record's code and first operand.
    fn unabbreviated(&mut self) -> Result<(u64, Option<u64>), ContainerError> {
        let code = self.vbr(6)?;
        self.keep(code);
        let count = self.vbr(6)?;
        let mut first = None;
        for _ in 0..count {
            let operand = self.vbr(6)?;
            self.keep(operand);
            first = first.or(Some(operand));
        }
        Ok((code, first))
    }

    fn abbreviated(&mut self, abbreviation: &[Encoding], end: u64) -> Result<(), ContainerError> {
        let mut operands = abbreviation.iter();
        while let Some(&operand) = operands.next() {
            match operand {
                Encoding::Array => {
                    let count = self.vbr(6)?;
                    let element = operands.next().copied().unwrap_or(Encoding::Literal(0));
                    if count > end - self.at.min(end) {
                        return self.damaged("an array longer than its block");
                    }
                    for _ in 0..count {
                        self.scalar(element)?;
                    }
                }
                Encoding::Blob => {
                    let bytes = self.vbr(6)?;
                    self.align()?;
                    if bytes > (self.bits() - self.at) / 8 {
                        return Err(ContainerError::Truncated);
                    }
                    self.at += bytes * 8;
                    self.align()?;
                }
                scalar => self.scalar(scalar)?,
            }
        }
        if self.at > end { self.damaged("a record that goes on behind its block") } else { Ok(()) }
    }

    fn scalar(&mut self, encoding: Encoding) -> Result<(), ContainerError> {
        let value = match encoding {
            Encoding::Fixed(width) => self.fixed(width)?,
            Encoding::Vbr(0) => 0,
            Encoding::Vbr(width) => self.vbr(width)?,
            Encoding::Char6 => self.fixed(6)?,
            Encoding::Literal(value) => value,
            Encoding::Array | Encoding::Blob => return Ok(()),
        };
        self.keep(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;

    fn sample() -> Vec<u8> {
        testing::bitcode(
            "define spir_kernel void @k(ptr addrspace(1) %p) {\n store i32 1, ptr addrspace(1) %p\n ret void\n}",
        )
    }

    fn wrapped(raw: &[u8], offset: u32, size: u32) -> Vec<u8> {
        let header = [WRAPPER_MAGIC, 0, offset, size, 7];
        let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.extend_from_slice(raw);
        file
    }

    #[test]
    fn raw_and_wrapped_streams_pass() {
        let raw = sample();
        assert_eq!(raw_stream(&raw).unwrap(), raw);
        let mut padded = wrapped(&raw, 20, raw.len() as u32);
        padded.extend([0; 12]);
        assert_eq!(raw_stream(&padded).unwrap(), raw);
        let mut zeros = raw.clone();
        zeros.extend([0; 16]);
        assert_eq!(raw_stream(&zeros).unwrap(), raw);
    }

    #[test]
    fn wrappers_that_lie_are_refused() {
        let raw = sample();
        for (offset, size) in [(20, raw.len() as u32 + 1), (u32::MAX, 8), (20, u32::MAX), (10_000_000, 4)] {
            let error = raw_stream(&wrapped(&raw, offset, size)).unwrap_err();
            assert!(matches!(error, ContainerError::Wrapper { .. }), "{offset} {size}: {error}");
        }
        assert_eq!(raw_stream(&wrapped(&raw, 0, 20)), Err(ContainerError::NoSignature));
        assert_eq!(raw_stream(&WRAPPER_MAGIC.to_le_bytes()), Err(ContainerError::Truncated));
    }

    #[test]
    fn truncation_is_found_at_every_length() {
        let raw = sample();
        for length in 4..raw.len() / 2 {
            assert!(raw_stream(&raw[..length]).is_err(), "{length}");
        }
        assert_eq!(raw_stream(b""), Err(ContainerError::Empty));
        assert_eq!(raw_stream(b"\x7fELF...."), Err(ContainerError::NoSignature));
    }

    /// A node that refers to one that no record makes, in a module whose numbers are otherwise right.
    #[test]
    fn metadata_that_is_not_there_is_missed() {
        let raw =
            testing::bitcode("!a = !{!0}\n!0 = distinct !{!1, !\"x\"}\n!1 = !{!0, !2}\n!2 = distinct !{}");
        assert!(raw_stream(&raw).is_ok());
        let mut missed = 0;
        for bit in 0..raw.len() * 8 {
            let mut copy = raw.clone();
            copy[bit / 8] ^= 1 << (bit % 8);
            let error = raw_stream(&copy).err();
            missed += usize::from(error.is_some_and(|error| error.to_string().contains("what isn't there")));
        }
        assert!(missed > 3, "{missed}");
    }

    #[test]
    fn no_flipped_bit_panics() {
        let raw = sample();
        let mut refused = 0;
        for bit in 0..raw.len() * 8 {
            let mut copy = raw.clone();
            copy[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(raw_stream(&copy).is_err());
        }
        assert!(refused > raw.len() / 4, "only {refused} of {} flips are noticed", raw.len() * 8);
    }
}
