//! Commands on buffers: read, write, copy, fill, and their rectangular forms (OpenCL 1.2, 5.2.2 to 5.2.4).

use super::{
    Command, CommandType, check_box, check_overlap, check_range, check_within, expect_buffer, same_context,
};
use crate::error::{Result, Status};
use crate::execute::scheduler::Scheduler;
use crate::memory::rect::{self, Placement};
use crate::memory::{HostPtr, Mem};
use std::sync::Arc;

/// One side of a rectangular transfer: an origin in bytes, rows and slices, and the pitches in bytes (0 for tight).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RectSide {
    /// x in bytes, y in rows, z in slices.
    pub origin: [usize; 3],
    /// Bytes from row to row, or 0.
    pub row_pitch: usize,
    /// Bytes from slice to slice, or 0.
    pub slice_pitch: usize,
}

impl RectSide {
    /// CL_INVALID_VALUE for an empty region, and for pitches that don't fit it or overflow.
    fn placement(self, region: [usize; 3]) -> Result<Placement> {
        let wrong = || Status::InvalidValue.because(format!("{self:?} for a region of {region:?}"));
        if region.contains(&0) {
            return Err(wrong());
        }
        let row_pitch = if self.row_pitch == 0 { region[0] } else { self.row_pitch };
        let tight_slice = row_pitch.checked_mul(region[1]).ok_or_else(wrong)?;
        let slice_pitch = if self.slice_pitch == 0 { tight_slice } else { self.slice_pitch };
        if row_pitch < region[0] || slice_pitch < tight_slice || !slice_pitch.is_multiple_of(row_pitch) {
            return Err(wrong());
        }
        let [x, y, z] = self.origin;
        let offset = || z.checked_mul(slice_pitch)?.checked_add(y.checked_mul(row_pitch)?)?.checked_add(x);
        Ok(Placement { offset: offset().ok_or_else(wrong)?, row_pitch, slice_pitch })
    }
}

/// Some bytes in a row.
fn run(offset: usize, size: usize) -> Placement {
    Placement { offset, row_pitch: size, slice_pitch: size }
}

/// clEnqueueReadBuffer. CL_INVALID_VALUE out of bounds, CL_INVALID_OPERATION if the host may not read it,
/// CL_INVALID_MEM_OBJECT for images.
pub fn read(buffer: &Arc<Mem>, offset: usize, size: usize, to: HostPtr) -> Result<Command> {
    expect_buffer(buffer)?;
    check_within(buffer, offset, size)?;
    buffer.check_host_access(true, false)?;
    let held = buffer.clone();
    let call = move |threads: &Scheduler| threads.copy(to.span(size), held.span().slice(offset, size));
    Ok(Command::long_transfer(CommandType::ReadBuffer, buffer, size, call))
}

/// clEnqueueWriteBuffer. Errors as [`read`].
pub fn write(buffer: &Arc<Mem>, offset: usize, size: usize, from: HostPtr) -> Result<Command> {
    expect_buffer(buffer)?;
    check_within(buffer, offset, size)?;
    buffer.check_host_access(false, true)?;
    let held = buffer.clone();
    let call = move |threads: &Scheduler| {
        threads.copy(held.span().slice(offset, size), from.span(size));
        held.note_written(run(offset, size), [size, 1, 1]);
    };
    Ok(Command::long_transfer(CommandType::WriteBuffer, buffer, size, call))
}

/// clEnqueueReadBufferRect; `region` is width in bytes, height in rows, depth in slices.
pub fn read_rect(
    buffer: &Arc<Mem>,
    side: RectSide,
    to: HostPtr,
    host: RectSide,
    region: [usize; 3],
) -> Result<Command> {
    let (place, host) = check_rect(buffer, side, host, region)?;
    buffer.check_host_access(true, false)?;
    let held = buffer.clone();
    let call = move || rect::copy(to.span(host.end(region).unwrap_or(0)), host, held.span(), place, region);
    Ok(Command::transfer(CommandType::ReadBufferRect, buffer, region.iter().product(), call))
}

