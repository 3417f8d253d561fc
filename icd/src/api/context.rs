//! `cl_context` (OpenCL 1.2, 4.4).

use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::device::{self, Device};
use crate::api::platform::Platform;
use crate::callback::{ContextNotify, ObjectNotify, Opaque};
use crate::error::{Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as Core;
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// A `cl_context`.
pub struct Context {
    /// The context itself.
    pub core: Arc<Core>,
    /// CL_CONTEXT_DEVICES.
    pub devices: Vec<Link<Device>>,
    /// clSetContextDestructorCallback's.
    destructors: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl ClObject for Context {
    const INVALID: cl::cl_int = cl::CL_INVALID_CONTEXT;
}

impl Drop for Context {
    fn drop(&mut self) {
        let destructors = self.destructors.get_mut().unwrap_or_else(PoisonError::into_inner);
        destructors.drain(..).rev().for_each(|destructor| destructor());
    }
}

impl Context {
    /// This context's link to a device. Errors: CL_INVALID_DEVICE if the device is not of this context.
    pub fn device(&self, device: &Handle<Device>) -> Status<Link<Device>> {
        let device = device.get()?;
        self.devices
            .iter()
            .find(|own| own.handle() == device.handle())
            .cloned()
            .map_or_else(|| fail(cl::CL_INVALID_DEVICE), Ok)
    }

    /// The checks of a `num_devices` and `device_list` where none means all of the context's.
    pub fn check_devices(&self, num_devices: u32, device_list: &Handles<Device>) -> Status {
        // CL_INVALID_VALUE if device_list is NULL and num_devices is greater than zero, or if device_list is not NULL and
        // num_devices is zero.
        fail_if(device_list.is_null() != (num_devices == 0), cl::CL_INVALID_VALUE)?;
        self.own_devices(num_devices, device_list)
    }

    /// CL_INVALID_DEVICE if OpenCL devices listed in device_list are not in the list of devices associated with the
    /// context.
    pub fn own_devices(&self, num_devices: u32, device_list: &Handles<Device>) -> Status {
        let own = |device: &Ref<Device>| self.devices.iter().any(|own| own.handle() == device.handle());
        fail_if(!device_list.get(num_devices)?.iter().all(own), cl::CL_INVALID_DEVICE)
    }
}

/// Checks `properties`; returns them as CL_CONTEXT_PROPERTIES tells them.
fn check_properties(properties: &In<cl::cl_context_properties>) -> Status<Vec<isize>> {
    let mut seen = HashSet::new();
    for (name, value) in properties.properties() {
        // CL_INVALID_PROPERTY … if the same property name is specified more than once.
        fail_if(!seen.insert(name), cl::CL_INVALID_PROPERTY)?;
        match name {
            // CL_INVALID_PLATFORM … if platform value specified in properties is not a valid platform.
            cl::CL_CONTEXT_PLATFORM => drop(Ref::<Platform>::find(value as *mut c_void)?),
            // CL_INVALID_PROPERTY … if the value specified for a supported property name is not valid.
            cl::CL_CONTEXT_INTEROP_USER_SYNC => fail_if(!(0..=1).contains(&value), cl::CL_INVALID_PROPERTY)?,
            // CL_INVALID_PROPERTY if context property name in properties is not a supported property name.
            _ => fail(cl::CL_INVALID_PROPERTY)?,
        }
    }
    Ok(properties.property_list())
}

/// The part that both ways to make a context share.
fn new(
    properties: Vec<isize>,
    devices: Vec<Link<Device>>,
    notify: ContextNotify,
    user_data: Opaque,
) -> NewHandle {
    let cores = devices.iter().map(|device| Arc::clone(&device.core)).collect();
    let core = Core::new(cores, properties, notify.bind(user_data));
    NewHandle::new(Context { core, devices, destructors: Mutex::default() })
}

/// clCreateContext.
pub fn create(
    properties: In<cl::cl_context_properties>,
    num_devices: u32,
    devices: Handles<Device>,
    pfn_notify: ContextNotify,
    user_data: Opaque,
) -> Status<NewHandle> {
    let properties = check_properties(&properties)?;
    // CL_INVALID_VALUE if devices is NULL, if num_devices is equal to zero.
    fail_if(devices.is_null() || num_devices == 0, cl::CL_INVALID_VALUE)?;
    // CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
    fail_if(pfn_notify.is_null() && !user_data.is_null(), cl::CL_INVALID_VALUE)?;
    // CL_INVALID_DEVICE if devices contains an invalid device. (Duplicates are ignored.)
    let mut unique: Vec<Link<Device>> = Vec::new();
    for device in devices.get(num_devices)? {
        if unique.iter().all(|seen| seen.handle() != device.handle()) {
            unique.push(device.link()?);
        }
    }
    Ok(new(properties, unique, pfn_notify, user_data))
}

/// clCreateContextFromType.
pub fn create_from_type(
    properties: In<cl::cl_context_properties>,
    device_type: cl::cl_device_type,
    pfn_notify: ContextNotify,
    user_data: Opaque,
) -> Status<NewHandle> {
    let properties = check_properties(&properties)?;
    // CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
    fail_if(pfn_notify.is_null() && !user_data.is_null(), cl::CL_INVALID_VALUE)?;
    // CL_INVALID_DEVICE_TYPE, CL_DEVICE_NOT_FOUND.
    let devices = device::of_type(device_type)?.to_vec();
    Ok(new(properties, devices, pfn_notify, user_data))
}

/// clGetContextInfo.
pub fn get_info(
    context: Handle<Context>,
    param_name: cl::cl_context_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let context = context.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_CONTEXT_REFERENCE_COUNT => answer.value(context.reference_count()),
        cl::CL_CONTEXT_NUM_DEVICES => answer.value(context.devices.len() as u32),
        cl::CL_CONTEXT_DEVICES => answer.objects(&context.devices),
        cl::CL_CONTEXT_PROPERTIES => answer.list(&context.core.properties),
        _ => unknown(),
    })
}

/// clSetContextDestructorCallback (OpenCL 3.0).
pub fn set_destructor_callback(
    context: Handle<Context>,
    pfn_notify: ObjectNotify,
    user_data: Opaque,
) -> Status {
    let context = context.get()?;
    // CL_INVALID_VALUE if pfn_notify is NULL.
    let Some(callback) = pfn_notify.bind(context.handle(), user_data) else {
        return fail(cl::CL_INVALID_VALUE);
    };
    context.destructors.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
    Ok(())
}
