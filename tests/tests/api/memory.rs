//! Buffers: creation, transfers, rectangles, fills, copies, maps and sub-buffers, against the host's own arrays.

use crate::setup::{Setup, status, tests};
use crate::sources;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Kernel, NdRange, Object, Transfer};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create, refused};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

tests![
    creation_errors,
    info,
    begins_as_zeros,
    offsets_and_bounds,
    non_blocking_read,
    rectangles,
    rectangle_errors,
    fill,
    copy,
    map_and_unmap,
    map_errors,
    host_pointer,
    sub_buffer,
    sub_buffer_errors,
    arguments_that_share_memory,
    sums_of_ids_that_wrap,
    destructor_callbacks,
    large_buffer,
];

fn creation_errors() -> Outcome {
    let setup = Setup::new();
    let mut data = [0u8; 16];
    let create = |flags, size, pointer: *mut u8| {
        status(
            create!(clCreateBuffer(setup.context.raw(), flags, size, pointer.cast())).map(Buffer::from_raw),
        )
    };
    assert_eq!(create(CL_MEM_READ_WRITE, 0, null_mut()), "CL_INVALID_BUFFER_SIZE");
    assert_eq!(create(CL_MEM_USE_HOST_PTR, 16, null_mut()), "CL_INVALID_HOST_PTR");
    assert_eq!(create(CL_MEM_COPY_HOST_PTR, 16, null_mut()), "CL_INVALID_HOST_PTR");
    assert_eq!(create(CL_MEM_READ_WRITE, 16, data.as_mut_ptr()), "CL_INVALID_HOST_PTR");
    assert_eq!(create(CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 16, null_mut()), "CL_INVALID_VALUE");
    assert_eq!(
        create(CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, 16, data.as_mut_ptr()),
        "CL_INVALID_VALUE"
    );
    assert_eq!(create(1 << 40, 16, null_mut()), "CL_INVALID_VALUE");
    assert_eq!(refused!(clCreateBuffer(null_mut(), 0, 16, null_mut())), "CL_INVALID_CONTEXT");
    let limit = setup.device.info::<u64>(CL_DEVICE_MAX_MEM_ALLOC_SIZE)? as usize;
    assert_eq!(create(CL_MEM_READ_WRITE, limit + 1, null_mut()), "CL_INVALID_BUFFER_SIZE");
    Ok(())
}

fn info() -> Outcome {
    let setup = Setup::new();
    let buffer = Buffer::new(&setup.context, CL_MEM_READ_ONLY, 100)?;
    assert_eq!(buffer.info::<u32>(CL_MEM_TYPE)?, CL_MEM_OBJECT_BUFFER);
    assert_eq!(buffer.info::<u64>(CL_MEM_FLAGS)?, CL_MEM_READ_ONLY);
    assert_eq!(buffer.info::<usize>(CL_MEM_SIZE)?, 100);
    assert_eq!(buffer.info::<u32>(CL_MEM_MAP_COUNT)?, 0);
    assert_eq!(buffer.info::<u32>(CL_MEM_REFERENCE_COUNT)?, 1);
    assert_eq!(buffer.info::<usize>(CL_MEM_CONTEXT)?, setup.context.raw() as usize);
    assert_eq!(buffer.info::<usize>(CL_MEM_ASSOCIATED_MEMOBJECT)?, 0);
    assert_eq!(status(buffer.info::<u32>(0x4321)), "CL_INVALID_VALUE");
    Ok(())
}

/// Not that OpenCL promised it: programs rely on it that were only ever run where drivers clear memory, such as ffmpeg's `tonemap_opencl`,
/// which begins to count frames with what it finds.
fn begins_as_zeros() -> Outcome {
    let setup = Setup::new();
    for size in [1, 40, 600, 1000, 5000, 40_000, 128 << 10] {
        for _ in 0..4 {
            // Where the next ones may come to lie.
            let used: Vec<Buffer> = (0..8)
                .map(|_| Buffer::copy_of(&setup.context, &vec![0xA5_u8; size]))
                .collect::<Result<_, _>>()?;
            let dirty = vec![0xA5_u8; size + 4096];
            drop((used, std::hint::black_box(dirty)));
            let buffer = Buffer::new(&setup.context, CL_MEM_READ_WRITE, size)?;
            let mut found = vec![1_u8; size];
            setup.queue.read(&buffer, &mut found)?;
            assert!(found.iter().all(|&byte| byte == 0), "{size} bytes");
        }
    }
    Ok(())
}

