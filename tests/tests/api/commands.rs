//! What clEnqueue* functions refuse, and commands that no other file is about: native kernels, markers, migration, and
//! the order of out-of-order queues.

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Event, Image, ImageKind, Object, Queue, Result};
use spirula_tests::isolate::{self, Outcome};
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

tests![
    native_kernels,
    native_kernel_errors,
    migration,
    old_synchronization,
    host_access,
    null_pointers,
    images_are_no_buffers,
    failed_waits_reach_blocking_calls,
    out_of_order_commands_pass_each_other,
    barriers_part_out_of_order_queues,
    overlapping_maps,
];

fn out_of_order(setup: &Setup) -> Result<Queue> {
    let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    let (context, device) = (setup.context.raw(), setup.device.raw());
    Ok(Queue::from_raw(create!(clCreateCommandQueue(context, device, properties))?))
}

/// The arguments of `sum_up`.
#[repr(C)]
struct Sum {
    buffer: *mut c_void,
    count: usize,
    total: *const AtomicU32,
}

extern "C" fn sum_up(arguments: *mut c_void) {
    // SAFETY: a copy of the test's `Sum`, whose buffer's address the runtime has filled in.
    unsafe {
        let Sum { buffer, count, total } = arguments.cast::<Sum>().read();
        let sum = std::slice::from_raw_parts(buffer.cast::<u32>(), count).iter().sum();
        (*total).store(sum, Ordering::SeqCst);
    }
}

fn native_kernels() -> Outcome {
    isolate::needs_one_process()?;
    static TOTAL: AtomicU32 = AtomicU32::new(0);
    let setup = Setup::new();
    let able = setup.device.info::<u64>(CL_DEVICE_EXECUTION_CAPABILITIES)?;
    assert_eq!(able, CL_EXEC_KERNEL | CL_EXEC_NATIVE_KERNEL);
    let buffer = Buffer::copy_of(&setup.context, &[1u32, 2, 3, 4])?;
    let mut arguments = Sum { buffer: buffer.raw(), count: 4, total: &TOTAL };
    let place = (&raw const arguments.buffer).cast::<c_void>();
    let mut event = null_mut();
    let size = size_of::<Sum>();
    let pointer = (&raw mut arguments).cast();
    call!(clEnqueueNativeKernel(
        setup.queue.raw(),
        Some(sum_up),
        pointer,
        size,
        1,
        &buffer.raw(),
        &place,
        0,
        null(),
        &mut event
    ))?;
    // The arguments are the runtime's copy.
    arguments.count = std::hint::black_box(0);
    std::hint::black_box(&mut arguments);
    let event = Event::from_raw(event);
    drop(buffer);
    event.wait()?;
    assert_eq!(TOTAL.load(Ordering::SeqCst), 10);
    assert_eq!(event.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_NATIVE_KERNEL);
    Ok(())
}

fn native_kernel_errors() -> Outcome {
    isolate::needs_one_process()?;
    let setup = Setup::new();
    let buffer = Buffer::new(&setup.context, 0, 16)?;
    let image = Image::new(&setup.context, ImageKind::D1, (CL_R, CL_FLOAT), [4, 1, 1], 1, None)?;
    let mut words = [0usize; 4];
    let (inside, outside) = (words.as_ptr().cast::<c_void>(), words.as_ptr().wrapping_add(4).cast());
    let arguments: *mut c_void = words.as_mut_ptr().cast();
    let enqueue = |function, arguments, size, count, list: *const cl_mem, places: *const *const c_void| {
        let queue = setup.queue.raw();
        let (none, event) = (null(), null_mut());
        status(call!(clEnqueueNativeKernel(
            queue, function, arguments, size, count, list, places, 0, none, event
        )))
    };
    let (handle, picture) = (buffer.raw(), image.raw());
    let one: Option<extern "C" fn(*mut c_void)> = Some(sum_up);
    assert_eq!(enqueue(None, null_mut(), 0, 0, null(), null()), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, null_mut(), 8, 0, null(), null()), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, null_mut(), 0, 1, &handle, &inside), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, arguments, 0, 0, null(), null()), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, arguments, 32, 1, null(), &inside), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, arguments, 32, 1, &handle, null()), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, arguments, 32, 0, &handle, null()), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, arguments, 32, 0, null(), &inside), "CL_INVALID_VALUE");
    assert_eq!(enqueue(one, arguments, 32, 1, &handle, &outside), "CL_INVALID_VALUE", "outside args");
    let across = inside.wrapping_byte_add(28);
    assert_eq!(enqueue(one, arguments, 32, 1, &handle, &across), "CL_INVALID_VALUE", "half outside");
    assert_eq!(enqueue(one, arguments, 32, 1, &null_mut(), &inside), "CL_INVALID_MEM_OBJECT");
    assert_eq!(enqueue(one, arguments, 32, 1, &picture, &inside), "CL_INVALID_MEM_OBJECT");
    Ok(())
}

