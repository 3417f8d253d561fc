//! The dispatch table: which function of `api/` stands in which slot of Khronos's `_cl_icd_dispatch`.
//!
//! The table's type, with the slots' order and prototypes, comes from `opencl-sys`; the list below is written in the order
//! of Khronos's headers, and a test compares the two.

use crate::abi::{bare, creates, plain};
use crate::api::command_buffer::{self, CommandBuffer, record};
use crate::api::context::{self, Context};
use crate::api::enqueue::{self, buffer, map, synchronization};
use crate::api::event::{self, Event};
use crate::api::kernel::{self, Kernel};
use crate::api::memory::{self, Mem};
use crate::api::program::{self, Program};
use crate::api::queue::{self, Queue};
use crate::api::sampler::{self, Sampler};
use crate::api::semaphore::{self, Semaphore};
use crate::api::{device, image, pipe, platform, release, retain, sharing, sub_device, svm, usm};
use std::ffi::c_void;

/// What the first word of every handle points at.
pub type Dispatch = opencl_sys::cl_icd::cl_icd_dispatch;

/// `name = kind(function)`: a function of `api/` made callable from C by its kind (see `abi.rs`); or `name = None`.
macro_rules! slots {
    ($($name:ident = $kind:ident$(($function:expr))?;)*) => {
        /// The one table.
        pub static DISPATCH: Dispatch = Dispatch {
            $($name: entry!($name, $kind$(($function))?),)*
        };

        /// The slots' names and offsets in the order of the list.
        #[cfg(test)]
        const SLOTS: &[(&str, usize)] = &[$((stringify!($name), std::mem::offset_of!(Dispatch, $name)),)*];

        /// The address of the function in the slot of this name, or null.
        fn slot(name: &str) -> *mut c_void {
            match name {
                $(stringify!($name) => address!($name, $kind),)*
                _ => std::ptr::null_mut(),
            }
        }
    };
}

/// A slot's value.
macro_rules! entry {
    ($name:ident, None) => {
        None
    };
    ($name:ident, $kind:ident($function:expr)) => {
        $kind(|| stringify!($name), $function)
    };
}

/// The address of a slot's function, null for an empty slot (whose type says nothing about its function).
macro_rules! address {
    ($name:ident, None) => {
        std::ptr::null_mut()
    };
    ($name:ident, $kind:ident) => {
        DISPATCH.$name.map_or(std::ptr::null_mut(), |function| function as *mut c_void)
    };
}

