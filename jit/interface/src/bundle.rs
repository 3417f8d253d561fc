//! Several program binaries in one file, of which whoever loads it takes the first that fits his processor.
//!
//! Layout: magic (8 bytes), then each binary behind its length (8 bytes, little endian).

const MAGIC: [u8; 8] = *b"SPIRULA+";

/// One file of binaries, the most wanted first.
pub fn join(binaries: &[Vec<u8>]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    for binary in binaries {
        file.extend((binary.len() as u64).to_le_bytes());
        file.extend(binary);
    }
    file
}

/// A file's binaries; none if it is no bundle, or damaged.
pub fn split(file: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = file.strip_prefix(&MAGIC)?;
    let mut binaries = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk::<8>()?;
        let (binary, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        binaries.push(binary);
        rest = behind;
    }
    Some(binaries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_split_and_nothing_else() {
        let file = join(&[vec![1, 2, 3], vec![], vec![4]]);
        assert_eq!(split(&file).unwrap(), [&[1, 2, 3][..], &[], &[4]]);
        for length in 0..file.len() {
            let cut = split(&file[..length]);
            assert!(cut.is_none_or(|binaries| binaries.len() < 3), "{length}");
        }
        let huge = [&MAGIC[..], &u64::MAX.to_le_bytes()].concat();
        assert_eq!((split(&huge), split(b"SPIRULA\x03"), split(b"")), (None, None, None));
    }
}
