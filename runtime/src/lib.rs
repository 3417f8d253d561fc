//! OpenCL's objects behind the C API, and what runs their work-groups. Safe Rust; raw memory and the calls of generated
//! code are in `memory/raw.rs` and `execute/launch.rs`.
//!
//! The rooms, each using those above it:
//!
//! | room | what is in it |
//! |---|---|
//! | `error`, `log`, `trace` | what goes wrong, who is told, and what the user wants to be told |
//! | `machine` | what the operating system tells of CPUs and memory; binding threads to CPUs |
//! | `execute` | running work-groups: threads, launches, code for local sizes, what kernels print |
//! | `isolation` | running them in another process |
//! | `platform` | the platform and its device |
//! | `context` | contexts |
//! | `memory` | buffers, images, samplers, shared virtual memory |
//! | `program` | programs and building them |
//! | `kernel` | kernels and their arguments |
//! | `command` | what a queue can run, checked |
//! | `queue` | queues, events and their callbacks |
//!
//! Objects are [`std::sync::Arc`]s. Whoever holds one keeps it and what it needs alive; reference counts that the
//! application sees belong to the C API.

#![deny(unsafe_code)]

pub mod command;
pub mod context;
pub mod error;
mod execute;
pub mod isolation;
pub mod kernel;
pub mod log;
pub mod machine;
pub mod memory;
pub mod platform;
pub mod program;
pub mod queue;
mod trace;

pub use error::{Error, Result, Status};
pub use spirula_interface::program::{
    AccessQualifier, AddressQualifier, ArgumentInfo, ArgumentKind, ImageKind, KernelInfo, SUB_GROUP_SIZES,
    TypeQualifiers,
};
pub use spirula_interface::spirv;
