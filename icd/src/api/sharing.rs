//! Sharing with OpenGL and EGL: not there, and not reported. The functions exist because loaders call their slots
//! without looking.

use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::error::{Status, fail};
use crate::handle::NewHandle;
use opencl_sys as cl;
use std::ffi::c_void;

/// CL_INVALID_CONTEXT if context is not a valid context or was not created from a GL context.
fn not_shared<T>() -> Status<T> {
    fail(
        cl::CL_INVALID_CONTEXT,
        "the context was not made from one of OpenGL or EGL: sharing is not supported",
    )
}

/// clCreateFromGLBuffer.
pub fn gl_buffer(_context: Handle<Context>, _flags: u64, _object: u32) -> Status<NewHandle> {
    not_shared()
}

/// clCreateFromGLTexture, and its predecessors for 2 and 3 dimensions.
pub fn gl_texture(
    _context: Handle<Context>,
    _flags: u64,
    _target: u32,
    _miplevel: i32,
    _texture: u32,
) -> Status<NewHandle> {
    not_shared()
}

/// clCreateFromGLRenderbuffer.
pub fn gl_renderbuffer(_context: Handle<Context>, _flags: u64, _object: u32) -> Status<NewHandle> {
    not_shared()
}

/// clGetGLObjectInfo.
pub fn gl_object_info(memobj: Handle<Mem>, _gl_object_type: Out<u32>, _gl_object_name: Out<u32>) -> Status {
    memobj.get()?;
    fail(cl::CL_INVALID_GL_OBJECT, "no GL object is associated with the memory object")
}

/// clGetGLTextureInfo.
pub fn gl_texture_info(
    memobj: Handle<Mem>,
    _param_name: u32,
    _param_value_size: usize,
    _param_value: HostMut,
    _param_value_size_ret: Out<usize>,
) -> Status {
    memobj.get()?;
    fail(cl::CL_INVALID_GL_OBJECT, "no GL texture is associated with the memory object")
}

/// clEnqueueAcquireGLObjects, clEnqueueReleaseGLObjects and their EGL siblings.
pub fn transfer_objects(
    command_queue: Handle<Queue>,
    _num_objects: u32,
    _mem_objects: Handles<Mem>,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    command_queue.get()?;
    // CL_INVALID_CONTEXT if context associated with command_queue was not created from an OpenGL context.
    not_shared()
}

/// clGetGLContextInfoKHR.
pub fn gl_context_info(
    _properties: In<cl::cl_context_properties>,
    _param_name: u32,
    _param_value_size: usize,
    _param_value: HostMut,
    _param_value_size_ret: Out<usize>,
) -> Status {
    fail(cl::CL_INVALID_GL_SHAREGROUP_REFERENCE_KHR, "sharing with OpenGL is not supported")
}

/// clCreateEventFromGLsyncKHR.
pub fn gl_event(_context: Handle<Context>, _sync: HostMut) -> Status<NewHandle> {
    not_shared()
}

/// clCreateFromEGLImageKHR.
pub fn egl_image(
    _context: Handle<Context>,
    _display: HostMut,
    _image: HostMut,
    _flags: u64,
    _properties: In<isize>,
) -> Status<NewHandle> {
    not_shared()
}

/// clCreateEventFromEGLSyncKHR.
pub fn egl_event(_context: Handle<Context>, _sync: HostMut, _display: HostMut) -> Status<NewHandle> {
    not_shared()
}
