//! Damaged objects, by the ten thousands: whatever is wrong with them, they are refused or loaded, and nothing else
//! happens. Their code is never called.

use super::*;

/// What the compiler makes of something with constants, a table of jumps, calls and a variable.
const VARIED: &str = r#"
@table = internal constant [4 x ptr] [ptr @words, ptr null, ptr @words, ptr @counter]
@words = internal constant [5 x i32] [i32 3, i32 1, i32 4, i32 1, i32 5]
@counter = internal global i32 7
@zeros = internal global [16 x i32] zeroinitializer

define void @varied(ptr %arguments, ptr %launch, i64 %first, i64 %end, ptr %local, ptr %scratch) {
  %out = load ptr, ptr %arguments
  %which = load volatile i32, ptr %out
  switch i32 %which, label %other [ i32 0, label %zero
    i32 1, label %one
    i32 2, label %two
    i32 3, label %three
    i32 4, label %four ]
zero:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr @words, i64 %end, i1 false)
  ret void
one:
  %x = load volatile double, ptr %out
  %y = call double @fmod(double %x, double 3.5)
  store volatile double %y, ptr %out
  ret void
two:
  %place = getelementptr ptr, ptr @table, i64 %first
  %p = load volatile ptr, ptr %place
  store volatile ptr %p, ptr %out
  ret void
three:
  %old = load volatile i32, ptr @counter
  %new = mul i32 %old, %old
  store volatile i32 %new, ptr @counter
  ret void
four:
  store volatile ptr @zeros, ptr %out
  ret void
other:
  ret void
}
declare double @fmod(double, double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"#;

/// SplitMix64 (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) as usize
}

/// How many were refused and how many loaded.
#[derive(Debug, Default)]
struct Count {
    refused: usize,
    loaded: usize,
}

impl Count {
    fn try_to_load(&mut self, bytes: &[u8]) {
        match load(&program(vec![bytes.to_vec()], &["varied"])) {
            Ok((_, entries)) => {
                assert_eq!(entries.len(), 1);
                self.loaded += 1;
            }
            Err(LoadError(Cause::Memory(error))) => panic!("what is mapped must not depend on luck: {error}"),
            Err(_) => self.refused += 1,
        }
    }
}

fn object() -> Vec<u8> {
    let object = compiled::object(VARIED, &["varied"]).unwrap();
    let mut count = Count::default();
    count.try_to_load(&object);
    assert_eq!(count.loaded, 1);
    object
}

#[test]
fn every_bit_may_be_wrong() {
    let object = object();
    let mut count = Count::default();
    for position in 0..8 * object.len() {
        let mut bytes = object.clone();
        bytes[position / 8] ^= 1 << (position % 8);
        count.try_to_load(&bytes);
    }
    assert!(count.refused > 1_000 && count.loaded > 1_000, "{count:?}");
}

#[test]
fn every_word_may_be_an_extreme() {
    let object = object();
    let length = object.len() as u64;
    let mut count = Count::default();
    for at in 0..object.len() - 8 {
        for value in
            [0, 1, length, length - 1, i32::MAX as u64, u32::MAX as u64, 1 << 62, i64::MAX as u64, u64::MAX]
        {
            for size in [2, 4, 8] {
                let mut bytes = object.clone();
                bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
                count.try_to_load(&bytes);
            }
        }
    }
    assert!(count.refused > 10_000 && count.loaded > 1_000, "{count:?}");
}

#[test]
fn every_end_may_be_missing() {
    let object = object();
    let mut count = Count::default();
    for length in 0..object.len() {
        count.try_to_load(&object[..length]);
    }
    // The table of sections comes last.
    assert_eq!(count.refused, object.len());
}

#[test]
fn much_may_be_wrong_at_once() {
    let object = object();
    let mut count = Count::default();
    for seed in 0..20_000 {
        let state = &mut (seed as u64);
        let mut bytes = object.clone();
        for _ in 0..1 + random(state) % 8 {
            let (at, from) = (random(state) % bytes.len(), random(state) % bytes.len());
            let size = (random(state) % 33).min(bytes.len() - at.max(from));
            match random(state) % 3 {
                0 => bytes[at] ^= 1 << (random(state) % 8),
                1 => bytes.copy_within(from..from + size, at),
                _ => bytes[at] = random(state) as u8,
            }
        }
        count.try_to_load(&bytes);
    }
    assert!(count.refused > 1_000 && count.loaded > 1_000, "{count:?}");
}
