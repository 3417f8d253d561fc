//! What applications do, all of it at once and over and over: each [`Act`] makes its objects, does something whose result it knows,
//! and releases them. For `spirula-soak`.

use crate::cl::sys::*;
use crate::cl::{
    Buffer, Context, Device, Error, Event, Handle, Image, ImageKind, Kernel, NdRange, Object, Program, Queue,
};
use crate::mutate::Random;
use crate::{call, create, cycle, fixtures, isolate};
use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Why an act did not come to its end.
#[derive(Debug)]
pub enum Trouble {
    /// A call said that it failed: where faults are injected, it may.
    Failed(String),
    /// What it said to have done was not done.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Failed(error.to_string())
    }
}

impl From<isolate::Failure> for Trouble {
    fn from(failure: isolate::Failure) -> Self {
        let (isolate::Failure::Failed(text) | isolate::Failure::Skipped(text)) = failure;
        // A wrong result names its round; a failed call itself.
        if text.starts_with("round ") { Trouble::Wrong(text) } else { Trouble::Failed(text) }
    }
}

mod commands;

type Done = Result<(), Trouble>;

/// How long what was promised may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], expected: &[T]) -> Done {
    match got.iter().zip(expected).position(|(a, b)| a != b) {
        None if got.len() == expected.len() => Ok(()),
        place => Err(Trouble::Wrong(format!("{what}: differs at {place:?} of {}", expected.len()))),
    }
}

/// One thing that an application does.
pub type Act = fn(&Stage, &mut Random) -> Done;

/// All of them, by name.
pub const ACTS: [(&str, Act); 19] = [
    ("life", life),
    ("buffers", buffers),
    ("rectangles", rectangles),
    ("maps", maps),
    ("images", images),
    ("events", events),
    ("callbacks", callbacks),
    ("builds", builds),
    ("binaries", binaries),
    ("svm", svm),
    ("native", native),
    ("image transfers", commands::image_transfers),
    ("written rectangles", commands::written_rectangles),
    ("shared maps", commands::shared_maps),
    ("tasks", commands::tasks),
    ("device queues", commands::device_queues),
    ("pipes", commands::pipes),
    ("recorded", commands::recorded),
    ("unified", commands::unified),
];

/// What a thread has for all its acts.
pub struct Stage {
    device: Device,
    context: Context,
}

impl Stage {
    /// A context of its own.
    pub fn new(device: Device) -> Result<Stage, Trouble> {
        Ok(Stage { device, context: Context::new(device)? })
    }

    /// In order or not.
    fn queue(&self, random: &mut Random) -> Result<Queue, Trouble> {
        let order = if random.below(2) == 0 { CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE } else { 0 };
        let queue = create!(clCreateCommandQueue(self.context.raw(), self.device.raw(), order))?;
        Ok(Queue::from_raw(queue))
    }

    fn numbers(&self, random: &mut Random) -> Vec<u32> {
        let (count, first) = (64 + random.below(8000), random.bits() as u32);
        (0..count as u32).map(|i| first.wrapping_add(i.wrapping_mul(2654435761))).collect()
    }
}

fn bytes_of(list: &[u32]) -> usize {
    size_of_val(list)
}

fn life(stage: &Stage, random: &mut Random) -> Done {
    Ok(cycle::once(stage.device, random.below(100))?)
}

/// Write, copy, fill, migrate, read.
fn buffers(stage: &Stage, random: &mut Random) -> Done {
    let (queue, data) = (stage.queue(random)?, stage.numbers(random));
    let size = bytes_of(&data);
    let one = Buffer::new(&stage.context, CL_MEM_READ_WRITE, size)?;
    let two = Buffer::new(&stage.context, CL_MEM_READ_WRITE, size)?;
    queue.write(&one, &data)?;
    let raw = two.raw();
    call!(clEnqueueMigrateMemObjects(queue.raw(), 1, &raw, 0, 0, null(), null_mut()))?;
    call!(clEnqueueBarrierWithWaitList(queue.raw(), 0, null(), null_mut()))?;
    call!(clEnqueueCopyBuffer(queue.raw(), one.raw(), two.raw(), 0, 0, size, 0, null(), null_mut()))?;
    call!(clEnqueueBarrierWithWaitList(queue.raw(), 0, null(), null_mut()))?;
    let (pattern, start) = (0x5eed_f00d_u32, 4 * random.below(32));
    let place = (&raw const pattern).cast();
    call!(clEnqueueFillBuffer(queue.raw(), two.raw(), place, 4, start, 64, 0, null(), null_mut()))?;
    queue.finish()?;
    let mut got = vec![0; data.len()];
    queue.read(&two, &mut got)?;
    let mut expected = data;
    expected[start / 4..start / 4 + 16].fill(pattern);
    same("buffers", &got, &expected)
}

