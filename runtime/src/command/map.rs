//! Mapping memory objects: nothing moves, as host and device share memory; the books are kept.

use super::{Command, CommandType, check_range, expect_buffer, expect_image};
use crate::error::{Result, Status};
use crate::memory::{MapFlags, Mem};
use std::sync::Arc;

/// What a map call returns at once; the contents are defined when the command has ended.
#[derive(Debug)]
pub struct Mapping {
    /// To be submitted; dropped instead, it undoes the mapping.
    pub command: Command,
    /// The address of the region's first byte.
    pub address: *mut u8,
    /// Bytes from row to row (images).
    pub row_pitch: usize,
    /// Bytes from slice to slice (3-D images and arrays, else 0).
    pub slice_pitch: usize,
}

/// clEnqueueMapBuffer. CL_INVALID_VALUE out of bounds or for contradicting flags, CL_INVALID_OPERATION if the host has no
/// such access.
pub fn map_buffer(buffer: &Arc<Mem>, flags: MapFlags, offset: usize, size: usize) -> Result<Mapping> {
    expect_buffer(buffer)?;
    check_range(buffer, offset, size)?;
    check_access(buffer, flags)?;
    let address = buffer.span().slice(offset, size).address();
    let command = count_map(CommandType::MapBuffer, buffer, address);
    Ok(Mapping { command, address, row_pitch: 0, slice_pitch: 0 })
}

/// clEnqueueMapImage.
pub fn map_image(
    image: &Arc<Mem>,
    flags: MapFlags,
    origin: [usize; 3],
    region: [usize; 3],
) -> Result<Mapping> {
    let info = expect_image(image)?;
    info.check_region(origin, region)?;
    check_access(image, flags)?;
    let address = image.span().slice(info.placement(origin).offset, info.element_size).address();
    let command = count_map(CommandType::MapImage, image, address);
    Ok(Mapping { command, address, row_pitch: info.row_pitch, slice_pitch: info.slice_pitch })
}

/// clEnqueueUnmapMemObject. CL_INVALID_VALUE if `address` isn't mapped.
pub fn unmap(object: &Arc<Mem>, address: *mut u8) -> Result<Command> {
    if !object.remove_map(address as usize) {
        return Err(Status::InvalidValue.because(format!("{address:p} is not mapped from this object")));
    }
    let held = object.clone();
    Ok(Command::transfer(CommandType::UnmapMemObject, object, 0, move || drop(held)))
}

fn check_access(mem: &Mem, flags: MapFlags) -> Result<()> {
    if !flags.is_consistent() {
        return Err(Status::InvalidValue.because("CL_MAP_WRITE_INVALIDATE_REGION excludes READ and WRITE"));
    }
    let writes = flags.intersects(MapFlags::WRITE | MapFlags::WRITE_INVALIDATE_REGION);
    mem.check_host_access(flags.contains(MapFlags::READ), writes)
}

/// A mapping that ends again unless its command runs.
struct Claim {
    object: Arc<Mem>,
    address: usize,
    kept: bool,
}

impl Claim {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.kept {
            self.object.remove_map(self.address);
        }
    }
}

fn count_map(command_type: CommandType, object: &Arc<Mem>, address: *mut u8) -> Command {
    object.add_map(address as usize);
    let claim = Claim { object: object.clone(), address: address as usize, kept: false };
    Command::transfer(command_type, object, 0, move || claim.keep())
}