/// A blocking read of a part.
fn read(setup: &Setup, buffer: &Buffer, offset: usize, into: &mut [u8]) -> spirula_tests::cl::Result<()> {
    let (queue, buffer, place) = (setup.queue.raw(), buffer.raw(), into.as_mut_ptr().cast());
    call!(clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, into.len(), place, 0, null(), null_mut()))
}

/// A blocking write of a part.
fn write(setup: &Setup, buffer: &Buffer, offset: usize, from: &[u8]) -> spirula_tests::cl::Result<()> {
    let (queue, buffer, place) = (setup.queue.raw(), buffer.raw(), from.as_ptr().cast());
    call!(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, from.len(), place, 0, null(), null_mut()))
}

fn offsets_and_bounds() -> Outcome {
    let setup = Setup::new();
    let mut model: Vec<u8> = (0..100).collect();
    let buffer = Buffer::copy_of(&setup.context, &model)?;
    write(&setup, &buffer, 13, &[255; 7])?;
    model[13..20].fill(255);
    let mut part = [0u8; 50];
    read(&setup, &buffer, 5, &mut part)?;
    assert_eq!(part[..], model[5..55]);
    assert_eq!(status(read(&setup, &buffer, 51, &mut part)), "CL_INVALID_VALUE");
    assert_eq!(status(read(&setup, &buffer, usize::MAX - 10, &mut part)), "CL_INVALID_VALUE");
    assert_eq!(status(write(&setup, &buffer, 100, &[0])), "CL_INVALID_VALUE");
    let (queue, raw) = (setup.queue.raw(), buffer.raw());
    let to_null = call!(clEnqueueReadBuffer(queue, raw, CL_TRUE, 0, 4, null_mut(), 0, null(), null_mut()));
    assert_eq!(status(to_null), "CL_INVALID_VALUE");
    let hidden = Buffer::new(&setup.context, CL_MEM_HOST_NO_ACCESS, 100)?;
    assert_eq!(status(read(&setup, &hidden, 0, &mut part)), "CL_INVALID_OPERATION");
    assert_eq!(status(write(&setup, &hidden, 0, &part)), "CL_INVALID_OPERATION");
    Ok(())
}

fn non_blocking_read() -> Outcome {
    let setup = Setup::new();
    let data: Vec<u8> = (0..1 << 20).map(|i| (i * 7) as u8).collect();
    let buffer = Buffer::copy_of(&setup.context, &data)?;
    let mut copies = vec![vec![0u8; data.len()]; 4];
    let begun: Vec<Transfer<'_>> =
        copies.iter_mut().map(|copy| setup.queue.begin_read(&buffer, copy)).collect::<Result<_, _>>()?;
    for read in begun {
        read.wait()?;
        assert_eq!(read.status()?, CL_COMPLETE);
        assert_eq!(read.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_READ_BUFFER);
    }
    assert!(copies.iter().all(|copy| *copy == data));
    Ok(())
}

/// A box of bytes in a pitched array: where it starts and how far its rows and slices are apart.
#[derive(Clone, Copy)]
struct Pitched {
    origin: [usize; 3],
    row: usize,
    slice: usize,
}

impl Pitched {
    fn at(&self, x: usize, y: usize, z: usize) -> usize {
        let [ox, oy, oz] = self.origin;
        (oz + z) * self.slice + (oy + y) * self.row + ox + x
    }
}

/// What every rectangle command must do.
fn copy_box(from: &[u8], source: Pitched, to: &mut [u8], target: Pitched, [w, h, d]: [usize; 3]) {
    for z in 0..d {
        for y in 0..h {
            for x in 0..w {
                to[target.at(x, y, z)] = from[source.at(x, y, z)];
            }
        }
    }
}

