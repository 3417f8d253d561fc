//! Command queues and events.

use super::object::object;
use super::{Buffer, Context, Device, Image, Kernel, Object, Result};
use crate::cl::sys::*;
use crate::{call, create};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{null, null_mut};

/// A launch's sizes: one to three dimensions; `local` and `offset` may be left to the runtime.
#[derive(Clone, Copy, Debug)]
pub struct NdRange<'a> {
    /// `global_work_size`
    pub global: &'a [usize],
    /// `local_work_size`
    pub local: Option<&'a [usize]>,
    /// `global_work_offset`
    pub offset: Option<&'a [usize]>,
}

impl<'a> NdRange<'a> {
    /// Without an offset.
    pub fn new(global: &'a [usize], local: &'a [usize]) -> Self {
        NdRange { global, local: Some(local), offset: None }
    }
}

object!(
    /// A command queue.
    Queue, clRetainCommandQueue, clReleaseCommandQueue, clGetCommandQueueInfo
);

impl Queue {
    /// An in-order queue with profiling.
    pub fn new(context: &Context, device: Device) -> Result<Queue> {
        let properties = CL_QUEUE_PROFILING_ENABLE;
        Ok(Queue(create!(clCreateCommandQueue(context.raw(), device.raw(), properties))?))
    }

    /// The device's default queue for kernels that enqueue kernels (OpenCL 2.0).
    pub fn on_device(context: &Context, device: Device) -> Result<Queue> {
        let flags = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT;
        let properties = [cl_queue_properties::from(CL_QUEUE_PROPERTIES), flags, 0];
        let handle =
            create!(clCreateCommandQueueWithProperties(context.raw(), device.raw(), properties.as_ptr()))?;
        Ok(Queue(handle))
    }

    /// Launches a kernel whose arguments are set.
    pub fn launch(&self, kernel: &Kernel, range: NdRange<'_>) -> Result<Event> {
        let dimensions = range.global.len();
        for sizes in range.local.iter().chain(&range.offset) {
            assert_eq!(sizes.len(), dimensions, "all sizes of a launch have its dimensions");
        }
        let mut event = null_mut();
        call!(clEnqueueNDRangeKernel(
            self.raw(),
            kernel.raw(),
            dimensions as cl_uint,
            range.offset.map_or(null(), <[usize]>::as_ptr),
            range.global.as_ptr(),
            range.local.map_or(null(), <[usize]>::as_ptr),
            0,
            null(),
            &mut event
        ))?;
        Ok(Event::from_raw(event))
    }

    /// Reads a buffer's start, blocking.
    pub fn read<T: Pod>(&self, buffer: &Buffer, into: &mut [T]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        let place = bytes.as_mut_ptr().cast();
        call!(clEnqueueReadBuffer(
            self.raw(),
            buffer.raw(),
            CL_TRUE,
            0,
            bytes.len(),
            place,
            0,
            null(),
            null_mut()
        ))
    }

    /// Writes a buffer's start, blocking.
    pub fn write<T: Pod>(&self, buffer: &Buffer, from: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        let place = bytes.as_ptr().cast();
        call!(clEnqueueWriteBuffer(
            self.raw(),
            buffer.raw(),
            CL_TRUE,
            0,
            bytes.len(),
            place,
            0,
            null(),
            null_mut()
        ))
    }

