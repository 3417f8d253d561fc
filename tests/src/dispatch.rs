//! The ICD's dispatch table, for calls that the loader must not see: it would itself read a released handle's memory.

use crate::cl::sys::{c_void, cl_int, cl_uint, size_t};
use crate::cl::{Context, Handle, Object, Platform};

/// A clGet*Info function.
type Info = unsafe extern "system" fn(Handle, cl_uint, size_t, *mut c_void, *mut size_t) -> cl_int;
/// A clRetain* or clRelease* function.
type Count = unsafe extern "system" fn(Handle) -> cl_int;
/// clSetContextDestructorCallback.
type OnDestroy =
    unsafe extern "system" fn(Handle, Option<extern "system" fn(Handle, *mut c_void)>, *mut c_void) -> cl_int;
/// What is called when an object is gone.
type Destructor = Box<dyn FnOnce() + Send>;

/// The slot of clSetContextDestructorCallback (OpenCL 3.0), which `cl-sys` does not know.
const SET_CONTEXT_DESTRUCTOR_CALLBACK: usize = 148;

/// The slots, in Khronos's order (`cl_icd.h`), of the functions that every object has.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// clRetain*
    pub retain: usize,
    /// clRelease*
    pub release: usize,
    /// clGet*Info
    pub info: usize,
}

/// `cl_context`'s functions.
pub const CONTEXT: Slots = Slots { retain: 6, release: 7, info: 8 };
/// `cl_command_queue`'s functions.
pub const QUEUE: Slots = Slots { retain: 10, release: 11, info: 12 };
/// `cl_mem`'s functions.
pub const MEMORY: Slots = Slots { retain: 17, release: 18, info: 20 };
/// `cl_sampler`'s functions.
pub const SAMPLER: Slots = Slots { retain: 23, release: 24, info: 25 };
/// `cl_program`'s functions.
pub const PROGRAM: Slots = Slots { retain: 28, release: 29, info: 32 };
/// `cl_kernel`'s functions.
pub const KERNEL: Slots = Slots { retain: 36, release: 37, info: 39 };
/// `cl_event`'s functions.
pub const EVENT: Slots = Slots { retain: 43, release: 44, info: 42 };

/// The table of the platform under test.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch(*const *const c_void);

impl Dispatch {
    /// The table that the platform's handle points to.
    pub fn of(platform: Platform) -> Dispatch {
        // SAFETY: cl_khr_icd: a handle's first word points to its dispatch table.
        Dispatch(unsafe { *platform.raw().cast::<*const *const c_void>() })
    }

    /// clSetContextDestructorCallback.
    pub fn on_context_destroyed(self, context: &Context, callback: Destructor) -> cl_int {
        extern "system" fn call(_: Handle, data: *mut c_void) {
            // SAFETY: the box that was made below; a destructor callback is called once.
            let callback = unsafe { Box::from_raw(data.cast::<Destructor>()) };
            callback();
        }
        let data = Box::into_raw(Box::new(callback)).cast();
        // SAFETY: the slot holds a function of this signature; `call` takes this data.
        unsafe {
            let slot = *self.0.add(SET_CONTEXT_DESTRUCTOR_CALLBACK);
            std::mem::transmute::<*const c_void, OnDestroy>(slot)(context.raw(), Some(call), data)
        }
    }

    /// What querying, retaining and releasing the handle of this address return. It may be stale or none at all.
    pub fn statuses(self, slots: Slots, address: usize) -> [cl_int; 3] {
        let handle = address as Handle;
        let mut size = 0;
        // SAFETY: the slots hold functions of these signatures; the handle is theirs to check, `size` is a local.
        unsafe {
            let retain = std::mem::transmute::<*const c_void, Count>(*self.0.add(slots.retain));
            let release = std::mem::transmute::<*const c_void, Count>(*self.0.add(slots.release));
            let info = std::mem::transmute::<*const c_void, Info>(*self.0.add(slots.info));
            [info(handle, 0, 0, std::ptr::null_mut(), &mut size), retain(handle), release(handle)]
        }
    }
}