slots! {
    clGetPlatformIDs = plain(platform::get_ids);
    clGetPlatformInfo = plain(platform::get_info);
    clGetDeviceIDs = plain(device::get_ids);
    clGetDeviceInfo = plain(device::get_info);
    clCreateContext = creates(context::create);
    clCreateContextFromType = creates(context::create_from_type);
    clRetainContext = plain(retain::<Context>);
    clReleaseContext = plain(release::<Context>);
    clGetContextInfo = plain(context::get_info);
    clCreateCommandQueue = creates(queue::create);
    clRetainCommandQueue = plain(retain::<Queue>);
    clReleaseCommandQueue = plain(queue::release);
    clGetCommandQueueInfo = plain(queue::get_info);
    clSetCommandQueueProperty = plain(queue::set_property);
    clCreateBuffer = creates(memory::create_buffer);
    clCreateImage2D = creates(image::create_2d);
    clCreateImage3D = creates(image::create_3d);
    clRetainMemObject = plain(retain::<Mem>);
    clReleaseMemObject = plain(release::<Mem>);
    clGetSupportedImageFormats = plain(image::get_supported_formats);
    clGetMemObjectInfo = plain(memory::get_info);
    clGetImageInfo = plain(image::get_info);
    clCreateSampler = creates(sampler::create);
    clRetainSampler = plain(retain::<Sampler>);
    clReleaseSampler = plain(release::<Sampler>);
    clGetSamplerInfo = plain(sampler::get_info);
    clCreateProgramWithSource = creates(program::create_with_source);
    clCreateProgramWithBinary = creates(program::create_with_binary);
    clRetainProgram = plain(retain::<Program>);
    clReleaseProgram = plain(release::<Program>);
    clBuildProgram = plain(program::build);
    clUnloadCompiler = plain(platform::unload_compiler);
    clGetProgramInfo = plain(program::get_info);
    clGetProgramBuildInfo = plain(program::get_build_info);
    clCreateKernel = creates(kernel::create);
    clCreateKernelsInProgram = plain(kernel::create_all);
    clRetainKernel = plain(retain::<Kernel>);
    clReleaseKernel = plain(release::<Kernel>);
    clSetKernelArg = plain(kernel::set_arg);
    clGetKernelInfo = plain(kernel::get_info);
    clGetKernelWorkGroupInfo = plain(kernel::get_work_group_info);
    clWaitForEvents = plain(event::wait);
    clGetEventInfo = plain(event::get_info);
    clRetainEvent = plain(retain::<Event>);
    clReleaseEvent = plain(release::<Event>);
    clGetEventProfilingInfo = plain(event::get_profiling_info);
    clFlush = plain(queue::flush);
    clFinish = plain(queue::finish);
    clEnqueueReadBuffer = plain(buffer::read);
    clEnqueueWriteBuffer = plain(buffer::write);
    clEnqueueCopyBuffer = plain(buffer::copy);
    clEnqueueReadImage = plain(enqueue::image::read);
    clEnqueueWriteImage = plain(enqueue::image::write);
    clEnqueueCopyImage = plain(enqueue::image::copy);
    clEnqueueCopyImageToBuffer = plain(enqueue::image::copy_to_buffer);
    clEnqueueCopyBufferToImage = plain(enqueue::image::copy_from_buffer);
    clEnqueueMapBuffer = creates(map::map_buffer);
    clEnqueueMapImage = creates(map::map_image);
    clEnqueueUnmapMemObject = plain(map::unmap);
    clEnqueueNDRangeKernel = plain(enqueue::kernel::ndrange);
    clEnqueueTask = plain(enqueue::kernel::task);
    clEnqueueNativeKernel = plain(enqueue::kernel::native);
    clEnqueueMarker = plain(synchronization::marker);
    clEnqueueWaitForEvents = plain(synchronization::wait_for_events);
    clEnqueueBarrier = plain(synchronization::barrier);
    clGetExtensionFunctionAddress = bare(platform::extension_function);
    clCreateFromGLBuffer = creates(sharing::gl_buffer);
    clCreateFromGLTexture2D = creates(sharing::gl_texture);
    clCreateFromGLTexture3D = creates(sharing::gl_texture);
    clCreateFromGLRenderbuffer = creates(sharing::gl_renderbuffer);
    clGetGLObjectInfo = plain(sharing::gl_object_info);
    clGetGLTextureInfo = plain(sharing::gl_texture_info);
    clEnqueueAcquireGLObjects = plain(sharing::transfer_objects);
    clEnqueueReleaseGLObjects = plain(sharing::transfer_objects);
    clGetGLContextInfoKHR = plain(sharing::gl_context_info);
    clGetDeviceIDsFromD3D10KHR = None;
    clCreateFromD3D10BufferKHR = None;
    clCreateFromD3D10Texture2DKHR = None;
    clCreateFromD3D10Texture3DKHR = None;
    clEnqueueAcquireD3D10ObjectsKHR = None;
    clEnqueueReleaseD3D10ObjectsKHR = None;
    clSetEventCallback = plain(event::set_callback);
    clCreateSubBuffer = creates(memory::create_sub_buffer);
    clSetMemObjectDestructorCallback = plain(memory::set_destructor_callback);
    clCreateUserEvent = creates(event::create_user);
    clSetUserEventStatus = plain(event::set_user_status);
    clEnqueueReadBufferRect = plain(buffer::read_rect);
    clEnqueueWriteBufferRect = plain(buffer::write_rect);
    clEnqueueCopyBufferRect = plain(buffer::copy_rect);
    clCreateSubDevicesEXT = plain(sub_device::create_sub_devices_ext);
    clRetainDeviceEXT = plain(sub_device::retain);
    clReleaseDeviceEXT = plain(sub_device::release);
    clCreateEventFromGLsyncKHR = creates(sharing::gl_event);
    clCreateSubDevices = plain(sub_device::create_sub_devices);
    clRetainDevice = plain(sub_device::retain);
    clReleaseDevice = plain(sub_device::release);
    clCreateImage = creates(image::create);
    clCreateProgramWithBuiltInKernels = creates(program::create_with_built_in_kernels);
    clCompileProgram = plain(program::compile);
    clLinkProgram = creates(program::link);
    clUnloadPlatformCompiler = plain(platform::unload_platform_compiler);
    clGetKernelArgInfo = plain(kernel::get_arg_info);
    clEnqueueFillBuffer = plain(buffer::fill);
    clEnqueueFillImage = plain(enqueue::image::fill);
    clEnqueueMigrateMemObjects = plain(synchronization::migrate);
    clEnqueueMarkerWithWaitList = plain(synchronization::marker_with_wait_list);
    clEnqueueBarrierWithWaitList = plain(synchronization::barrier_with_wait_list);
    clGetExtensionFunctionAddressForPlatform = bare(platform::extension_function_for);
    clCreateFromGLTexture = creates(sharing::gl_texture);
    clGetDeviceIDsFromD3D11KHR = None;
    clCreateFromD3D11BufferKHR = None;
    clCreateFromD3D11Texture2DKHR = None;
    clCreateFromD3D11Texture3DKHR = None;
    clCreateFromDX9MediaSurfaceKHR = None;
    clEnqueueAcquireD3D11ObjectsKHR = None;
    clEnqueueReleaseD3D11ObjectsKHR = None;
    clGetDeviceIDsFromDX9MediaAdapterKHR = None;
    clEnqueueAcquireDX9MediaSurfacesKHR = None;
    clEnqueueReleaseDX9MediaSurfacesKHR = None;
    clCreateFromEGLImageKHR = creates(sharing::egl_image);
    clEnqueueAcquireEGLObjectsKHR = plain(sharing::transfer_objects);
    clEnqueueReleaseEGLObjectsKHR = plain(sharing::transfer_objects);
    clCreateEventFromEGLSyncKHR = creates(sharing::egl_event);
    clCreateCommandQueueWithProperties = creates(queue::create_with_properties);
    clCreatePipe = creates(pipe::create);
    clGetPipeInfo = plain(pipe::get_info);
    clSVMAlloc = bare(svm::alloc);
    clSVMFree = bare(svm::free);
    clEnqueueSVMFree = plain(svm::enqueue_free);
    clEnqueueSVMMemcpy = plain(svm::enqueue_memcpy::<false>);
    clEnqueueSVMMemFill = plain(svm::enqueue_fill::<false>);
    clEnqueueSVMMap = plain(svm::enqueue_map);
    clEnqueueSVMUnmap = plain(svm::enqueue_unmap);
    clCreateSamplerWithProperties = creates(sampler::create_with_properties);
    clSetKernelArgSVMPointer = plain(kernel::set_arg_svm_pointer);
    clSetKernelExecInfo = plain(kernel::set_exec_info);
    clGetKernelSubGroupInfoKHR = plain(kernel::get_sub_group_info);
    clCloneKernel = creates(kernel::clone);
    clCreateProgramWithIL = creates(program::create_with_il);
    clEnqueueSVMMigrateMem = plain(svm::enqueue_migrate);
    clGetDeviceAndHostTimer = plain(device::device_and_host_timer);
    clGetHostTimer = plain(device::host_timer);
    clGetKernelSubGroupInfo = plain(kernel::get_sub_group_info);
    clSetDefaultDeviceCommandQueue = plain(queue::set_default_on_device);
    clSetProgramReleaseCallback = plain(program::set_release_callback);
    clSetProgramSpecializationConstant = plain(program::set_specialization_constant);
    clCreateBufferWithProperties = creates(memory::create_buffer_with_properties);
    clCreateImageWithProperties = creates(image::create_with_properties);
    clSetContextDestructorCallback = plain(context::set_destructor_callback);
    // OpenCL 3.1's loader calls what stands here, whichever version the platform has.
    clGetKernelSuggestedLocalWorkSize = plain(enqueue::kernel::suggested_local_work_size);
}