    /// Begins to read a buffer's start.
    pub fn begin_read<'a, T: Pod>(&self, buffer: &Buffer, into: &'a mut [T]) -> Result<Transfer<'a>> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        let (place, mut event) = (bytes.as_mut_ptr().cast(), null_mut());
        call!(clEnqueueReadBuffer(
            self.raw(),
            buffer.raw(),
            CL_FALSE,
            0,
            bytes.len(),
            place,
            0,
            null(),
            &mut event
        ))?;
        Ok(Transfer { event: Event(event), memory: PhantomData })
    }

    /// Begins to write a buffer's start.
    pub fn begin_write<'a, T: Pod>(&self, buffer: &Buffer, from: &'a [T]) -> Result<Transfer<'a>> {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        let (place, mut event) = (bytes.as_ptr().cast(), null_mut());
        call!(clEnqueueWriteBuffer(
            self.raw(),
            buffer.raw(),
            CL_FALSE,
            0,
            bytes.len(),
            place,
            0,
            null(),
            &mut event
        ))?;
        Ok(Transfer { event: Event(event), memory: PhantomData })
    }

    /// Reads a whole image, blocking. `into` must have its size, tightly packed.
    pub fn read_image(&self, image: &Image, into: &mut [u8]) -> Result<()> {
        let (origin, place) = ([0usize; 3], into.as_mut_ptr().cast());
        call!(clEnqueueReadImage(
            self.raw(),
            image.raw(),
            CL_TRUE,
            origin.as_ptr(),
            image.region.as_ptr(),
            0,
            0,
            place,
            0,
            null(),
            null_mut()
        ))
    }

    /// Writes a whole image, blocking. `from` must have its size, tightly packed.
    pub fn write_image(&self, image: &Image, from: &[u8]) -> Result<()> {
        let (origin, place) = ([0usize; 3], from.as_ptr().cast());
        call!(clEnqueueWriteImage(
            self.raw(),
            image.raw(),
            CL_TRUE,
            origin.as_ptr(),
            image.region.as_ptr(),
            0,
            0,
            place,
            0,
            null(),
            null_mut()
        ))
    }

    /// Waits until all commands are complete.
    pub fn finish(&self) -> Result<()> {
        call!(clFinish(self.raw()))
    }
}

object!(
    /// An event.
    Event, clRetainEvent, clReleaseEvent, clGetEventInfo
);

impl Event {
    /// An event that the application completes.
    pub fn user(context: &Context) -> Result<Event> {
        Ok(Event(create!(clCreateUserEvent(context.raw()))?))
    }

    /// Completes a user event: CL_COMPLETE, or a negative error.
    pub fn set_status(&self, status: cl_int) -> Result<()> {
        call!(clSetUserEventStatus(self.raw(), status))
    }

    /// Waits for it.
    pub fn wait(&self) -> Result<()> {
        call!(clWaitForEvents(1, &self.raw()))
    }

    /// CL_QUEUED, CL_SUBMITTED, CL_RUNNING, CL_COMPLETE, or a negative error.
    pub fn status(&self) -> Result<cl_int> {
        self.info(CL_EVENT_COMMAND_EXECUTION_STATUS)
    }

    /// Nanoseconds of the device's clock at which the command was queued, submitted, started and ended.
    pub fn times(&self) -> Result<[u64; 4]> {
        let mut times = [0; 4];
        let names = [
            CL_PROFILING_COMMAND_QUEUED,
            CL_PROFILING_COMMAND_SUBMIT,
            CL_PROFILING_COMMAND_START,
            CL_PROFILING_COMMAND_END,
        ];
        for (time, name) in times.iter_mut().zip(names) {
            *time = super::query(|size, value, needed| {
                call!(clGetEventProfilingInfo(self.raw(), name, size, value, needed))
            })?;
        }
        Ok(times)
    }

    /// Waits, and gives the seconds between the command's start and end.
    pub fn seconds(&self) -> Result<f64> {
        self.wait()?;
        let [_, _, start, end] = self.times()?;
        Ok(end.saturating_sub(start) as f64 * 1e-9)
    }
}

/// A transfer that does not block: it borrows the application's memory, and dropping it waits for its end.
#[derive(Debug)]
pub struct Transfer<'a> {
    event: Event,
    memory: PhantomData<&'a mut [u8]>,
}

impl Deref for Transfer<'_> {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let _ = self.event.wait(); // how it ended is told by the event
    }
}
