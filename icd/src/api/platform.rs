//! `cl_platform_id` (OpenCL 1.2, 4.1; cl_khr_icd).

use crate::abi::{Handle, HostMut, Out, Text};
use crate::api::device::Device;
use crate::api::semaphore;
use crate::dispatch;
use crate::error::Status;
use crate::handle::{ClObject, Link};
use crate::info::{self, query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::platform::{Extension, Platform as Core};
use std::ffi::c_void;
use std::sync::{Arc, LazyLock};

/// A `cl_platform_id`: there is one.
pub struct Platform {
    /// Its root devices, which live as long as the process.
    pub devices: Vec<Link<Device>>,
}

impl ClObject for Platform {
    const NAME: &'static str = "cl_platform_id";
    const INVALID: cl::cl_int = cl::CL_INVALID_PLATFORM;
    fn context(&self) -> Option<Arc<CoreContext>> {
        None
    }
}

/// The platform, made when the application first asks for it.
pub static PLATFORM: LazyLock<Link<Platform>> = LazyLock::new(|| {
    let devices = Core::get().devices().iter();
    Link::to_new(Platform {
        devices: devices
            .map(|core| Link::to_new(Device { core: Arc::clone(core), partition: None }))
            .collect(),
    })
});

impl Platform {
    /// The platform that a function's parameter names.
    ///
    /// Errors: CL_INVALID_PLATFORM if platform is not a valid platform. NULL may be anything ("implementation-defined"):
    /// here it is the one there is.
    pub fn named(platform: &Handle<Platform>) -> Status {
        if platform.is_null() { Ok(()) } else { platform.get().map(|_| ()) }
    }
}

/// The value of CL_PLATFORM_EXTENSIONS and CL_DEVICE_EXTENSIONS.
pub fn names(extensions: &[Extension]) -> String {
    extensions.iter().map(|extension| extension.name).collect::<Vec<_>>().join(" ")
}

/// clGetPlatformIDs, and cl_khr_icd's clIcdGetPlatformIDsKHR.
pub fn get_ids(num_entries: u32, platforms: Out<*mut c_void>, num_platforms: Out<u32>) -> Status {
    // CL_INVALID_VALUE if num_entries is equal to zero and platforms is not NULL or if both num_platforms and platforms
    // are NULL.
    info::list_or_count(&[PLATFORM.handle()], num_entries, &platforms, &num_platforms)
}

/// clGetPlatformInfo.
pub fn get_info(
    platform: Handle<Platform>,
    param_name: cl::cl_platform_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    Platform::named(&platform)?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_PLATFORM_PROFILE => answer.text("FULL_PROFILE"),
        cl::CL_PLATFORM_VERSION => answer.text(Core::VERSION),
        cl::CL_PLATFORM_NAME => answer.text(Core::NAME),
        cl::CL_PLATFORM_VENDOR => answer.text(Core::VENDOR),
        cl::CL_PLATFORM_EXTENSIONS => answer.text(&names(Core::get().extensions())),
        cl::CL_PLATFORM_NUMERIC_VERSION => answer.version(Core::NUMERIC_VERSION),
        cl::CL_PLATFORM_EXTENSIONS_WITH_VERSION => answer.versions(Core::get().extensions()),
        cl::CL_PLATFORM_HOST_TIMER_RESOLUTION => answer.value(1_u64),
        cl::CL_PLATFORM_SEMAPHORE_TYPES_KHR => answer.list(&semaphore::TYPES),
        cl::CL_PLATFORM_ICD_SUFFIX_KHR => answer.text(Core::ICD_SUFFIX),
        _ => unknown(param_name),
    })
}

/// clUnloadCompiler: a hint, and there is nothing to be won by heeding it.
pub fn unload_compiler() -> Status {
    Ok(())
}

/// clUnloadPlatformCompiler.
pub fn unload_platform_compiler(platform: Handle<Platform>) -> Status {
    // CL_INVALID_PLATFORM if platform is not a valid platform.
    platform.get()?;
    unload_compiler()
}

/// clGetExtensionFunctionAddress: null for a name that there isn't.
pub fn extension_function(func_name: Text) -> Status<*mut c_void> {
    Ok(dispatch::function(func_name.bytes()))
}

/// clGetExtensionFunctionAddressForPlatform.
pub fn extension_function_for(platform: Handle<Platform>, func_name: Text) -> Status<*mut c_void> {
    platform.get()?;
    extension_function(func_name)
}
