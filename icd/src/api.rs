//! The entry points, one file per OpenCL object. Each is a safe function that reads as the C function's parameters and
//! the specification's list of errors, every check under the clause it enforces; `dispatch.rs` names them all.

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
pub mod sharing;
pub mod sub_device;
pub mod svm;

use crate::abi::Handle;
use crate::error::Status;
use crate::handle::ClObject;

/// `clRetain*` of any object.
pub fn retain<T: ClObject>(object: Handle<T>) -> Status {
    object.get()?.retain()
}

/// `clRelease*` of any object.
pub fn release<T: ClObject>(object: Handle<T>) -> Status {
    object.get()?.release()
}
