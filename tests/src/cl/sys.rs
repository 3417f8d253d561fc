//! OpenCL's functions and types as cl-sys declares them. With `SPIRULA_TEST_DELAY`, [`crate::shuffle`] holds back the
//! commands of the functions below, and [`crate::lent`] knows what they have of the application's memory; without it, they
//! only pass their arguments on.

#![allow(non_snake_case, missing_docs)]

use crate::{lent, shuffle};
pub use cl_sys::*;

/// What clEnqueueNativeKernel calls.
type NativeKernel = Option<extern "C" fn(*mut c_void)>;
/// What clEnqueueSVMFree calls.
type FreeSvm = Option<extern "C" fn(cl_command_queue, cl_uint, *const *const c_void, *mut c_void)>;

/// Declares functions that enqueue a command: the parameters between queue and wait list, and the addresses of the
/// application's memory that the command uses after the call has returned.
macro_rules! commands {
    ($($name:ident($($parameter:ident: $type:ty),*) $(uses $used:expr)?;)*) => {$(
        /// # Safety
        /// As OpenCL says of the function of this name.
        #[allow(clippy::too_many_arguments, unused_mut)]
        pub unsafe fn $name(
            queue: cl_command_queue,
            $($parameter: $type,)*
            count: cl_uint,
            list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            let mut used = Vec::new();
            $(if shuffle::is_on() { used.extend($used) })?
            let call = |count, list, event| {
                // SAFETY: the same contract; at most, the list has one event more.
                unsafe { cl_sys::$name(queue, $($parameter,)* count, list, event) }
            };
            // SAFETY: the list and the event are those of the function.
            unsafe { shuffle::enqueue(stringify!($name), queue, &used, (count, list, event), call) }
        }
    )*};
}

commands! {
    clEnqueueReadBuffer(buffer: cl_mem, blocking: cl_bool, offset: size_t, size: size_t, to: *mut c_void)
        uses [to.addr()];
    clEnqueueWriteBuffer(buffer: cl_mem, blocking: cl_bool, offset: size_t, size: size_t, from: *const c_void)
        uses [from.addr()];
    clEnqueueReadBufferRect(buffer: cl_mem, blocking: cl_bool, origin: *const size_t, host_origin: *const size_t,
        region: *const size_t, row: size_t, slice: size_t, host_row: size_t, host_slice: size_t, to: *mut c_void)
        uses [to.addr()];
    clEnqueueWriteBufferRect(buffer: cl_mem, blocking: cl_bool, origin: *const size_t, host_origin: *const size_t,
        region: *const size_t, row: size_t, slice: size_t, host_row: size_t, host_slice: size_t, from: *const c_void)
        uses [from.addr()];
    clEnqueueFillBuffer(buffer: cl_mem, pattern: *const c_void, length: size_t, offset: size_t, size: size_t);
    clEnqueueCopyBuffer(from: cl_mem, to: cl_mem, from_offset: size_t, to_offset: size_t, size: size_t);
    clEnqueueCopyBufferRect(from: cl_mem, to: cl_mem, from_origin: *const size_t, to_origin: *const size_t,
        region: *const size_t, from_row: size_t, from_slice: size_t, to_row: size_t, to_slice: size_t);
    clEnqueueReadImage(image: cl_mem, blocking: cl_bool, origin: *const size_t, region: *const size_t, row: size_t,
        slice: size_t, to: *mut c_void)
        uses [to.addr()];
    clEnqueueWriteImage(image: cl_mem, blocking: cl_bool, origin: *const size_t, region: *const size_t, row: size_t,
        slice: size_t, from: *const c_void)
        uses [from.addr()];
    clEnqueueFillImage(image: cl_mem, color: *const c_void, origin: *const size_t, region: *const size_t);
    clEnqueueCopyImage(from: cl_mem, to: cl_mem, from_origin: *const size_t, to_origin: *const size_t,
        region: *const size_t);
    clEnqueueCopyImageToBuffer(from: cl_mem, to: cl_mem, origin: *const size_t, region: *const size_t, offset: size_t);
    clEnqueueCopyBufferToImage(from: cl_mem, to: cl_mem, offset: size_t, origin: *const size_t, region: *const size_t);
    clEnqueueUnmapMemObject(object: cl_mem, mapped: *mut c_void);
    clEnqueueMigrateMemObjects(count: cl_uint, objects: *const cl_mem, flags: cl_mem_migration_flags);
    clEnqueueNDRangeKernel(kernel: cl_kernel, dimensions: cl_uint, offset: *const size_t, global: *const size_t,
        local: *const size_t)
        uses lent::arguments(kernel);
    clEnqueueTask(kernel: cl_kernel) uses lent::arguments(kernel);
    clEnqueueNativeKernel(function: NativeKernel, arguments: *mut c_void, size: size_t, count: cl_uint,
        objects: *const cl_mem, places: *const *const c_void);
    clEnqueueMarkerWithWaitList();
    clEnqueueBarrierWithWaitList();
    clEnqueueSVMFree(count: cl_uint, pointers: *const *const c_void, free: FreeSvm, data: *mut c_void);
    clEnqueueSVMMemcpy(blocking: cl_bool, to: *mut c_void, from: *const c_void, size: size_t)
        uses [to.addr(), from.addr()];
    clEnqueueSVMMemFill(to: *mut c_void, pattern: *const c_void, length: size_t, size: size_t)
        uses [to.addr()];
    clEnqueueSVMMap(blocking: cl_bool, flags: cl_map_flags, pointer: *mut c_void, size: size_t)
        uses [pointer.addr()];
    clEnqueueSVMUnmap(pointer: *mut c_void) uses [pointer.addr()];
    clEnqueueSVMMigrateMem(count: cl_uint, pointers: *const *const c_void, sizes: *const size_t,
        flags: cl_mem_migration_flags);
}

