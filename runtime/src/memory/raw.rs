//! Raw memory: the application's pointers, our allocations, and the copies between them. All of the runtime's pointer
//! arithmetic is here; lengths are checked by the callers that know them.

#![allow(unsafe_code)]

use std::ptr::NonNull;

/// A pointer into the application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPtr(NonNull<u8>);

// SAFETY: it is an address; whoever made it promised that it may be used from the queue's thread.
unsafe impl Send for HostPtr {}
// SAFETY: as above.
unsafe impl Sync for HostPtr {}

impl HostPtr {
    /// None for a null pointer.
    ///
    /// # Safety
    /// The memory must be valid as, and as long as, the OpenCL function that the pointer was given to says.
    pub unsafe fn new(pointer: *mut u8) -> Option<HostPtr> {
        NonNull::new(pointer).map(HostPtr)
    }

    /// The address.
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }
}
