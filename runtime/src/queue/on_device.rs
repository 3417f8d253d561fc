//! Queues on the device (OpenCL 2.0, 5.1): memory that kernels fill with kernels to run. A context knows its own, and the
//! events that kernels use; `execute/children.rs` runs what is enqueued.

use crate::context::Context;
use crate::error::{Result, Status};
use crate::execute::fault::Deadline;
use crate::memory::pool::Pool;
use crate::platform::device::Device;
pub(crate) use spirula_interface::enqueue::MAX_EVENTS;
use spirula_interface::enqueue::MAX_QUEUES;
use spirula_interface::enqueue::host::{OwnedEvents, OwnedQueue};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE: sixty thousand kernels with few captures, one of each work-item of a large launch. Memory
/// that no kernel fills is never touched.
pub(crate) const PREFERRED_SIZE: u32 = 16 << 20;
/// CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE.
pub(crate) const MAX_SIZE: u32 = 64 << 20;

/// A `cl_command_queue` on the device.
#[derive(Debug)]
pub struct DeviceQueue {
    /// CL_QUEUE_CONTEXT.
    pub context: Arc<Context>,
    /// CL_QUEUE_DEVICE.
    pub device: Arc<Device>,
    /// CL_QUEUE_SIZE, in bytes.
    pub size: u32,
    pub(crate) storage: OwnedQueue,
}

/// A context's queues on devices, and their events.
#[derive(Debug, Default)]
pub struct DeviceQueues {
    /// What they lie in.
    pub(crate) pool: Pool,
    known: Mutex<Known>,
    /// None if there was no memory for them.
    events: OnceLock<Option<OwnedEvents>>,
    /// Told when kernels may have ended events.
    changed: Condvar,
    waiting: Mutex<()>,
}

/// Which queues there are.
#[derive(Debug, Default)]
struct Known {
    /// By their numbers.
    queues: [Weak<DeviceQueue>; MAX_QUEUES],
    /// Of each device the default one.
    defaults: Vec<Weak<DeviceQueue>>,
}

impl DeviceQueue {
    /// A queue of `size` bytes, or of the preferred size. CL_INVALID_QUEUE_PROPERTIES for another size than there is,
    /// CL_OUT_OF_RESOURCES if there are too many queues, CL_OUT_OF_HOST_MEMORY.
    pub fn new(
        context: &Arc<Context>,
        device: &Arc<Device>,
        size: Option<u32>,
        is_default: bool,
    ) -> Result<Arc<DeviceQueue>> {
        let size = size.unwrap_or(PREFERRED_SIZE);
        if !(1..=MAX_SIZE).contains(&size) {
            return Err(Status::InvalidQueueProperties
                .because(format!("a queue on the device of {size} bytes; 1 to {MAX_SIZE} are possible")));
        }
        let mut known = context.device_queues.known();
        let Some(number) = known.queues.iter().position(|queue| queue.strong_count() == 0) else {
            return Err(Status::OutOfResources
                .because(format!("the context has {MAX_QUEUES} queues on devices; more are not possible")));
        };
        let storage =
            OwnedQueue::new(number as u32, size, &|bytes| context.memory.words(bytes)).ok_or_else(|| {
                Status::OutOfHostMemory
                    .because(format!("no memory for a queue on the device of {size} bytes"))
            })?;
        let (context, device) = (context.clone(), device.clone());
        let queue = Arc::new(DeviceQueue { context: context.clone(), device, size, storage });
        known.queues[number] = Arc::downgrade(&queue);
        if is_default {
            known.set_default(&queue);
        }
        drop(known);
        Ok(queue)
    }

    /// clSetDefaultDeviceCommandQueue.
    pub fn make_default(self: &Arc<DeviceQueue>) {
        self.context.device_queues.known().set_default(self);
    }
}

impl Known {
    fn set_default(&mut self, queue: &Arc<DeviceQueue>) {
        let is_other = |other: &Weak<DeviceQueue>| {
            other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other.device, &queue.device))
        };
        self.defaults.retain(is_other);
        self.defaults.push(Arc::downgrade(queue));
    }
}

impl DeviceQueues {
    /// None yet, in that memory.
    pub(crate) fn new(pool: Pool) -> DeviceQueues {
        DeviceQueues { pool, ..DeviceQueues::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The default queue of a device.
    pub fn default_of(&self, device: &Arc<Device>) -> Option<Arc<DeviceQueue>> {
        let known = self.known();
        let mut queues = known.defaults.iter().filter_map(Weak::upgrade);
        queues.find(|queue| Arc::ptr_eq(&queue.device, device))
    }

    /// The events; None without memory.
    pub(crate) fn events(&self) -> Option<&OwnedEvents> {
        let words = |bytes| self.pool.words(bytes);
        self.events.get_or_init(|| OwnedEvents::new(MAX_EVENTS, &words)).as_ref()
    }

    /// Tells who waits that events may have ended.
    pub(crate) fn tell(&self) {
        let _one = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    /// Waits until more events have ended than `seen` counts. False if time is over before that.
    pub(crate) fn wait(&self, events: &OwnedEvents, seen: u64, deadline: Deadline) -> bool {
        let mut one = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while events.changes() == seen {
            one = match deadline.left() {
                None => self.changed.wait(one).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return false,
                Some(left) => self.changed.wait_timeout(one, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        true
    }
}
