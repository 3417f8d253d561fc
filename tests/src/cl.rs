//! The OpenCL client: thin owning wrappers over `cl-sys`, for what most tests need. Whatever tests the API's edges
//! calls the functions directly, through [`call!`](crate::call) and [`create!`](crate::create).

mod device;
mod error;
mod memory;
mod object;
mod program;
mod queue;
pub mod sys;

pub use device::{Context, Device, Platform};
pub use error::{Error, Result, check, code_name};
pub use memory::{Buffer, Image, ImageKind, Sampler};
pub use object::{Object, query, query_list, query_string};
pub use program::{Kernel, Program, SPIR12};
pub use queue::{Event, NdRange, Queue, Transfer};

/// The raw type of every OpenCL handle.
pub type Handle = *mut sys::c_void;

/// cl_khr_spir: CL_DEVICE_SPIR_VERSIONS.
pub const CL_DEVICE_SPIR_VERSIONS: sys::cl_uint = 0x40E0;
/// cl_khr_spir: CL_PROGRAM_BINARY_TYPE_INTERMEDIATE.
pub const CL_PROGRAM_BINARY_TYPE_INTERMEDIATE: sys::cl_uint = 0x40E1;
/// The channel order that cl-sys does not know.
pub const CL_SRGBA: sys::cl_channel_order = 0x10C1;
