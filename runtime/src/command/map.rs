//! Mapping memory objects: nothing moves, as host and device share memory, but for the application's own memory that an executor
//! can't have; the books are kept.

use super::{Command, CommandType, check_range, expect_buffer, expect_image};
use crate::error::{Result, Status};
use crate::memory::rect::Placement;
use crate::memory::{MapFlags, Mapped, Mem};
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
    let address = buffer.mapped_span().slice(offset, size).address();
    let mapped = Mapped {
        address: address as usize,
        place: Placement { offset, row_pitch: size, slice_pitch: size },
        region: [size, 1, 1],
        writes: writes(flags),
    };
    let command = count_map(CommandType::MapBuffer, buffer, mapped, flags);
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
    let place = info.placement(origin);
    let address = image.mapped_span().slice(place.offset, info.element_size).address();
    let region = info.byte_region(region);
    let mapped = Mapped { address: address as usize, place, region, writes: writes(flags) };
    let command = count_map(CommandType::MapImage, image, mapped, flags);
    Ok(Mapping { command, address, row_pitch: info.row_pitch, slice_pitch: info.slice_pitch })
}

/// clEnqueueUnmapMemObject. CL_INVALID_VALUE if `address` isn't mapped.
pub fn unmap(object: &Arc<Mem>, address: *mut u8) -> Result<Command> {
    let mapped = object
        .remove_map(address as usize)
        .ok_or_else(|| Status::InvalidValue.because(format!("{address:p} is not mapped from this object")))?;
    let held = object.clone();
    Ok(Command::transfer(CommandType::UnmapMemObject, object, 0, move || held.take_in(&mapped)))
}

fn writes(flags: MapFlags) -> bool {
    flags.intersects(MapFlags::WRITE | MapFlags::WRITE_INVALIDATE_REGION)
}

fn check_access(mem: &Mem, flags: MapFlags) -> Result<()> {
    if !flags.is_consistent() {
        return Err(Status::InvalidValue.because("CL_MAP_WRITE_INVALIDATE_REGION excludes READ and WRITE"));
    }
    mem.check_host_access(flags.contains(MapFlags::READ), writes(flags))
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

fn count_map(command_type: CommandType, object: &Arc<Mem>, mapped: Mapped, flags: MapFlags) -> Command {
    if mapped.writes {
        object.note_written(mapped.place, mapped.region);
    }
    object.add_map(mapped);
    let claim = Claim { object: object.clone(), address: mapped.address, kept: false };
    let is_seen = !flags.contains(MapFlags::WRITE_INVALIDATE_REGION);
    Command::transfer(command_type, object, 0, move || {
        if is_seen {
            claim.object.show(&mapped);
        }
        claim.keep();
    })
}
