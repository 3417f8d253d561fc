//! Unified shared memory (cl_intel_unified_shared_memory): allocations of host and device that both reach by one address. Host and
//! device are one, so that the kinds differ in what is told about them alone, and all of it is memory of clSVMAlloc's kind,
//! which `svm.rs` copies and fills.

use crate::abi::{Handle, Handles, HostConst, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::device::Device;
use crate::api::distinct;
use crate::api::enqueue::{submit, wait_list};
use crate::api::event::Event;
use crate::api::queue::Queue;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{Link, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::command::{CommandType, svm};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Access, atomic access, and both at once with others: what kernels can do with each kind.
pub const EVERY_ACCESS: cl::cl_bitfield = cl::CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL
    | cl::CL_UNIFIED_SHARED_MEMORY_ATOMIC_ACCESS_INTEL
    | cl::CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL
    | cl::CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ATOMIC_ACCESS_INTEL;

/// CL_MEM_ALLOC_FLAGS_INTEL as a query; the headers have it as a property.
const ALLOC_FLAGS: cl::cl_mem_info_intel = cl::CL_MEM_ALLOC_FLAGS_INTEL as cl::cl_mem_info_intel;

/// What is known about an allocation.
struct Allocation {
    kind: cl::cl_unified_shared_memory_type_intel,
    device: Option<Link<Device>>,
    flags: cl::cl_mem_alloc_flags_intel,
    size: usize,
}

/// A context's allocations by their addresses.
#[derive(Default)]
pub struct Allocations(Mutex<BTreeMap<usize, Allocation>>);

impl Allocations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Allocation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The flags in `properties`. Errors: CL_INVALID_PROPERTY for others than `known`, and for two initial placements.
fn flags_of(
    properties: &In<cl::cl_mem_properties_intel>,
    known: cl::cl_mem_alloc_flags_intel,
) -> Status<cl::cl_mem_alloc_flags_intel> {
    const PLACEMENTS: u64 =
        cl::CL_MEM_ALLOC_INITIAL_PLACEMENT_DEVICE_INTEL | cl::CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL;
    let mut flags = 0;
    for (name, value) in distinct(properties, cl::CL_INVALID_PROPERTY)? {
        if name != cl::CL_MEM_ALLOC_FLAGS_INTEL {
            fail(cl::CL_INVALID_PROPERTY, format!("property {name:#x} is not valid"))?;
        }
        flags = value;
    }
    let valid = flags & !known == 0 && flags & PLACEMENTS != PLACEMENTS;
    fail_if(
        !valid,
        cl::CL_INVALID_PROPERTY,
        "CL_MEM_ALLOC_FLAGS_INTEL has values that are not valid, or not together",
    )?;
    Ok(flags)
}

fn allocate(
    context: &Context,
    (size, alignment): (usize, u32),
    kind: cl::cl_unified_shared_memory_type_intel,
    device: Option<Link<Device>>,
    flags: cl::cl_mem_alloc_flags_intel,
) -> Status<*mut c_void> {
    super::svm::in_context(&context.core)?;
    let most = context.core.device().info.max_mem_alloc_size;
    let possible = size > 0 && size as u64 <= most;
    fail_if(!possible, cl::CL_INVALID_BUFFER_SIZE, "size is 0 or greater than CL_DEVICE_MAX_MEM_ALLOC_SIZE")?;
    let address = context.core.svm.allocate(size, alignment as usize)?;
    context.usm.lock().insert(address.addr(), Allocation { kind, device, flags, size });
    Ok(address.cast())
}

/// clHostMemAllocINTEL.
pub fn alloc_host(
    context: Handle<Context>,
    properties: In<cl::cl_mem_properties_intel>,
    size: usize,
    alignment: u32,
) -> Status<*mut c_void> {
    let context = context.get()?;
    let flags = flags_of(&properties, cl::CL_MEM_ALLOC_WRITE_COMBINED_INTEL)?;
    allocate(&context, (size, alignment), cl::CL_MEM_TYPE_HOST_INTEL, None, flags)
}

/// clDeviceMemAllocINTEL.
pub fn alloc_device(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: In<cl::cl_mem_properties_intel>,
    size: usize,
    alignment: u32,
) -> Status<*mut c_void> {
    let context = context.get()?;
    let device = context.device(&device)?;
    let flags = flags_of(&properties, cl::CL_MEM_ALLOC_WRITE_COMBINED_INTEL)?;
    allocate(&context, (size, alignment), cl::CL_MEM_TYPE_DEVICE_INTEL, Some(device), flags)
}

/// clSharedMemAllocINTEL; without a device it belongs to all of the context's.
pub fn alloc_shared(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: In<cl::cl_mem_properties_intel>,
    size: usize,
    alignment: u32,
) -> Status<*mut c_void> {
    const KNOWN: u64 = cl::CL_MEM_ALLOC_WRITE_COMBINED_INTEL
        | cl::CL_MEM_ALLOC_INITIAL_PLACEMENT_DEVICE_INTEL
        | cl::CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL;
    let context = context.get()?;
    let device = if device.is_null() { None } else { Some(context.device(&device)?) };
    let flags = flags_of(&properties, KNOWN)?;
    allocate(&context, (size, alignment), cl::CL_MEM_TYPE_SHARED_INTEL, device, flags)
}

/// clMemFreeINTEL; of NULL nothing. Errors: CL_INVALID_VALUE for what is no allocation of the context's.
pub fn free(context: Handle<Context>, ptr: HostMut) -> Status {
    let context = context.get()?;
    if ptr.is_null() {
        return Ok(());
    }
    let address = ptr.address().addr();
    let known = context.usm.lock().remove(&address);
    known.or_fail(cl::CL_INVALID_VALUE, "ptr is not the start of an allocation of this context")?;
    context.core.svm.free(address);
    Ok(())
}

/// clMemBlockingFreeINTEL: as the former, but behind all commands that were enqueued in the context before.
pub fn blocking_free(context: Handle<Context>, ptr: HostMut) -> Status {
    let owner = context.get()?;
    for queue in owner.queues.all().into_iter().filter_map(|handle| Ref::<Queue>::find(handle).ok()) {
        queue.host()?.finish()?;
    }
    free(context, ptr)
}

/// clGetMemAllocInfoINTEL: of any address, also of one within an allocation.
pub fn get_info(
    context: Handle<Context>,
    ptr: HostConst,
    param_name: cl::cl_mem_info_intel,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let context = context.get()?;
    let address = ptr.address().addr();
    let allocations = context.usm.lock();
    let before = allocations.range(..=address).next_back();
    let found = before.filter(|(start, allocation)| address - *start < allocation.size);
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_MEM_ALLOC_TYPE_INTEL => {
            answer.value(found.map_or(cl::CL_MEM_TYPE_UNKNOWN_INTEL, |(_, allocation)| allocation.kind))
        }
        cl::CL_MEM_ALLOC_BASE_PTR_INTEL => answer.value(found.map_or(0, |(&start, _)| start)),
        cl::CL_MEM_ALLOC_SIZE_INTEL => answer.value(found.map_or(0, |(_, allocation)| allocation.size)),
        cl::CL_MEM_ALLOC_DEVICE_INTEL => {
            answer.optional(found.and_then(|(_, allocation)| allocation.device.as_ref()))
        }
        ALLOC_FLAGS => answer.value(found.map_or(0, |(_, allocation)| allocation.flags)),
        _ => unknown(param_name),
    })
}

