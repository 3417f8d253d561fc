//! Tests of transfers: what arrives where, and what is refused.

use super::buffer::RectSide;
use super::*;
use crate::kernel::tests::context;
use crate::memory::format::{ImageFormat, channel, order};
use crate::memory::raw::tests::{HostMemory, byte};
use crate::memory::{ImageDescription, MapFlags, MemFlags};
use crate::queue::Queue;
use spirula_interface::program::ImageKind;

/// A queue to run commands on, and a buffer of `size` bytes 0, 1, 2 …
fn setup(size: usize) -> (Arc<Queue>, Arc<Mem>) {
    let context = context();
    let bytes: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
    let buffer =
        Mem::buffer(&context, MemFlags::COPY_HOST_PTR, size, Some(HostMemory::new(&bytes).pointer()))
            .unwrap();
    (Queue::new(&context, context.device(), false, false).unwrap(), buffer)
}

fn run(queue: &Queue, command: Result<Command>) {
    queue.submit(command.unwrap(), &[], true).unwrap();
}

fn status<T>(result: Result<T>) -> Status {
    result.map(|_| ()).unwrap_err().status
}

fn bytes(mem: &Mem) -> Vec<u8> {
    (0..mem.size).map(|index| byte(mem.span(), index)).collect()
}

fn image(context: &Arc<Context>, kind: ImageKind, size: [usize; 3]) -> Arc<Mem> {
    let format = ImageFormat { channel_order: order::R, channel_type: channel::UNSIGNED_INT8 };
    let description = ImageDescription {
        kind,
        width: size[0],
        height: size[1],
        depth: size[2],
        array_size: size[2],
        row_pitch: 0,
        slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        parent: None,
    };
    Mem::image(context, MemFlags::empty(), format, &description, None).unwrap()
}

#[test]
fn buffers_are_read_written_copied_and_filled() {
    let (queue, buffer) = setup(32);
    let out = HostMemory::new(&[0; 4]);
    run(&queue, buffer::read(&buffer, 5, 4, out.pointer()));
    assert_eq!(out.bytes(), [5, 6, 7, 8]);
    run(&queue, buffer::write(&buffer, 0, 4, out.pointer()));
    run(&queue, buffer::copy(&buffer, &buffer, 0, 16, 4));
    run(&queue, buffer::fill(&buffer, &[1, 2], 20, 4));
    assert_eq!(bytes(&buffer)[14..25], [14, 15, 5, 6, 7, 8, 1, 2, 1, 2, 24]);
}

/// Programs ask for what is left, which may be nothing, at a buffer's end.
#[test]
fn nothing_is_transferred_where_nothing_is_left() {
    let (queue, buffer) = setup(32);
    let other = HostMemory::new(&[9; 4]);
    for offset in [0, 7, 32] {
        run(&queue, buffer::read(&buffer, offset, 0, other.pointer()));
        run(&queue, buffer::write(&buffer, offset, 0, other.pointer()));
    }
    assert_eq!((other.bytes(), bytes(&buffer)[7]), (vec![9; 4], 7));
}

#[test]
fn transfers_out_of_bounds_are_refused() {
    let (_, buffer) = setup(32);
    let to = HostMemory::new(&[0; 64]).pointer();
    for (offset, size) in [(0, 33), (32, 1), (33, 0), (usize::MAX, 2)] {
        assert_eq!(status(buffer::read(&buffer, offset, size, to)), Status::InvalidValue);
        assert_eq!(status(buffer::write(&buffer, offset, size, to)), Status::InvalidValue);
        assert_eq!(status(buffer::fill(&buffer, &[1], offset, size)), Status::InvalidValue);
    }
    assert_eq!(status(buffer::fill(&buffer, &[1], 0, 0)), Status::InvalidValue);
    assert_eq!(status(buffer::fill(&buffer, &[1, 2, 3], 0, 3)), Status::InvalidValue);
    assert_eq!(status(buffer::fill(&buffer, &[1, 2], 1, 2)), Status::InvalidValue);
    assert_eq!(status(buffer::copy(&buffer, &buffer, 0, 3, 4)), Status::MemCopyOverlap);
    let side = RectSide { origin: [1, 0, 0], row_pitch: 8, slice_pitch: 0 };
    let huge = RectSide { row_pitch: usize::MAX / 2, ..side };
    let tight = RectSide::default();
    assert_eq!(status(buffer::read_rect(&buffer, side, to, tight, [8, 4, 1])), Status::InvalidValue);
    assert_eq!(status(buffer::read_rect(&buffer, huge, to, tight, [4, 9, 9])), Status::InvalidValue);
    assert_eq!(status(buffer::read_rect(&buffer, side, to, tight, [0, 1, 1])), Status::InvalidValue);
    assert!(buffer::read_rect(&buffer, side, to, tight, [7, 4, 1]).is_ok());
}

#[test]
fn denied_host_access_is_an_invalid_operation() {
    let context = context();
    let closed = Mem::buffer(&context, MemFlags::HOST_WRITE_ONLY, 8, None).unwrap();
    let to = HostMemory::new(&[0; 8]).pointer();
    assert_eq!(status(buffer::read(&closed, 0, 8, to)), Status::InvalidOperation);
    assert!(buffer::write(&closed, 0, 8, to).is_ok());
    assert_eq!(status(map::map_buffer(&closed, MapFlags::READ, 0, 8)), Status::InvalidOperation);
}

