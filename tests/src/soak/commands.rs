//! The acts of the commands beside those of buffers: of images, shared memory, kernels, device queues, pipes and extensions.

use super::{Done, Stage, Trouble, bytes_of, count_event, failed, same, wait_for};
use crate::cl::sys::*;
use crate::cl::{self, Buffer, Event, Image, ImageKind, Kernel, NdRange, Object, Program, Queue};
use crate::mutate::Random;
use crate::{call, create, fixtures};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

fn program(stage: &Stage, name: &str, options: &str) -> Result<Program, Trouble> {
    let program = Program::from_binary(&stage.context, stage.device, &fixtures::load(name))?;
    program.build(options).map_err(|e| failed(&program, stage.device, e))?;
    Ok(program)
}

/// An image is filled, copied into a buffer, that into another image, and this mapped.
pub fn image_transfers(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let (width, height) = (1 + random.below(40), 1 + random.below(40));
    let image = || {
        Image::new(&stage.context, ImageKind::D2, (CL_RGBA, CL_UNSIGNED_INT8), [width, height, 1], 1, None)
    };
    let (one, two) = (image()?, image()?);
    let buffer = Buffer::new(&stage.context, CL_MEM_READ_WRITE, width * height * 4)?;
    let color = [random.below(256) as u32, 2, 3, 4];
    let (zero, region) = ([0; 3], one.region);
    let (z, r, q) = (zero.as_ptr(), region.as_ptr(), queue.raw());
    call!(clEnqueueFillImage(q, one.raw(), color.as_ptr().cast(), z, r, 0, null(), null_mut()))?;
    queue.finish()?;
    call!(clEnqueueCopyImageToBuffer(q, one.raw(), buffer.raw(), z, r, 0, 0, null(), null_mut()))?;
    queue.finish()?;
    call!(clEnqueueCopyBufferToImage(q, buffer.raw(), two.raw(), 0, z, r, 0, null(), null_mut()))?;
    queue.finish()?;
    let (mut row, none, flags) = (0, null_mut(), CL_MAP_READ);
    let list = null();
    let place =
        create!(clEnqueueMapImage(q, two.raw(), CL_TRUE, flags, z, r, &mut row, none, 0, list, null_mut()))?;
    let rows = (0..height).flat_map(|y| {
        // SAFETY: so many rows of so many bytes are mapped.
        unsafe { std::slice::from_raw_parts(place.cast::<u8>().add(y * row), width * 4) }.to_vec()
    });
    let got: Vec<u8> = rows.collect();
    call!(clEnqueueUnmapMemObject(q, two.raw(), place, 0, null(), null_mut()))?;
    queue.finish()?;
    same("image transfers", &got, &color.map(|c| c as u8).repeat(width * height))
}

/// A rectangle of the application's into a buffer.
pub fn written_rectangles(stage: &Stage, random: &mut Random) -> Done {
    const ROW: usize = 32;
    let queue = stage.queue(random)?;
    let buffer = Buffer::copy_of(&stage.context, &[0_u8; ROW * ROW])?;
    let data: Vec<u8> = (0..7 * 5).map(|_| 1 + random.below(255) as u8).collect();
    let (origin, zero, region) = ([3, 5, 0], [0; 3], [7, 5, 1]);
    let (o, z, r, from) = (origin.as_ptr(), zero.as_ptr(), region.as_ptr(), data.as_ptr().cast());
    let raw = buffer.raw();
    call!(clEnqueueWriteBufferRect(
        queue.raw(),
        raw,
        CL_TRUE,
        o,
        z,
        r,
        ROW,
        0,
        7,
        0,
        from,
        0,
        null(),
        null_mut()
    ))?;
    let (mut got, mut expected) = (vec![0_u8; ROW * ROW], vec![0_u8; ROW * ROW]);
    queue.read(&buffer, &mut got)?;
    for (y, row) in data.chunks(7).enumerate() {
        expected[(5 + y) * ROW + 3..][..7].copy_from_slice(row);
    }
    same("written rectangles", &got, &expected)
}

extern "C" fn free_all(_: cl_command_queue, count: cl_uint, list: *const *const c_void, data: *mut c_void) {
    // SAFETY: a live context's pointer and the counter that the command was enqueued with.
    let freed = unsafe { Box::from_raw(data.cast::<Freed>()) };
    for place in 0..count as usize {
        // SAFETY: the command's list has so many pointers, memory that nobody uses any more.
        unsafe { clSVMFree(freed.context.raw(), (*list.add(place)).cast_mut()) };
    }
    count_event(null_mut(), 0, Arc::into_raw(freed.counter).cast_mut().cast());
}

struct Freed {
    context: cl::Context,
    counter: Arc<AtomicUsize>,
}

