//! Which build of Spirula this is: library and compiler must be of one, and so must a program binary and who loads it.

/// The version and a hash of all sources that decide what compiled code looks like and how it is called. Stated here
/// alone: the compiler's greeting, program binaries and CL_DRIVER_VERSION all quote it.
pub const BUILD: &str = env!("SPIRULA_BUILD");