fn migration() -> Outcome {
    let setup = Setup::new();
    let (buffer, stranger) = (Buffer::new(&setup.context, 0, 16)?, Setup::new());
    let theirs = Buffer::new(&stranger.context, 0, 16)?;
    let migrate = |count, list: *const cl_mem, flags| {
        let queue = setup.queue.raw();
        status(call!(clEnqueueMigrateMemObjects(queue, count, list, flags, 0, null(), null_mut())))
    };
    let (own, other) = (buffer.raw(), theirs.raw());
    let (host, undefined) = (CL_MIGRATE_MEM_OBJECT_HOST, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED);
    for flags in [0, host, undefined, host | undefined] {
        assert_eq!(migrate(1, &own, flags), "CL_SUCCESS");
    }
    assert_eq!(migrate(0, &own, 0), "CL_INVALID_VALUE");
    assert_eq!(migrate(1, null(), 0), "CL_INVALID_VALUE");
    assert_eq!(migrate(1, &own, 1 << 10), "CL_INVALID_VALUE");
    assert_eq!(migrate(1, &null_mut(), 0), "CL_INVALID_MEM_OBJECT");
    assert_eq!(migrate(1, &other, 0), "CL_INVALID_CONTEXT");
    assert_eq!(migrate(2, [own, other].as_ptr(), 0), "CL_INVALID_CONTEXT");
    Ok(())
}

fn old_synchronization() -> Outcome {
    let setup = Setup::new();
    let queue = setup.queue.raw();
    assert_eq!(status(call!(clEnqueueMarker(queue, null_mut()))), "CL_INVALID_VALUE");
    assert_eq!(status(call!(clEnqueueMarker(null_mut(), null_mut()))), "CL_INVALID_COMMAND_QUEUE");
    let mut marker = null_mut();
    call!(clEnqueueMarker(queue, &mut marker))?;
    let marker = Event::from_raw(marker);
    let wait =
        |count, list: *const cl_event| status(call!(clEnqueueWaitForEvents(queue, count, list.cast_mut())));
    assert_eq!(wait(1, &marker.raw()), "CL_SUCCESS");
    assert_eq!(wait(0, &marker.raw()), "CL_INVALID_VALUE");
    assert_eq!(wait(1, null()), "CL_INVALID_VALUE");
    assert_eq!(wait(1, &null_mut()), "CL_INVALID_EVENT");
    let stranger = Setup::new();
    assert_eq!(wait(1, &Event::user(&stranger.context)?.raw()), "CL_INVALID_CONTEXT");
    call!(clEnqueueBarrier(queue))?;
    setup.queue.finish()?;
    Ok(())
}

/// CL_INVALID_OPERATION where the flags deny the host what a command does.
fn host_access() -> Outcome {
    let setup = Setup::new();
    let queue = setup.queue.raw();
    let mut bytes = [0u8; 16];
    let place = bytes.as_mut_ptr().cast::<c_void>();
    let (origin, region) = ([0usize; 3], [4usize, 1, 1]);
    let (o, r, w, n) = (origin.as_ptr(), region.as_ptr(), null(), null_mut());
    for (flags, may_read, may_write) in [
        (0, true, true),
        (CL_MEM_HOST_READ_ONLY, true, false),
        (CL_MEM_HOST_WRITE_ONLY, false, true),
        (CL_MEM_HOST_NO_ACCESS, false, false),
    ] {
        let buffer = Buffer::new(&setup.context, flags, 16)?;
        let b = buffer.raw();
        let map = |flags| {
            create!(clEnqueueMapBuffer(queue, b, CL_TRUE, flags, 0, 16, 0, w, n))
                .and_then(|start| call!(clEnqueueUnmapMemObject(queue, b, start, 0, w, n)))
        };
        let reads = [
            call!(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 16, place, 0, w, n)),
            call!(clEnqueueReadBufferRect(queue, b, CL_TRUE, o, o, r, 0, 0, 0, 0, place, 0, w, n)),
            map(CL_MAP_READ),
        ];
        let writes = [
            call!(clEnqueueWriteBuffer(queue, b, CL_TRUE, 0, 16, place, 0, w, n)),
            call!(clEnqueueWriteBufferRect(queue, b, CL_TRUE, o, o, r, 0, 0, 0, 0, place, 0, w, n)),
            map(CL_MAP_WRITE),
            map(CL_MAP_WRITE_INVALIDATE_REGION),
        ];
        let expected = |may| if may { "CL_SUCCESS" } else { "CL_INVALID_OPERATION" };
        reads.into_iter().for_each(|read| assert_eq!(status(read), expected(may_read), "{flags:#x}"));
        writes.into_iter().for_each(|write| assert_eq!(status(write), expected(may_write), "{flags:#x}"));
        // Commands of the device are not concerned.
        let pattern = (&raw const flags).cast();
        call!(clEnqueueFillBuffer(queue, b, pattern, 8, 0, 16, 0, w, n))?;
    }
    Ok(())
}