fn rectangles() -> Outcome {
    let setup = Setup::new();
    let queue = setup.queue.raw();
    let region = [5, 3, 2];
    let in_buffer = Pitched { origin: [2, 1, 1], row: 16, slice: 16 * 6 };
    let in_other = Pitched { origin: [1, 2, 0], row: 10, slice: 10 * 7 };
    let on_host = Pitched { origin: [3, 0, 1], row: 9, slice: 9 * 4 };
    let (size, other_size, host_size) = (16 * 6 * 3, 10 * 7 * 2, 9 * 4 * 3);
    let mut model: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let mut other_model = vec![7u8; other_size];
    let mut host: Vec<u8> = (0..host_size).map(|i| 200 + i as u8 % 50).collect();
    let buffer = Buffer::copy_of(&setup.context, &model)?;
    let other = Buffer::copy_of(&setup.context, &other_model)?;

    let (b, h) = (in_buffer, on_host);
    let place = host.as_ptr().cast();
    call!(clEnqueueWriteBufferRect(
        queue,
        buffer.raw(),
        CL_TRUE,
        b.origin.as_ptr(),
        h.origin.as_ptr(),
        region.as_ptr(),
        b.row,
        b.slice,
        h.row,
        h.slice,
        place,
        0,
        null(),
        null_mut()
    ))?;
    copy_box(&host, h, &mut model, b, region);
    let mut got = vec![0u8; size];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!(got, model, "after clEnqueueWriteBufferRect");

    let o = in_other;
    call!(clEnqueueCopyBufferRect(
        queue,
        buffer.raw(),
        other.raw(),
        b.origin.as_ptr(),
        o.origin.as_ptr(),
        region.as_ptr(),
        b.row,
        b.slice,
        o.row,
        o.slice,
        0,
        null(),
        null_mut()
    ))?;
    copy_box(&model, b, &mut other_model, o, region);
    let mut got = vec![0u8; other_size];
    setup.queue.read(&other, &mut got)?;
    assert_eq!(got, other_model, "after clEnqueueCopyBufferRect");

    let mut host_model = host.clone();
    let place = host.as_mut_ptr().cast();
    call!(clEnqueueReadBufferRect(
        queue,
        other.raw(),
        CL_TRUE,
        o.origin.as_ptr(),
        h.origin.as_ptr(),
        region.as_ptr(),
        o.row,
        o.slice,
        h.row,
        h.slice,
        place,
        0,
        null(),
        null_mut()
    ))?;
    copy_box(&other_model, o, &mut host_model, h, region);
    assert_eq!(host, host_model, "after clEnqueueReadBufferRect");
    Ok(())
}

fn rectangle_errors() -> Outcome {
    let setup = Setup::new();
    let buffer = Buffer::new(&setup.context, 0, 100)?;
    let mut host = [0u8; 200];
    let place: *mut c_void = host.as_mut_ptr().cast();
    let read = |origin: [usize; 3], region: [usize; 3], row, slice| {
        let (queue, buffer, host_origin) = (setup.queue.raw(), buffer.raw(), [0usize; 3]);
        let (o, h, r) = (origin.as_ptr(), host_origin.as_ptr(), region.as_ptr());
        status(call!(clEnqueueReadBufferRect(
            queue,
            buffer,
            CL_TRUE,
            o,
            h,
            r,
            row,
            slice,
            0,
            0,
            place,
            0,
            null(),
            null_mut()
        )))
    };
    assert_eq!(read([0; 3], [10, 10, 1], 0, 0), "CL_SUCCESS");
    assert_eq!(read([1, 0, 0], [10, 10, 1], 10, 0), "CL_INVALID_VALUE", "out of bounds");
    assert_eq!(read([0; 3], [10, 0, 1], 0, 0), "CL_INVALID_VALUE", "an empty region");
    assert_eq!(read([0; 3], [10, 10, 1], 9, 0), "CL_INVALID_VALUE", "a row pitch below the width");
    assert_eq!(read([0; 3], [10, 5, 2], 10, 45), "CL_INVALID_VALUE", "a slice pitch below a slice");
    assert_eq!(read([usize::MAX, 0, 0], [10, 1, 1], 0, 0), "CL_INVALID_VALUE", "an overflow");
    // Within a buffer either pitch may differ, but not both.
    let copy = |from: [usize; 2], to: [usize; 2]| {
        let (queue, buffer, start, behind) = (setup.queue.raw(), buffer.raw(), [0usize; 3], [50usize, 0, 0]);
        let (from_at, to_at, region) = (start.as_ptr(), behind.as_ptr(), [4usize, 1, 1]);
        let region = region.as_ptr();
        let ([row, slice], [to_row, to_slice]) = (from, to);
        status(call!(clEnqueueCopyBufferRect(
            queue,
            buffer,
            buffer,
            from_at,
            to_at,
            region,
            row,
            slice,
            to_row,
            to_slice,
            0,
            null(),
            null_mut()
        )))
    };
    assert_eq!(copy([10, 20], [10, 40]), "CL_SUCCESS");
    assert_eq!(copy([10, 20], [5, 20]), "CL_SUCCESS");
    assert_eq!(copy([10, 20], [5, 40]), "CL_INVALID_VALUE");
    Ok(())
}

