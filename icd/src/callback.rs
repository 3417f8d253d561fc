//! The application's callbacks (`pfn_notify` and `user_data`) as Rust closures that may run on any thread.
//!
//! A callback must not unwind into us: it is an `extern "C"` function, so unwinding out of it ends the process there.

use crate::abi::FromAbi;
use opencl_sys::cl_int;
use spirula_runtime::context::ErrorCallback;
use std::ffi::{CString, c_char, c_void};

/// Something of the application's that we only carry to its callback.
#[derive(Clone, Copy)]
pub struct Opaque(*mut c_void);

// SAFETY: never dereferenced here; that its callback may run on another thread is part of what OpenCL tells the
// application.
unsafe impl Send for Opaque {}
// SAFETY: as above.
unsafe impl Sync for Opaque {}

impl Opaque {
    /// A pointer to be carried.
    pub fn new(pointer: *mut c_void) -> Self {
        Opaque(pointer)
    }

    /// The pointer. (A method, so that closures capture the whole `Opaque`.)
    pub fn get(self) -> *mut c_void {
        self.0
    }

    /// Whether the application passed none.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl FromAbi for Opaque {
    type Raw = *mut c_void;
    unsafe fn from_abi(raw: *mut c_void) -> Self {
        Opaque(raw)
    }
}

/// Declares a callback parameter: a C function pointer or none.
macro_rules! callbacks {
    ($($(#[$doc:meta])* $name:ident($($argument:ty),*);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[allow(dead_code)] // not every kind is asked or called
        pub struct $name(Option<unsafe extern "C" fn($($argument),*)>);

        impl FromAbi for $name {
            type Raw = Option<unsafe extern "C" fn($($argument),*)>;
            unsafe fn from_abi(raw: Self::Raw) -> Self {
                $name(raw)
            }
        }

        #[allow(dead_code)]
        impl $name {
            /// Whether the application passed none.
            pub fn is_null(self) -> bool {
                self.0.is_none()
            }
        }
    )*};
}

callbacks! {
    /// `pfn_notify(errinfo, private_info, cb, user_data)` of `clCreateContext`.
    ContextNotify(*const c_char, *const c_void, usize, *mut c_void);
    /// `pfn_notify(object, user_data)` of builds and of destructor callbacks.
    ObjectNotify(*mut c_void, *mut c_void);
    /// `pfn_event_notify(event, status, user_data)`.
    EventNotify(*mut c_void, cl_int, *mut c_void);
    /// `pfn_free_func` of `clEnqueueSVMFree`.
    SvmFree(*mut c_void, u32, *mut *mut c_void, *mut c_void);
    /// The function of `clEnqueueNativeKernel`.
    NativeKernel(*mut c_void);
}

impl ContextNotify {
    /// A closure that takes the message.
    pub fn bind(self, user_data: Opaque) -> Option<ErrorCallback> {
        let function = self.0?;
        Some(Box::new(move |message| {
            let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
            // SAFETY: the application passed this function for this use; the string lives during the call.
            unsafe { function(message.as_ptr(), std::ptr::null(), 0, user_data.get()) }
        }))
    }
}

impl ObjectNotify {
    /// A closure that passes this handle.
    pub fn bind(self, object: *mut c_void, user_data: Opaque) -> Option<Box<dyn FnOnce() + Send>> {
        let function = self.0?;
        let object = Opaque(object);
        // SAFETY: the application passed this function for this use.
        Some(Box::new(move || unsafe { function(object.get(), user_data.get()) }))
    }
}

impl EventNotify {
    /// A closure that passes this event and takes the status.
    pub fn bind(self, event: *mut c_void, user_data: Opaque) -> Option<Box<dyn FnOnce(cl_int) + Send>> {
        let function = self.0?;
        let event = Opaque(event);
        // SAFETY: the application passed this function for this use.
        Some(Box::new(move |status| unsafe { function(event.get(), status, user_data.get()) }))
    }
}

impl SvmFree {
    /// A closure that passes this queue and the pointers.
    pub fn bind(
        self,
        queue: *mut c_void,
        pointers: &[Opaque],
        user_data: Opaque,
    ) -> Option<Box<dyn FnOnce() + Send>> {
        let function = self.0?;
        let (queue, pointers) = (Opaque(queue), pointers.to_vec());
        Some(Box::new(move || {
            let mut list: Vec<*mut c_void> = pointers.iter().map(|pointer| pointer.get()).collect();
            // SAFETY: the application passed this function for this use; the list lives during the call.
            unsafe { function(queue.get(), list.len() as u32, list.as_mut_ptr(), user_data.get()) }
        }))
    }
}

impl NativeKernel {
    /// A closure that calls the function with its own copy of the arguments (null if there are none).
    pub fn bind(self, arguments: Option<Vec<u8>>) -> Option<Box<dyn FnOnce() + Send>> {
        let function = self.0?;
        // Whole u128s, for the alignment of whatever structure the application has there.
        let mut arguments: Option<Vec<u128>> = arguments.map(|bytes| bytes.chunks(16).map(word).collect());
        Some(Box::new(move || {
            let pointer = arguments.as_mut().map_or(std::ptr::null_mut(), |words| words.as_mut_ptr().cast());
            // SAFETY: the application passed this function for this use; its arguments live during the call.
            unsafe { function(pointer) }
        }))
    }
}

/// Up to 16 bytes in their order in memory.
fn word(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    word[..bytes.len()].copy_from_slice(bytes);
    u128::from_ne_bytes(word)
}
