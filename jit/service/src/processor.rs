//! Which processor this is, without asking the compiler: what it is asked for depends on nothing else.

use spirula_interface::target::Level;

/// Bytes that are others on a processor with other features, of another family, or where the system keeps features back.
#[cfg(target_arch = "x86_64")]
pub fn identity() -> Option<Vec<u8>> {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max, CpuidResult};
    let mut bytes = Vec::new();
    for (first, leaves) in [(0, &[0, 1, 7, 0xd, 0x14, 0x19, 0x1e, 0x24][..]), (0x8000_0000, &[0, 1, 8, 0x21])]
    {
        let (last, _) = __get_cpuid_max(first);
        for leaf in leaves.iter().map(|leaf| first + leaf).filter(|&leaf| leaf <= last) {
            for part in 0..2 {
                let CpuidResult { eax, mut ebx, ecx, edx } = __cpuid_count(leaf, part);
                if leaf == 1 {
                    ebx = 0; // Which of the cores this is.
                }
                bytes.extend([leaf, part, eax, ebx, ecx, edx].map(u32::to_le_bytes).concat());
            }
        }
    }
    Some(bytes)
}

/// Nobody has looked how to tell.
#[cfg(not(target_arch = "x86_64"))]
pub fn identity() -> Option<Vec<u8>> {
    None
}

/// The highest level that this processor is of, by what the system lets programs use; none if it is of the first x86-64s.
#[cfg(target_arch = "x86_64")]
pub fn level() -> Option<Level> {
    macro_rules! has {
        ($($feature:tt),*) => { $(is_x86_feature_detected!($feature))&&* };
    }
    if !has!("cmpxchg16b", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3") {
        return None;
    }
    if !has!("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe") {
        return Some(Level::V2);
    }
    let all = has!("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl");
    Some(if all { Level::V4 } else { Level::V3 })
}

/// Other processors have no such levels.
#[cfg(not(target_arch = "x86_64"))]
pub fn level() -> Option<Level> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_same_on_every_core() {
        let here = super::identity();
        assert!(here.as_ref().is_none_or(|bytes| !bytes.is_empty()));
        let threads: Vec<_> = (0..16).map(|_| std::thread::spawn(super::identity)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), here);
        }
    }
}
