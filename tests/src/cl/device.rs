//! Platforms, devices and contexts.

use super::object::object;
use super::{Handle, Object, Result, query, query_list, query_string};
use crate::cl::sys::*;
use crate::{call, create};
use bytemuck::Pod;
use std::ffi::CStr;
use std::mem::transmute_copy;
use std::ptr::null_mut;

/// A platform; never released.
#[derive(Clone, Copy, Debug)]
pub struct Platform(Handle);

/// A root device; never released.
#[derive(Clone, Copy, Debug)]
pub struct Device(Handle);

// SAFETY: a root device's handle lives as long as the process and may be used on any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Object for Platform {
    fn raw(&self) -> Handle {
        self.0
    }
}

impl Object for Device {
    fn raw(&self) -> Handle {
        self.0
    }
}

impl Platform {
    /// Every platform that the loader finds.
    pub fn all() -> Result<Vec<Platform>> {
        let mut count = 0;
        call!(clGetPlatformIDs(0, null_mut(), &mut count))?;
        let mut handles = vec![null_mut(); count as usize];
        call!(clGetPlatformIDs(count, handles.as_mut_ptr(), null_mut()))?;
        Ok(handles.into_iter().map(Platform).collect())
    }

    /// The only platform; panics if the loader finds another number, for then the wrong one may be under test.
    pub fn only() -> Platform {
        let all = Platform::all().expect("the loader finds a platform");
        assert_eq!(all.len(), 1, "the loader must find exactly the platform under test");
        all[0]
    }

    /// A string property.
    pub fn info_string(&self, name: cl_uint) -> Result<String> {
        query_string(|size, value, needed| call!(clGetPlatformInfo(self.0, name, size, value, needed)))
    }

    /// Its devices of all types.
    pub fn devices(&self) -> Result<Vec<Device>> {
        let mut count = 0;
        call!(clGetDeviceIDs(self.0, CL_DEVICE_TYPE_ALL, 0, null_mut(), &mut count))?;
        let mut handles = vec![null_mut(); count as usize];
        call!(clGetDeviceIDs(self.0, CL_DEVICE_TYPE_ALL, count, handles.as_mut_ptr(), null_mut()))?;
        Ok(handles.into_iter().map(Device).collect())
    }
}

impl Device {
    /// The first device of the platform under test.
    pub fn first() -> Device {
        Platform::only().devices().expect("the platform has a device")[0]
    }

    /// A fixed-size property.
    pub fn info<T: Pod>(&self, name: cl_uint) -> Result<T> {
        query(|size, value, needed| call!(clGetDeviceInfo(self.0, name, size, value, needed)))
    }

    /// A string property.
    pub fn info_string(&self, name: cl_uint) -> Result<String> {
        query_string(|size, value, needed| call!(clGetDeviceInfo(self.0, name, size, value, needed)))
    }

    /// A list property.
    pub fn info_list<T: Pod>(&self, name: cl_uint) -> Result<Vec<T>> {
        query_list(|size, value, needed| call!(clGetDeviceInfo(self.0, name, size, value, needed)))
    }

    /// A function of an extension that the device has, of the type that its name has in the headers.
    pub fn function<F>(&self, name: &CStr) -> F {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let platform: cl_platform_id = self.info::<usize>(CL_DEVICE_PLATFORM).expect("a platform") as _;
        // SAFETY: the platform lives, and the name ends with a zero.
        let address = unsafe { clGetExtensionFunctionAddressForPlatform(platform, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        // SAFETY: the callers name the type that the extension gives this function, a pointer to one.
        unsafe { transmute_copy(&address) }
    }

    /// Whether the device's extension string names this one.
    pub fn has_extension(&self, name: &str) -> bool {
        self.info_string(CL_DEVICE_EXTENSIONS).is_ok_and(|list| list.split_whitespace().any(|e| e == name))
    }
}

object!(
    /// A context of one device.
    Context, clRetainContext, clReleaseContext, clGetContextInfo
);

impl Context {
    /// A context for this device alone.
    pub fn new(device: Device) -> Result<Context> {
        let handle = create!(clCreateContext(std::ptr::null(), 1, &device.raw(), None, null_mut()))?;
        Ok(Context::from_raw(handle))
    }
}
