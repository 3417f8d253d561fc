//! Forged program binaries: damaged ones whose checksum was computed anew, so that it no longer protects anything. They
//! are refused with CL_INVALID_BINARY or yield a program that can be asked everything; only launching it is not tried,
//! for its machine code may be anything. `SPIRULA_FORGED=100000` tries that many instead of 5000.

use crate::setup::Setup;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Kernel, Program, code_name};
use spirula_tests::isolate::{Outcome, Test};
use spirula_tests::mutate::{Random, mutant};
use std::env;
use std::ops::Range;

/// Mutants of a test.
const BATCH: u64 = 1000;
/// Mutants altogether, if nothing else is said.
const MUTANTS: u64 = 5 * BATCH;

/// Of five batches, one has damage anywhere, the others to what is trusted most.
pub fn tests() -> Vec<Test> {
    let mutants = env::var("SPIRULA_FORGED").ok().and_then(|n| n.parse().ok()).unwrap_or(MUTANTS);
    let first = Test::new("forged::checksums_are_computed_anew", checksums_are_computed_anew);
    let batches = (0..mutants).step_by(BATCH as usize).enumerate().map(|(number, from)| {
        let seeds = from..(from + BATCH).min(mutants);
        let (name, body): (_, fn(Range<u64>) -> Outcome) = if number % 5 == 4 {
            ("anywhere", anywhere)
        } else {
            ("objects_and_descriptions", objects_and_descriptions)
        };
        Test::new(format!("forged::{name}_{from:06}"), move || body(seeds.clone()))
    });
    [first].into_iter().chain(batches).collect()
}

/// Where the checksum is, and what it is the checksum of.
const CHECKSUM: usize = 8;
const BODY: usize = 16;

/// Executables with buffers, values of all sizes, images, samplers, local memory and printf.
const FIXTURES: [&str; 5] = ["vadd.bc64", "args.bc64", "images.bc64", "localmem.bc64", "printf_as2.bc64"];

fn executables(setup: &Setup) -> Vec<Vec<u8>> {
    let binary = |name: &&str| setup.program(&format!("spir12/{name}")).binary().expect("a binary");
    FIXTURES.iter().map(binary).collect()
}

/// The container's checksum; see `runtime/src/program/container.rs`.
fn checksum(body: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x100_0000_01b3);
        mixed ^ mixed >> 32
    };
    let (words, rest) = body.as_chunks::<8>();
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(mix(hash, body.len() as u64), |hash, &byte| mix(hash, byte.into()))
}

fn forge(mut container: Vec<u8>) -> Vec<u8> {
    if container.len() >= BODY {
        let sum = checksum(&container[BODY..]);
        container[CHECKSUM..BODY].copy_from_slice(&sum.to_le_bytes());
    }
    container
}

/// Where the first object begins, behind the SPIR that it was made of; kernels' descriptions follow.
fn object(container: &[u8]) -> usize {
    container.windows(4).position(|bytes| bytes == b"\x7fELF").expect("an object")
}

#[derive(Debug, Default)]
struct Fates {
    not_made: usize,
    not_built: usize,
    built: usize,
}

impl Fates {
    /// Makes, builds and asks a program.
    fn meet(&mut self, setup: &Setup, binary: &[u8]) -> Outcome {
        let program = match Program::from_binary(&setup.context, setup.device, binary) {
            Ok(program) => program,
            Err(error) if error.code == CL_INVALID_BINARY => {
                self.not_made += 1;
                return Ok(());
            }
            Err(error) => return Err(format!("making it: {}", code_name(error.code)).into()),
        };
        match program.build("") {
            Ok(()) => self.built += 1,
            Err(error) if error.code == CL_INVALID_BINARY => {
                assert!(!program.log(setup.device)?.is_empty(), "refused without a word");
                self.not_built += 1;
                return Ok(());
            }
            Err(error) => return Err(format!("building it: {}", code_name(error.code)).into()),
        }
        program.log(setup.device)?;
        program.binary()?;
        program.info_string(CL_PROGRAM_KERNEL_NAMES)?;
        program.kernels()?.iter().try_for_each(|kernel| ask(setup, kernel))
    }
}

/// Asks a kernel everything, and sets its arguments as far as it takes them.
fn ask(setup: &Setup, kernel: &Kernel) -> Outcome {
    kernel.info_string(CL_KERNEL_FUNCTION_NAME)?;
    kernel.info_string(CL_KERNEL_ATTRIBUTES)?;
    for name in [CL_KERNEL_LOCAL_MEM_SIZE, CL_KERNEL_PRIVATE_MEM_SIZE] {
        kernel.work_group_info::<u64>(setup.device, name)?;
    }
    assert!(kernel.work_group_info::<usize>(setup.device, CL_KERNEL_WORK_GROUP_SIZE)? > 0);
    kernel.work_group_info::<[usize; 3]>(setup.device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?;
    for index in 0..kernel.info::<u32>(CL_KERNEL_NUM_ARGS)?.min(100) {
        // Not every kernel's arguments have names.
        let _ = kernel.arg_info_string(index, CL_KERNEL_ARG_NAME);
        kernel.arg_info_string(index, CL_KERNEL_ARG_TYPE_NAME)?;
        // Only those of a fitting size and kind are taken.
        let _ = kernel.set_local(index, 64);
        for size in [1, 2, 4, 8, 16, 128] {
            let _ = kernel.set_bytes(index, &[0; 128][..size]);
        }
    }
    kernel.work_group_info::<u64>(setup.device, CL_KERNEL_LOCAL_MEM_SIZE)?;
    Ok(())
}

fn checksums_are_computed_anew() -> Outcome {
    let setup = Setup::new();
    for container in executables(&setup) {
        assert_eq!(forge(container.clone()), container, "the container's checksum is another one now");
        let mut fates = Fates::default();
        fates.meet(&setup, &container)?;
        assert_eq!(fates.built, 1);
        let mut damaged = container.clone();
        damaged[BODY] ^= 1;
        fates.meet(&setup, &damaged)?;
        assert_eq!(fates.not_made, 1);
    }
    Ok(())
}

/// Damage to what the compiler made: objects, kernels' descriptions, the log.
fn objects_and_descriptions(seeds: Range<u64>) -> Outcome {
    let setup = Setup::new();
    let containers = executables(&setup);
    let starts: Vec<usize> = containers.iter().map(|container| object(container)).collect();
    let ends: Vec<Vec<u8>> =
        std::iter::zip(&containers, &starts).map(|(container, &start)| container[start..].to_vec()).collect();
    let mut fates = Fates::default();
    for seed in seeds {
        eprintln!("mutant {seed}"); // The last line before a crash.
        let which = Random::new(seed).below(containers.len());
        let end = mutant(&ends[which..=which], seed);
        let forged = forge([&containers[which][..starts[which]], &end].concat());
        fates.meet(&setup, &forged)?;
    }
    let Fates { not_made, not_built, built } = fates;
    assert!(not_made > 20 && not_built > 20 && built > 20, "{fates:?}");
    Ok(())
}

/// Damage anywhere, the lengths of its parts and the SPIR included.
fn anywhere(seeds: Range<u64>) -> Outcome {
    let setup = Setup::new();
    let containers = executables(&setup);
    let mut fates = Fates::default();
    for seed in seeds {
        eprintln!("mutant {seed}");
        fates.meet(&setup, &forge(mutant(&containers, seed)))?;
    }
    assert!(fates.not_made > 20 && fates.built > 20, "{fates:?}");
    Ok(())
}
