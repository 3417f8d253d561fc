//! libspirula.so: the OpenCL C API. Validates, calls `runtime`, maps errors.
//!
//! An application's ICD loader finds [`clIcdGetPlatformIDsKHR`], the platform's handle leads it to the dispatch table
//! (`dispatch.rs`), whose slots are the functions of `api/`, made callable from C by `abi.rs`.

mod abi;
mod api;
mod callback;
mod dispatch;
mod error;
mod handle;
mod info;
#[cfg(test)]
mod tests;

use crate::dispatch::DISPATCH;
use opencl_sys::{CL_INVALID_PLATFORM, cl_int, cl_platform_id, cl_platform_info, cl_uint};
use std::ffi::{c_char, c_void};

/// How the ICD loader finds the other function, and applications find extensions' functions.
///
/// Calls go through the table, not by name: the loader exports the same names, and the dynamic linker would prefer its.
///
/// # Safety
/// As OpenCL says: `func_name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetExtensionFunctionAddress(func_name: *const c_char) -> *mut c_void {
    match DISPATCH.clGetExtensionFunctionAddress {
        // SAFETY: the same contract.
        Some(function) => unsafe { function(func_name) },
        None => std::ptr::null_mut(),
    }
}

/// cl_khr_icd: how the ICD loader finds the platform.
///
/// # Safety
/// As OpenCL says of `clGetPlatformIDs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clIcdGetPlatformIDsKHR(
    num_entries: cl_uint,
    platforms: *mut cl_platform_id,
    num_platforms: *mut cl_uint,
) -> cl_int {
    match DISPATCH.clGetPlatformIDs {
        // SAFETY: the same contract.
        Some(function) => unsafe { function(num_entries, platforms, num_platforms) },
        None => CL_INVALID_PLATFORM,
    }
}

/// Some loaders look for this one by name, too.
///
/// # Safety
/// As OpenCL says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformInfo(
    platform: cl_platform_id,
    param_name: cl_platform_info,
    param_value_size: usize,
    param_value: *mut c_void,
    param_value_size_ret: *mut usize,
) -> cl_int {
    match DISPATCH.clGetPlatformInfo {
        // SAFETY: the same contract.
        Some(function) => unsafe {
            function(platform, param_name, param_value_size, param_value, param_value_size_ret)
        },
        None => CL_INVALID_PLATFORM,
    }
}