/// Declares the functions that enqueue a map, which return its address.
macro_rules! maps {
    ($($name:ident($($parameter:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As OpenCL says of the function of this name.
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name(
            queue: cl_command_queue,
            $($parameter: $type,)*
            count: cl_uint,
            list: *const cl_event,
            event: *mut cl_event,
            status: *mut cl_int,
        ) -> *mut c_void {
            let mut mapped = std::ptr::null_mut();
            let call = |count, list, event| {
                let mut code = CL_SUCCESS;
                // SAFETY: the same contract; at most, the list has one event more.
                mapped = unsafe { cl_sys::$name(queue, $($parameter,)* count, list, event, &mut code) };
                code
            };
            // SAFETY: the list and the event are those of the function.
            let code = unsafe { shuffle::enqueue(stringify!($name), queue, &[], (count, list, event), call) };
            // SAFETY: null or the caller's place for the status.
            if let Some(status) = unsafe { status.as_mut() } {
                *status = code;
            }
            mapped
        }
    )*};
}

maps! {
    clEnqueueMapBuffer(buffer: cl_mem, blocking: cl_bool, flags: cl_map_flags, offset: size_t, size: size_t);
    clEnqueueMapImage(image: cl_mem, blocking: cl_bool, flags: cl_map_flags, origin: *const size_t,
        region: *const size_t, row: *mut size_t, slice: *mut size_t);
}

/// # Safety
/// As OpenCL says.
pub unsafe fn clSetKernelArg(
    kernel: cl_kernel,
    index: cl_uint,
    size: size_t,
    value: *const c_void,
) -> cl_int {
    lent::set_argument(kernel, index, 0);
    // SAFETY: the same contract.
    unsafe { cl_sys::clSetKernelArg(kernel, index, size, value) }
}

/// # Safety
/// As OpenCL says.
pub unsafe fn clSetKernelArgSVMPointer(kernel: cl_kernel, index: cl_uint, value: *const c_void) -> cl_int {
    lent::set_argument(kernel, index, value.addr());
    // SAFETY: the same contract.
    unsafe { cl_sys::clSetKernelArgSVMPointer(kernel, index, value) }
}

/// # Safety
/// As OpenCL says.
pub unsafe fn clCreateBuffer(
    context: cl_context,
    flags: cl_mem_flags,
    size: size_t,
    host: *mut c_void,
    status: *mut cl_int,
) -> cl_mem {
    // SAFETY: the same contract.
    let made = unsafe { cl_sys::clCreateBuffer(context, flags, size, host, status) };
    lent::to_object("clCreateBuffer", made, flags, host.addr());
    made
}

/// # Safety
/// As OpenCL says.
pub unsafe fn clCreateImage(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    description: *const cl_image_desc,
    host: *mut c_void,
    status: *mut cl_int,
) -> cl_mem {
    // SAFETY: the same contract.
    let made = unsafe { cl_sys::clCreateImage(context, flags, format, description, host, status) };
    lent::to_object("clCreateImage", made, flags, host.addr());
    made
}

/// # Safety
/// As OpenCL says.
pub unsafe fn clSVMAlloc(
    context: cl_context,
    flags: cl_svm_mem_flags,
    size: size_t,
    alignment: cl_uint,
) -> *mut c_void {
    // SAFETY: the same contract.
    let pointer = unsafe { cl_sys::clSVMAlloc(context, flags, size, alignment) };
    lent::allocated(pointer.addr(), size);
    pointer
}

/// # Safety
/// As OpenCL says.
pub unsafe fn clSVMFree(context: cl_context, pointer: *mut c_void) {
    lent::freed(pointer.addr());
    // SAFETY: the same contract.
    unsafe { cl_sys::clSVMFree(context, pointer) }
}
