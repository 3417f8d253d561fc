//! Programs: what was given, what was built of it, and the logs.

pub mod options;

use crate::context::Context;
use crate::error::Result;
use std::sync::Arc;

/// Called when an asynchronous build, compilation or link has ended.
pub type BuildNotify = Box<dyn FnOnce() + Send>;

/// A `cl_program` (for the context's one device).
#[derive(Debug)]
pub struct Program {
    /// CL_PROGRAM_CONTEXT.
    pub context: Arc<Context>,
    /// CL_PROGRAM_SOURCE; empty for other programs.
    pub source: String,
}

/// `cl_build_status`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum BuildStatus {
    Success = 0,
    None = -1,
    Error = -2,
    InProgress = -3,
}

/// `cl_program_binary_type`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum BinaryType {
    None = 0,
    CompiledObject = 1,
    Library = 2,
    Executable = 4,
    /// cl_khr_spir: SPIR, not yet built.
    Intermediate = 0x40E1,
}

impl Program {
    /// clCreateProgramWithSource, the strings joined.
    pub fn with_source(context: &Arc<Context>, source: String) -> Arc<Program> {
        let _ = (context, source);
        todo!()
    }

    /// clCreateProgramWithBinary for one device: SPIR bitcode or what [`Program::binary`] gave. CL_INVALID_BINARY.
    pub fn with_binary(context: &Arc<Context>, binary: &[u8]) -> Result<Arc<Program>> {
        let _ = (context, binary);
        todo!()
    }

    /// clBuildProgram. With `notify` it returns at once and works in the background; the errors about arguments and state
    /// come directly. Errors: CL_INVALID_BUILD_OPTIONS, CL_INVALID_OPERATION (kernels exist, or a build is running),
    /// CL_INVALID_BINARY, CL_COMPILER_NOT_AVAILABLE, CL_BUILD_PROGRAM_FAILURE.
    pub fn build(self: &Arc<Program>, options: &str, notify: Option<BuildNotify>) -> Result<()> {
        let _ = (options, notify);
        todo!()
    }

    /// clCompileProgram; `headers` are names and programs. Errors as `build`'s with CL_INVALID_COMPILER_OPTIONS and
    /// CL_COMPILE_PROGRAM_FAILURE.
    pub fn compile(
        self: &Arc<Program>,
        options: &str,
        headers: &[(String, Arc<Program>)],
        notify: Option<BuildNotify>,
    ) -> Result<()> {
        let _ = (options, headers, notify);
        todo!()
    }

    /// clLinkProgram. The outer error is about arguments (CL_INVALID_LINKER_OPTIONS, CL_INVALID_OPERATION): no program.
    /// The inner one is CL_LINK_PROGRAM_FAILURE, whose program has the log.
    pub fn link(
        context: &Arc<Context>,
        options: &str,
        inputs: &[Arc<Program>],
        notify: Option<Box<dyn FnOnce(&Arc<Program>) + Send>>,
    ) -> Result<(Arc<Program>, Result<()>)> {
        let _ = (context, options, inputs, notify);
        todo!()
    }

    /// CL_PROGRAM_BUILD_STATUS.
    pub fn build_status(&self) -> BuildStatus {
        todo!()
    }

    /// CL_PROGRAM_BUILD_OPTIONS: of the last build, compilation or link.
    pub fn build_options(&self) -> String {
        todo!()
    }

    /// CL_PROGRAM_BUILD_LOG.
    pub fn build_log(&self) -> String {
        todo!()
    }

    /// CL_PROGRAM_BINARY_TYPE.
    pub fn binary_type(&self) -> BinaryType {
        todo!()
    }

    /// CL_PROGRAM_BINARIES: our container, or the SPIR as it was given while nothing is built; empty for an unbuilt source.
    pub fn binary(&self) -> Arc<[u8]> {
        todo!()
    }

    /// CL_PROGRAM_KERNEL_NAMES and CL_PROGRAM_NUM_KERNELS. CL_INVALID_PROGRAM_EXECUTABLE without a built executable.
    pub fn kernel_names(&self) -> Result<Vec<String>> {
        todo!()
    }
}