/// Shared memory is mapped, written, migrated, read, and freed by a command that calls the application.
pub fn shared_maps(stage: &Stage, random: &mut Random) -> Done {
    let (queue, data) = (stage.queue(random)?, stage.numbers(random));
    // SAFETY: asks for memory.
    let memory = unsafe { clSVMAlloc(stage.context.raw(), CL_MEM_READ_WRITE, bytes_of(&data), 0) };
    if memory.is_null() {
        return Err(Trouble::Failed("clSVMAlloc returned null".into()));
    }
    let (size, q, address) = (bytes_of(&data), queue.raw(), memory.cast_const());
    let used = (|| -> cl::Result<Vec<u32>> {
        call!(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_WRITE, memory, size, 0, null(), null_mut()))?;
        // SAFETY: so many numbers are mapped.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), memory.cast(), data.len()) };
        call!(clEnqueueSVMUnmap(q, memory, 0, null(), null_mut()))?;
        queue.finish()?;
        call!(clEnqueueSVMMigrateMem(q, 1, &address, null(), 0, 0, null(), null_mut()))?;
        queue.finish()?;
        let mut got = vec![0; data.len()];
        let to = got.as_mut_ptr().cast();
        call!(clEnqueueSVMMemcpy(q, CL_TRUE, to, address, size, 0, null(), null_mut()))?;
        Ok(got)
    })();
    let _ = queue.finish();
    let counter = Arc::new(AtomicUsize::new(0));
    let freed = Freed { context: stage.context.clone(), counter: counter.clone() };
    let freed: *mut c_void = Box::into_raw(Box::new(freed)).cast();
    let begun = call!(clEnqueueSVMFree(q, 1, &address, Some(free_all), freed, 0, null(), null_mut()));
    if begun.is_err() {
        // SAFETY: no command was made, so that both are still ours.
        unsafe {
            drop(Box::from_raw(freed.cast::<Freed>()));
            clSVMFree(stage.context.raw(), memory);
        }
    }
    begun?;
    wait_for(&counter, 1, "shared_maps")?;
    same("shared maps", &used?, &data)
}

/// A kernel as a task, over a part of a buffer.
pub fn tasks(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let kernel = Kernel::new(&program(stage, "bench/saxpy.bc64", "")?, "saxpy")?;
    let align = stage.device.info::<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? as usize / 8;
    let whole = Buffer::copy_of(&stage.context, &vec![1_f32; align])?;
    let part = whole.sub_buffer(CL_MEM_READ_WRITE, align, align)?;
    let factor = 2.0 + random.below(100) as f32;
    kernel.set_object(0, Some(&part))?;
    kernel.set_object(1, Some(&part))?;
    kernel.set(2, factor)?;
    let mut event = null_mut();
    call!(clEnqueueTask(queue.raw(), kernel.raw(), 0, null(), &mut event))?;
    Event::from_raw(event).wait()?;
    let (mut got, mut expected) = (vec![0_f32; align], vec![1_f32; align]);
    queue.read(&whole, &mut got)?;
    expected[align / 4] = factor + 1.0;
    same("tasks", &got, &expected)
}

/// A kernel that enqueues another one.
pub fn device_queues(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let _default = Queue::on_device(&stage.context, stage.device)?;
    let kernel = Kernel::new(&program(stage, "spir20/enqueue.bc64", "")?, "simple")?;
    let count = 1 + random.below(500);
    let buffer = Buffer::copy_of(&stage.context, &vec![-1_i32; count + 1])?;
    kernel.set_object(0, Some(&buffer))?;
    kernel.set(1, count as i32)?;
    queue.launch(&kernel, NdRange::new(&[1], &[1]))?.wait()?;
    let mut got = vec![0_i32; count + 1];
    queue.read(&buffer, &mut got)?;
    if got[0] != 0 {
        return Err(Trouble::Failed(format!("enqueue_kernel returned {}", got[0])));
    }
    let expected: Vec<i32> = (0..count as i32).map(|i| i * 3 + count as i32).collect();
    same("device queues", &got[1..], &expected)
}

/// What one kernel puts into a pipe another one takes.
pub fn pipes(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let program = program(stage, "spir20/pipes.bc64", "")?;
    let (put, get) = (Kernel::new(&program, "put")?, Kernel::new(&program, "get")?);
    let count = 1 + random.below(64);
    let data: Vec<i32> = (0..count).map(|_| random.bits() as i32 >> 1).collect();
    let pipe = Buffer::pipe(&stage.context, 4, count as u32)?;
    let from = Buffer::copy_of(&stage.context, &data)?;
    let (to, status) = (Buffer::copy_of(&stage.context, &data)?, Buffer::copy_of(&stage.context, &data)?);
    put.set_object(0, Some(&from))?;
    put.set_object(1, Some(&pipe))?;
    put.set_object(2, Some(&status))?;
    get.set_object(0, Some(&pipe))?;
    get.set_object(1, Some(&to))?;
    get.set_object(2, Some(&status))?;
    for kernel in [put, get] {
        queue.launch(&kernel, NdRange::new(&[count], &[1]))?.wait()?;
    }
    let mut got = vec![0; count];
    queue.read(&to, &mut got)?;
    let (mut got, mut data) = (got, data);
    got.sort_unstable();
    data.sort_unstable();
    same("pipes", &got, &data)
}

