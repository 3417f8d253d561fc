//! What kernels print. The files are the way of a record: `buffer` -> `record` -> `format` -> `stdout`.

pub(crate) mod buffer;
mod format;
pub(crate) mod record;
pub(crate) mod stdout;
