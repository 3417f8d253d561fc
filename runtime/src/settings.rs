//! Settings that a user gives in the environment. A set-uid program, whose user is not its owner, ignores them all.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;

unsafe extern "C" {
    /// The C library's `getenv`, which finds nothing in a program that runs with other rights than its user's.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// An environment variable's value, if it is set and this program may heed it.
pub(crate) fn variable(name: &CStr) -> Option<OsString> {
    // SAFETY: the name is a C string. The value is copied at once; that no other thread changes the environment meanwhile
    // is what C asks of every program.
    let value = unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    value.map(|value| OsStr::from_bytes(value.to_bytes()).to_owned())
}