fn null_pointers() -> Outcome {
    let setup = Setup::new();
    let queue = setup.queue.raw();
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    let image = Image::new(&setup.context, ImageKind::D2, (CL_R, CL_FLOAT), [4, 4, 1], 1, None)?;
    let (b, i, w, n) = (buffer.raw(), image.raw(), null(), null_mut());
    let mut bytes = [0u8; 64];
    let place = bytes.as_mut_ptr().cast::<c_void>();
    let (origin, region) = ([0usize; 3], [4usize, 4, 1]);
    let (o, r, z) = (origin.as_ptr(), region.as_ptr(), null::<usize>());
    let calls = [
        call!(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 4, null_mut(), 0, w, n)),
        call!(clEnqueueWriteBuffer(queue, b, CL_TRUE, 0, 4, null(), 0, w, n)),
        call!(clEnqueueReadBufferRect(queue, b, CL_TRUE, z, o, r, 0, 0, 0, 0, place, 0, w, n)),
        call!(clEnqueueReadBufferRect(queue, b, CL_TRUE, o, z, r, 0, 0, 0, 0, place, 0, w, n)),
        call!(clEnqueueReadBufferRect(queue, b, CL_TRUE, o, o, z, 0, 0, 0, 0, place, 0, w, n)),
        call!(clEnqueueReadBufferRect(queue, b, CL_TRUE, o, o, r, 0, 0, 0, 0, null_mut(), 0, w, n)),
        call!(clEnqueueWriteBufferRect(queue, b, CL_TRUE, o, o, r, 0, 0, 0, 0, null(), 0, w, n)),
        call!(clEnqueueCopyBufferRect(queue, b, b, z, o, r, 0, 0, 0, 0, 0, w, n)),
        call!(clEnqueueFillBuffer(queue, b, null(), 4, 0, 4, 0, w, n)),
        call!(clEnqueueReadImage(queue, i, CL_TRUE, z, r, 0, 0, place, 0, w, n)),
        call!(clEnqueueReadImage(queue, i, CL_TRUE, o, z, 0, 0, place, 0, w, n)),
        call!(clEnqueueReadImage(queue, i, CL_TRUE, o, r, 0, 0, null_mut(), 0, w, n)),
        call!(clEnqueueWriteImage(queue, i, CL_TRUE, o, r, 0, 0, null(), 0, w, n)),
        call!(clEnqueueCopyImage(queue, i, i, z, o, r, 0, w, n)),
        call!(clEnqueueCopyImageToBuffer(queue, i, b, z, r, 0, 0, w, n)),
        call!(clEnqueueCopyBufferToImage(queue, b, i, 0, o, z, 0, w, n)),
        call!(clEnqueueFillImage(queue, i, null(), o, r, 0, w, n)),
        call!(clEnqueueFillImage(queue, i, place, z, r, 0, w, n)),
        call!(clEnqueueUnmapMemObject(queue, b, null_mut(), 0, w, n)),
    ];
    for (number, outcome) in calls.into_iter().enumerate() {
        assert_eq!(status(outcome), "CL_INVALID_VALUE", "number {number}");
    }
    let mut pitch = 0;
    let map = |o, r, pitch| {
        status(create!(clEnqueueMapImage(queue, i, CL_TRUE, CL_MAP_READ, o, r, pitch, null_mut(), 0, w, n)))
    };
    assert_eq!(map(o, r, null_mut()), "CL_INVALID_VALUE");
    assert_eq!(map(z, r, &mut pitch), "CL_INVALID_VALUE");
    assert_eq!(map(o, z, &mut pitch), "CL_INVALID_VALUE");
    assert_eq!(map(o, r, &mut pitch), "CL_SUCCESS");
    Ok(())
}

