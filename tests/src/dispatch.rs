//! The platform's dispatch table, for calls that the loader must not see: it would itself read the memory of a handle that is
//! none, or answer in the library's place.

use crate::cl::sys::*;
use crate::cl::{Context, Handle, Object, Platform};
use std::ptr::null_mut;

/// The table, as Khronos's `cl_icd.h` has it.
pub type Table = opencl_sys::cl_icd::cl_icd_dispatch;

/// The table of the platform under test.
pub fn table() -> &'static Table {
    // SAFETY: cl_khr_icd: a handle's first word points to its dispatch table, and a platform is never released.
    unsafe { &**Platform::only().raw().cast::<*const Table>() }
}

/// Calls a function of the table.
#[macro_export]
macro_rules! slot {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = $crate::dispatch::table().$function.expect(stringify!($function));
        // SAFETY: pointers among the arguments outlive the call; everything else the library must check itself.
        #[allow(clippy::macro_metavars_in_unsafe)]
        unsafe { function($($argument),*) }
    }};
}

/// Calls a function of the table whose last argument is `errcode_ret`, and which must refuse; gives its status.
#[macro_export]
macro_rules! refused {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut code = 1;
        let object = $crate::slot!($function($($argument,)* &mut code));
        assert!(object.is_null(), stringify!($function));
        $crate::cl::code_name(code)
    }};
}

/// What is called when an object is gone.
type Destructor = Box<dyn FnOnce() + Send>;

/// clSetContextDestructorCallback (OpenCL 3.0), which `cl-sys` does not know.
pub fn on_context_destroyed(context: &Context, callback: Destructor) -> cl_int {
    extern "C" fn call(_: Handle, data: *mut c_void) {
        // SAFETY: the box that was made below; a destructor callback is called once.
        let callback = unsafe { Box::from_raw(data.cast::<Destructor>()) };
        callback();
    }
    let data = Box::into_raw(Box::new(callback)).cast();
    slot!(clSetContextDestructorCallback(context.raw(), Some(call), data))
}

/// clRetain* and clRelease*.
type Count = unsafe extern "C" fn(Handle) -> cl_int;
/// clGet*Info.
type Info = unsafe extern "C" fn(Handle, cl_uint, size_t, *mut c_void, *mut size_t) -> cl_int;

/// A type of objects: the functions that each type has, and the error for what is no object of it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    retain: Option<Count>,
    release: Option<Count>,
    info: Option<Info>,
    reference_count: cl_uint,
    invalid: cl_int,
}

macro_rules! kinds {
    ($($name:ident: $retain:ident, $release:ident, $info:ident, $count:ident, $invalid:ident;)*) => {
        impl Kind {$(
            #[doc = concat!("That of ", stringify!($info), ".")]
            pub fn $name() -> Kind {
                let (retain, release, info) = (table().$retain, table().$release, table().$info);
                Kind { retain, release, info, reference_count: $count, invalid: $invalid }
            }
        )*}
    };
}

kinds! {
    device: clRetainDevice, clReleaseDevice, clGetDeviceInfo, CL_DEVICE_REFERENCE_COUNT, CL_INVALID_DEVICE;
    context: clRetainContext, clReleaseContext, clGetContextInfo, CL_CONTEXT_REFERENCE_COUNT, CL_INVALID_CONTEXT;
    queue: clRetainCommandQueue, clReleaseCommandQueue, clGetCommandQueueInfo, CL_QUEUE_REFERENCE_COUNT,
        CL_INVALID_COMMAND_QUEUE;
    memory: clRetainMemObject, clReleaseMemObject, clGetMemObjectInfo, CL_MEM_REFERENCE_COUNT, CL_INVALID_MEM_OBJECT;
    sampler: clRetainSampler, clReleaseSampler, clGetSamplerInfo, CL_SAMPLER_REFERENCE_COUNT, CL_INVALID_SAMPLER;
    program: clRetainProgram, clReleaseProgram, clGetProgramInfo, CL_PROGRAM_REFERENCE_COUNT, CL_INVALID_PROGRAM;
    kernel: clRetainKernel, clReleaseKernel, clGetKernelInfo, CL_KERNEL_REFERENCE_COUNT, CL_INVALID_KERNEL;
    event: clRetainEvent, clReleaseEvent, clGetEventInfo, CL_EVENT_REFERENCE_COUNT, CL_INVALID_EVENT;
}

impl Kind {
    /// clRetain*, of an object or anything else at this address.
    pub fn retain(&self, address: usize) -> cl_int {
        // SAFETY: the library must check the handle, whatever it is.
        unsafe { self.retain.expect("a function to retain")(address as Handle) }
    }

    /// clRelease*.
    pub fn release(&self, address: usize) -> cl_int {
        // SAFETY: the library must check the handle, whatever it is.
        unsafe { self.release.expect("a function to release")(address as Handle) }
    }

    /// The reference count, or the error.
    pub fn references(&self, address: usize) -> Result<u32, cl_int> {
        let (mut count, info) = (0_u32, self.info.expect("a function to ask"));
        // SAFETY: the library must check the handle, whatever it is; `count` is as large as said.
        match unsafe { info(address as Handle, self.reference_count, 4, (&raw mut count).cast(), null_mut()) }
        {
            CL_SUCCESS => Ok(count),
            error => Err(error),
        }
    }

    /// Panics unless all functions of this type say that this is none of its objects.
    pub fn assert_invalid(&self, address: usize) {
        let got = (self.references(address), self.retain(address), self.release(address));
        assert_eq!(
            got,
            (Err(self.invalid), self.invalid, self.invalid),
            "info, retain, release of {address:#x}"
        );
    }
}
