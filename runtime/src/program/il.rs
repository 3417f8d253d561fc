//! Programs in SPIR-V (clCreateProgramWithIL): whether bytes can be some, and their specialization constants. A module that is
//! specialized is the same module with other values in it, so that whatever depends on a module's bytes depends on them.
//! What it means the compiler's process finds out.

use crate::error::{Result, Status};
use std::collections::HashMap;

/// SPIR-V's first word.
const MAGIC: u32 = 0x0723_0203;
/// Words of the header.
const HEADER: usize = 5;

/// Opcodes.
const TYPE_INT: u32 = 21;
const TYPE_FLOAT: u32 = 22;
const SPEC_CONSTANT_TRUE: u32 = 48;
const SPEC_CONSTANT_FALSE: u32 = 49;
const SPEC_CONSTANT: u32 = 50;
const DECORATE: u32 = 71;
/// The decoration SpecId.
const SPEC_ID: u32 = 1;

/// A module, and where its specialization constants are.
#[derive(Debug)]
pub(crate) struct Il {
    /// As it was given.
    pub bytes: Vec<u8>,
    /// In the order of bytes of this machine, with the values that were set.
    words: Vec<u32>,
    constants: HashMap<u32, Constant>,
}

/// A specialization constant.
#[derive(Clone, Copy, Debug)]
struct Constant {
    /// Its instruction's first word.
    at: usize,
    /// Bytes that an application passes for it.
    size: usize,
    is_bool: bool,
}

