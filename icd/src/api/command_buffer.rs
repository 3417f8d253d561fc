//! Command-buffers (cl_khr_command_buffer 0.9.8): commands that are recorded once, here and in `command_buffer/record.rs`, and
//! enqueued as one any number of times.

pub mod record;

use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::distinct;
use crate::api::enqueue::{submit, wait_list};
use crate::api::event::Event;
use crate::api::queue::Queue;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::command::{Command, Template};
use spirula_runtime::context::Context as CoreContext;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR.
pub const CAPABILITIES: cl::cl_bitfield = cl::CL_COMMAND_BUFFER_CAPABILITY_KERNEL_PRINTF_KHR
    | cl::CL_COMMAND_BUFFER_CAPABILITY_DEVICE_SIDE_ENQUEUE_KHR;

/// A `cl_command_buffer_khr`.
pub struct CommandBuffer {
    /// CL_COMMAND_BUFFER_QUEUES_KHR, of which there is one; on the host.
    queue: Link<Queue>,
    /// CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR.
    property_list: Vec<cl::cl_command_buffer_properties_khr>,
    recording: Mutex<Recording>,
}

/// What was recorded.
#[derive(Default)]
struct Recording {
    /// Nothing can be added any more, and it can be enqueued.
    finalized: bool,
    /// The number of a command is one less than its synchronization point.
    commands: Vec<Box<dyn Template>>,
}

impl ClObject for CommandBuffer {
    const NAME: &'static str = "cl_command_buffer_khr";
    const INVALID: cl::cl_int = cl::CL_INVALID_COMMAND_BUFFER_KHR;
    fn context(&self) -> Option<Arc<CoreContext>> {
        self.queue.context()
    }
}

impl CommandBuffer {
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue to enqueue it on if the application names these: its own, if none.
    ///
    /// Errors: CL_INVALID_VALUE if queues is NULL and num_queues is not 0, or the other way round, or for another number than was
    /// given on creation; CL_INCOMPATIBLE_COMMAND_QUEUE_KHR for one on the device, CL_INVALID_DEVICE and CL_INVALID_CONTEXT for one
    /// with another device or context than the recorded one.
    fn queue_of(&self, num_queues: u32, queues: &Handles<Queue>) -> Status<Ref<Queue>> {
        let invalid = cl::CL_INVALID_VALUE;
        fail_if(
            queues.is_null() != (num_queues == 0),
            invalid,
            "queues is NULL where num_queues is not 0, or the other way round",
        )?;
        fail_if(num_queues > 1, invalid, "the command-buffer was created for one queue")?;
        let Some(queue) = queues.get(num_queues)?.pop() else { return Ref::find(self.queue.handle()) };
        let (core, own) = (takes_command_buffers(&queue)?, self.queue.host()?);
        fail_if(
            !Arc::ptr_eq(&core.device, &own.device),
            cl::CL_INVALID_DEVICE,
            "the queue is of another device than the one that the command-buffer was created with",
        )?;
        fail_if(
            !Arc::ptr_eq(&core.context, &own.context),
            cl::CL_INVALID_CONTEXT,
            "the queue is of another context than the one that the command-buffer was created with",
        )?;
        Ok(queue)
    }
}

/// CL_INCOMPATIBLE_COMMAND_QUEUE_KHR if the queue has properties that CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR has
/// not: the device's own.
fn takes_command_buffers(queue: &Queue) -> Status<&Arc<spirula_runtime::queue::Queue>> {
    queue.host().map_err(|error| error.with_code(cl::CL_INCOMPATIBLE_COMMAND_QUEUE_KHR))
}

/// clCreateCommandBufferKHR.
pub fn create(
    num_queues: u32,
    queues: Handles<Queue>,
    properties: In<cl::cl_command_buffer_properties_khr>,
) -> Status<NewHandle> {
    /// What extensions define that are not there: CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, CL_COMMAND_BUFFER_MUTABLE_KHR and
    /// CL_COMMAND_BUFFER_DEVICE_SIDE_SYNC_KHR.
    const UNSUPPORTED: u64 = 0b111;
    let invalid = cl::CL_INVALID_VALUE;
    fail_if(num_queues != 1 || queues.is_null(), invalid, "num_queues is not 1 or queues is NULL")?;
    let queue = queues.get(num_queues)?.pop().or_fail(invalid, "queues is empty")?;
    takes_command_buffers(&queue)?;
    for (name, value) in distinct(&properties, invalid)? {
        if name != cl::CL_COMMAND_BUFFER_FLAGS_KHR {
            return fail(invalid, format!("property {name:#x} is not valid"));
        }
        fail_if(
            value & !UNSUPPORTED != 0,
            invalid,
            "CL_COMMAND_BUFFER_FLAGS_KHR has values that are not valid",
        )?;
        fail_if(
            value != 0,
            cl::CL_INVALID_PROPERTY,
            "CL_COMMAND_BUFFER_FLAGS_KHR has values of other extensions",
        )?;
    }
    Ok(NewHandle::new(CommandBuffer {
        queue: queue.link()?,
        property_list: properties.property_list(),
        recording: Mutex::default(),
    }))
}

/// clFinalizeCommandBufferKHR. Errors: CL_INVALID_OPERATION if it is not in the recording state.
pub fn finalize(command_buffer: Handle<CommandBuffer>) -> Status {
    let command_buffer = command_buffer.get()?;
    let mut recording = command_buffer.lock();
    fail_if(recording.finalized, cl::CL_INVALID_OPERATION, "the command-buffer was finalized before")?;
    recording.finalized = true;
    Ok(())
}

/// clEnqueueCommandBufferKHR.
pub fn enqueue(
    num_queues: u32,
    queues: Out<*mut c_void>,
    command_buffer: Handle<CommandBuffer>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let command_buffer = command_buffer.get()?;
    let queue = command_buffer.queue_of(num_queues, &queues.as_handles())?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let command = {
        let recording = command_buffer.lock();
        let ready = recording.finalized;
        fail_if(!ready, cl::CL_INVALID_OPERATION, "the command-buffer is not finalized")?;
        let commands = recording.commands.iter().map(|template| template());
        Command::batch(&command_buffer.queue.host()?.context, commands.collect::<Result<_, _>>()?)
    };
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}

/// clGetCommandBufferInfoKHR.
pub fn get_info(
    command_buffer: Handle<CommandBuffer>,
    param_name: cl::cl_command_buffer_info_khr,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let command_buffer = command_buffer.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_COMMAND_BUFFER_NUM_QUEUES_KHR => answer.value(1_u32),
        cl::CL_COMMAND_BUFFER_QUEUES_KHR => answer.objects(std::slice::from_ref(&command_buffer.queue)),
        cl::CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR => answer.value(command_buffer.reference_count()),
        cl::CL_COMMAND_BUFFER_STATE_KHR => answer.value(match command_buffer.lock().finalized {
            true => cl::CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR,
            false => cl::CL_COMMAND_BUFFER_STATE_RECORDING_KHR,
        }),
        cl::CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR => answer.list(&command_buffer.property_list),
        cl::CL_COMMAND_BUFFER_CONTEXT_KHR => answer.object(&command_buffer.queue.context),
        _ => unknown(param_name),
    })
}