/// A rectangle out of a buffer and into another one.
fn rectangles(stage: &Stage, random: &mut Random) -> Done {
    const ROW: usize = 64;
    let queue = stage.queue(random)?;
    let data: Vec<u8> = (0..ROW * ROW).map(|i| (i * 7 + random.below(256)) as u8).collect();
    let (from, to) =
        (Buffer::copy_of(&stage.context, &data)?, Buffer::copy_of(&stage.context, &vec![0_u8; ROW * ROW])?);
    let (origin, target, region) = ([3, 5, 0], [20, 9, 0], [17, 11, 1]);
    let (a, b, r) = (origin.as_ptr(), target.as_ptr(), region.as_ptr());
    let (from, to) = (from.raw(), to.raw());
    call!(clEnqueueCopyBufferRect(queue.raw(), from, to, a, b, r, ROW, 0, ROW, 0, 0, null(), null_mut()))?;
    queue.finish()?;
    let (mut got, zero) = (vec![0_u8; 17 * 11], [0; 3]);
    let place = got.as_mut_ptr().cast();
    call!(clEnqueueReadBufferRect(
        queue.raw(),
        to,
        CL_TRUE,
        b,
        zero.as_ptr(),
        r,
        ROW,
        0,
        17,
        0,
        place,
        0,
        null(),
        null_mut()
    ))?;
    let expected: Vec<u8> = (0..11).flat_map(|y| data[(5 + y) * ROW + 3..][..17].to_vec()).collect();
    same("rectangles", &got, &expected)
}

/// Mapped, written, unmapped, read.
fn maps(stage: &Stage, random: &mut Random) -> Done {
    let (queue, data) = (stage.queue(random)?, stage.numbers(random));
    let buffer = Buffer::new(&stage.context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes_of(&data))?;
    let flags = CL_MAP_WRITE;
    let (raw, size) = (buffer.raw(), bytes_of(&data));
    let place =
        create!(clEnqueueMapBuffer(queue.raw(), raw, CL_TRUE, flags, 0, size, 0, null(), null_mut()))?;
    // SAFETY: so many bytes are mapped.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), place.cast::<u32>(), data.len()) };
    call!(clEnqueueUnmapMemObject(queue.raw(), raw, place, 0, null(), null_mut()))?;
    queue.finish()?;
    let mut got = vec![0; data.len()];
    queue.read(&buffer, &mut got)?;
    same("maps", &got, &data)
}

/// Written, copied, read.
fn images(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let (width, height) = (1 + random.below(60), 1 + random.below(60));
    let image = || {
        Image::new(&stage.context, ImageKind::D2, (CL_RGBA, CL_UNSIGNED_INT8), [width, height, 1], 1, None)
    };
    let (one, two) = (image()?, image()?);
    let data: Vec<u8> = (0..width * height * 4).map(|i| (i * 31) as u8).collect();
    queue.write_image(&one, &data)?;
    let (zero, region) = ([0; 3], one.region);
    let (z, r) = (zero.as_ptr(), region.as_ptr());
    call!(clEnqueueCopyImage(queue.raw(), one.raw(), two.raw(), z, z, r, 0, null(), null_mut()))?;
    queue.finish()?;
    let mut got = vec![0; data.len()];
    queue.read_image(&two, &mut got)?;
    same("images", &got, &data)
}

