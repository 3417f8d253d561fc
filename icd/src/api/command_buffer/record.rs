//! clCommand*: what is recorded. Checks and commands are those of the clEnqueue* functions.

use super::CommandBuffer;
use crate::abi::{Handle, HostConst, HostMut, In, Out};
use crate::api::enqueue::{buffer, image, kernel as launch};
use crate::api::kernel::Kernel;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::api::svm;
use crate::error::{Status, fail_if};
use crate::handle::Ref;
use opencl_sys as cl;
use spirula_runtime::command::{Command, Template};
use std::ffi::c_void;

/// Where a command is to be recorded.
struct Target(Ref<CommandBuffer>);

impl Target {
    /// Errors: CL_INVALID_COMMAND_BUFFER_KHR; CL_INVALID_COMMAND_QUEUE if command_queue is not NULL; CL_INVALID_VALUE if properties
    /// has any or mutable_handle is not NULL.
    fn new(
        command_buffer: &Handle<CommandBuffer>,
        command_queue: &Handle<Queue>,
        properties: &In<cl::cl_command_properties_khr>,
        mutable_handle: &Out<*mut c_void>,
    ) -> Status<Target> {
        let command_buffer = command_buffer.get()?;
        fail_if(
            !command_queue.is_null(),
            cl::CL_INVALID_COMMAND_QUEUE,
            "command_queue is not NULL, but a command-buffer has one queue",
        )?;
        let none = properties.properties().is_empty();
        fail_if(!none, cl::CL_INVALID_VALUE, "properties has values, and there are none that are valid")?;
        fail_if(!mutable_handle.is_null(), cl::CL_INVALID_VALUE, "mutable_handle is not NULL")?;
        Ok(Target(command_buffer))
    }

    /// Records a command behind those that it waits for.
    ///
    /// Errors: CL_INVALID_SYNC_POINT_WAIT_LIST_KHR; CL_INVALID_OPERATION if the command-buffer has been finalized;
    /// CL_INVALID_CONTEXT if a memory object is of another context; and what enqueuing the command yields.
    fn add(
        &self,
        template: impl Template,
        (num_sync_points, sync_point_wait_list): (u32, &In<cl::cl_sync_point_khr>),
        sync_point: &Out<cl::cl_sync_point_khr>,
    ) -> Status {
        let invalid = cl::CL_INVALID_SYNC_POINT_WAIT_LIST_KHR;
        fail_if(
            sync_point_wait_list.is_null() != (num_sync_points == 0),
            invalid,
            "sync_point_wait_list is NULL where num_sync_points_in_wait_list is not 0, or the other way round",
        )?;
        let awaited = sync_point_wait_list.list(num_sync_points as usize).unwrap_or_default();
        let is_own = template()?.is_of(&self.0.queue.host()?.context);
        fail_if(
            !is_own,
            cl::CL_INVALID_CONTEXT,
            "the command-buffer is of another context than the command's objects",
        )?;
        let mut recording = self.0.lock();
        let count = recording.commands.len();
        let known = awaited.iter().all(|&point| (1..=count).contains(&(point as usize)));
        fail_if(!known, invalid, "sync_point_wait_list has a synchronization point that no command has")?;
        fail_if(recording.finalized, cl::CL_INVALID_OPERATION, "the command-buffer has been finalized")?;
        recording.commands.push(Box::new(template));
        sync_point.write(u32::try_from(count + 1).unwrap_or(u32::MAX));
        Ok(())
    }
}

/// Functions that record a command: their own parameters, and what the command is made of. `target` is where it is recorded.
macro_rules! recorded {
    ($($(#[$doc:meta])* $name:ident($target:ident, $($parameter:ident: $ty:ty),* $(,)?) $template:block)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name(
            command_buffer: Handle<CommandBuffer>,
            command_queue: Handle<Queue>,
            properties: In<cl::cl_command_properties_khr>,
            $($parameter: $ty,)*
            num_sync_points: u32,
            sync_point_wait_list: In<cl::cl_sync_point_khr>,
            sync_point: Out<cl::cl_sync_point_khr>,
            mutable_handle: Out<*mut c_void>,
        ) -> Status {
            let $target = Target::new(&command_buffer, &command_queue, &properties, &mutable_handle)?;
            let template = $template;
            $target.add(template, (num_sync_points, &sync_point_wait_list), &sync_point)
        }
    )*};
}

