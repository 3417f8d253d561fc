//! Commands: what a queue can run. Constructors check what the specification has `clEnqueue*` check (and hold the
//! objects until the command ends); [`crate::queue::Queue::submit`] does the rest.

pub mod buffer;
pub mod image;
pub mod map;
pub mod ndrange;
pub mod svm;

use crate::context::Context;
use crate::error::{Result, Status};
use crate::execute::scheduler::Scheduler;
use crate::execute::tiers::Tiers;
use crate::memory::rect::{self, Placement};
use crate::memory::{ImageInfo, Mem};
use crate::platform::device::Device;
use ndrange::KernelLaunch;
use std::sync::Arc;

/// Declares [`CommandType`] from one table: variant, code, the name in the headers.
macro_rules! command_types {
    ($($name:ident = $code:literal, $cl:literal;)*) => {
        /// `cl_command_type`; discriminants are OpenCL's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        #[allow(missing_docs)]
        pub enum CommandType { $($name = $code,)* }

        impl CommandType {
            /// The name in the headers.
            pub(crate) fn name(self) -> &'static str {
                match self { $(CommandType::$name => $cl,)* }
            }
        }
    };
}

command_types! {
    NdrangeKernel = 0x11F0, "CL_COMMAND_NDRANGE_KERNEL";
    Task = 0x11F1, "CL_COMMAND_TASK";
    NativeKernel = 0x11F2, "CL_COMMAND_NATIVE_KERNEL";
    ReadBuffer = 0x11F3, "CL_COMMAND_READ_BUFFER";
    WriteBuffer = 0x11F4, "CL_COMMAND_WRITE_BUFFER";
    CopyBuffer = 0x11F5, "CL_COMMAND_COPY_BUFFER";
    ReadImage = 0x11F6, "CL_COMMAND_READ_IMAGE";
    WriteImage = 0x11F7, "CL_COMMAND_WRITE_IMAGE";
    CopyImage = 0x11F8, "CL_COMMAND_COPY_IMAGE";
    CopyImageToBuffer = 0x11F9, "CL_COMMAND_COPY_IMAGE_TO_BUFFER";
    CopyBufferToImage = 0x11FA, "CL_COMMAND_COPY_BUFFER_TO_IMAGE";
    MapBuffer = 0x11FB, "CL_COMMAND_MAP_BUFFER";
    MapImage = 0x11FC, "CL_COMMAND_MAP_IMAGE";
    UnmapMemObject = 0x11FD, "CL_COMMAND_UNMAP_MEM_OBJECT";
    Marker = 0x11FE, "CL_COMMAND_MARKER";
    ReadBufferRect = 0x1201, "CL_COMMAND_READ_BUFFER_RECT";
    WriteBufferRect = 0x1202, "CL_COMMAND_WRITE_BUFFER_RECT";
    CopyBufferRect = 0x1203, "CL_COMMAND_COPY_BUFFER_RECT";
    User = 0x1204, "CL_COMMAND_USER";
    Barrier = 0x1205, "CL_COMMAND_BARRIER";
    MigrateMemObjects = 0x1206, "CL_COMMAND_MIGRATE_MEM_OBJECTS";
    FillBuffer = 0x1207, "CL_COMMAND_FILL_BUFFER";
    FillImage = 0x1208, "CL_COMMAND_FILL_IMAGE";
    SvmFree = 0x1209, "CL_COMMAND_SVM_FREE";
    SvmMemcpy = 0x120A, "CL_COMMAND_SVM_MEMCPY";
    SvmMemFill = 0x120B, "CL_COMMAND_SVM_MEMFILL";
    SvmMap = 0x120C, "CL_COMMAND_SVM_MAP";
    SvmUnmap = 0x120D, "CL_COMMAND_SVM_UNMAP";
    SvmMigrateMem = 0x120E, "CL_COMMAND_SVM_MIGRATE_MEM";
    SemaphoreWait = 0x2042, "CL_COMMAND_SEMAPHORE_WAIT_KHR";
    SemaphoreSignal = 0x2043, "CL_COMMAND_SEMAPHORE_SIGNAL_KHR";
    CommandBuffer = 0x12A8, "CL_COMMAND_COMMAND_BUFFER_KHR";
    MemFill = 0x4204, "CL_COMMAND_MEMFILL_INTEL";
    Memcpy = 0x4205, "CL_COMMAND_MEMCPY_INTEL";
    MigrateMem = 0x4206, "CL_COMMAND_MIGRATEMEM_INTEL";
    MemAdvise = 0x4207, "CL_COMMAND_MEMADVISE_INTEL";
}