type CreateRecorded =
    unsafe extern "C" fn(cl_uint, *const cl_command_queue, *const u64, *mut cl_int) -> *mut c_void;
type OfRecorded = unsafe extern "C" fn(*mut c_void) -> cl_int;
type EnqueueRecorded = unsafe extern "C" fn(
    cl_uint,
    *const cl_command_queue,
    *mut c_void,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;
type RecordCopy = unsafe extern "C" fn(
    *mut c_void,
    cl_command_queue,
    *const u64,
    cl_mem,
    cl_mem,
    usize,
    usize,
    usize,
    cl_uint,
    *const u32,
    *mut u32,
    *mut *mut c_void,
) -> cl_int;

fn checked(code: cl_int) -> cl::Result<()> {
    cl::check("a function of an extension", code)
}

/// A recorded copy, enqueued twice.
pub fn recorded(stage: &Stage, random: &mut Random) -> Done {
    if !stage.device.has_extension("cl_khr_command_buffer") {
        return Ok(());
    }
    let (queue, data) = (stage.queue(random)?, stage.numbers(random));
    let from = Buffer::copy_of(&stage.context, &data)?;
    let to = Buffer::new(&stage.context, CL_MEM_READ_WRITE, bytes_of(&data))?;
    let device = stage.device;
    let (create, copy): (CreateRecorded, RecordCopy) =
        (device.function(c"clCreateCommandBufferKHR"), device.function(c"clCommandCopyBufferKHR"));
    let [finalize, release]: [OfRecorded; 2] =
        [c"clFinalizeCommandBufferKHR", c"clReleaseCommandBufferKHR"].map(|name| device.function(name));
    let enqueue: EnqueueRecorded = device.function(c"clEnqueueCommandBufferKHR");
    let (mut code, q) = (0, queue.raw());
    // SAFETY: one live queue.
    let buffer = unsafe { create(1, &q, null(), &mut code) };
    checked(code)?;
    let size = bytes_of(&data);
    let done = (|| -> cl::Result<()> {
        // SAFETY: live objects, and copies within both buffers.
        unsafe {
            let (list, point) = (null(), null_mut());
            let (f, t) = (from.raw(), to.raw());
            checked(copy(buffer, null_mut(), null(), f, t, 0, 0, size, 0, list, point, null_mut()))?;
            checked(finalize(buffer))?;
            for _ in 0..2 {
                checked(enqueue(0, null(), buffer, 0, null(), null_mut()))?;
                queue.finish()?;
            }
        }
        Ok(())
    })();
    // SAFETY: it lives, and this was the last use.
    let released = checked(unsafe { release(buffer) });
    done.and(released)?;
    let mut got = vec![0; data.len()];
    queue.read(&to, &mut got)?;
    same("recorded", &got, &data)
}

type AllocateHost = unsafe extern "C" fn(cl_context, *const u64, usize, cl_uint, *mut cl_int) -> *mut c_void;
type FreeUnified = unsafe extern "C" fn(cl_context, *mut c_void) -> cl_int;
type FillUnified = unsafe extern "C" fn(
    cl_command_queue,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;

/// Unified shared memory is filled.
pub fn unified(stage: &Stage, random: &mut Random) -> Done {
    if !stage.device.has_extension("cl_intel_unified_shared_memory") {
        return Ok(());
    }
    let (queue, words, value) = (stage.queue(random)?, 1 + random.below(5000), random.bits() as u32);
    let (device, context) = (stage.device, stage.context.raw());
    let allocate: AllocateHost = device.function(c"clHostMemAllocINTEL");
    let fill: FillUnified = device.function(c"clEnqueueMemFillINTEL");
    let free: FreeUnified = device.function(c"clMemBlockingFreeINTEL");
    let mut code = 0;
    // SAFETY: a live context.
    let memory = unsafe { allocate(context, null(), words * 4, 0, &mut code) };
    checked(code)?;
    let pattern = (&raw const value).cast();
    // SAFETY: so many bytes were allocated.
    let filled = checked(unsafe { fill(queue.raw(), memory, pattern, 4, words * 4, 0, null(), null_mut()) })
        .and_then(|()| queue.finish());
    // SAFETY: as above.
    let got = unsafe { std::slice::from_raw_parts(memory.cast::<u32>(), words) }.to_vec();
    // SAFETY: it was allocated here; the function waits for commands that use it.
    checked(unsafe { free(context, memory) })?;
    filled?;
    same("unified", &got, &vec![value; words])
}