fn fill() -> Outcome {
    let setup = Setup::new();
    let mut model = vec![1u8; 512];
    let buffer = Buffer::copy_of(&setup.context, &model)?;
    let fill = |pattern: &[u8], offset, size| {
        let (queue, raw, place) = (setup.queue.raw(), buffer.raw(), pattern.as_ptr().cast());
        status(call!(clEnqueueFillBuffer(
            queue,
            raw,
            place,
            pattern.len(),
            offset,
            size,
            0,
            null(),
            null_mut()
        )))
    };
    for (power, first) in (0..8).zip([0u8, 20, 40, 60, 80, 100, 120, 140]) {
        let pattern: Vec<u8> = (0..1 << power).map(|i: u8| first.wrapping_add(i)).collect();
        let (offset, size) = ((1 << power) * (power & 1), 256);
        assert_eq!(fill(&pattern, offset, size), "CL_SUCCESS", "a pattern of {} bytes", pattern.len());
        for (i, byte) in model[offset..offset + size].iter_mut().enumerate() {
            *byte = pattern[i % pattern.len()];
        }
        let mut got = vec![0u8; 512];
        setup.queue.read(&buffer, &mut got)?;
        assert_eq!(got, model, "a pattern of {} bytes", pattern.len());
    }
    assert_eq!(fill(&[0; 3], 0, 6), "CL_INVALID_VALUE");
    assert_eq!(fill(&[0; 4], 2, 8), "CL_INVALID_VALUE");
    assert_eq!(fill(&[0; 4], 0, 6), "CL_INVALID_VALUE");
    assert_eq!(fill(&[0; 4], 512, 4), "CL_INVALID_VALUE");
    assert_eq!(fill(&[], 0, 4), "CL_INVALID_VALUE");
    Ok(())
}

fn copy() -> Outcome {
    let setup = Setup::new();
    let data: Vec<u8> = (0..100).collect();
    let (a, b) = (Buffer::copy_of(&setup.context, &data)?, Buffer::copy_of(&setup.context, &[0u8; 100])?);
    let copy = |from: &Buffer, to: &Buffer, at, into, size| {
        let (queue, from, to) = (setup.queue.raw(), from.raw(), to.raw());
        status(call!(clEnqueueCopyBuffer(queue, from, to, at, into, size, 0, null(), null_mut())))
    };
    assert_eq!(copy(&a, &b, 10, 20, 30), "CL_SUCCESS");
    let mut got = vec![0u8; 100];
    setup.queue.read(&b, &mut got)?;
    assert_eq!(got[20..50], data[10..40]);
    assert!(got[..20].iter().chain(&got[50..]).all(|&x| x == 0));
    assert_eq!(copy(&a, &a, 0, 50, 50), "CL_SUCCESS");
    assert_eq!(copy(&a, &a, 0, 20, 50), "CL_MEM_COPY_OVERLAP");
    assert_eq!(copy(&a, &b, 60, 0, 50), "CL_INVALID_VALUE");
    assert_eq!(copy(&a, &b, 0, 60, 50), "CL_INVALID_VALUE");
    Ok(())
}

