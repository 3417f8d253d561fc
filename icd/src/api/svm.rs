//! Shared virtual memory (OpenCL 3.0, 5.6): of every kind, as host and device are one.

use crate::abi::{Handle, Handles, HostConst, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::enqueue::{fill_pattern, submit, wait_list};
use crate::api::event::Event;
use crate::api::queue::Queue;
use crate::callback::{Opaque, SvmFree};
use crate::error::{OrFail, Status, fail_if};
use opencl_sys as cl;
use spirula_runtime::command::{CommandType, Template, svm};
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::memory::{HostPtr, MapFlags, MemFlags};
use std::ffi::c_void;
use std::sync::Arc;

/// CL_INVALID_OPERATION "if no devices in the context support Shared Virtual Memory".
pub(super) fn in_context(context: &CoreContext) -> Status {
    const WHY: &str =
        "no device of the context shares addresses with the application, as their pointers have 32 bits";
    fail_if(!context.shares_addresses(), cl::CL_INVALID_OPERATION, WHY)
}

/// CL_INVALID_OPERATION "if the device associated with command_queue does not support Shared Virtual Memory".
pub(super) fn of_queue(queue: &Queue) -> Status {
    const WHY: &str =
        "the queue's device shares no addresses with the application, as its pointers have 32 bits";
    fail_if(!queue.host()?.device.info.shares_addresses(), cl::CL_INVALID_OPERATION, WHY)
}

/// clSVMAlloc; NULL for whatever is wrong.
pub fn alloc(
    context: Handle<Context>,
    flags: cl::cl_svm_mem_flags,
    size: usize,
    alignment: u32,
) -> Status<*mut c_void> {
    let context = context.get()?;
    in_context(&context.core)?;
    let (fine, atomics) = (cl::CL_MEM_SVM_FINE_GRAIN_BUFFER, cl::CL_MEM_SVM_ATOMICS);
    fail_if(
        flags & (fine | atomics) == atomics,
        cl::CL_INVALID_VALUE,
        "flags has CL_MEM_SVM_ATOMICS without CL_MEM_SVM_FINE_GRAIN_BUFFER",
    )?;
    let access = flags & !(fine | atomics);
    let known = access & !MemFlags::KERNEL_ACCESS.bits() == 0 && access.count_ones() <= 1;
    fail_if(!known, cl::CL_INVALID_VALUE, "flags has values that are not valid, or not together")?;
    let most = context.core.device().info.max_mem_alloc_size;
    let possible = size > 0 && size as u64 <= most;
    fail_if(!possible, cl::CL_INVALID_VALUE, "size is 0 or greater than CL_DEVICE_MAX_MEM_ALLOC_SIZE")?;
    // "alignment is not a power of two or the OpenCL implementation cannot support the specified alignment"
    Ok(context.core.svm.allocate(size, alignment as usize)?.cast())
}

/// clSVMFree: "if svm_pointer is NULL, no action occurs".
pub fn free(context: Handle<Context>, svm_pointer: HostMut) -> Status {
    context.get()?.core.svm.free(svm_pointer.address().addr());
    Ok(())
}

/// CL_INVALID_VALUE if a pointer is NULL.
fn pointer(pointer: Option<HostPtr>) -> Status<HostPtr> {
    pointer.or_fail(cl::CL_INVALID_VALUE, "a pointer is NULL")
}

/// clEnqueueSVMFree.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_free(
    command_queue: Handle<Queue>,
    num_svm_pointers: u32,
    svm_pointers: Out<*mut c_void>,
    pfn_free_func: SvmFree,
    user_data: Opaque,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    of_queue(&queue)?;
    fail_if(
        (num_svm_pointers == 0) != svm_pointers.is_null(),
        cl::CL_INVALID_VALUE,
        "svm_pointers is NULL where num_svm_pointers is not 0, or the other way round",
    )?;
    let pointers = svm_pointers.as_in().list(num_svm_pointers as usize).unwrap_or_default();
    let pointers: Vec<Opaque> = pointers.into_iter().map(Opaque::new).collect();
    let wait = wait_list(num_events, &event_wait_list)?;
    let context = queue.host()?.context.clone();
    let free: Box<dyn FnOnce() + Send> =
        match pfn_free_func.bind(command_queue.address(), &pointers, user_data) {
            Some(callback) => {
                // The callback gets the queue, which must live until then.
                let live = queue.link()?;
                Box::new(move || {
                    callback();
                    drop(live);
                })
            }
            None => {
                let context = context.clone();
                Box::new(move || pointers.iter().for_each(|pointer| context.svm.free(pointer.get().addr())))
            }
        };
    submit(&queue, svm::free(&context, free), &wait, cl::CL_FALSE, &event)
}