#[test]
fn rectangles_land_in_place() {
    let (queue, buffer) = setup(64);
    let out = HostMemory::new(&[0; 4]);
    let from = RectSide { origin: [2, 1, 0], row_pitch: 8, slice_pitch: 0 };
    run(&queue, buffer::read_rect(&buffer, from, out.pointer(), RectSide::default(), [2, 2, 1]));
    assert_eq!(out.bytes(), [10, 11, 18, 19]);
    let to = RectSide { origin: [4, 4, 0], ..from };
    run(&queue, buffer::copy_rect(&buffer, &buffer, from, to, [2, 2, 1]));
    assert_eq!(
        (bytes(&buffer)[36..38].to_vec(), bytes(&buffer)[44..46].to_vec()),
        (vec![10, 11], vec![18, 19])
    );
    let overlapping = RectSide { origin: [3, 2, 0], ..from };
    assert_eq!(
        status(buffer::copy_rect(&buffer, &buffer, from, overlapping, [2, 2, 1])),
        Status::MemCopyOverlap
    );
    // Sub-buffers of one buffer overlap where their bytes do.
    let parent = Mem::buffer(&buffer.context, MemFlags::empty(), 512, None).unwrap();
    let whole = parent.sub_buffer(MemFlags::empty(), 0, 512).unwrap();
    let half = parent.sub_buffer(MemFlags::empty(), 256, 256).unwrap();
    assert_eq!(status(buffer::copy(&whole, &half, 200, 0, 64)), Status::MemCopyOverlap);
    assert!(buffer::copy(&whole, &half, 192, 0, 64).is_ok());
}

#[test]
fn images_are_written_copied_between_kinds_and_read() {
    let (queue, buffer) = setup(64);
    let context = &buffer.context;
    let plane = image(context, ImageKind::Image2d, [8, 8, 1]);
    let volume = image(context, ImageKind::Image3d, [8, 8, 2]);
    let rows = image(context, ImageKind::Image1dArray, [8, 1, 4]);
    run(&queue, image::copy_from_buffer(&buffer, &plane, 0, [0; 3], [8, 8, 1]));
    run(&queue, image::copy(&plane, &volume, [2, 3, 0], [0, 1, 1], [3, 2, 1]));
    assert_eq!(bytes(&volume)[64 + 8..64 + 11], [26, 27, 28]);
    run(&queue, image::copy(&volume, &rows, [0, 1, 1], [5, 2, 0], [3, 2, 1]));
    assert_eq!(
        (bytes(&rows)[21..24].to_vec(), bytes(&rows)[29..32].to_vec()),
        (vec![26, 27, 28], vec![34, 35, 36])
    );
    let out = HostMemory::new(&[0; 16]);
    run(&queue, image::read(&rows, [5, 2, 0], [3, 2, 1], 8, 0, out.pointer()));
    assert_eq!(out.bytes(), [26, 27, 28, 0, 0, 0, 0, 0, 34, 35, 36, 0, 0, 0, 0, 0]);
    let color = [200, 0, 0, 0];
    run(&queue, image::fill(&plane, color, [7, 7, 0], [1, 1, 1]));
    run(&queue, image::copy_to_buffer(&plane, &buffer, [6, 7, 0], [2, 1, 1], 10));
    assert_eq!(bytes(&buffer)[10..12], [62, 200]);
    assert_eq!(status(image::read(&plane, [0; 3], [9, 1, 1], 0, 0, out.pointer())), Status::InvalidValue);
    assert_eq!(status(image::copy(&plane, &plane, [0; 3], [1, 1, 0], [2, 2, 1])), Status::MemCopyOverlap);
    assert_eq!(status(image::fill(&buffer, color, [0; 3], [1; 3])), Status::InvalidMemObject);
}

#[test]
fn mappings_are_counted_and_undone() {
    let (queue, buffer) = setup(64);
    let mapping = map::map_buffer(&buffer, MapFlags::READ, 16, 8).unwrap();
    assert_eq!((mapping.address as usize, buffer.map_count()), (buffer.address() as usize + 16, 1));
    let address = mapping.address;
    run(&queue, Ok(mapping.command));
    let again = map::map_buffer(&buffer, MapFlags::WRITE, 0, 8).unwrap();
    drop(again);
    assert_eq!(buffer.map_count(), 1, "a mapping that was never queued is undone");
    assert_eq!(status(map::unmap(&buffer, buffer.address())), Status::InvalidValue);
    run(&queue, map::unmap(&buffer, address));
    assert_eq!(buffer.map_count(), 0);
    let plane = image(&buffer.context, ImageKind::Image2d, [8, 8, 1]);
    let mapping = map::map_image(&plane, MapFlags::READ, [1, 2, 0], [3, 3, 1]).unwrap();
    assert_eq!(mapping.address as usize - plane.address() as usize, 17);
    assert_eq!((mapping.row_pitch, mapping.slice_pitch), (8, 0));
}