recorded! {
    /// clCommandBarrierWithWaitListKHR.
    barrier(target,) {
        || Ok(Command::barrier())
    }

    /// clCommandCopyBufferKHR.
    copy_buffer(
        target,
        src_buffer: Handle<Mem>,
        dst_buffer: Handle<Mem>,
        src_offset: usize,
        dst_offset: usize,
        size: usize,
    ) {
        buffer::copying(&src_buffer, &dst_buffer, src_offset, dst_offset, size)?
    }

    /// clCommandCopyBufferRectKHR.
    copy_buffer_rect(
        target,
        src_buffer: Handle<Mem>,
        dst_buffer: Handle<Mem>,
        src_origin: In<usize>,
        dst_origin: In<usize>,
        region: In<usize>,
        src_row_pitch: usize,
        src_slice_pitch: usize,
        dst_row_pitch: usize,
        dst_slice_pitch: usize,
    ) {
        let source = (&src_buffer, &src_origin, src_row_pitch, src_slice_pitch);
        let destination = (&dst_buffer, &dst_origin, dst_row_pitch, dst_slice_pitch);
        buffer::copying_rect(source, destination, &region)?
    }

    /// clCommandCopyBufferToImageKHR.
    copy_buffer_to_image(
        target,
        src_buffer: Handle<Mem>,
        dst_image: Handle<Mem>,
        src_offset: usize,
        dst_origin: In<usize>,
        region: In<usize>,
    ) {
        image::copying_from_buffer((&src_buffer, src_offset), (&dst_image, &dst_origin), &region)?
    }

    /// clCommandCopyImageKHR.
    copy_image(
        target,
        src_image: Handle<Mem>,
        dst_image: Handle<Mem>,
        src_origin: In<usize>,
        dst_origin: In<usize>,
        region: In<usize>,
    ) {
        image::copying((&src_image, &src_origin), (&dst_image, &dst_origin), &region)?
    }

    /// clCommandCopyImageToBufferKHR.
    copy_image_to_buffer(
        target,
        src_image: Handle<Mem>,
        dst_buffer: Handle<Mem>,
        src_origin: In<usize>,
        region: In<usize>,
        dst_offset: usize,
    ) {
        image::copying_to_buffer((&src_image, &src_origin), &region, (&dst_buffer, dst_offset))?
    }

    /// clCommandFillBufferKHR.
    fill_buffer(
        target,
        buffer: Handle<Mem>,
        pattern: HostConst,
        pattern_size: usize,
        offset: usize,
        size: usize,
    ) {
        buffer::filling(&buffer, (&pattern, pattern_size), offset, size)?
    }

    /// clCommandFillImageKHR.
    fill_image(target, image: Handle<Mem>, fill_color: HostConst, origin: In<usize>, region: In<usize>) {
        image::filling((&image, &origin), &fill_color, &region)?
    }

    /// clCommandNDRangeKernelKHR.
    ndrange_kernel(
        target,
        kernel: Handle<Kernel>,
        work_dim: u32,
        global_work_offset: In<usize>,
        global_work_size: In<usize>,
        local_work_size: In<usize>,
    ) {
        let sizes = (&global_work_offset, &global_work_size, &local_work_size);
        launch::launching(&target.0.queue, &*kernel.get()?, work_dim, sizes)?
    }

    /// clCommandSVMMemcpyKHR.
    svm_memcpy(target, dst_ptr: HostMut, src_ptr: HostConst, size: usize) {
        svm::of_queue(&target.0.queue)?;
        svm::copying(&target.0.queue.host()?.context, &dst_ptr, &src_ptr, size)?
    }

    /// clCommandSVMMemFillKHR.
    svm_mem_fill(target, svm_ptr: HostMut, pattern: HostConst, pattern_size: usize, size: usize) {
        svm::of_queue(&target.0.queue)?;
        svm::filling(&target.0.queue.host()?.context, &svm_ptr, (&pattern, pattern_size), size)?
    }
}