/// The command of clEnqueueSVMMemcpy and clCommandSVMMemcpyKHR.
pub(super) fn copying(
    context: &Arc<CoreContext>,
    dst_ptr: &HostMut,
    src_ptr: &HostConst,
    size: usize,
) -> Status<impl Template> {
    // CL_INVALID_VALUE if dst_ptr or src_ptr are NULL. CL_MEM_COPY_OVERLAP if the values specified for dst_ptr, src_ptr and
    // size result in an overlapping copy.
    let (to, from) = (pointer(dst_ptr.pointer())?, pointer(src_ptr.pointer())?);
    let context = context.clone();
    Ok(move || svm::copy(&context, to, from, size))
}

/// clEnqueueSVMMemcpy, and clEnqueueMemcpyINTEL if `UNIFIED`: the command's type is another.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_memcpy<const UNIFIED: bool>(
    command_queue: Handle<Queue>,
    blocking_copy: cl::cl_bool,
    dst_ptr: HostMut,
    src_ptr: HostConst,
    size: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    of_queue(&queue)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let mut command = copying(&queue.host()?.context, &dst_ptr, &src_ptr, size)?()?;
    if UNIFIED {
        command.command_type = CommandType::Memcpy;
    }
    submit(&queue, command, &wait, blocking_copy, &event)
}

/// The command of clEnqueueSVMMemFill and clCommandSVMMemFillKHR.
pub(super) fn filling(
    context: &Arc<CoreContext>,
    svm_ptr: &HostMut,
    (pattern, pattern_size): (&HostConst, usize),
    size: usize,
) -> Status<impl Template> {
    // CL_INVALID_VALUE if svm_ptr is NULL, or not aligned to pattern_size bytes; if size is not a multiple of pattern_size.
    let to = pointer(svm_ptr.pointer())?;
    let pattern = fill_pattern(pattern, pattern_size)?.to_vec();
    let context = context.clone();
    Ok(move || svm::fill(&context, to, &pattern, size))
}

/// clEnqueueSVMMemFill, and clEnqueueMemFillINTEL if `UNIFIED`.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_fill<const UNIFIED: bool>(
    command_queue: Handle<Queue>,
    svm_ptr: HostMut,
    pattern: HostConst,
    pattern_size: usize,
    size: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    of_queue(&queue)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let mut command = filling(&queue.host()?.context, &svm_ptr, (&pattern, pattern_size), size)?()?;
    if UNIFIED {
        command.command_type = CommandType::MemFill;
    }
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}

/// clEnqueueSVMMap.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_map(
    command_queue: Handle<Queue>,
    blocking_map: cl::cl_bool,
    flags: cl::cl_map_flags,
    svm_ptr: HostMut,
    size: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    of_queue(&queue)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    fail_if(svm_ptr.is_null() || size == 0, cl::CL_INVALID_VALUE, "svm_ptr is NULL or size is 0")?;
    let valid = MapFlags::from_bits(flags).is_some_and(MapFlags::is_consistent);
    fail_if(!valid, cl::CL_INVALID_VALUE, "flags has values that are not valid, or not together")?;
    let command = svm::nothing(&queue.host()?.context, CommandType::SvmMap);
    submit(&queue, command, &wait, blocking_map, &event)
}

/// clEnqueueSVMUnmap.
pub fn enqueue_unmap(
    command_queue: Handle<Queue>,
    svm_ptr: HostMut,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    of_queue(&queue)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    fail_if(svm_ptr.is_null(), cl::CL_INVALID_VALUE, "svm_ptr is NULL")?;
    submit(&queue, svm::nothing(&queue.host()?.context, CommandType::SvmUnmap), &wait, cl::CL_FALSE, &event)
}

/// clEnqueueSVMMigrateMem (OpenCL 2.1).
#[allow(clippy::too_many_arguments)]
pub fn enqueue_migrate(
    command_queue: Handle<Queue>,
    num_svm_pointers: u32,
    svm_pointers: Out<*const c_void>,
    sizes: In<usize>,
    flags: cl::cl_mem_migration_flags,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    const KNOWN: u64 = cl::CL_MIGRATE_MEM_OBJECT_HOST | cl::CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    let queue = command_queue.get()?;
    of_queue(&queue)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let none = num_svm_pointers == 0 || svm_pointers.is_null();
    fail_if(none, cl::CL_INVALID_VALUE, "num_svm_pointers is 0 or svm_pointers is NULL")?;
    fail_if(flags & !KNOWN != 0, cl::CL_INVALID_VALUE, "flags has values that are not valid")?;
    let count = num_svm_pointers as usize;
    let sizes = sizes.list(count).unwrap_or_else(|| vec![0; count]);
    let pointers = svm_pointers.as_in().list(count).unwrap_or_default();
    let svm = &queue.host()?.context.svm;
    let inside = pointers.iter().zip(sizes).all(|(pointer, size)| svm.contains(pointer.addr(), size));
    fail_if(!inside, cl::CL_INVALID_VALUE, "memory that is not all of one clSVMAlloc")?;
    submit(
        &queue,
        svm::nothing(&queue.host()?.context, CommandType::SvmMigrateMem),
        &wait,
        cl::CL_FALSE,
        &event,
    )
}