/// clEnqueueWriteBufferRect.
pub fn write_rect(
    buffer: &Arc<Mem>,
    side: RectSide,
    from: HostPtr,
    host: RectSide,
    region: [usize; 3],
) -> Result<Command> {
    let (place, host) = check_rect(buffer, side, host, region)?;
    buffer.check_host_access(false, true)?;
    let held = buffer.clone();
    let call = move || {
        rect::copy(held.span(), place, from.span(host.end(region).unwrap_or(0)), host, region);
        held.note_written(place, region);
    };
    Ok(Command::transfer(CommandType::WriteBufferRect, buffer, region.iter().product(), call))
}

fn check_rect(
    buffer: &Mem,
    side: RectSide,
    host: RectSide,
    region: [usize; 3],
) -> Result<(Placement, Placement)> {
    expect_buffer(buffer)?;
    let (place, host) = (side.placement(region)?, host.placement(region)?);
    check_box(buffer, place, region)?;
    match host.end(region) {
        Some(_) => Ok((place, host)),
        None => Err(Status::InvalidValue.because("the host's box has no end")),
    }
}

/// clEnqueueCopyBuffer. CL_MEM_COPY_OVERLAP when they overlap.
pub fn copy(
    source: &Arc<Mem>,
    destination: &Arc<Mem>,
    source_offset: usize,
    destination_offset: usize,
    size: usize,
) -> Result<Command> {
    check_range(source, source_offset, size)?;
    check_range(destination, destination_offset, size)?;
    let run = |offset| RectSide { origin: [offset, 0, 0], row_pitch: size, slice_pitch: size };
    let mut command =
        copy_rect(source, destination, run(source_offset), run(destination_offset), [size, 1, 1])?;
    command.command_type = CommandType::CopyBuffer;
    Ok(command)
}

/// clEnqueueCopyBufferRect.
pub fn copy_rect(
    source: &Arc<Mem>,
    destination: &Arc<Mem>,
    source_side: RectSide,
    destination_side: RectSide,
    region: [usize; 3],
) -> Result<Command> {
    expect_buffer(source)?;
    expect_buffer(destination)?;
    same_context(source, destination)?;
    let (from, to) = (source_side.placement(region)?, destination_side.placement(region)?);
    // "… are the same buffer object and src_slice_pitch is not equal to dst_slice_pitch and src_row_pitch is not equal to
    // dst_row_pitch": one of the two may differ.
    let other_pitches = from.row_pitch != to.row_pitch && from.slice_pitch != to.slice_pitch;
    if Arc::ptr_eq(source, destination) && other_pitches {
        return Err(Status::InvalidValue.because("a copy inside a buffer whose pitches are both different"));
    }
    check_box(source, from, region)?;
    check_box(destination, to, region)?;
    check_overlap((source, from), (destination, to), region)?;
    let (read, written) = (source.clone(), destination.clone());
    let bytes = region.iter().product();
    let call = move |threads: &Scheduler| {
        if region == [bytes, 1, 1] {
            threads.copy(written.span().slice(to.offset, bytes), read.span().slice(from.offset, bytes));
        } else {
            rect::copy(written.span(), to, read.span(), from, region);
        }
        written.note_copied(to, &read, from, region);
    };
    Ok(Command::long_transfer(CommandType::CopyBufferRect, source, bytes, call))
}

/// clEnqueueFillBuffer; `pattern` has 1, 2, 4 … 128 bytes (else CL_INVALID_VALUE).
pub fn fill(buffer: &Arc<Mem>, pattern: &[u8], offset: usize, size: usize) -> Result<Command> {
    expect_buffer(buffer)?;
    check_range(buffer, offset, size)?;
    let length = pattern.len();
    if !length.is_power_of_two() || length > 128 {
        return Err(Status::InvalidValue.because(format!("a pattern of {length} bytes")));
    }
    if !offset.is_multiple_of(length) || !size.is_multiple_of(length) {
        return Err(Status::InvalidValue.because(format!("bytes {offset}..+{size} in patterns of {length}")));
    }
    let (held, pattern) = (buffer.clone(), pattern.to_vec());
    let call = move |threads: &Scheduler| {
        threads.fill(held.span().slice(offset, size), &pattern);
        held.note_written(run(offset, size), [size, 1, 1]);
    };
    Ok(Command::long_transfer(CommandType::FillBuffer, buffer, size, call))
}
