//! What all OpenCL objects share: a handle released on drop, and information queries.

use super::{Handle, Result};
use crate::cl::sys::{c_void, size_t};
use bytemuck::Pod;

/// Anything with an OpenCL handle.
pub trait Object {
    /// The handle, valid while `self` lives.
    fn raw(&self) -> Handle;
}

/// Calls a function that returns a status; gives `Err` with its name when the status is negative.
#[macro_export]
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: pointers among the arguments outlive the call; everything else the API must check itself.
        #[allow(clippy::macro_metavars_in_unsafe)]
        let code = unsafe { $crate::cl::sys::$function($($argument),*) };
        $crate::cl::check(stringify!($function), code)
    }};
}

/// Calls a function whose last argument is `errcode_ret`; gives its result, or `Err` with its name.
#[macro_export]
macro_rules! create {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut code = 0;
        // SAFETY: pointers among the arguments outlive the call; everything else the API must check itself.
        #[allow(clippy::macro_metavars_in_unsafe)]
        let result = unsafe { $crate::cl::sys::$function($($argument,)* &mut code) };
        $crate::cl::check(stringify!($function), code).map(|()| result)
    }};
}

/// Declares an owning wrapper with its retain, release and information functions.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $retain:ident, $release:ident, $info:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($crate::cl::Handle);

        // SAFETY: OpenCL's functions are thread-safe for all objects but kernels' arguments, which tests set from one thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// Takes over one reference of a handle that an OpenCL call returned.
            pub fn from_raw(handle: $crate::cl::Handle) -> Self {
                $name(handle)
            }

            /// A fixed-size property.
            pub fn info<T: bytemuck::Pod>(&self, name: $crate::cl::sys::cl_uint) -> $crate::cl::Result<T> {
                $crate::cl::query(|size, value, needed| $crate::call!($info(self.0, name, size, value, needed)))
            }

            /// A string property.
            pub fn info_string(&self, name: $crate::cl::sys::cl_uint) -> $crate::cl::Result<String> {
                $crate::cl::query_string(|size, value, needed| $crate::call!($info(self.0, name, size, value, needed)))
            }

            /// A list property.
            pub fn info_list<T: bytemuck::Pod>(&self, name: $crate::cl::sys::cl_uint) -> $crate::cl::Result<Vec<T>> {
                $crate::cl::query_list(|size, value, needed| $crate::call!($info(self.0, name, size, value, needed)))
            }
        }

        impl $crate::cl::Object for $name {
            fn raw(&self) -> $crate::cl::Handle {
                self.0
            }
        }

        impl Clone for $name {
            fn clone(&self) -> Self {
                $crate::call!($retain(self.0)).expect("a live object can be retained");
                $name(self.0)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                let _ = $crate::call!($release(self.0));
            }
        }
    };
}
pub(super) use object;

/// Runs an information query for a value of `T`'s size.
pub fn query<T: Pod>(call: impl Fn(size_t, *mut c_void, *mut size_t) -> Result<()>) -> Result<T> {
    let mut value = T::zeroed();
    let mut size = 0;
    call(size_of::<T>(), (&raw mut value).cast(), &mut size)?;
    assert_eq!(size, size_of::<T>(), "the query must say the size that it wrote");
    Ok(value)
}

/// Runs an information query for a list: once for its size, once for its elements.
pub fn query_list<T: Pod>(call: impl Fn(size_t, *mut c_void, *mut size_t) -> Result<()>) -> Result<Vec<T>> {
    let mut size = 0;
    call(0, std::ptr::null_mut(), &mut size)?;
    assert_eq!(size % size_of::<T>(), 0, "the list's size must be a multiple of its elements'");
    let mut list = vec![T::zeroed(); size / size_of::<T>()];
    if size > 0 {
        call(size, list.as_mut_ptr().cast(), std::ptr::null_mut())?;
    }
    Ok(list)
}

/// Runs an information query for a string and takes off its terminating zero.
pub fn query_string(call: impl Fn(size_t, *mut c_void, *mut size_t) -> Result<()>) -> Result<String> {
    let mut bytes: Vec<u8> = query_list(call)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