/// A checked command, not yet queued. It holds the objects it works on.
pub struct Command {
    /// CL_EVENT_COMMAND_TYPE of its event.
    pub command_type: CommandType,
    pub(crate) work: Work,
    /// Of its objects; None if it has none.
    pub(crate) context: Option<Arc<Context>>,
    /// How long it is expected to take.
    pub(crate) expected_ns: u64,
    /// Needs no large stack and doesn't call the application: may run on any thread that waits.
    pub(crate) anywhere: bool,
}

/// What is called on a device's behalf.
type Call = dyn FnOnce(&Device) -> Result<()> + Send;

/// What there is to do.
pub(crate) enum Work {
    Nothing,
    Kernel(Box<KernelLaunch>),
    Call(Box<Call>),
    /// One after the other.
    Batch(Vec<Command>),
}

impl Work {
    /// Whether kernels are part of it.
    pub(crate) fn has_kernels(&self) -> bool {
        match self {
            Work::Kernel(_) => true,
            Work::Batch(commands) => commands.iter().any(|command| command.work.has_kernels()),
            Work::Nothing | Work::Call(_) => false,
        }
    }

    /// The code of the kernel that it launches, if it is one launch.
    pub(crate) fn launched(&self) -> Option<&Arc<Tiers>> {
        match self {
            Work::Kernel(launch) => Some(launch.tiers()),
            Work::Nothing | Work::Call(_) | Work::Batch(_) => None,
        }
    }

    /// Before it begins: a launch whose times are read waits for its code.
    pub(crate) fn wait_if_measured(&self) {
        if let Work::Kernel(launch) = self {
            launch.tiers().wait_if_measured(launch.items());
        }
    }
}

/// What makes a command, as often as it is asked to; the errors are those of enqueuing it. What is given once (handles, a kernel's
/// arguments, patterns) it keeps.
pub trait Template: Fn() -> Result<Command> + Send + Sync + 'static {}

impl<F: Fn() -> Result<Command> + Send + Sync + 'static> Template for F {}

/// What any command takes at least.
pub(crate) const COMMAND_NS: u64 = 300;
/// Bytes that a transfer moves in a nanosecond.
const BYTES_IN_A_NS: u64 = 5;

impl Command {
    /// clEnqueueMarkerWithWaitList.
    pub fn marker() -> Command {
        Command::nothing(CommandType::Marker, None)
    }

    /// clEnqueueBarrierWithWaitList.
    pub fn barrier() -> Command {
        Command::nothing(CommandType::Barrier, None)
    }

    /// clEnqueueMigrateMemObjects: there is nowhere to migrate to. CL_INVALID_VALUE when empty.
    pub fn migrate(objects: &[Arc<Mem>]) -> Result<Command> {
        let Some(first) = objects.first() else {
            return Err(Status::InvalidValue.because("no memory objects to migrate"));
        };
        for object in objects {
            same_context(first, object)?;
        }
        Ok(Command::nothing(CommandType::MigrateMemObjects, Some(first.context.clone())))
    }

    /// clEnqueueNativeKernel: `function` already has its arguments (see [`Mem::address`]); `objects` are kept meanwhile.
    pub fn native(function: Box<dyn FnOnce() + Send>, objects: &[Arc<Mem>]) -> Command {
        let (context, objects) = (objects.first().map(|object| object.context.clone()), objects.to_vec());
        objects.iter().for_each(|object| object.note_all_written());
        let call = move |_: &Device| {
            function();
            drop(objects);
            Ok(())
        };
        Command {
            command_type: CommandType::NativeKernel,
            work: Work::Call(Box::new(call)),
            context,
            expected_ns: u64::MAX,
            anywhere: false,
        }
    }

    /// clEnqueueCommandBufferKHR: these commands one after the other, an order in which each stands behind what it may wait for. The
    /// first that fails ends it.
    pub fn batch(context: &Arc<Context>, commands: Vec<Command>) -> Command {
        Command {
            command_type: CommandType::CommandBuffer,
            context: Some(context.clone()),
            expected_ns: commands
                .iter()
                .fold(COMMAND_NS, |sum, command| sum.saturating_add(command.expected_ns)),
            anywhere: commands.iter().all(|command| command.anywhere),
            work: Work::Batch(commands),
        }
    }

    /// Whether its objects are of this context, or it has none.
    pub fn is_of(&self, context: &Arc<Context>) -> bool {
        self.context.as_ref().is_none_or(|own| Arc::ptr_eq(own, context))
    }

    fn nothing(command_type: CommandType, context: Option<Arc<Context>>) -> Command {
        Command { command_type, work: Work::Nothing, context, expected_ns: COMMAND_NS, anywhere: true }
    }

