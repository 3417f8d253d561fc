//! Status codes on their way to C.

use opencl_sys::cl_int;
use spirula_runtime as runtime;

/// An OpenCL error code; never CL_SUCCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub cl_int);

/// What every entry point returns.
pub type Status<T = ()> = Result<T, Code>;

impl From<runtime::Error> for Code {
    fn from(error: runtime::Error) -> Self {
        Code(error.code())
    }
}

/// This error.
pub fn fail<T>(code: cl_int) -> Status<T> {
    Err(Code(code))
}

/// "`code` if `condition`", as the specification lists a function's errors.
pub fn fail_if(condition: bool, code: cl_int) -> Status {
    if condition { fail(code) } else { Ok(()) }
}
