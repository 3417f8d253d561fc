//! Commands: what a queue can run. Constructors check what the specification has `clEnqueue*` check (and hold the
//! objects until the command ends); [`crate::queue::Queue::submit`] does the rest.

pub mod buffer;
pub mod image;
pub mod map;
pub mod ndrange;

use crate::memory::Mem;
use std::sync::Arc;

/// `cl_command_type`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum CommandType {
    NdrangeKernel = 0x11F0,
    Task = 0x11F1,
    NativeKernel = 0x11F2,
    ReadBuffer = 0x11F3,
    WriteBuffer = 0x11F4,
    CopyBuffer = 0x11F5,
    ReadImage = 0x11F6,
    WriteImage = 0x11F7,
    CopyImage = 0x11F8,
    CopyImageToBuffer = 0x11F9,
    CopyBufferToImage = 0x11FA,
    MapBuffer = 0x11FB,
    MapImage = 0x11FC,
    UnmapMemObject = 0x11FD,
    Marker = 0x11FE,
    ReadBufferRect = 0x1201,
    WriteBufferRect = 0x1202,
    CopyBufferRect = 0x1203,
    User = 0x1204,
    Barrier = 0x1205,
    MigrateMemObjects = 0x1206,
    FillBuffer = 0x1207,
    FillImage = 0x1208,
}

/// A checked command, not yet queued.
#[derive(Debug)]
pub struct Command {
    /// CL_EVENT_COMMAND_TYPE of its event.
    pub command_type: CommandType,
}

impl Command {
    /// clEnqueueMarkerWithWaitList.
    pub fn marker() -> Command {
        todo!()
    }

    /// clEnqueueBarrierWithWaitList.
    pub fn barrier() -> Command {
        todo!()
    }

    /// clEnqueueMigrateMemObjects: there is nowhere to migrate to. CL_INVALID_VALUE when empty.
    pub fn migrate(objects: &[Arc<Mem>]) -> crate::Result<Command> {
        let _ = objects;
        todo!()
    }

    /// clEnqueueNativeKernel: `function` already has its arguments (see [`Mem::address`]); `objects` are kept meanwhile.
    pub fn native(function: Box<dyn FnOnce() + Send>, objects: &[Arc<Mem>]) -> Command {
        let _ = (function, objects);
        todo!()
    }
}