    /// A transfer of `bytes` with the objects that `call` holds.
    fn transfer(
        command_type: CommandType,
        object: &Mem,
        bytes: usize,
        call: impl FnOnce() + Send + 'static,
    ) -> Command {
        Command::long_transfer(command_type, object, bytes, |_| call())
    }

    /// The same, which the device's threads help with if it is long.
    fn long_transfer(
        command_type: CommandType,
        object: &Mem,
        bytes: usize,
        call: impl FnOnce(&Scheduler) + Send + 'static,
    ) -> Command {
        Command::call_with_help(command_type, Some(object.context.clone()), bytes, call)
    }

    /// A call that takes as long as moving `bytes`.
    pub(crate) fn call(
        command_type: CommandType,
        context: Option<Arc<Context>>,
        bytes: usize,
        call: impl FnOnce() + Send + 'static,
    ) -> Command {
        Command::call_with_help(command_type, context, bytes, |_| call())
    }

    /// A call that takes as long as moving `bytes`, by the device's threads if it likes.
    pub(crate) fn call_with_help(
        command_type: CommandType,
        context: Option<Arc<Context>>,
        bytes: usize,
        call: impl FnOnce(&Scheduler) + Send + 'static,
    ) -> Command {
        let call = move |device: &Device| {
            call(&device.scheduler);
            Ok(())
        };
        Command {
            command_type,
            work: Work::Call(Box::new(call)),
            context,
            expected_ns: COMMAND_NS + bytes as u64 / BYTES_IN_A_NS,
            anywhere: true,
        }
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("command_type", &self.command_type).finish_non_exhaustive()
    }
}

/// CL_INVALID_CONTEXT when two objects of a command have different ones.
fn same_context(a: &Mem, b: &Mem) -> Result<()> {
    match Arc::ptr_eq(&a.context, &b.context) {
        true => Ok(()),
        false => Err(Status::InvalidContext.because("memory objects of different contexts")),
    }
}

/// CL_INVALID_MEM_OBJECT for images and pipes.
fn expect_buffer(mem: &Mem) -> Result<()> {
    match mem.is_buffer() {
        true => Ok(()),
        false => {
            Err(Status::InvalidMemObject.because(format!("{} where a buffer is needed", mem.kind.name())))
        }
    }
}

/// CL_INVALID_MEM_OBJECT for buffers and pipes.
fn expect_image(mem: &Mem) -> Result<&ImageInfo> {
    mem.image_info().ok_or_else(|| {
        Status::InvalidMemObject.because(format!("{} where an image is needed", mem.kind.name()))
    })
}

/// CL_INVALID_VALUE unless `offset..offset + size` is inside the object and not empty.
fn check_range(mem: &Mem, offset: usize, size: usize) -> Result<()> {
    check_within(mem, offset, size)?;
    if size == 0 { Err(Status::InvalidValue.because("a range of no bytes")) } else { Ok(()) }
}

/// CL_INVALID_VALUE unless `offset..offset + size` is inside the object. (From OpenCL 1.2 on, a transfer of nothing is no error.)
fn check_within(mem: &Mem, offset: usize, size: usize) -> Result<()> {
    match offset.checked_add(size).is_some_and(|end| end <= mem.size) {
        true => Ok(()),
        false => {
            Err(Status::InvalidValue.because(format!("bytes {offset}..+{size} of an object of {}", mem.size)))
        }
    }
}

/// CL_INVALID_VALUE unless a box of `region` bytes, rows, slices is inside the object.
fn check_box(mem: &Mem, place: Placement, region: [usize; 3]) -> Result<()> {
    match place.end(region).is_some_and(|end| end <= mem.size) {
        true => Ok(()),
        false => Err(Status::InvalidValue.because(format!(
            "a box of {region:?} bytes from {} on leaves its object of {}",
            place.offset, mem.size
        ))),
    }
}

/// CL_MEM_COPY_OVERLAP when two boxes of the same storage share a byte.
fn check_overlap(a: (&Mem, Placement), b: (&Mem, Placement), region: [usize; 3]) -> Result<()> {
    if !a.0.shares_storage(b.0) {
        return Ok(());
    }
    // Both from the start of the lower object.
    let (base_a, base_b) = (a.0.address() as usize, b.0.address() as usize);
    let base = base_a.min(base_b);
    let from_base =
        |place: Placement, address: usize| Placement { offset: place.offset + (address - base), ..place };
    match rect::overlap(from_base(a.1, base_a), from_base(b.1, base_b), region) {
        true => Err(Status::MemCopyOverlap.because("source and destination overlap")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
