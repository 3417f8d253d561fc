//! The loader's tests: objects that the compiler made, hand-written ones that use everything, and broken ones.

#![allow(unsafe_code)]

mod compiled;
mod mutants;
mod refused;
mod writer;

use super::load as load_with;
use super::*;
use spirula_interface::program::{KernelCode, KernelInfo, KernelSignature, Launch};

/// Without externals of its own.
fn load(compiled: &CompiledProgram) -> Result<(LoadedProgram, Vec<RawWorkGroupFn>), LoadError> {
    load_with(compiled, &[], Limits::default(), None)
}

/// A program of these objects, whose kernels' functions have these names.
fn program(objects: Vec<Vec<u8>>, symbols: &[&str]) -> CompiledProgram {
    let kernels = symbols.iter().map(|&symbol| KernelInfo {
        signature: KernelSignature { name: symbol.into(), argument_block_size: 8, ..Default::default() },
        code: KernelCode::plain(symbol),
    });
    CompiledProgram { objects, kernels: kernels.collect(), data: Default::default(), log: String::new() }
}

/// Calls a work-group function that takes one pointer, for as many groups as `data` has elements.
fn call<T>(entry: RawWorkGroupFn, data: &mut [T]) {
    let end = data.len() as u64;
    let launch = Launch::whole(1, [0; 3], [end, 1, 1], [1; 3]);
    let arguments = data.as_mut_ptr();
    let none = std::ptr::null_mut();
    // SAFETY: the tests' functions touch `data` only, and no local memory or scratch.
    unsafe { entry((&raw const arguments).cast(), &launch, 0, end, none, none) };
}