/// A chain behind a user event.
fn events(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let buffer = Buffer::copy_of(&stage.context, &[0_u32; 16])?;
    let gate = Event::user(&stage.context)?;
    // Whatever happens, what waits for it must not wait for good.
    struct Opened<'a>(&'a Event);
    impl Drop for Opened<'_> {
        fn drop(&mut self) {
            let _ = self.0.set_status(CL_COMPLETE as cl_int);
        }
    }
    let opened = Opened(&gate);
    let mut last = gate.clone();
    let count = 1 + random.below(20) as u32;
    for value in 1..=count {
        let (wait, mut event, place) = (last.raw(), null_mut(), (&raw const value).cast());
        call!(clEnqueueFillBuffer(queue.raw(), buffer.raw(), place, 4, 0, 64, 1, &wait, &mut event))?;
        last = Event::from_raw(event);
    }
    drop(opened);
    last.wait()?;
    let mut got = [0_u32; 16];
    queue.read(&buffer, &mut got)?;
    same("events", &got, &[count; 16])
}

extern "C" fn count_event(_: cl_event, _: cl_int, data: *mut c_void) {
    // SAFETY: the counter that the callback was registered with, with a count of its own.
    let counter = unsafe { Arc::from_raw(data.cast::<AtomicUsize>()) };
    counter.fetch_add(1, Ordering::Release);
}