fn images_are_no_buffers() -> Outcome {
    let setup = Setup::new();
    let queue = setup.queue.raw();
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    let image = Image::new(&setup.context, ImageKind::D2, (CL_R, CL_FLOAT), [4, 4, 1], 1, None)?;
    let (b, i, w, n) = (buffer.raw(), image.raw(), null(), null_mut());
    let mut bytes = [0u8; 64];
    let place = bytes.as_mut_ptr().cast::<c_void>();
    let (origin, region) = ([0usize; 3], [4usize, 4, 1]);
    let (o, r) = (origin.as_ptr(), region.as_ptr());
    let calls = [
        call!(clEnqueueReadBuffer(queue, i, CL_TRUE, 0, 4, place, 0, w, n)),
        call!(clEnqueueWriteBuffer(queue, i, CL_TRUE, 0, 4, place, 0, w, n)),
        call!(clEnqueueReadBufferRect(queue, i, CL_TRUE, o, o, r, 0, 0, 0, 0, place, 0, w, n)),
        call!(clEnqueueWriteBufferRect(queue, i, CL_TRUE, o, o, r, 0, 0, 0, 0, place, 0, w, n)),
        call!(clEnqueueCopyBuffer(queue, i, b, 0, 0, 4, 0, w, n)),
        call!(clEnqueueCopyBuffer(queue, b, i, 0, 0, 4, 0, w, n)),
        call!(clEnqueueCopyBufferRect(queue, b, i, o, o, r, 0, 0, 0, 0, 0, w, n)),
        call!(clEnqueueFillBuffer(queue, i, place, 4, 0, 4, 0, w, n)),
        create!(clEnqueueMapBuffer(queue, i, CL_TRUE, CL_MAP_READ, 0, 4, 0, w, n)).map(drop),
        call!(clEnqueueReadImage(queue, b, CL_TRUE, o, r, 0, 0, place, 0, w, n)),
        call!(clEnqueueWriteImage(queue, b, CL_TRUE, o, r, 0, 0, place, 0, w, n)),
        call!(clEnqueueCopyImage(queue, b, i, o, o, r, 0, w, n)),
        call!(clEnqueueCopyImage(queue, i, b, o, o, r, 0, w, n)),
        call!(clEnqueueCopyImageToBuffer(queue, b, b, o, r, 0, 0, w, n)),
        call!(clEnqueueCopyImageToBuffer(queue, i, i, o, r, 0, 0, w, n)),
        call!(clEnqueueCopyBufferToImage(queue, i, i, 0, o, r, 0, w, n)),
        call!(clEnqueueFillImage(queue, b, place, o, r, 0, w, n)),
        call!(clEnqueueUnmapMemObject(queue, null_mut(), place, 0, w, n)),
        call!(clGetImageInfo(b, CL_IMAGE_WIDTH, 0, null_mut(), &mut 0)),
    ];
    for (number, outcome) in calls.into_iter().enumerate() {
        assert_eq!(status(outcome), "CL_INVALID_MEM_OBJECT", "number {number}");
    }
    Ok(())
}

fn failed_waits_reach_blocking_calls() -> Outcome {
    let setup = Setup::new();
    let (buffer, gate) = (Buffer::new(&setup.context, 0, 4)?, Event::user(&setup.context)?);
    gate.set_status(-3)?;
    let (queue, b, list, n) = (setup.queue.raw(), buffer.raw(), gate.raw(), null_mut());
    let mut word = [0u32];
    let place = word.as_mut_ptr().cast();
    let failed = "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    assert_eq!(status(call!(clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 4, place, 1, &list, n))), failed);
    assert_eq!(status(call!(clEnqueueWriteBuffer(queue, b, CL_TRUE, 0, 4, place, 1, &list, n))), failed);
    assert_eq!(
        status(create!(clEnqueueMapBuffer(queue, b, CL_TRUE, CL_MAP_READ, 0, 4, 1, &list, n))),
        failed
    );
    assert_eq!(buffer.info::<u32>(CL_MEM_MAP_COUNT)?, 0, "what did not happen leaves no mapping");
    assert_eq!(status(call!(clWaitForEvents(1, &list))), failed);
    Ok(())
}

