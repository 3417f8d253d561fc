//! What Khronos's validator, `spirv-val`, takes is read, or refused by a name: of the fixtures, and of modules that differ from them in a
//! word. Nothing is asked of the other way: what the validator refuses may mean something all the same. Debian's package is
//! spirv-tools; without it nothing is compared.

use super::super::to_llvm;
use super::fixtures;
use std::io::Write;
use std::process::{Command, Stdio};

/// Larger modules take the validator long.
const MAX_SIZE: usize = 20_000;

/// Modules that are made.
const COUNT: u32 = 1500;

/// What a refusal of a valid module may say: that something isn't there, or a rule that the validator leaves out.
const REASONS: [&str; 4] =
    ["isn't supported", "isn't known", "a composite constant has", "an input that is no built-in variable"];

/// Whether the validator takes a module; none if it isn't installed.
fn is_valid(module: &[u8]) -> Option<bool> {
    let mut command = Command::new("spirv-val");
    command.args(["--target-env", "spv1.6", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    // It may say no before it has read everything.
    let _ = child.stdin.take()?.write_all(module);
    Some(child.wait().ok()?.success())
}

/// A sequence of numbers that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % limit
    }
}

/// The module with one word changed: to another one's value, to a small number, or in a bit.
fn changed(module: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const HEADER: usize = 5;
    let mut words: Vec<u32> =
        module.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let behind = words.len() - HEADER;
    let at = HEADER + numbers.below(behind);
    words[at] = match numbers.below(3) {
        0 => words[HEADER + numbers.below(behind)],
        1 => numbers.below(100) as u32,
        _ => words[at] ^ 1 << numbers.below(32),
    };
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn what_is_valid_is_read_or_refused_by_name() {
    let mut modules = fixtures();
    modules.retain(|(_, bytes)| bytes.len() < MAX_SIZE);
    let valid = modules.iter().filter(|(_, bytes)| is_valid(bytes) == Some(true)).count();
    if is_valid(&[]).is_none() {
        return eprintln!("nothing is compared: there is no spirv-val");
    }
    assert!(valid > 30, "{valid} of {} fixtures are valid", modules.len());
    let mut numbers = Numbers(1);
    let (mut valid, mut read) = (0, 0);
    for number in 0..COUNT {
        let (name, bytes) = &modules[numbers.below(modules.len())];
        let module = changed(bytes, &mut numbers);
        if is_valid(&module) != Some(true) {
            continue;
        }
        valid += 1;
        match to_llvm(&module) {
            Ok(_) => read += 1,
            Err(why) => {
                let is_named = REASONS.iter().any(|reason| why.0.contains(reason));
                assert!(is_named, "module {number}, of {name}, is valid and refused: {why}");
            }
        }
    }
    assert!(read > 100 && valid > read, "{valid} of {COUNT} modules are valid, {read} were read");
}