fn wait_for(counter: &AtomicUsize, count: usize, what: &str) -> Done {
    const PAUSE: Duration = Duration::from_micros(200);
    // Pauses are counted, not time: a soak that was stopped for a while goes on.
    let mut left = PATIENCE.as_micros() / PAUSE.as_micros();
    while counter.load(Ordering::Acquire) < count {
        left -= 1;
        if left == 0 {
            return Err(Trouble::Wrong(format!("{what}: {count} callbacks were promised, not all came")));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Each callback that was registered is called, once.
fn callbacks(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let (counter, mut promised) = (Arc::new(AtomicUsize::new(0)), 0);
    for _ in 0..1 + random.below(10) {
        let mut event = null_mut();
        call!(clEnqueueMarkerWithWaitList(queue.raw(), 0, null(), &mut event))?;
        let event = Event::from_raw(event);
        let data = Arc::into_raw(counter.clone()).cast_mut().cast();
        match call!(clSetEventCallback(event.raw(), CL_COMPLETE as cl_int, Some(count_event), data)) {
            Ok(()) => promised += 1,
            // SAFETY: nobody else took it.
            Err(_) => drop(unsafe { Arc::from_raw(data.cast::<AtomicUsize>()) }),
        }
    }
    queue.finish()?;
    wait_for(&counter, promised, "callbacks")?;
    let came = counter.load(Ordering::Acquire);
    if came == promised {
        Ok(())
    } else {
        Err(Trouble::Wrong(format!("{came} callbacks instead of {promised}")))
    }
}

extern "C" fn count_build(_: cl_program, data: *mut c_void) {
    count_event(null_mut(), 0, data);
}

/// Builds with a callback, of good and of bad binaries.
fn builds(stage: &Stage, random: &mut Random) -> Done {
    let names = ["spir12/vadd.bc64", "spir12/barriers.bc64", "bench/scan.bc64", "bench/empty.bc64"];
    let mut binary = fixtures::load(names[random.below(names.len())]);
    let is_damaged = random.below(4) == 0;
    if is_damaged {
        binary.truncate(binary.len() / 2);
    }
    let Ok(program) = Program::from_binary(&stage.context, stage.device, &binary) else { return Ok(()) };
    let counter = Arc::new(AtomicUsize::new(0));
    let data: *mut c_void = Arc::into_raw(counter.clone()).cast_mut().cast();
    // Another text is another build, which nobody remembers.
    let options = CString::new(format!("-cl-mad-enable{}", " ".repeat(random.below(50)))).unwrap_or_default();
    let begun = call!(clBuildProgram(program.raw(), 0, null(), options.as_ptr(), Some(count_build), data));
    if let Err(error) = begun {
        // SAFETY: where no build began, nobody calls back.
        drop(unsafe { Arc::from_raw(data.cast::<AtomicUsize>()) });
        return if is_damaged { Ok(()) } else { Err(error.into()) };
    }
    wait_for(&counter, 1, "builds")?;
    let status: cl_int = program.build_info(stage.device, CL_PROGRAM_BUILD_STATUS)?;
    match (status as i64 == i64::from(CL_BUILD_SUCCESS), is_damaged) {
        (true, false) | (false, true) => Ok(()),
        (true, true) => Err(Trouble::Wrong("half a binary was built".into())),
        (false, false) => Err(Trouble::Failed(program.log(stage.device)?)),
    }
}

/// A program's own binary makes the same program.
fn binaries(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let first = Program::from_binary(&stage.context, stage.device, &fixtures::load("bench/saxpy.bc64"))?;
    first.build("").map_err(|e| failed(&first, stage.device, e))?;
    let program = Program::from_binary(&stage.context, stage.device, &first.binary()?)?;
    program.build("").map_err(|e| failed(&program, stage.device, e))?;
    let kernel = Kernel::new(&program, "saxpy")?;
    let count = 64 * (1 + random.below(40));
    let (x, y): (Vec<f32>, Vec<f32>) = (0..count).map(|i| (i as f32, 1.0)).unzip();
    let (from, to) = (Buffer::copy_of(&stage.context, &x)?, Buffer::copy_of(&stage.context, &y)?);
    kernel.set_object(0, Some(&from))?;
    kernel.set_object(1, Some(&to))?;
    kernel.set(2, 2.0_f32)?;
    let event = queue.launch(&kernel, NdRange::new(&[count], &[64]))?;
    event.wait()?;
    let mut got = vec![0_f32; count];
    queue.read(&to, &mut got)?;
    let expected: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
    same("binaries", &got, &expected)
}

fn failed(program: &Program, device: Device, error: Error) -> Trouble {
    Trouble::Failed(format!("{error}: {}", program.log(device).unwrap_or_default()))
}

/// Shared memory, filled and copied.
fn svm(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let words = 64 + random.below(1000);
    struct Svm<'a>(&'a Context, *mut c_void);
    impl Drop for Svm<'_> {
        fn drop(&mut self) {
            // SAFETY: memory of this context; no command uses it any more.
            unsafe { clSVMFree(self.0.raw(), self.1) };
        }
    }
    let allocate = || {
        // SAFETY: asks for memory.
        let memory = unsafe { clSVMAlloc(stage.context.raw(), CL_MEM_READ_WRITE, words * 4, 0) };
        if memory.is_null() {
            Err(Trouble::Failed("clSVMAlloc returned null".into()))
        } else {
            Ok(Svm(&stage.context, memory))
        }
    };
    let (one, two) = (allocate()?, allocate()?);
    let pattern = random.bits() as u32;
    let (bytes, place) = (words * 4, (&raw const pattern).cast());
    call!(clEnqueueSVMMemFill(queue.raw(), one.1, place, 4, bytes, 0, null(), null_mut()))?;
    let finished = queue.finish();
    let copied = call!(clEnqueueSVMMemcpy(queue.raw(), CL_TRUE, two.1, one.1, bytes, 0, null(), null_mut()));
    if finished.is_err() || copied.is_err() {
        let _ = queue.finish();
    }
    finished.and(copied)?;
    // SAFETY: so many words, which no command uses now.
    let got = unsafe { std::slice::from_raw_parts(two.1.cast::<u32>(), words) };
    same("svm", got, &vec![pattern; words])
}

extern "C" fn add(arguments: *mut c_void) {
    // SAFETY: the copy of the address that the command was enqueued with.
    let counter = unsafe { Arc::from_raw(arguments.cast::<*const AtomicUsize>().read_unaligned()) };
    counter.fetch_add(1, Ordering::Release);
}

/// A function of the application's, as a command.
fn native(stage: &Stage, random: &mut Random) -> Done {
    let queue = stage.queue(random)?;
    let counter = Arc::new(AtomicUsize::new(0));
    let address = Arc::into_raw(counter.clone());
    let place: Handle = (&raw const address).cast_mut().cast();
    let (mut event, none) = (null_mut(), null());
    let done = call!(clEnqueueNativeKernel(
        queue.raw(),
        Some(add),
        place,
        8,
        0,
        null(),
        none,
        0,
        null(),
        &mut event
    ));
    if let Err(error) = done {
        // SAFETY: nobody else took it.
        drop(unsafe { Arc::from_raw(address) });
        return Err(error.into());
    }
    Event::from_raw(event).wait()?;
    if counter.load(Ordering::Acquire) == 1 {
        Ok(())
    } else {
        Err(Trouble::Wrong("a native kernel was not run".into()))
    }
}
