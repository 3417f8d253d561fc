//! `cl_mem`: buffers, sub-buffers and what all memory objects share (OpenCL 1.2, 5.2 and 5.4).

use crate::abi::{Handle, HostConst, HostMut, In, Out};
use crate::api::context::Context;
use crate::callback::{ObjectNotify, Opaque};
use crate::error::{OrFail, Status, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::memory::{HostPtr, Mem as Core, MemFlags, MemKind};
use std::sync::Arc;

/// A `cl_mem`.
pub struct Mem {
    /// The memory object itself.
    pub core: Arc<Core>,
    /// CL_MEM_CONTEXT.
    pub context: Link<Context>,
    /// CL_MEM_ASSOCIATED_MEMOBJECT: a sub-buffer's buffer, what an image was made from.
    pub associated: Option<Link<Mem>>,
    /// CL_MEM_PROPERTIES: the closing zero alone, or nothing.
    pub properties: Vec<cl::cl_mem_properties>,
}

impl ClObject for Mem {
    const NAME: &'static str = "cl_mem";
    const INVALID: cl::cl_int = cl::CL_INVALID_MEM_OBJECT;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.context.clone())
    }
}

/// `cl_mem_flags`. CL_INVALID_VALUE if values specified in flags are not valid.
pub fn flags(flags: cl::cl_mem_flags) -> Status<MemFlags> {
    MemFlags::from_bits(flags).or_fail(cl::CL_INVALID_VALUE, "flags has bits that are not valid")
}

/// OpenCL 3.0's `properties` of buffers and images, as CL_MEM_PROPERTIES tells them.
pub fn no_properties(properties: &In<cl::cl_mem_properties>) -> Status<Vec<cl::cl_mem_properties>> {
    let none = properties.properties().is_empty();
    fail_if(!none, cl::CL_INVALID_PROPERTY, "no property of memory objects is supported")?;
    Ok(properties.property_list())
}

/// clCreateBuffer.
pub fn create_buffer(
    context: Handle<Context>,
    mem_flags: cl::cl_mem_flags,
    size: usize,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    create_buffer_with_properties(context, In::none(), mem_flags, size, host_ptr)
}

/// clCreateBufferWithProperties (OpenCL 3.0).
pub fn create_buffer_with_properties(
    context: Handle<Context>,
    properties: In<cl::cl_mem_properties>,
    mem_flags: cl::cl_mem_flags,
    size: usize,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    let context = context.get()?;
    let properties = no_properties(&properties)?;
    let flags = flags(mem_flags)?;
    // CL_INVALID_BUFFER_SIZE if size is 0. CL_INVALID_HOST_PTR if host_ptr is NULL and CL_MEM_USE_HOST_PTR or
    // CL_MEM_COPY_HOST_PTR are set in flags or if host_ptr is not NULL but CL_MEM_COPY_HOST_PTR or CL_MEM_USE_HOST_PTR are not
    // set in flags.
    let core = Core::buffer(&context.core, flags, size, host_ptr.pointer())?;
    Ok(NewHandle::new(Mem { core, context: context.link()?, associated: None, properties }))
}

/// clCreateSubBuffer.
pub fn create_sub_buffer(
    buffer: Handle<Mem>,
    mem_flags: cl::cl_mem_flags,
    buffer_create_type: cl::cl_buffer_create_type,
    buffer_create_info: HostConst,
) -> Status<NewHandle> {
    let buffer = buffer.get()?;
    let whole = matches!(buffer.core.kind, MemKind::Buffer);
    fail_if(!whole, cl::CL_INVALID_MEM_OBJECT, "only a buffer that is no sub-buffer can have sub-buffers")?;
    let flags = flags(mem_flags)?;
    let known = buffer_create_type == cl::CL_BUFFER_CREATE_TYPE_REGION;
    fail_if(!known, cl::CL_INVALID_VALUE, "buffer_create_type is not CL_BUFFER_CREATE_TYPE_REGION")?;
    let region = buffer_create_info.cast::<cl::cl_buffer_region>().get();
    let region = region.or_fail(cl::CL_INVALID_VALUE, "buffer_create_info is NULL")?;
    // CL_INVALID_BUFFER_SIZE if size is 0; CL_MISALIGNED_SUB_BUFFER_OFFSET; and what else the region must be.
    let core = buffer.core.sub_buffer(flags, region.origin, region.size)?;
    let context = buffer.context.clone();
    Ok(NewHandle::new(Mem { core, context, associated: Some(buffer.link()?), properties: Vec::new() }))
}

/// CL_MEM_TYPE.
fn object_type(mem: &Core) -> cl::cl_mem_object_type {
    match &mem.kind {
        MemKind::Buffer | MemKind::SubBuffer { .. } => cl::CL_MEM_OBJECT_BUFFER,
        MemKind::Image(info) => super::image::type_of(info.kind),
        MemKind::Pipe(_) => cl::CL_MEM_OBJECT_PIPE,
    }
}

/// CL_MEM_USES_SVM_POINTER: "created with CL_MEM_USE_HOST_PTR or is a sub-buffer object of a buffer object that was … and
/// host_ptr is a SVM pointer".
fn uses_svm(mem: &Mem) -> bool {
    let inside = |host: HostPtr| mem.context.core.svm.contains(host.as_ptr().addr(), mem.core.size);
    mem.core.host_ptr.is_some_and(inside)
}

/// clGetMemObjectInfo.
pub fn get_info(
    memobj: Handle<Mem>,
    param_name: cl::cl_mem_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let mem = memobj.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_MEM_TYPE => answer.value(object_type(&mem.core)),
        cl::CL_MEM_FLAGS => answer.value(mem.core.flags.bits()),
        cl::CL_MEM_SIZE => answer.value(mem.core.size),
        cl::CL_MEM_HOST_PTR => answer.value(mem.core.host_ptr.map_or(std::ptr::null_mut(), HostPtr::as_ptr)),
        cl::CL_MEM_MAP_COUNT => answer.value(mem.core.map_count()),
        cl::CL_MEM_REFERENCE_COUNT => answer.value(mem.reference_count()),
        cl::CL_MEM_CONTEXT => answer.object(&mem.context),
        cl::CL_MEM_ASSOCIATED_MEMOBJECT => answer.optional(mem.associated.as_ref()),
        cl::CL_MEM_PROPERTIES => answer.list(&mem.properties),
        cl::CL_MEM_USES_SVM_POINTER => answer.flag(uses_svm(&mem)),
        cl::CL_MEM_OFFSET => answer.value(mem.core.offset()),
        _ => unknown(param_name),
    })
}

/// clSetMemObjectDestructorCallback.
pub fn set_destructor_callback(memobj: Handle<Mem>, pfn_notify: ObjectNotify, user_data: Opaque) -> Status {
    let mem: Ref<Mem> = memobj.get()?;
    let callback = pfn_notify.bind(mem.handle(), user_data);
    mem.core.on_destroy(callback.or_fail(cl::CL_INVALID_VALUE, "pfn_notify is NULL")?);
    Ok(())
}