/// A mapped region.
struct Mapped {
    start: *mut u8,
    size: usize,
}

impl Mapped {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the runtime promises `size` bytes until the region is unmapped; the tests use it no longer.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.size) }
    }
}

/// Maps a part, blocking.
fn map(
    setup: &Setup,
    buffer: &Buffer,
    flags: cl_map_flags,
    at: usize,
    size: usize,
) -> spirula_tests::cl::Result<Mapped> {
    let (queue, raw) = (setup.queue.raw(), buffer.raw());
    let start = create!(clEnqueueMapBuffer(queue, raw, CL_TRUE, flags, at, size, 0, null(), null_mut()))?;
    Ok(Mapped { start: start.cast(), size })
}

fn unmap(setup: &Setup, buffer: &Buffer, region: *mut u8) -> spirula_tests::cl::Result<()> {
    call!(clEnqueueUnmapMemObject(setup.queue.raw(), buffer.raw(), region.cast(), 0, null(), null_mut()))
}

fn map_and_unmap() -> Outcome {
    let setup = Setup::new();
    let data: Vec<u8> = (0..64).collect();
    let (a, b) = (Buffer::copy_of(&setup.context, &data)?, Buffer::copy_of(&setup.context, &[0u8; 64])?);
    let mut region = map(&setup, &a, CL_MAP_READ | CL_MAP_WRITE, 8, 16)?;
    assert_eq!(region.bytes(), &data[8..24]);
    assert_eq!(a.info::<u32>(CL_MEM_MAP_COUNT)?, 1);
    region.bytes().fill(99);
    unmap(&setup, &a, region.start)?;
    setup.queue.finish()?;
    assert_eq!(a.info::<u32>(CL_MEM_MAP_COUNT)?, 0);
    let kernel = setup.kernel("spir12/vadd.bc64", "copy_uchar");
    kernel.set_object(0, Some(&a))?;
    kernel.set_object(1, Some(&b))?;
    setup.queue.launch(&kernel, NdRange::new(&[64], &[16]))?;
    let mut region = map(&setup, &b, CL_MAP_READ, 0, 64)?;
    let mut expected = data.clone();
    expected[8..24].fill(99);
    assert_eq!(region.bytes(), expected);
    unmap(&setup, &b, region.start)?;
    let mut region = map(&setup, &b, CL_MAP_WRITE_INVALIDATE_REGION, 0, 32)?;
    region.bytes().fill(3);
    unmap(&setup, &b, region.start)?;
    let mut got = vec![0u8; 64];
    setup.queue.read(&b, &mut got)?;
    assert_eq!((&got[..32], &got[32..]), (&[3; 32][..], &expected[32..]));
    Ok(())
}

fn map_errors() -> Outcome {
    let setup = Setup::new();
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    assert_eq!(status(map(&setup, &buffer, CL_MAP_READ, 0, 65)), "CL_INVALID_VALUE");
    assert_eq!(status(map(&setup, &buffer, 1 << 30, 0, 64)), "CL_INVALID_VALUE");
    let both = CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION;
    assert_eq!(status(map(&setup, &buffer, both, 0, 64)), "CL_INVALID_VALUE");
    let mut elsewhere = 0u8;
    assert_eq!(status(unmap(&setup, &buffer, &mut elsewhere)), "CL_INVALID_VALUE");
    let hidden = Buffer::new(&setup.context, CL_MEM_HOST_NO_ACCESS, 64)?;
    assert_eq!(status(map(&setup, &hidden, CL_MAP_READ, 0, 64)), "CL_INVALID_OPERATION");
    Ok(())
}

