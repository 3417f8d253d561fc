//! Objects into executable memory: the one way in which compiled code enters the application.
//!
//! Each step takes what the one before it made: bytes -> `elf` (an object's parts, checked) -> `image` (places for all
//! objects' parts) -> `memory` (pages to write to) -> `relocate` -> `memory` (the same pages, protected).
//!
//! An object may be forged: it may come out of a program binary. What this promises of any bytes whatever: they are refused
//! with an error, or end up in pages of their own, of a bounded size, that are never writable and executable at once, and
//! every kernel's entry lies in its code. What it can't promise is what that code does when it is called: code is code.
//!
//! `debug` tells debuggers and profilers what lies where, if the user wants it.

#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod debug;
mod elf;
mod error;
mod externals;
mod image;
mod memory;
mod relocate;

use crate::shared::Region;
use crate::variables::Variables;
use elf::Object;
pub use error::{Cause, LoadError};
pub use externals::{External, jumps};
use image::Layout;
pub use image::Limits;
use memory::{Mapped, Writable};
use spirula_interface::program::{CompiledProgram, RawWorkGroupFn};
use std::ops::Range;
use std::sync::Arc;

/// A program in executable memory; released on drop.
#[derive(Debug)]
pub struct LoadedProgram {
    /// Until the code goes; so it stands before that.
    #[cfg(target_arch = "x86_64")]
    known: debug::Known,
    code: Arc<Mapped>,
    /// What the code refers to.
    variables: Option<Arc<Variables>>,
}

impl LoadedProgram {
    /// Where its code lies, and nothing else's.
    pub fn addresses(&self) -> Range<usize> {
        self.code.range()
    }

    /// The line of the source that the code so far into it is of, as `FILE:LINE`, if that is known.
    pub fn line(&self, offset: usize) -> Option<String> {
        let address = self.addresses().start.checked_add(offset)?;
        #[cfg(target_arch = "x86_64")]
        {
            self.known.line(address)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = address;
            None
        }
    }

    /// Where its variables lie, which its code may write to; nowhere if it has none.
    pub fn data(&self) -> Range<usize> {
        self.variables.as_ref().map_or(0..0, |variables| variables.addresses())
    }

    /// Keeps the variables as long as the code.
    pub(crate) fn keep(&mut self, variables: Arc<Variables>) {
        self.variables = Some(variables);
    }
}

/// Puts the objects into executable memory and finds its kernels; their entries are valid while the program lives. They may
/// use these externals besides the functions that all may use, and no more memory than this. If there is a place for what an executor
/// runs, it is loaded there, and the entries are the executor's.
pub fn load(
    compiled: &CompiledProgram,
    externals: &[External],
    limits: Limits,
    place: Option<&Arc<Region>>,
) -> Result<(LoadedProgram, Vec<RawWorkGroupFn>), LoadError> {
    let functions = match place {
        Some(region) => externals::executors_functions(region.addresses().start),
        None => externals::runtime_functions(),
    };
    Ok(link(compiled, &[externals, &functions].concat(), limits, place)?)
}

fn link(
    compiled: &CompiledProgram,
    externals: &[External],
    limits: Limits,
    place: Option<&Arc<Region>>,
) -> Result<(LoadedProgram, Vec<RawWorkGroupFn>), Cause> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Cause::Host);
    }
    let objects: Vec<Object> =
        compiled.objects.iter().map(|bytes| Object::read(bytes)).collect::<Result<_, _>>()?;
    let layout = Layout::new(&objects, externals, limits)?;
    let names: Vec<&str> = compiled.kernels.iter().map(|kernel| kernel.code.symbol.as_str()).collect();
    let places = layout.entries(&names)?;

    let mut memory = Writable::new(layout.size, place)?;
    let address = memory.address();
    layout.fill(memory.bytes(), &objects);
    relocate::relocate(memory.bytes(), address, &layout, &objects)?;
    // What runs elsewhere has no names here.
    let whom = place.map_or_else(|| crate::settings::get().debug, |_| Default::default());
    let bytes = if whom.perf { memory.bytes().to_vec() } else { Vec::new() };
    let mapped = memory.protect(&layout.parts)?;

    let entry =
        |(place, name): (usize, &str)| mapped.function(place).ok_or_else(|| Cause::NoEntry(name.into()));
    let entries = std::iter::zip(places, names).map(entry).collect::<Result<_, _>>()?;
    let code = Arc::new(mapped);
    if whom.perf {
        // Its map has no times: what lay somewhere must stay the only thing that did.
        std::mem::forget(code.clone());
    }
    Ok((
        LoadedProgram {
            #[cfg(target_arch = "x86_64")]
            known: debug::tell(&compiled.objects, &layout, (address, &bytes), whom),
            code,
            variables: None,
        },
        entries,
    ))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
