//! Damaged copies of valid binaries, the same ones for the same seed: damage to bytes, and, where they are bitcode, to numbers, records,
//! abbreviations and blocks, so that more of it gets behind the first reader.

use crate::bitstream::{Block, Item, Role, Stream};

/// SplitMix64 (Steele, Lea, Flood 2014): small, and its sequence will not change with a crate's version.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }
}

/// A damaged copy of one of some bitcode modules, by one to three of all kinds of damage.
pub fn bitcode_mutant(originals: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut bytes = originals[random.below(originals.len())].clone();
    for _ in 0..1 + random.below(3) {
        let other = &originals[random.below(originals.len())];
        bytes = damaged(bytes, other, random);
    }
    bytes
}

fn damaged(mut bytes: Vec<u8>, other: &[u8], random: &mut Random) -> Vec<u8> {
    let Some(stream) = Stream::parse(&bytes) else { return damage_bytes(bytes, other, random) };
    match random.below(16) {
        0 => return damage_bytes(bytes, other, random),
        1 => damage_fields(&stream, Role::Definition, &mut bytes, random),
        2 => damage_fields(&stream, Role::Length, &mut bytes, random),
        3..=9 => damage_fields(&stream, Role::Operand, &mut bytes, random),
        _ => return rebuilt(stream, other, random),
    }
    bytes
}

/// Other numbers where numbers are.
fn damage_fields(stream: &Stream, role: Role, bytes: &mut [u8], random: &mut Random) {
    let fields: Vec<_> = stream.fields.iter().filter(|field| field.role == role).collect();
    if fields.is_empty() {
        return;
    }
    for _ in 0..1 + random.below(3) {
        let at = random.below(fields.len());
        let near = fields[(at + random.below(64)) % fields.len()];
        let value = fields[at].read(bytes);
        let value = match random.below(6) {
            0 => value.wrapping_add(1),
            1 => value.wrapping_sub(1),
            2 => near.read(bytes),
            3 => 1 << random.below(64),
            4 => [0, 1, u64::MAX, 1 << 31, 1 << 63][random.below(5)],
            _ => random.below(64) as u64,
        };
        fields[at].write(bytes, value);
    }
}

/// Blocks and records twice, not at all, in another order, or from another module.
fn rebuilt(mut stream: Stream, other: &[u8], random: &mut Random) -> Vec<u8> {
    let Some(block) = some_block(&mut stream.blocks, random) else { return Stream::write(&stream.blocks) };
    let (count, id) = (block.items.len(), block.id);
    if count == 0 {
        return Stream::write(&stream.blocks);
    }
    let (at, to) = (random.below(count), random.below(count));
    match random.below(6) {
        0 => block.items.insert(to, block.items[at].clone()),
        1 => drop(block.items.remove(at)),
        2 => block.items.swap(at, to),
        3 => {
            let end = (at + 1 + random.below(8)).min(count);
            let copies = block.items[at..end].to_vec();
            block.items.splice(to..to, copies);
        }
        _ => {
            // Of the same kind if the other module has such blocks.
            let mut stream = Stream::parse(other);
            let mut found = Vec::new();
            stream
                .iter_mut()
                .for_each(|other| other.blocks.iter().for_each(|b| blocks_of(b, id, &mut found)));
            if !found.is_empty() {
                let donor = found.swap_remove(random.below(found.len()));
                let is_whole = random.below(2) == 0;
                if is_whole {
                    *block = donor;
                } else if !donor.items.is_empty() {
                    block.items[at] = donor.items[random.below(donor.items.len())].clone();
                }
            }
        }
    }
    Stream::write(&stream.blocks)
}

/// Any of some blocks and of those within.
fn some_block<'a>(blocks: &'a mut [Block], random: &mut Random) -> Option<&'a mut Block> {
    let count: usize = blocks.iter().map(size).sum();
    let mut number = random.below(count.max(1));
    blocks.iter_mut().find_map(|block| numbered(block, &mut number))
}

/// How many blocks it is, with those within.
fn size(block: &Block) -> usize {
    let inner = block.items.iter().map(|item| if let Item::Block(inner) = item { size(inner) } else { 0 });
    1 + inner.sum::<usize>()
}

fn numbered<'a>(block: &'a mut Block, number: &mut usize) -> Option<&'a mut Block> {
    if *number == 0 {
        return Some(block);
    }
    *number -= 1;
    for item in &mut block.items {
        let Item::Block(inner) = item else { continue };
        let inside = size(inner);
        if *number < inside {
            return numbered(inner, number);
        }
        *number -= inside;
    }
    None
}

fn blocks_of(block: &Block, id: u64, found: &mut Vec<Block>) {
    if block.id == id {
        found.push(block.clone());
    }
    block.items.iter().for_each(|item| {
        if let Item::Block(inner) = item {
            blocks_of(inner, id, found);
        }
    });
}