fn host_pointer() -> Outcome {
    let setup = Setup::new();
    let data: Vec<u8> = (0..128).collect();
    // Deliberately not aligned to anything; leaked, as the buffer and its commands have it however the test ends.
    let storage = &mut Box::leak(Box::new([0u8; 129]))[1..];
    let start = storage.as_mut_ptr();
    let flags = CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE;
    let target = Buffer::from_raw(create!(clCreateBuffer(setup.context.raw(), flags, 128, start.cast()))?);
    assert_eq!(target.info::<usize>(CL_MEM_HOST_PTR)?, start as usize);
    let source = Buffer::copy_of(&setup.context, &data)?;
    let kernel = setup.kernel("spir12/vadd.bc64", "copy_uchar");
    kernel.set_object(0, Some(&source))?;
    kernel.set_object(1, Some(&target))?;
    setup.queue.launch(&kernel, NdRange::new(&[128], &[32]))?;
    let mut region = map(&setup, &target, CL_MAP_READ, 0, 128)?;
    assert_eq!(region.start, start, "a map of such a buffer is the application's memory");
    assert_eq!(region.bytes(), data);
    unmap(&setup, &target, start)?;
    setup.queue.finish()?;
    drop(target);
    assert_eq!(storage, data);
    Ok(())
}

fn sub_buffer() -> Outcome {
    let setup = Setup::new();
    let align = setup.device.info::<u32>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? as usize / 8;
    let size = 4 * align;
    let whole = Buffer::copy_of(&setup.context, &vec![1u8; size])?;
    let part = whole.sub_buffer(CL_MEM_READ_WRITE, align, 2 * align)?;
    assert_eq!(part.info::<usize>(CL_MEM_ASSOCIATED_MEMOBJECT)?, whole.raw() as usize);
    assert_eq!(part.info::<usize>(CL_MEM_OFFSET)?, align);
    assert_eq!(part.info::<usize>(CL_MEM_SIZE)?, 2 * align);
    let fresh: Vec<u8> = (0..2 * align).map(|i| i as u8).collect();
    let source = Buffer::copy_of(&setup.context, &fresh)?;
    let kernel = setup.kernel("spir12/vadd.bc64", "copy_uchar");
    kernel.set_object(0, Some(&source))?;
    kernel.set_object(1, Some(&part))?;
    setup.queue.launch(&kernel, NdRange { global: &[2 * align], local: None, offset: None })?;
    let mut got = vec![0u8; size];
    setup.queue.read(&whole, &mut got)?;
    assert_eq!(got[align..3 * align], fresh);
    assert!(got[..align].iter().chain(&got[3 * align..]).all(|&x| x == 1));
    Ok(())
}

fn sub_buffer_errors() -> Outcome {
    let setup = Setup::new();
    let align = setup.device.info::<u32>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? as usize / 8;
    let whole = Buffer::new(&setup.context, CL_MEM_READ_ONLY, 4 * align)?;
    let sub = |flags, origin, size| status(whole.sub_buffer(flags, origin, size));
    assert_eq!(sub(0, align, align), "CL_SUCCESS");
    assert_eq!(sub(0, 1, align), "CL_MISALIGNED_SUB_BUFFER_OFFSET");
    assert_eq!(sub(0, 3 * align, 2 * align), "CL_INVALID_VALUE");
    assert_eq!(sub(0, 0, 0), "CL_INVALID_BUFFER_SIZE");
    assert_eq!(sub(CL_MEM_READ_WRITE, 0, align), "CL_INVALID_VALUE", "more access than the buffer has");
    let part = whole.sub_buffer(0, 0, 2 * align)?;
    assert_eq!(status(part.sub_buffer(0, 0, align)), "CL_INVALID_MEM_OBJECT", "a part of a part");
    let (raw, region) = (whole.raw(), cl_buffer_region { origin: 0, size: align });
    let of = |kind, region| status(create!(clCreateSubBuffer(raw, 0, kind, region)).map(Buffer::from_raw));
    assert_eq!(of(CL_BUFFER_CREATE_TYPE_REGION, null()), "CL_INVALID_VALUE");
    assert_eq!(of(7, (&raw const region).cast()), "CL_INVALID_VALUE");
    Ok(())
}

fn destructor_callbacks() -> Outcome {
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    extern "C" fn gone(_: cl_mem, data: *mut c_void) {
        ORDER.lock().expect("no test panics here").push(data as usize);
    }
    let setup = Setup::new();
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    for number in 1..=3usize {
        call!(clSetMemObjectDestructorCallback(buffer.raw(), Some(gone), number as *mut c_void))?;
    }
    let none = call!(clSetMemObjectDestructorCallback(buffer.raw(), None, null_mut()));
    assert_eq!(status(none), "CL_INVALID_VALUE");
    let second = buffer.clone();
    drop(buffer);
    assert!(ORDER.lock().expect("as above").is_empty(), "a reference is left");
    drop(second);
    assert_eq!(*ORDER.lock().expect("as above"), [3, 2, 1], "in reverse order");
    Ok(())
}

