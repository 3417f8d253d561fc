//! OpenCL's objects behind the C API: devices, contexts, queues, events, memory, programs, kernels, and the scheduler
//! that runs work-groups. Safe Rust; raw memory and the calls of generated code are in [`memory::raw`] and `launch`.
//!
//! Objects are [`std::sync::Arc`]s. Whoever holds one keeps it and what it needs alive; reference counts that the
//! application sees belong to the C API.

#![deny(unsafe_code)]

pub mod affinity;
mod arena;
mod callbacks;
pub mod command;
pub mod context;
pub mod device;
pub mod error;
pub mod event;
pub mod kernel;
mod launch;
mod machine;
pub mod memory;
pub mod platform;
pub mod printf;
pub mod program;
pub mod queue;
pub mod sampler;
mod scheduler;
mod specialize;
pub mod svm;

pub use error::{Error, Result, Status};
pub use spirula_interface::program::{
    AccessQualifier, AddressQualifier, ArgumentInfo, ArgumentKind, ImageKind, KernelInfo, TypeQualifiers,
};
