//! Tests of the memory objects: flags, bounds, sub-buffers, image layouts, destructors.

use super::format::{ImageFormat, channel, order};
use super::raw::tests::HostMemory;
use super::*;
use crate::platform::Platform;
use spirula_interface::program::ImageKind;

fn context() -> Arc<Context> {
    Context::new(Platform::get().devices().to_vec(), Vec::new(), &Arc::default()).unwrap()
}

fn status<T>(result: Result<T>) -> Status {
    result.map(|_| ()).unwrap_err().status
}

#[test]
fn buffers_check_flags_size_and_pointer() {
    let context = context();
    let make = |flags, size, pointer| Mem::buffer(&context, flags, size, pointer);
    let none = MemFlags::empty();
    assert_eq!(make(none, 16, None).unwrap().flags, MemFlags::READ_WRITE);
    assert_eq!(status(make(none, 0, None)), Status::InvalidBufferSize);
    assert_eq!(status(make(none, usize::MAX, None)), Status::InvalidBufferSize);
    assert_eq!(status(make(MemFlags::READ_ONLY | MemFlags::WRITE_ONLY, 16, None)), Status::InvalidValue);
    assert_eq!(
        status(make(MemFlags::USE_HOST_PTR | MemFlags::COPY_HOST_PTR, 16, None)),
        Status::InvalidValue
    );
    assert_eq!(status(make(MemFlags::USE_HOST_PTR, 16, None)), Status::InvalidHostPtr);
    assert_eq!(status(make(none, 16, Some(HostMemory::new(&[0; 16]).pointer()))), Status::InvalidHostPtr);
}

#[test]
fn the_applications_memory_is_used_or_copied() {
    let context = context();
    let bytes = HostMemory::new(&[1, 2, 3, 4]).pointer();
    let used = Mem::buffer(&context, MemFlags::USE_HOST_PTR, 4, Some(bytes)).unwrap();
    assert_eq!(used.address(), bytes.as_ptr());
    let copied = Mem::buffer(&context, MemFlags::COPY_HOST_PTR, 4, Some(bytes)).unwrap();
    assert_ne!(copied.address(), bytes.as_ptr());
    assert_eq!(raw::tests::byte(copied.span(), 3), 4);
    assert_eq!((used.host_ptr.is_some(), copied.host_ptr), (true, None));
}

#[test]
fn sub_buffers_share_and_inherit() {
    let context = context();
    let parent = Mem::buffer(&context, MemFlags::READ_ONLY, 1024, None).unwrap();
    let none = MemFlags::empty();
    let sub = parent.sub_buffer(none, 128, 256).unwrap();
    assert_eq!((sub.address() as usize, sub.flags), (parent.address() as usize + 128, MemFlags::READ_ONLY));
    assert_eq!((sub.offset(), sub.size), (128, 256));
    assert!(sub.shares_storage(&parent));
    assert_eq!(status(sub.sub_buffer(none, 0, 16)), Status::InvalidMemObject);
    assert_eq!(status(parent.sub_buffer(none, 4, 16)), Status::MisalignedSubBufferOffset);
    assert_eq!(status(parent.sub_buffer(none, 896, 129)), Status::InvalidValue);
    assert_eq!(status(parent.sub_buffer(none, 0, 0)), Status::InvalidBufferSize);
    assert_eq!(status(parent.sub_buffer(MemFlags::WRITE_ONLY, 0, 16)), Status::InvalidValue);
}

fn description(kind: ImageKind) -> ImageDescription {
    ImageDescription {
        kind,
        width: 5,
        height: 4,
        depth: 3,
        array_size: 2,
        row_pitch: 0,
        slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        parent: None,
    }
}

const RGBA8: ImageFormat = ImageFormat { channel_order: order::RGBA, channel_type: channel::UNORM_INT8 };

#[test]
fn images_of_all_kinds_are_laid_out() {
    let context = context();
    // Kind, bytes, slice pitch, extent.
    let cases = [
        (ImageKind::Image1d, 20, 0, [5, 1, 1]),
        (ImageKind::Image1dArray, 40, 20, [5, 2, 1]),
        (ImageKind::Image2d, 80, 0, [5, 4, 1]),
        (ImageKind::Image2dArray, 160, 80, [5, 4, 2]),
        (ImageKind::Image3d, 240, 80, [5, 4, 3]),
    ];
    for (kind, size, slice_pitch, extent) in cases {
        let image = Mem::image(&context, MemFlags::empty(), RGBA8, &description(kind), None).unwrap();
        let info = image.image_info().unwrap();
        assert_eq!((image.size, info.slice_pitch, info.extent()), (size, slice_pitch, extent), "{kind:?}");
        let data = image.descriptor.as_ref().unwrap().span().slice(0, 8).to_vec();
        assert_eq!(data, (image.address() as usize).to_ne_bytes());
        let last = extent.map(|texels| texels - 1);
        assert_eq!(info.placement(last).offset + 4, size, "{kind:?}");
    }
}

#[test]
fn images_take_the_hosts_pitches() {
    let context = context();
    let pixels = Some(HostMemory::new(&Vec::from_iter(0..128)).pointer());
    let wide = ImageDescription { row_pitch: 32, ..description(ImageKind::Image2d) };
    let used = Mem::image(&context, MemFlags::USE_HOST_PTR, RGBA8, &wide, pixels).unwrap();
    assert_eq!(used.image_info().unwrap().row_pitch, 32);
    let copied = Mem::image(&context, MemFlags::COPY_HOST_PTR, RGBA8, &wide, pixels).unwrap();
    assert_eq!(raw::tests::byte(copied.span(), 20), 32, "the second row begins at the host's pitch");
    let narrow = ImageDescription { row_pitch: 16, ..wide.clone() };
    let made = Mem::image(&context, MemFlags::COPY_HOST_PTR, RGBA8, &narrow, pixels);
    assert_eq!(status(made), Status::InvalidImageDescriptor);
    let made = Mem::image(&context, MemFlags::empty(), RGBA8, &wide, None);
    assert_eq!(status(made), Status::InvalidImageDescriptor);
}

#[test]
fn an_image_over_a_buffer_needs_one_that_is_large_enough() {
    let context = context();
    let buffer = Mem::buffer(&context, MemFlags::empty(), 19, None).unwrap();
    let over = |width| {
        let wanted =
            ImageDescription { width, parent: Some(buffer.clone()), ..description(ImageKind::Image1dBuffer) };
        Mem::image(&context, MemFlags::empty(), RGBA8, &wanted, None)
    };
    assert_eq!(over(4).unwrap().address(), buffer.address());
    assert_eq!(status(over(5)), Status::InvalidImageSize);
}

#[test]
fn destructors_run_last_first() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let buffer = Mem::buffer(&context(), MemFlags::empty(), 16, None).unwrap();
    for number in 0..3 {
        let order = order.clone();
        buffer.on_destroy(Box::new(move || order.lock().unwrap().push(number)));
    }
    drop(buffer);
    assert_eq!(*order.lock().unwrap(), [2, 1, 0]);
}