fn large_buffer() -> Outcome {
    let setup = Setup::new();
    const SIZE: usize = 256 << 20;
    let buffer = Buffer::new(&setup.context, CL_MEM_READ_WRITE, SIZE)?;
    write(&setup, &buffer, SIZE - 4, &[1, 2, 3, 4])?;
    let mut end = [0u8; 4];
    read(&setup, &buffer, SIZE - 4, &mut end)?;
    assert_eq!(end, [1, 2, 3, 4]);
    Ok(())
}

/// Sums that a loop keeps in memory count what they change themselves, if they lie in what is summed up.
fn arguments_that_share_memory() -> Outcome {
    const SUM: &str =
        "kernel void k(global int *sum, global const int *data, global const int *factor, int n) {
        for (int i = 0; i < n; i++) sum[get_global_id(0)] += data[i] * factor[0];
    }";
    let setup = sources::setup()?;
    let kernel = Kernel::new(&sources::built(&setup, SUM, "")?, "k")?;
    let align = setup.device.info::<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? as usize / 32;
    let items = 2 * align;
    // Where in the data the sum and the factor lie, if they do.
    for (sum_at, factor_at) in
        [(None, None), (Some(0), None), (Some(align), None), (Some(align), Some(align))]
    {
        let mut data: Vec<i32> = (0..items as i32).map(|i| i % 7 + 1).collect();
        let whole = Buffer::copy_of(&setup.context, &data)?;
        let part = |at: Option<usize>, other: i32| match at {
            Some(at) => whole.sub_buffer(CL_MEM_READ_WRITE, 4 * at, 4 * align),
            None => Buffer::copy_of(&setup.context, &[other]),
        };
        let (sum, factor) = (part(sum_at, 5)?, part(factor_at, 3)?);
        kernel.set_object(0, Some(&sum))?;
        kernel.set_object(1, Some(&whole))?;
        kernel.set_object(2, Some(&factor))?;
        kernel.set_bytes(3, &(items as i32).to_ne_bytes())?;
        // Twice: then the better code may be there.
        let mut expected = 5_i32;
        for _ in 0..2 {
            setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
            for i in 0..items {
                let factor = factor_at.map_or(3, |at| data[at]);
                let product = data[i].wrapping_mul(factor);
                let sum = sum_at.map_or(&mut expected, |at| &mut data[at]);
                *sum = sum.wrapping_add(product);
            }
        }
        let mut found = [0];
        setup.queue.read(&sum, &mut found)?;
        assert_eq!(found[0], sum_at.map_or(expected, |at| data[at]), "{sum_at:?} {factor_at:?}");
    }
    Ok(())
}

/// Neighbours' ids are neighbours, and their sums with an argument are, unless these wrap.
fn sums_of_ids_that_wrap() -> Outcome {
    const INDEX: &str = "kernel void k(global long *out, int first) {
        int i = get_global_id(0) + first;
        out[get_global_id(0)] = i;
    }";
    let setup = sources::setup()?;
    let kernel = Kernel::new(&sources::built(&setup, INDEX, "")?, "k")?;
    let mut found = vec![0_i64; 64];
    let buffer = Buffer::copy_of(&setup.context, &found)?;
    for first in [0, 7, -7, i32::MAX - 20, i32::MIN, 1 << 29] {
        kernel.set_object(0, Some(&buffer))?;
        kernel.set_bytes(1, &first.to_ne_bytes())?;
        setup.queue.launch(&kernel, NdRange::new(&[64], &[64]))?;
        setup.queue.read(&buffer, &mut found)?;
        let expected: Vec<i64> = (0..64).map(|id| i64::from(first.wrapping_add(id))).collect();
        assert_eq!(found, expected, "{first}");
    }
    Ok(())
}
