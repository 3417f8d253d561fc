//! Errors of the runtime: OpenCL's status codes, each with a sentence that names what was wrong.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;

/// Declares [`Status`] from one table: variant, code, the name in the headers.
macro_rules! statuses {
    ($($name:ident = $code:literal, $cl:literal;)*) => {
        /// An OpenCL error code (OpenCL 1.2, the tables of each function's errors).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[allow(missing_docs)]
        pub enum Status { $($name = $code,)* }

        impl Status {
            /// The name in the headers, such as `CL_INVALID_VALUE`.
            pub fn name(self) -> &'static str {
                match self { $(Status::$name => $cl,)* }
            }

            /// The status with this code, if it is one of OpenCL's errors.
            pub fn from_code(code: i32) -> Option<Status> {
                match code {
                    $($code => Some(Status::$name),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    DeviceNotFound = -1, "CL_DEVICE_NOT_FOUND";
    DeviceNotAvailable = -2, "CL_DEVICE_NOT_AVAILABLE";
    CompilerNotAvailable = -3, "CL_COMPILER_NOT_AVAILABLE";
    MemObjectAllocationFailure = -4, "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    OutOfResources = -5, "CL_OUT_OF_RESOURCES";
    OutOfHostMemory = -6, "CL_OUT_OF_HOST_MEMORY";
    ProfilingInfoNotAvailable = -7, "CL_PROFILING_INFO_NOT_AVAILABLE";
    MemCopyOverlap = -8, "CL_MEM_COPY_OVERLAP";
    ImageFormatMismatch = -9, "CL_IMAGE_FORMAT_MISMATCH";
    ImageFormatNotSupported = -10, "CL_IMAGE_FORMAT_NOT_SUPPORTED";
    BuildProgramFailure = -11, "CL_BUILD_PROGRAM_FAILURE";
    MapFailure = -12, "CL_MAP_FAILURE";
    MisalignedSubBufferOffset = -13, "CL_MISALIGNED_SUB_BUFFER_OFFSET";
    ExecStatusErrorForEventsInWaitList = -14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    CompileProgramFailure = -15, "CL_COMPILE_PROGRAM_FAILURE";
    LinkerNotAvailable = -16, "CL_LINKER_NOT_AVAILABLE";
    LinkProgramFailure = -17, "CL_LINK_PROGRAM_FAILURE";
    DevicePartitionFailed = -18, "CL_DEVICE_PARTITION_FAILED";
    KernelArgInfoNotAvailable = -19, "CL_KERNEL_ARG_INFO_NOT_AVAILABLE";
    InvalidValue = -30, "CL_INVALID_VALUE";
    InvalidDeviceType = -31, "CL_INVALID_DEVICE_TYPE";
    InvalidPlatform = -32, "CL_INVALID_PLATFORM";
    InvalidDevice = -33, "CL_INVALID_DEVICE";
    InvalidContext = -34, "CL_INVALID_CONTEXT";
    InvalidQueueProperties = -35, "CL_INVALID_QUEUE_PROPERTIES";
    InvalidCommandQueue = -36, "CL_INVALID_COMMAND_QUEUE";
    InvalidHostPtr = -37, "CL_INVALID_HOST_PTR";
    InvalidMemObject = -38, "CL_INVALID_MEM_OBJECT";
    InvalidImageFormatDescriptor = -39, "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR";
    InvalidImageSize = -40, "CL_INVALID_IMAGE_SIZE";
    InvalidSampler = -41, "CL_INVALID_SAMPLER";
    InvalidBinary = -42, "CL_INVALID_BINARY";
    InvalidBuildOptions = -43, "CL_INVALID_BUILD_OPTIONS";
    InvalidProgram = -44, "CL_INVALID_PROGRAM";
    InvalidProgramExecutable = -45, "CL_INVALID_PROGRAM_EXECUTABLE";
    InvalidKernelName = -46, "CL_INVALID_KERNEL_NAME";
    InvalidKernelDefinition = -47, "CL_INVALID_KERNEL_DEFINITION";
    InvalidKernel = -48, "CL_INVALID_KERNEL";
    InvalidArgIndex = -49, "CL_INVALID_ARG_INDEX";
    InvalidArgValue = -50, "CL_INVALID_ARG_VALUE";
    InvalidArgSize = -51, "CL_INVALID_ARG_SIZE";
    InvalidKernelArgs = -52, "CL_INVALID_KERNEL_ARGS";
    InvalidWorkDimension = -53, "CL_INVALID_WORK_DIMENSION";
    InvalidWorkGroupSize = -54, "CL_INVALID_WORK_GROUP_SIZE";
    InvalidWorkItemSize = -55, "CL_INVALID_WORK_ITEM_SIZE";
    InvalidGlobalOffset = -56, "CL_INVALID_GLOBAL_OFFSET";
    InvalidEventWaitList = -57, "CL_INVALID_EVENT_WAIT_LIST";
    InvalidEvent = -58, "CL_INVALID_EVENT";
    InvalidOperation = -59, "CL_INVALID_OPERATION";
    InvalidGlObject = -60, "CL_INVALID_GL_OBJECT";
    InvalidBufferSize = -61, "CL_INVALID_BUFFER_SIZE";
    InvalidMipLevel = -62, "CL_INVALID_MIP_LEVEL";
    InvalidGlobalWorkSize = -63, "CL_INVALID_GLOBAL_WORK_SIZE";
    InvalidProperty = -64, "CL_INVALID_PROPERTY";
    InvalidImageDescriptor = -65, "CL_INVALID_IMAGE_DESCRIPTOR";
    InvalidCompilerOptions = -66, "CL_INVALID_COMPILER_OPTIONS";
    InvalidLinkerOptions = -67, "CL_INVALID_LINKER_OPTIONS";
    InvalidDevicePartitionCount = -68, "CL_INVALID_DEVICE_PARTITION_COUNT";
    InvalidPipeSize = -69, "CL_INVALID_PIPE_SIZE";
    InvalidDeviceQueue = -70, "CL_INVALID_DEVICE_QUEUE";
    InvalidSpecId = -71, "CL_INVALID_SPEC_ID";
    InvalidCommandBuffer = -1138, "CL_INVALID_COMMAND_BUFFER_KHR";
    InvalidSyncPointWaitList = -1139, "CL_INVALID_SYNC_POINT_WAIT_LIST_KHR";
    IncompatibleCommandQueue = -1140, "CL_INCOMPATIBLE_COMMAND_QUEUE_KHR";
    InvalidSemaphore = -1142, "CL_INVALID_SEMAPHORE_KHR";
    InvalidGlSharegroupReference = -1000, "CL_INVALID_GL_SHAREGROUP_REFERENCE_KHR";
}

impl Status {
    /// The `cl_int`; always negative.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// This status with a sentence that says what was wrong.
    pub fn because(self, detail: impl Into<String>) -> Error {
        Error { status: self, detail: detail.into() }
    }
}

/// A `cl_int` in words: its name in the headers, if it has one.
pub fn code_name(code: i32) -> Cow<'static, str> {
    match Status::from_code(code) {
        Some(status) => status.name().into(),
        None => format!("status {code}").into(),
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What every fallible function of the runtime returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {detail}")]
pub struct Error {
    /// What the C API returns.
    pub status: Status,
    /// What was wrong, for logs and the context's error callback.
    pub detail: String,
}

impl Error {
    /// The `cl_int`; always negative.
    pub fn code(&self) -> i32 {
        self.status.code()
    }

    /// What a panic becomes where it is stopped: a fault of Spirula's own.
    pub fn panicked(panic: &(dyn Any + Send)) -> Error {
        Status::OutOfResources.because(format!("a fault in Spirula: {}", panic_text(panic)))
    }
}

/// The runtime's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