/// `name: type = kind(function)`: functions of extensions, which have no slot.
macro_rules! extensions {
    ($($name:ident: $slot:ident = $kind:ident($function:expr);)*) => {
        /// The address of the extension's function of this name, or null.
        fn extension(name: &str) -> *mut c_void {
            match name {
                $(stringify!($name) => {
                    const FUNCTION: opencl_sys::$slot = entry!($name, $kind($function));
                    FUNCTION.map_or(std::ptr::null_mut(), |function| function as *mut c_void)
                })*
                _ => std::ptr::null_mut(),
            }
        }

        #[cfg(test)]
        const EXTENSIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

extensions! {
    clGetKernelSuggestedLocalWorkSizeKHR: clGetKernelSuggestedLocalWorkSizeKHR_t
        = plain(enqueue::kernel::suggested_local_work_size);
    clCreateCommandBufferKHR: clCreateCommandBufferKHR_t = creates(command_buffer::create);
    clFinalizeCommandBufferKHR: clFinalizeCommandBufferKHR_t = plain(command_buffer::finalize);
    clRetainCommandBufferKHR: clRetainCommandBufferKHR_t = plain(retain::<CommandBuffer>);
    clReleaseCommandBufferKHR: clReleaseCommandBufferKHR_t = plain(release::<CommandBuffer>);
    clEnqueueCommandBufferKHR: clEnqueueCommandBufferKHR_t = plain(command_buffer::enqueue);
    clGetCommandBufferInfoKHR: clGetCommandBufferInfoKHR_t = plain(command_buffer::get_info);
    clCommandBarrierWithWaitListKHR: clCommandBarrierWithWaitListKHR_t = plain(record::barrier);
    clCommandCopyBufferKHR: clCommandCopyBufferKHR_t = plain(record::copy_buffer);
    clCommandCopyBufferRectKHR: clCommandCopyBufferRectKHR_t = plain(record::copy_buffer_rect);
    clCommandCopyBufferToImageKHR: clCommandCopyBufferToImageKHR_t = plain(record::copy_buffer_to_image);
    clCommandCopyImageKHR: clCommandCopyImageKHR_t = plain(record::copy_image);
    clCommandCopyImageToBufferKHR: clCommandCopyImageToBufferKHR_t = plain(record::copy_image_to_buffer);
    clCommandFillBufferKHR: clCommandFillBufferKHR_t = plain(record::fill_buffer);
    clCommandFillImageKHR: clCommandFillImageKHR_t = plain(record::fill_image);
    clCommandNDRangeKernelKHR: clCommandNDRangeKernelKHR_t = plain(record::ndrange_kernel);
    clCommandSVMMemcpyKHR: clCommandSVMMemcpyKHR_t = plain(record::svm_memcpy);
    clCommandSVMMemFillKHR: clCommandSVMMemFillKHR_t = plain(record::svm_mem_fill);
    clCreateSemaphoreWithPropertiesKHR: clCreateSemaphoreWithPropertiesKHR_t = creates(semaphore::create);
    clEnqueueSignalSemaphoresKHR: clEnqueueSignalSemaphoresKHR_t = plain(semaphore::enqueue_signal);
    clEnqueueWaitSemaphoresKHR: clEnqueueWaitSemaphoresKHR_t = plain(semaphore::enqueue_wait);
    clGetSemaphoreInfoKHR: clGetSemaphoreInfoKHR_t = plain(semaphore::get_info);
    clRetainSemaphoreKHR: clRetainSemaphoreKHR_t = plain(retain::<Semaphore>);
    clReleaseSemaphoreKHR: clReleaseSemaphoreKHR_t = plain(release::<Semaphore>);
    clGetSemaphoreHandleForTypeKHR: clGetSemaphoreHandleForTypeKHR_t = plain(semaphore::get_handle_for_type);
    clHostMemAllocINTEL: clHostMemAllocINTEL_t = creates(usm::alloc_host);
    clDeviceMemAllocINTEL: clDeviceMemAllocINTEL_t = creates(usm::alloc_device);
    clSharedMemAllocINTEL: clSharedMemAllocINTEL_t = creates(usm::alloc_shared);
    clMemFreeINTEL: clMemFreeINTEL_t = plain(usm::free);
    clMemBlockingFreeINTEL: clMemBlockingFreeINTEL_t = plain(usm::blocking_free);
    clGetMemAllocInfoINTEL: clGetMemAllocInfoINTEL_t = plain(usm::get_info);
    clSetKernelArgMemPointerINTEL: clSetKernelArgMemPointerINTEL_t = plain(kernel::set_arg_svm_pointer);
    clEnqueueMemFillINTEL: clEnqueueMemFillINTEL_t = plain(svm::enqueue_fill::<true>);
    clEnqueueMemcpyINTEL: clEnqueueMemcpyINTEL_t = plain(svm::enqueue_memcpy::<true>);
    clEnqueueMigrateMemINTEL: clEnqueueMigrateMemINTEL_t = plain(usm::enqueue_migrate);
    clEnqueueMemAdviseINTEL: clEnqueueMemAdviseINTEL_t = plain(usm::enqueue_advise);
}

/// clGetExtensionFunctionAddress: those of our extensions, and functions of the core are there for loaders that ask.
pub fn function(name: &[u8]) -> *mut c_void {
    match std::str::from_utf8(name) {
        Ok("clIcdGetPlatformIDsKHR") => slot("clGetPlatformIDs"),
        Ok("clCreateCommandQueueWithPropertiesKHR") => slot("clCreateCommandQueueWithProperties"),
        Ok("clCreateProgramWithILKHR") => slot("clCreateProgramWithIL"),
        Ok(name) => {
            let core = slot(name);
            if core.is_null() { extension(name) } else { core }
        }
        Err(_) => std::ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_in_the_order_of_khronos_headers() {
        for (index, &(name, offset)) in SLOTS.iter().enumerate() {
            assert_eq!(offset, index * size_of::<usize>(), "{name}");
        }
        // The number of slots of the OpenCL 3.0 headers (November 2020 to February 2023), and OpenCL 3.1's.
        assert_eq!(SLOTS.len(), 149 + 1);
        assert_eq!(size_of::<Dispatch>(), SLOTS.len() * size_of::<usize>());
    }

    #[test]
    fn only_direct3d_is_missing() {
        for (name, _) in SLOTS {
            assert_eq!(slot(name).is_null(), name.contains("D3D") || name.contains("DX9"), "{name}");
        }
    }

    #[test]
    fn extension_functions_are_found_by_name_only() {
        assert!(!function(b"clIcdGetPlatformIDsKHR").is_null());
        assert!(EXTENSIONS.iter().all(|name| !function(name.as_bytes()).is_null()));
        assert_eq!(
            function(b"clCreateContext"),
            DISPATCH.clCreateContext.map_or(std::ptr::null_mut(), |f| f as *mut c_void)
        );
        assert!(function(b"clIcdGetPlatformIDsKHR2").is_null());
        assert!(function(b"").is_null());
        assert!(function(b"\xff").is_null());
    }
}
