//! The entry points, one file per OpenCL object. Each is a safe function that reads as the C function's parameters and
//! the specification's list of errors, every check with the clause that it enforces; `dispatch.rs` names them all.

pub mod command_buffer;
pub mod context;
pub mod device;
pub mod enqueue;
pub mod event;
pub mod image;
pub mod kernel;
pub mod memory;
pub mod pipe;
pub mod platform;
pub mod program;
pub mod queue;
pub mod sampler;
pub mod semaphore;
pub mod sharing;
pub mod sub_device;
pub mod svm;
pub mod usm;

use crate::abi::{Handle, In};
use crate::error::{Status, fail};
use crate::handle::ClObject;
use opencl_sys::cl_int;
use std::collections::HashSet;
use std::fmt::LowerHex;
use std::hash::Hash;

/// `clRetain*` of any object.
pub fn retain<T: ClObject>(object: Handle<T>) -> Status {
    object.get()?.retain()
}

/// `clRelease*` of any object.
pub fn release<T: ClObject>(object: Handle<T>) -> Status {
    object.get()?.release()
}

/// The names and values of a property list. Errors: `code` if the same property name is specified more than once.
pub fn distinct<T: Copy + Default + Eq + Hash + LowerHex>(
    properties: &In<T>,
    code: cl_int,
) -> Status<Vec<(T, T)>> {
    let (pairs, mut seen) = (properties.properties(), HashSet::new());
    match pairs.iter().find(|(name, _)| !seen.insert(*name)) {
        Some((name, _)) => fail(code, format!("property {name:#x} is given more than once")),
        None => Ok(pairs),
    }
}
