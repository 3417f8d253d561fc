//! Pipes (OpenCL 2.0, 5.4): memory that only kernels can use, by the functions in `builtins/src/pipe.rs`.

use super::raw::PAGE;
use super::{Mem, MemFlags, MemKind, Storage};
use crate::context::Context;
use crate::error::{Result, Status};
use spirula_interface::Pipe;
use spirula_interface::pipe::MAX_PACKETS;
use std::mem::offset_of;
use std::sync::Arc;

/// What a pipe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeInfo {
    /// CL_PIPE_PACKET_SIZE, in bytes.
    pub packet_size: u32,
    /// CL_PIPE_MAX_PACKETS.
    pub max_packets: u32,
}

/// CL_DEVICE_PIPE_MAX_PACKET_SIZE: of OpenCL C's types only a structure could be larger.
pub(crate) const MAX_PACKET_SIZE: u32 = 64 << 10;

impl Mem {
    /// clCreatePipe. Errors: CL_INVALID_VALUE for flags, CL_INVALID_PIPE_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE.
    pub fn pipe(
        context: &Arc<Context>,
        flags: MemFlags,
        packet_size: u32,
        max_packets: u32,
    ) -> Result<Arc<Mem>> {
        // Only CL_MEM_READ_WRITE and CL_MEM_HOST_NO_ACCESS can be specified. … If the value is 0, the default of both is used.
        let both = MemFlags::READ_WRITE | MemFlags::HOST_NO_ACCESS;
        if !both.contains(flags) {
            return Err(Status::InvalidValue.because(format!("a pipe with {flags:?}")));
        }
        let flags = if flags.is_empty() { both } else { flags };
        let sizes = (1..=MAX_PACKET_SIZE).contains(&packet_size) && (1..=MAX_PACKETS).contains(&max_packets);
        if !sizes {
            return Err(Status::InvalidPipeSize.because(format!(
                "a pipe of {max_packets} packets of {packet_size} bytes; 1 to {MAX_PACKETS} of 1 to \
                 {MAX_PACKET_SIZE} are possible"
            )));
        }
        let failed = || {
            Status::MemObjectAllocationFailure
                .because(format!("no memory for a pipe of {max_packets} packets of {packet_size} bytes"))
        };
        let limit = context.device().info.max_mem_alloc_size;
        let size = Pipe::bytes(packet_size, max_packets).filter(|&size| size as u64 <= limit);
        let size = size.ok_or_else(failed)?;
        let memory = context.memory.allocate(size, PAGE).ok_or_else(failed)?;
        memory.span().slice(0, Pipe::header_bytes(max_packets).min(size)).fill(&[0]);
        for (offset, value) in
            [(offset_of!(Pipe, packet_size), packet_size), (offset_of!(Pipe, max_packets), max_packets)]
        {
            memory.span().slice(offset, size_of::<u32>()).write(value.to_ne_bytes().as_slice());
        }
        let kind = MemKind::Pipe(PipeInfo { packet_size, max_packets });
        Ok(Arc::new(Mem::over(context, flags, size, kind, Arc::new(Storage::Own(memory, None)))))
    }
}
