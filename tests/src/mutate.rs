//! Damaged copies of valid binaries, the same ones for the same seed.

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

/// A damaged copy of one of `originals`: bits flipped, the end cut off, a part overwritten from another one, a part
/// left out, or a 32-bit word set to an extreme.
pub fn mutant(originals: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut bytes = originals[random.below(originals.len())].clone();
    match random.below(5) {
        0 => flip_bits(&mut bytes, random),
        1 => bytes.truncate(random.below(bytes.len())),
        2 => splice(&mut bytes, &originals[random.below(originals.len())], random),
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
    fn the_random_sequence_is_splitmix() {
        assert_eq!(Random::new(1234567).bits(), 6457827717110365317);
    }
}