/// A marker of `queue` behind `wait`.
fn marker(queue: &Queue, wait: &[&Event]) -> Result<Event> {
    let list: Vec<_> = wait.iter().map(|event| event.raw()).collect();
    let (pointer, mut event) = (if list.is_empty() { null() } else { list.as_ptr() }, null_mut());
    call!(clEnqueueMarkerWithWaitList(queue.raw(), list.len() as u32, pointer, &mut event))?;
    Ok(Event::from_raw(event))
}

fn fill(queue: &Queue, buffer: &Buffer, wait: &[&Event]) -> Result<Event> {
    let list: Vec<_> = wait.iter().map(|event| event.raw()).collect();
    let (pointer, mut event, word) = (if list.is_empty() { null() } else { list.as_ptr() }, null_mut(), 7u32);
    let (count, place) = (list.len() as u32, (&raw const word).cast());
    call!(clEnqueueFillBuffer(queue.raw(), buffer.raw(), place, 4, 0, 4, count, pointer, &mut event))?;
    Ok(Event::from_raw(event))
}

fn out_of_order_commands_pass_each_other() -> Outcome {
    let setup = Setup::new();
    let (queue, gate) = (out_of_order(&setup)?, Event::user(&setup.context)?);
    let buffer = Buffer::new(&setup.context, 0, 4)?;
    let held = fill(&queue, &buffer, &[&gate])?;
    let behind = fill(&queue, &buffer, &[&held])?;
    let all_before = marker(&queue, &[])?;
    let free = fill(&queue, &buffer, &[])?;
    free.wait()?;
    assert!(
        [&held, &behind, &all_before].iter().all(|event| event.status().is_ok_and(|now| now > CL_COMPLETE))
    );
    gate.set_status(CL_COMPLETE)?;
    all_before.wait()?;
    assert_eq!([held.status()?, behind.status()?], [CL_COMPLETE; 2]);
    Ok(())
}

fn barriers_part_out_of_order_queues() -> Outcome {
    let setup = Setup::new();
    let (queue, gate) = (out_of_order(&setup)?, Event::user(&setup.context)?);
    let buffer = Buffer::new(&setup.context, 0, 4)?;
    let early = fill(&queue, &buffer, &[])?;
    call!(clEnqueueBarrierWithWaitList(queue.raw(), 1, &gate.raw(), null_mut()))?;
    let late = fill(&queue, &buffer, &[])?;
    early.wait()?;
    call!(clFlush(queue.raw()))?;
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert!(late.status()? > CL_COMPLETE, "it stands behind the barrier");
    gate.set_status(CL_COMPLETE)?;
    queue.finish()?;
    assert_eq!(late.status()?, CL_COMPLETE);
    Ok(())
}

fn overlapping_maps() -> Outcome {
    let setup = Setup::new();
    let queue = setup.queue.raw();
    let buffer = Buffer::copy_of(&setup.context, &[1u8; 64])?;
    let map = |flags, offset, size| {
        let (w, n) = (null(), null_mut());
        create!(clEnqueueMapBuffer(queue, buffer.raw(), CL_TRUE, flags, offset, size, 0, w, n))
    };
    let unmap = |start: *mut c_void| {
        call!(clEnqueueUnmapMemObject(queue, buffer.raw(), start, 0, null(), null_mut()))
    };
    let maps = [map(CL_MAP_READ, 0, 64)?, map(CL_MAP_READ, 16, 32)?, map(CL_MAP_READ, 0, 8)?];
    assert_eq!(maps[1] as usize - maps[0] as usize, 16, "the same bytes");
    assert_eq!(buffer.info::<u32>(CL_MEM_MAP_COUNT)?, 3);
    maps.into_iter().try_for_each(unmap)?;
    assert_eq!(buffer.info::<u32>(CL_MEM_MAP_COUNT)?, 0);
    assert_eq!(status(unmap(maps[0])), "CL_INVALID_VALUE", "unmapped before");
    // What is written through the second view of a region is there when both are gone.
    let (first, second) = (map(CL_MAP_WRITE_INVALIDATE_REGION, 0, 32)?, map(CL_MAP_WRITE, 32, 32)?);
    // SAFETY: both regions are mapped for writing, 32 bytes each.
    unsafe {
        first.cast::<u8>().write_bytes(2, 32);
        second.cast::<u8>().write_bytes(3, 32);
    }
    unmap(second)?;
    unmap(first)?;
    let mut got = [0u8; 64];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!((&got[..32], &got[32..]), (&[2u8; 32][..], &[3u8; 32][..]));
    Ok(())
}
