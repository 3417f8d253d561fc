//! `cl_context` (OpenCL 1.2, 4.4).

use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::device::{self, Device};
use crate::api::distinct;
use crate::api::platform::Platform;
use crate::api::queue::Queue;
use crate::api::usm::Allocations;
use crate::callback::{ContextNotify, ObjectNotify, Opaque};
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::{Context as CoreContext, Listener};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// A `cl_context`.
pub struct Context {
    /// The context itself.
    pub core: Arc<CoreContext>,
    /// CL_CONTEXT_DEVICES.
    pub devices: Vec<Link<Device>>,
    /// Whom it tells of errors and of its end: that it lives no longer than this.
    listener: Arc<Listener>,
    /// Queues on its devices.
    pub on_device: Remembered,
    /// Queues of the host.
    pub queues: Remembered,
    /// Allocations of cl_intel_unified_shared_memory.
    pub usm: Allocations,
}

/// Handles of queues; some may be gone.
#[derive(Default)]
pub struct Remembered(Mutex<Vec<usize>>);

impl Remembered {
    /// Handles that were remembered.
    pub fn all(&self) -> Vec<*mut c_void> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().map(|&address| std::ptr::without_provenance_mut(address)).collect()
    }

    /// Remembers a queue's handle.
    pub fn add(&self, handle: *mut c_void) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|&address| Ref::<Queue>::find(std::ptr::without_provenance_mut(address)).is_ok());
        if !list.contains(&handle.addr()) {
            list.push(handle.addr());
        }
    }
}

impl ClObject for Context {
    const NAME: &'static str = "cl_context";
    const INVALID: cl::cl_int = cl::CL_INVALID_CONTEXT;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.clone())
    }
}

impl Context {
    /// This context's link to a device. Errors: CL_INVALID_DEVICE if the device is not of this context.
    pub fn device(&self, device: &Handle<Device>) -> Status<Link<Device>> {
        let device = device.get()?;
        let own = self.devices.iter().find(|own| own.handle() == device.handle()).cloned();
        own.or_fail(cl::CL_INVALID_DEVICE, "the device is none of the context's")
    }

    /// The checks of a `num_devices` and `device_list` where none means all of the context's.
    pub fn check_devices(&self, num_devices: u32, device_list: &Handles<Device>) -> Status {
        fail_if(
            device_list.is_null() != (num_devices == 0),
            cl::CL_INVALID_VALUE,
            "device_list is NULL and num_devices greater than 0, or the other way round",
        )?;
        self.own_devices(num_devices, device_list)
    }

    /// Whether all of these devices are the context's. Errors: CL_INVALID_DEVICE.
    pub fn own_devices(&self, num_devices: u32, device_list: &Handles<Device>) -> Status {
        let own = |device: &Ref<Device>| self.devices.iter().any(|own| own.handle() == device.handle());
        let all_own = device_list.get(num_devices)?.iter().all(own);
        fail_if(!all_own, cl::CL_INVALID_DEVICE, "device_list has a device that is none of the context's")
    }
}

/// CL_INVALID_VALUE if pfn_notify is NULL but user_data is not NULL.
pub fn check_notify(is_null: bool, user_data: Opaque) -> Status {
    let lost = is_null && !user_data.is_null();
    fail_if(lost, cl::CL_INVALID_VALUE, "pfn_notify is NULL, but user_data is not")
}

/// Checks `properties`; returns them as CL_CONTEXT_PROPERTIES tells them.
fn check_properties(properties: &In<cl::cl_context_properties>) -> Status<Vec<isize>> {
    for (name, value) in distinct(properties, cl::CL_INVALID_PROPERTY)? {
        match name {
            // CL_INVALID_PLATFORM … if platform value specified in properties is not a valid platform.
            cl::CL_CONTEXT_PLATFORM => drop(Ref::<Platform>::find(value as *mut c_void)?),
            cl::CL_CONTEXT_INTEROP_USER_SYNC => fail_if(
                !(0..=1).contains(&value),
                cl::CL_INVALID_PROPERTY,
                "CL_CONTEXT_INTEROP_USER_SYNC is neither CL_TRUE nor CL_FALSE",
            )?,
            _ => fail(cl::CL_INVALID_PROPERTY, format!("property {name:#x} is not supported"))?,
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
) -> Status<NewHandle> {
    let cores = devices.iter().map(|device| Arc::clone(&device.core)).collect();
    let listener = Listener::new(notify.bind(user_data));
    let core = CoreContext::new(cores, properties, &listener)?;
    Ok(NewHandle::new(Context {
        core,
        devices,
        listener,
        on_device: Remembered::default(),
        queues: Remembered::default(),
        usm: Allocations::default(),
    }))
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
    let no_device = devices.is_null() || num_devices == 0;
    fail_if(no_device, cl::CL_INVALID_VALUE, "devices is NULL or num_devices is 0")?;
    check_notify(pfn_notify.is_null(), user_data)?;
    // CL_INVALID_DEVICE if devices contains an invalid device. (Duplicates are ignored.)
    let mut unique: Vec<Link<Device>> = Vec::new();
    for device in devices.get(num_devices)? {
        if unique.iter().all(|seen| seen.handle() != device.handle()) {
            unique.push(device.link()?);
        }
    }
    new(properties, unique, pfn_notify, user_data)
}

/// clCreateContextFromType.
pub fn create_from_type(
    properties: In<cl::cl_context_properties>,
    device_type: cl::cl_device_type,
    pfn_notify: ContextNotify,
    user_data: Opaque,
) -> Status<NewHandle> {
    let properties = check_properties(&properties)?;
    check_notify(pfn_notify.is_null(), user_data)?;
    // CL_INVALID_DEVICE_TYPE, CL_DEVICE_NOT_FOUND.
    let devices = device::of_type(device_type)?.to_vec();
    new(properties, devices, pfn_notify, user_data)
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
        _ => unknown(param_name),
    })
}

/// clSetContextDestructorCallback (OpenCL 3.0).
pub fn set_destructor_callback(
    context: Handle<Context>,
    pfn_notify: ObjectNotify,
    user_data: Opaque,
) -> Status {
    let context = context.get()?;
    let callback = pfn_notify.bind(context.handle(), user_data);
    context.listener.on_destroy(callback.or_fail(cl::CL_INVALID_VALUE, "pfn_notify is NULL")?);
    Ok(())
}
