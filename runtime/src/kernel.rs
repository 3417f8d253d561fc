//! Kernels: their arguments, checked as they are set, and what the device says of them.

use crate::error::Result;
use crate::memory::Mem;
use crate::program::Program;
use crate::sampler::Sampler;
use spirula_jit::program::{ArgumentKind, KernelInfo};
use std::sync::Arc;

/// A `cl_kernel`.
#[derive(Debug)]
pub struct Kernel {
    /// CL_KERNEL_PROGRAM.
    pub program: Arc<Program>,
    /// Name, attributes, arguments, work-group facts.
    pub info: Arc<KernelInfo>,
}

/// A value for clSetKernelArg, as [`Kernel::argument_kind`] says it must be read.
#[derive(Clone, Debug)]
pub enum ArgumentValue<'a> {
    /// For `Value`.
    Bytes(&'a [u8]),
    /// For `Buffer` (None: a null pointer) and `Image`.
    Memory(Option<Arc<Mem>>),
    /// For `Sampler`.
    Sampler(Arc<Sampler>),
    /// For `Local`: bytes.
    Local(usize),
}

/// CL_KERNEL_* of clGetKernelWorkGroupInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkGroupInfo {
    /// CL_KERNEL_WORK_GROUP_SIZE.
    pub work_group_size: usize,
    /// CL_KERNEL_COMPILE_WORK_GROUP_SIZE; zeros without the attribute.
    pub compile_work_group_size: [usize; 3],
    /// CL_KERNEL_LOCAL_MEM_SIZE: own variables and the arguments set so far.
    pub local_mem_size: u64,
    /// CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE.
    pub preferred_multiple: usize,
    /// CL_KERNEL_PRIVATE_MEM_SIZE per work-item.
    pub private_mem_size: u64,
}

impl Kernel {
    /// clCreateKernel. CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME.
    pub fn new(program: &Arc<Program>, name: &str) -> Result<Arc<Kernel>> {
        let _ = (program, name);
        todo!()
    }

    /// clCreateKernelsInProgram: all, in the program's order. CL_INVALID_PROGRAM_EXECUTABLE.
    pub fn all(program: &Arc<Program>) -> Result<Vec<Arc<Kernel>>> {
        let _ = program;
        todo!()
    }

    /// How clSetKernelArg must read `arg_value` of `arg_size` bytes, which is NULL or not. CL_INVALID_ARG_INDEX,
    /// CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE.
    pub fn argument_kind(&self, index: usize, size: usize, is_null: bool) -> Result<ArgumentKind> {
        let _ = (index, size, is_null);
        todo!()
    }

    /// Sets an argument. CL_INVALID_ARG_INDEX, CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, CL_INVALID_MEM_OBJECT (a buffer for
    /// an image, another context's, …), CL_INVALID_SAMPLER.
    pub fn set_argument(&self, index: usize, value: ArgumentValue<'_>) -> Result<()> {
        let _ = (index, value);
        todo!()
    }

    /// clGetKernelWorkGroupInfo.
    pub fn work_group_info(&self) -> WorkGroupInfo {
        todo!()
    }
}