impl Il {
    /// Reads as much of a module as this needs. CL_INVALID_VALUE for what is no SPIR-V.
    pub(crate) fn read(bytes: &[u8]) -> Result<Il> {
        let invalid =
            |why: &str| Status::InvalidValue.because(format!("no SPIR-V: {why} ({} bytes)", bytes.len()));
        let (chunks, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() || chunks.len() < HEADER {
            return Err(invalid("no whole number of words, or no header"));
        }
        let words: Vec<u32> = match u32::from_le_bytes(chunks[0]) {
            MAGIC => chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect(),
            swapped if swapped.swap_bytes() == MAGIC => {
                chunks.iter().map(|chunk| u32::from_be_bytes(*chunk)).collect()
            }
            _ => return Err(invalid("another magic number")),
        };
        let constants = constants(&words).ok_or_else(|| invalid("an instruction goes beyond its end"))?;
        Ok(Il { bytes: bytes.to_vec(), words, constants })
    }

    /// Sets a constant's value. CL_INVALID_SPEC_ID for one that there isn't, CL_INVALID_VALUE for another size than it has.
    pub(crate) fn specialize(&mut self, id: u32, value: &[u8]) -> Result<()> {
        let Some(&Constant { at, size, is_bool }) = self.constants.get(&id) else {
            return Err(
                Status::InvalidSpecId.because(format!("the module has no specialization constant {id}"))
            );
        };
        if value.len() != size {
            return Err(Status::InvalidValue.because(format!(
                "the specialization constant {id} has {size} bytes; spec_size is {}",
                value.len()
            )));
        }
        if is_bool {
            let opcode =
                if value.iter().any(|&byte| byte != 0) { SPEC_CONSTANT_TRUE } else { SPEC_CONSTANT_FALSE };
            self.words[at] = self.words[at] & 0xFFFF_0000 | opcode;
            return Ok(());
        }
        for (word, bytes) in self.words[at + 3..].iter_mut().zip(value.chunks(4)) {
            let mut whole = [0; 4];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_le_bytes(whole);
        }
        Ok(())
    }

    /// The module with these values.
    pub(crate) fn specialized(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The specialization constants by their numbers; `None` if the instructions don't fit into the module.
fn constants(words: &[u32]) -> Option<HashMap<u32, Constant>> {
    let mut sizes: HashMap<u32, usize> = HashMap::new();
    let mut numbers: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut found = HashMap::new();
    let mut at = HEADER;
    while at < words.len() {
        let (count, opcode) = ((words[at] >> 16) as usize, words[at] & 0xFFFF);
        let own = words.get(at..at.checked_add(count.max(1))?)?;
        if count == 0 {
            return None;
        }
        match (opcode, own) {
            (TYPE_INT | TYPE_FLOAT, [_, id, bits, ..]) => {
                sizes.insert(*id, *bits as usize / 8);
            }
            (DECORATE, [_, target, SPEC_ID, number, ..]) => numbers.entry(*target).or_default().push(*number),
            (SPEC_CONSTANT_TRUE | SPEC_CONSTANT_FALSE, [_, _, id, ..]) => {
                let constant = Constant { at, size: 1, is_bool: true };
                found.extend(numbers.get(id).into_iter().flatten().map(|number| (*number, constant)));
            }
            (SPEC_CONSTANT, [_, ty, id, literal @ ..]) => {
                let size = sizes.get(ty).copied().filter(|size| size.div_ceil(4) == literal.len())?;
                let constant = Constant { at, size, is_bool: false };
                found.extend(numbers.get(id).into_iter().flatten().map(|number| (*number, constant)));
            }
            _ => {}
        }
        at += count;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, and instructions without their word counts.
    fn module(instructions: &[&[u32]]) -> Vec<u8> {
        let header = [MAGIC, 0x0001_0000, 0, 100, 0];
        let counted = instructions.iter().flat_map(|own| {
            let first = (own.len() as u32) << 16 | own[0];
            [first].into_iter().chain(own[1..].iter().copied()).collect::<Vec<_>>()
        });
        header.into_iter().chain(counted).flat_map(u32::to_le_bytes).collect()
    }

    fn sample() -> Vec<u8> {
        module(&[
            &[DECORATE, 10, SPEC_ID, 7],
            &[DECORATE, 11, SPEC_ID, 8],
            &[DECORATE, 12, SPEC_ID, 9],
            &[TYPE_INT, 1, 16, 0],
            &[TYPE_FLOAT, 2, 64],
            &[SPEC_CONSTANT, 1, 10, 5],
            &[SPEC_CONSTANT, 2, 11, 1, 2],
            &[SPEC_CONSTANT_FALSE, 3, 12],
        ])
    }

    #[test]
    fn values_replace_the_defaults() {
        let mut il = Il::read(&sample()).unwrap();
        assert_eq!(il.specialized(), sample());
        il.specialize(7, &0x1234_u16.to_le_bytes()).unwrap();
        il.specialize(8, &1.5_f64.to_le_bytes()).unwrap();
        il.specialize(9, &[1]).unwrap();
        let bits = 1.5_f64.to_bits();
        let expected = module(&[
            &[DECORATE, 10, SPEC_ID, 7],
            &[DECORATE, 11, SPEC_ID, 8],
            &[DECORATE, 12, SPEC_ID, 9],
            &[TYPE_INT, 1, 16, 0],
            &[TYPE_FLOAT, 2, 64],
            &[SPEC_CONSTANT, 1, 10, 0x1234],
            &[SPEC_CONSTANT, 2, 11, bits as u32, (bits >> 32) as u32],
            &[SPEC_CONSTANT_TRUE, 3, 12],
        ]);
        assert_eq!(il.specialized(), expected);
        assert_eq!(il.bytes, sample(), "CL_PROGRAM_IL stays what was given");
    }

    #[test]
    fn what_there_is_not_is_said() {
        let mut il = Il::read(&sample()).unwrap();
        assert_eq!(il.specialize(6, &[0]).unwrap_err().status, Status::InvalidSpecId);
        assert_eq!(il.specialize(7, &[0]).unwrap_err().status, Status::InvalidValue);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let whole = sample();
        let other = [&[0; 4], &whole[4..]].concat();
        let zero = module(&[]).into_iter().chain([0; 4]).collect();
        for bytes in [Vec::new(), whole[..16].to_vec(), whole[..whole.len() - 4].to_vec(), other, zero] {
            assert_eq!(Il::read(&bytes).unwrap_err().status, Status::InvalidValue);
        }
        let swapped: Vec<u8> = whole.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
        assert_eq!(Il::read(&swapped).unwrap().specialized(), whole);
    }
}