/// A damaged copy of one of several SPIR-V modules: of its bytes, or of its instructions, so that more of it gets behind the first
/// reader.
pub fn spirv_mutant(originals: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let bytes = originals[random.below(originals.len())].clone();
    let other = &originals[random.below(originals.len())];
    if random.below(4) == 0 {
        return damage_bytes(bytes, other, random);
    }
    let mut list = spirv_instructions(&bytes);
    let others = spirv_instructions(other);
    if list.len() < 2 || others.is_empty() {
        return damage_bytes(bytes, other, random);
    }
    for _ in 0..1 + random.below(3) {
        let at = random.below(list.len());
        match random.below(6) {
            0 => drop(list.remove(at)),
            1 => list.insert(at, others[random.below(others.len())].clone()),
            2 => {
                let to = random.below(list.len());
                list.swap(at, to);
            }
            3 => {
                let copy = list[random.below(list.len())].clone();
                list.insert(at, copy);
            }
            _ => {
                let word = random.below(list[at].len());
                let value = match random.below(3) {
                    0 => random.below(300) as u32,
                    1 => list[at][word] ^ 1 << random.below(32),
                    _ => list[random.below(list.len())].last().copied().unwrap_or(0),
                };
                list[at][word] = value;
            }
        }
        if list.is_empty() {
            break;
        }
    }
    let words = list.into_iter().flatten().flat_map(u32::to_le_bytes);
    bytes[..SPIRV_HEADER * 4].iter().copied().chain(words).collect()
}

/// Words before a module's first instruction.
const SPIRV_HEADER: usize = 5;

/// The instructions of a module as far as it can be taken apart.
fn spirv_instructions(bytes: &[u8]) -> Vec<Vec<u32>> {
    let (chunks, _) = bytes.as_chunks::<4>();
    let words: Vec<u32> = chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect();
    let mut rest = words.get(SPIRV_HEADER..).unwrap_or_default();
    let mut list = Vec::new();
    while let Some(&first) = rest.first() {
        let count = (first >> 16) as usize;
        if count == 0 || count > rest.len() {
            break;
        }
        list.push(rest[..count].to_vec());
        rest = &rest[count..];
    }
    list
}

/// A damaged copy of one of `originals`: bits flipped, the end cut off, a part overwritten from another one, a part
/// left out, or a 32-bit word set to an extreme.
pub fn mutant(originals: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let bytes = originals[random.below(originals.len())].clone();
    let other = &originals[random.below(originals.len())];
    damage_bytes(bytes, other, random)
}

fn damage_bytes(mut bytes: Vec<u8>, other: &[u8], random: &mut Random) -> Vec<u8> {
    if bytes.len() < 8 || other.is_empty() {
        return bytes;
    }
    match random.below(5) {
        0 => flip_bits(&mut bytes, random),
        1 => bytes.truncate(random.below(bytes.len())),
        2 => splice(&mut bytes, other, random),
        3 => {
            let from = random.below(bytes.len());
            let to = (from + 1 + random.below(64)).min(bytes.len());
            bytes.drain(from..to);
        }
        _ => extreme_word(&mut bytes, random),
    }
    bytes
}

fn flip_bits(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.below(16) {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
}

fn splice(bytes: &mut [u8], other: &[u8], random: &mut Random) {
    let (to, from) = (random.below(bytes.len()), random.below(other.len()));
    let length = (1 + random.below(256)).min(bytes.len() - to).min(other.len() - from);
    bytes[to..to + length].copy_from_slice(&other[from..from + length]);
}

fn extreme_word(bytes: &mut [u8], random: &mut Random) {
    let at = random.below(bytes.len() / 4) * 4;
    let word = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff][random.below(5)];
    bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_damaged_and_repeatable() {
        let originals = [(0..=255).collect::<Vec<u8>>(), vec![7; 512]];
        let damaged = (0..500).filter(|&s| !originals.contains(&mutant(&originals, s))).count();
        assert!(damaged > 400, "{damaged} of 500 differ from their originals");
        assert!((0..500).all(|s| mutant(&originals, s) == mutant(&originals, s)));
    }

    #[test]
    fn bitcode_is_damaged_in_its_structure() {
        let originals: Vec<Vec<u8>> =
            ["spir12/vadd.bc64", "bench/scan.bc64"].map(crate::fixtures::load).into();
        let mutants: Vec<_> = (0..400).map(|seed| bitcode_mutant(&originals, seed)).collect();
        assert!(mutants.iter().enumerate().all(|(seed, m)| *m == bitcode_mutant(&originals, seed as u64)));
        let differ = mutants.iter().filter(|m| !originals.contains(m)).count();
        let whole = mutants.iter().filter(|m| Stream::parse(m).is_some()).count();
        assert!(differ > 350 && whole > 150, "{differ} differ, {whole} can be taken apart");
    }

    #[test]
    fn spirv_is_damaged_in_its_instructions() {
        let originals: Vec<Vec<u8>> =
            crate::fixtures::spirv().iter().map(|path| crate::fixtures::load(path)).collect();
        let mutants: Vec<_> = (0..400).map(|seed| spirv_mutant(&originals, seed)).collect();
        assert!(mutants.iter().enumerate().all(|(seed, m)| *m == spirv_mutant(&originals, seed as u64)));
        let differ = mutants.iter().filter(|m| !originals.contains(m)).count();
        let whole = |bytes: &&Vec<u8>| {
            let words: usize = spirv_instructions(bytes).iter().map(Vec::len).sum();
            (words + SPIRV_HEADER) * 4 == bytes.len()
        };
        let whole = mutants.iter().filter(whole).count();
        assert!(differ > 350 && whole > 200, "{differ} differ, {whole} can be taken apart");
    }

    #[test]
    fn the_random_sequence_is_splitmix() {
        assert_eq!(Random::new(1234567).bits(), 6457827717110365317);
    }
}
