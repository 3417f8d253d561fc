//! Errors on their way to C: the status that a function returns, and the sentence that the log and the context's
//! `pfn_notify` get.

use opencl_sys::cl_int;
use spirula_runtime as runtime;
use spirula_runtime::context::Context;
use spirula_runtime::error::code_name;
use spirula_runtime::log;
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// Why a function failed.
#[derive(Clone, Debug)]
pub struct Error {
    /// An OpenCL error code; never CL_SUCCESS.
    pub code: cl_int,
    detail: Cow<'static, str>,
    /// The context that it concerns, if the function's parameters don't tell.
    context: Option<Arc<Context>>,
}

/// What every entry point returns.
pub type Status<T = ()> = Result<T, Error>;

impl Error {
    /// This code, and what was wrong.
    pub fn new(code: cl_int, detail: impl Into<Cow<'static, str>>) -> Error {
        Error { code, detail: detail.into(), context: None }
    }

    /// The same with another code: the one that the specification has for this place.
    pub fn with_code(self, code: cl_int) -> Error {
        Error { code, ..self }
    }

    /// The same, of something in this context.
    pub fn in_context(self, context: &Arc<Context>) -> Error {
        Error { context: Some(context.clone()), ..self }
    }

    /// Tells log and application that a function returns this error. `context` finds the context that the call was about.
    pub fn report(&self, function: &str, context: impl FnOnce() -> Option<Arc<Context>>) {
        let message = format_args!("{function}: {self}");
        match self.context.clone().or_else(context) {
            Some(context) => context.report(message),
            None => log::error(message),
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}: {}", code_name(self.code), self.detail)
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Error::new(error.code(), error.detail)
    }
}

/// This error.
pub fn fail<T>(code: cl_int, detail: impl Into<Cow<'static, str>>) -> Status<T> {
    Err(Error::new(code, detail))
}

/// "`code` if `condition`", as the specification lists a function's errors; `detail` says the condition.
pub fn fail_if(condition: bool, code: cl_int, detail: &'static str) -> Status {
    if condition { fail(code, detail) } else { Ok(()) }
}

/// What must be there, or else is an error.
pub trait OrFail<T> {
    /// The value, or this error.
    fn or_fail(self, code: cl_int, detail: &'static str) -> Status<T>;
}

impl<T> OrFail<T> for Option<T> {
    fn or_fail(self, code: cl_int, detail: &'static str) -> Status<T> {
        self.ok_or_else(|| Error::new(code, detail))
    }
}