/// clEnqueueMigrateMemINTEL: nothing moves.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_migrate(
    command_queue: Handle<Queue>,
    ptr: HostConst,
    size: usize,
    flags: cl::cl_mem_migration_flags,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    const KNOWN: u64 = cl::CL_MIGRATE_MEM_OBJECT_HOST | cl::CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    fail_if(flags & !KNOWN != 0, cl::CL_INVALID_VALUE, "flags has values that are not valid")?;
    hint(command_queue, (ptr, size), CommandType::MigrateMem, (num_events, event_wait_list), event)
}

/// clEnqueueMemAdviseINTEL: no advice is known that would help.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_advise(
    command_queue: Handle<Queue>,
    ptr: HostConst,
    size: usize,
    _advice: cl::cl_mem_advice_intel,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    hint(command_queue, (ptr, size), CommandType::MemAdvise, (num_events, event_wait_list), event)
}

/// A command that does nothing but to take its turn.
fn hint(
    command_queue: Handle<Queue>,
    (ptr, size): (HostConst, usize),
    command_type: CommandType,
    (num_events, event_wait_list): (u32, Handles<Event>),
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    super::svm::of_queue(&queue)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    fail_if(ptr.is_null() || size == 0, cl::CL_INVALID_VALUE, "ptr is NULL or size is 0")?;
    submit(&queue, svm::nothing(&queue.host()?.context, command_type), &wait, cl::CL_FALSE, &event)
}
