//! Command-buffers (cl_khr_command_buffer): every command recorded and enqueued again and again, order, events, what is told of
//! them, and what is refused.

use crate::setup::{Setup, function, setup_with, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Context, Error, Event, Image, ImageKind, Kernel, Object, Queue};
use spirula_tests::create;
use spirula_tests::isolate::{Failure, Outcome};
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut};

tests![queries, buffers, images, shared_memory, kernels, order, life, misuse];

type Points = *const u32;
type Create = unsafe extern "C" fn(cl_uint, *const cl_command_queue, *const u64, *mut cl_int) -> *mut c_void;
type OfOne = unsafe extern "C" fn(*mut c_void) -> cl_int;
type Enqueue = unsafe extern "C" fn(
    cl_uint,
    *const cl_command_queue,
    *mut c_void,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;
type Info = unsafe extern "C" fn(*mut c_void, cl_uint, usize, *mut c_void, *mut usize) -> cl_int;

/// The type of `clCommand*`: what is recorded stands between the same three and the same four parameters.
macro_rules! command {
    ($($ty:ty),*) => {
        unsafe extern "C" fn(
            *mut c_void, cl_command_queue, *const u64, $($ty,)* cl_uint, Points, *mut u32, *mut *mut c_void,
        ) -> cl_int
    };
}

/// Records a command without properties behind these synchronization points: its own.
macro_rules! record {
    ($buffer:expr, $name:literal ($($ty:ty),*), ($($value:expr),*), $points:expr) => {{
        let (points, mut own): (&[u32], u32) = ($points, 0);
        let list = if points.is_empty() { null() } else { points.as_ptr() };
        let record: command!($($ty),*) = function($buffer.setup, $name);
        // SAFETY: the objects live or are to be refused; memory is as long as the tests say.
        let code = unsafe {
            record($buffer.raw, null_mut(), null(), $($value,)* points.len() as u32, list, &mut own, null_mut())
        };
        checked(code).map(|()| own)
    }};
}

fn checked(code: cl_int) -> Result<(), Error> {
    spirula_tests::cl::check("a function of cl_khr_command_buffer", code)
}

/// A command-buffer, released when it goes.
struct CommandBuffer<'a> {
    setup: &'a Setup,
    raw: *mut c_void,
}

impl<'a> CommandBuffer<'a> {
    fn new(setup: &'a Setup) -> Result<Self, Error> {
        Self::with(setup, &[setup.queue.raw()], &[])
    }

    fn with(setup: &'a Setup, queues: &[cl_command_queue], properties: &[u64]) -> Result<Self, Error> {
        let list = if properties.is_empty() { null() } else { properties.as_ptr() };
        let create: Create = function(setup, c"clCreateCommandBufferKHR");
        let mut code = 0;
        // SAFETY: the list ends with a zero; everything else the API must check.
        let raw = unsafe { create(queues.len() as u32, queues.as_ptr(), list, &mut code) };
        checked(code)?;
        Ok(CommandBuffer { setup, raw })
    }

    fn call(&self, name: &std::ffi::CStr) -> Result<(), Error> {
        // SAFETY: the API must check the handle.
        checked(unsafe { function::<OfOne>(self.setup, name)(self.raw) })
    }

    fn finalize(&self) -> Result<(), Error> {
        self.call(c"clFinalizeCommandBufferKHR")
    }

    fn enqueue(&self, queues: &[cl_command_queue], wait: &[cl_event]) -> Result<Event, Error> {
        let (list, events) = (
            if queues.is_empty() { null() } else { queues.as_ptr() },
            if wait.is_empty() { null() } else { wait.as_ptr() },
        );
        let enqueue: Enqueue = function(self.setup, c"clEnqueueCommandBufferKHR");
        let mut event = null_mut();
        // SAFETY: the API must check the handles.
        checked(unsafe {
            enqueue(queues.len() as u32, list, self.raw, wait.len() as u32, events, &mut event)
        })?;
        Ok(Event::from_raw(event))
    }

    fn info<T: bytemuck::Pod>(&self, name: cl_uint) -> Result<T, Error> {
        let get: Info = function(self.setup, c"clGetCommandBufferInfoKHR");
        spirula_tests::cl::query(|size, value, needed| {
            // SAFETY: there is room for as many bytes as are said.
            checked(unsafe { get(self.raw, name, size, value, needed) })
        })
    }

    fn fill(&self, buffer: &Buffer, value: u32, bytes: usize, points: &[u32]) -> Result<u32, Error> {
        let pattern = value.to_ne_bytes();
        record!(self, c"clCommandFillBufferKHR"(cl_mem, *const c_void, usize, usize, usize),
            (buffer.raw(), pattern.as_ptr().cast(), 4, 0, bytes), points)
    }

    fn copy(&self, from: &Buffer, to: &Buffer, bytes: usize, points: &[u32]) -> Result<u32, Error> {
        record!(
            self,
            c"clCommandCopyBufferKHR"(cl_mem, cl_mem, usize, usize, usize),
            (from.raw(), to.raw(), 0, 0, bytes),
            points
        )
    }

    fn barrier(&self, points: &[u32]) -> Result<u32, Error> {
        record!(self, c"clCommandBarrierWithWaitListKHR"(), (), points)
    }

    fn launch(&self, kernel: &Kernel, global: usize, local: usize) -> Result<u32, Error> {
        record!(self, c"clCommandNDRangeKernelKHR"(cl_kernel, cl_uint, *const usize, *const usize, *const usize),
            (kernel.raw(), 1, null(), &global, &local), &[])
    }
}

impl Drop for CommandBuffer<'_> {
    fn drop(&mut self) {
        self.call(c"clReleaseCommandBufferKHR").expect("a command-buffer can be released");
    }
}

fn ready() -> Result<Setup, Failure> {
    setup_with("cl_khr_command_buffer")
}

fn words(setup: &Setup, buffer: &Buffer, count: usize) -> Result<Vec<u32>, Error> {
    let mut words = vec![0u32; count];
    setup.queue.read(buffer, &mut words)?;
    Ok(words)
}

/// CL_INVALID_COMMAND_BUFFER_KHR, CL_INVALID_SYNC_POINT_WAIT_LIST_KHR and CL_INCOMPATIBLE_COMMAND_QUEUE_KHR, which `cl-sys` doesn't
/// know.
const INVALID_COMMAND_BUFFER: &str = "status -1138";
const INVALID_SYNC_POINTS: &str = "status -1139";
const INCOMPATIBLE_QUEUE: &str = "status -1140";

const CONTEXT: u32 = 0x1299;
const NUM_QUEUES: u32 = 0x1295;
const QUEUES: u32 = 0x1294;
const REFERENCES: u32 = 0x1296;
const STATE: u32 = 0x1297;
const PROPERTIES: u32 = 0x1298;
const FLAGS: u64 = 0x1293;

fn queries() -> Outcome {
    let setup = ready()?;
    assert_eq!(setup.device.info::<u64>(0x12A9)?, 3, "printf and device-side enqueue");
    assert_eq!(setup.device.info::<u64>(0x12AA)?, 0, "no property is needed");
    let queues = setup.device.info::<u64>(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES)?;
    assert_eq!(setup.device.info::<u64>(0x129A)?, queues);
    let recorded = CommandBuffer::with(&setup, &[setup.queue.raw()], &[FLAGS, 0, 0])?;
    assert_eq!(recorded.info::<usize>(CONTEXT)?, setup.context.raw().addr());
    assert_eq!(recorded.info::<usize>(QUEUES)?, setup.queue.raw().addr());
    assert_eq!(recorded.info::<[u64; 3]>(PROPERTIES)?, [FLAGS, 0, 0]);
    assert_eq!(
        [NUM_QUEUES, REFERENCES, STATE].map(|name| recorded.info::<u32>(name).ok()),
        [1, 1, 0].map(Some)
    );
    recorded.call(c"clRetainCommandBufferKHR")?;
    assert_eq!(recorded.info::<u32>(REFERENCES)?, 2);
    recorded.call(c"clReleaseCommandBufferKHR")?;
    recorded.finalize()?;
    assert_eq!(recorded.info::<u32>(STATE)?, 1);
    assert_eq!(status(recorded.info::<u32>(0x1293)), "CL_INVALID_VALUE");
    Ok(())
}

fn buffers() -> Outcome {
    let setup = ready()?;
    let [a, b, c] = [0u32; 3].map(|_| Buffer::new(&setup.context, CL_MEM_READ_WRITE, 64));
    let (a, b, c) = (a?, b?, c?);
    setup.queue.write(&a, &[1u32; 16])?;
    let recorded = CommandBuffer::new(&setup)?;
    let copied = recorded.copy(&a, &b, 64, &[])?;
    let filled = recorded.fill(&c, 9, 64, &[])?;
    let joined = recorded.barrier(&[copied, filled])?;
    assert_eq!([copied, filled, joined].windows(2).filter(|two| two[0] == two[1]).count(), 0);
    // Two rows of two words at (1, 1) of rows of four.
    let (zero, at, region) = ([0usize; 3], [4usize, 1, 0], [8usize, 2, 1]);
    record!(recorded, c"clCommandCopyBufferRectKHR"(
            cl_mem, cl_mem, *const usize, *const usize, *const usize, usize, usize, usize, usize),
        (b.raw(), c.raw(), zero.as_ptr(), at.as_ptr(), region.as_ptr(), 16, 0, 16, 0), &[joined])?;
    recorded.finalize()?;
    for round in 1..4u32 {
        setup.queue.write(&a, &[round; 16])?;
        let event = recorded.enqueue(&[], &[])?;
        assert_eq!(event.info::<u32>(CL_EVENT_COMMAND_TYPE)?, 0x12A8);
        event.wait()?;
        let [queued, submitted, started, ended] = event.times()?;
        assert!(queued <= submitted && submitted <= started && started <= ended);
        assert_eq!(words(&setup, &b, 16)?, [round; 16]);
        let r = round;
        assert_eq!(words(&setup, &c, 16)?, [9, 9, 9, 9, 9, r, r, 9, 9, r, r, 9, 9, 9, 9, 9]);
        // What it wrote is another's again.
        setup.queue.write(&c, &[0u32; 16])?;
    }
    Ok(())
}

fn images() -> Outcome {
    let setup = ready()?;
    let image = || Image::new(&setup.context, ImageKind::D2, (CL_RGBA, CL_UNSIGNED_INT8), [4, 2, 1], 1, None);
    let (first, second) = (image()?, image()?);
    let (from, to) = (Buffer::copy_of(&setup.context, &[7u32; 8])?, Buffer::new(&setup.context, 0, 32)?);
    let recorded = CommandBuffer::new(&setup)?;
    let (color, zero, all, one) = ([1u32, 2, 3, 4], [0usize; 3], [4usize, 2, 1], [1usize; 3]);
    record!(recorded, c"clCommandFillImageKHR"(cl_mem, *const c_void, *const usize, *const usize),
        (first.raw(), color.as_ptr().cast(), zero.as_ptr(), all.as_ptr()), &[])?;
    record!(recorded, c"clCommandCopyBufferToImageKHR"(cl_mem, cl_mem, usize, *const usize, *const usize),
        (from.raw(), second.raw(), 0, zero.as_ptr(), all.as_ptr()), &[])?;
    record!(recorded, c"clCommandCopyImageKHR"(cl_mem, cl_mem, *const usize, *const usize, *const usize),
        (first.raw(), second.raw(), zero.as_ptr(), [1usize, 1, 0].as_ptr(), one.as_ptr()), &[1, 2])?;
    record!(recorded, c"clCommandCopyImageToBufferKHR"(cl_mem, cl_mem, *const usize, *const usize, usize),
        (second.raw(), to.raw(), zero.as_ptr(), all.as_ptr(), 0), &[3])?;
    recorded.finalize()?;
    for _ in 0..2 {
        recorded.enqueue(&[], &[])?.wait()?;
        let texel = u32::from_le_bytes([1, 2, 3, 4]);
        assert_eq!(words(&setup, &to, 8)?, [7, 7, 7, 7, 7, texel, 7, 7]);
        setup.queue.write(&to, &[0u32; 8])?;
    }
    Ok(())
}

fn shared_memory() -> Outcome {
    let setup = ready()?;
    let shared = crate::svm::Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let other = crate::svm::Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let recorded = CommandBuffer::new(&setup)?;
    {
        // The pattern is read while it is recorded.
        let pattern = [5u32, 6];
        record!(recorded, c"clCommandSVMMemFillKHR"(*mut c_void, *const c_void, usize, usize),
            (shared.1, pattern.as_ptr().cast(), 8, 64), &[])?;
    }
    record!(recorded, c"clCommandSVMMemcpyKHR"(*mut c_void, *const c_void, usize),
        (other.1, shared.1.cast_const(), 64), &[1])?;
    recorded.finalize()?;
    for _ in 0..2 {
        recorded.enqueue(&[], &[])?.wait()?;
        // SAFETY: 64 bytes that no command uses any more.
        let found = unsafe { &mut *other.1.cast::<[u32; 16]>() };
        assert_eq!(found[..4], [5, 6, 5, 6]);
        found.fill(0);
    }
    Ok(())
}

/// The arguments are those that the kernel had when its launch was recorded.
fn kernels() -> Outcome {
    let setup = ready()?;
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let ones = Buffer::copy_of(&setup.context, &[1f32; 64])?;
    let twos = Buffer::copy_of(&setup.context, &[2f32; 64])?;
    let (sum, total) = (Buffer::new(&setup.context, 0, 256)?, Buffer::new(&setup.context, 0, 256)?);
    let set = |list: [&Buffer; 3]| {
        (0..).zip(list).try_for_each(|(index, buffer)| kernel.set_object(index, Some(buffer)))
    };
    let recorded = CommandBuffer::new(&setup)?;
    set([&ones, &twos, &sum])?;
    recorded.launch(&kernel, 64, 16)?;
    set([&sum, &twos, &total])?;
    recorded.launch(&kernel, 64, 16)?;
    recorded.finalize()?;
    set([&ones, &ones, &ones])?;
    drop(kernel);
    for round in 0..3u8 {
        setup.queue.write(&ones, &[f32::from(round); 64])?;
        recorded.enqueue(&[], &[])?;
        let mut found = [0f32; 64];
        setup.queue.read(&total, &mut found)?;
        assert_eq!(found, [f32::from(round) + 4.0; 64]);
    }
    Ok(())
}

/// Commands before and behind, events, and other queues than the recorded one.
fn order() -> Outcome {
    let setup = ready()?;
    let (a, b) = (Buffer::new(&setup.context, 0, 64)?, Buffer::new(&setup.context, 0, 64)?);
    let recorded = CommandBuffer::new(&setup)?;
    recorded.copy(&a, &b, 64, &[])?;
    recorded.finalize()?;
    let unordered = create!(clCreateCommandQueue(
        setup.context.raw(),
        setup.device.raw(),
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
    ))?;
    let unordered = Queue::from_raw(unordered);
    for queues in [&[][..], &[setup.queue.raw()], &[unordered.raw()]] {
        setup.queue.write(&a, &[3u32; 16])?;
        setup.queue.write(&b, &[0u32; 16])?;
        let gate = Event::user(&setup.context)?;
        let event = recorded.enqueue(queues, &[gate.raw()])?;
        assert!(event.status()? > 0, "it waits");
        gate.set_status(0)?;
        event.wait()?;
        assert_eq!(words(&setup, &b, 16)?, [3; 16]);
    }
    // What it waits for fails: nothing is copied.
    setup.queue.write(&b, &[0u32; 16])?;
    let gate = Event::user(&setup.context)?;
    let event = recorded.enqueue(&[], &[gate.raw()])?;
    gate.set_status(-5)?;
    assert_eq!(status(event.wait()), "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
    assert_eq!(words(&setup, &b, 16)?, [0; 16]);
    Ok(())
}

/// It outlives what it was made of, and its launch outlives it.
fn life() -> Outcome {
    let setup = ready()?;
    let result = Buffer::new(&setup.context, 0, 64)?;
    let gate = Event::user(&setup.context)?;
    let event = {
        let queue = Queue::new(&setup.context, setup.device)?;
        let recorded = CommandBuffer::with(&setup, &[queue.raw()], &[])?;
        let passing = Buffer::new(&setup.context, 0, 64)?;
        recorded.fill(&passing, 8, 64, &[])?;
        recorded.copy(&passing, &result, 64, &[])?;
        recorded.finalize()?;
        drop((queue, passing));
        recorded.enqueue(&[], &[gate.raw()])?
    };
    gate.set_status(0)?;
    event.wait()?;
    assert_eq!(words(&setup, &result, 16)?, [8; 16]);
    Ok(())
}

fn misuse() -> Outcome {
    let setup = ready()?;
    let queue = setup.queue.raw();
    let other = Context::new(setup.device)?;
    let made = |queues: &[cl_command_queue], properties: &[u64]| {
        status(CommandBuffer::with(&setup, queues, properties))
    };
    assert_eq!([made(&[], &[]), made(&[queue; 2], &[])], ["CL_INVALID_VALUE"; 2]);
    assert_eq!(made(&[null_mut()], &[]), "CL_INVALID_COMMAND_QUEUE");
    assert_eq!(made(&[queue], &[1, 1, 0]), "CL_INVALID_VALUE");
    assert_eq!(made(&[queue], &[FLAGS, 0, FLAGS, 0, 0]), "CL_INVALID_VALUE");
    assert_eq!(made(&[queue], &[FLAGS, 1 << 40, 0]), "CL_INVALID_VALUE");
    assert_eq!(made(&[queue], &[FLAGS, 2, 0]), "CL_INVALID_PROPERTY", "mutable ones are another extension");
    let (a, b) = (Buffer::new(&setup.context, 0, 64)?, Buffer::new(&setup.context, 0, 64)?);
    let foreign = Buffer::new(&other, 0, 64)?;
    let recorded = CommandBuffer::new(&setup)?;
    assert_eq!(status(recorded.enqueue(&[], &[])), "CL_INVALID_OPERATION", "it is being recorded");
    assert_eq!(status(recorded.copy(&a, &b, 65, &[])), "CL_INVALID_VALUE");
    assert_eq!(status(recorded.copy(&a, &foreign, 64, &[])), "CL_INVALID_CONTEXT");
    assert_eq!(status(recorded.fill(&foreign, 1, 64, &[])), "CL_INVALID_CONTEXT");
    assert_eq!(status(recorded.copy(&a, &b, 64, &[1])), INVALID_SYNC_POINTS);
    let first = recorded.copy(&a, &b, 64, &[])?;
    assert_eq!(status(recorded.barrier(&[first, first + 1])), INVALID_SYNC_POINTS);
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    assert_eq!(status(recorded.launch(&kernel, 64, 16)), "CL_INVALID_KERNEL_ARGS");
    let barrier: command!() = function(&setup, c"clCommandBarrierWithWaitListKHR");
    let (mut handle, list) = (null_mut(), [1u64, 1, 0]);
    // SAFETY: the list ends with a zero; everything else the API must check.
    let codes = unsafe {
        [
            barrier(recorded.raw, queue, null(), 0, null(), null_mut(), null_mut()),
            barrier(recorded.raw, null_mut(), list.as_ptr(), 0, null(), null_mut(), null_mut()),
            barrier(recorded.raw, null_mut(), null(), 0, null(), null_mut(), &mut handle),
            barrier(recorded.raw, null_mut(), null(), 1, null(), null_mut(), null_mut()),
            barrier(recorded.raw, null_mut(), null(), 0, &first, null_mut(), null_mut()),
            barrier(queue, null_mut(), null(), 0, null(), null_mut(), null_mut()),
        ]
    };
    let expected = [CL_INVALID_COMMAND_QUEUE, CL_INVALID_VALUE, CL_INVALID_VALUE, -1139, -1139, -1138];
    assert_eq!(codes, expected);
    recorded.finalize()?;
    assert_eq!(status(recorded.finalize()), "CL_INVALID_OPERATION");
    assert_eq!(status(recorded.barrier(&[])), "CL_INVALID_OPERATION", "it is finalized");
    let elsewhere = Queue::new(&other, setup.device)?;
    assert_eq!(status(recorded.enqueue(&[elsewhere.raw()], &[])), "CL_INVALID_CONTEXT");
    assert_eq!(status(recorded.enqueue(&[queue; 2], &[])), "CL_INVALID_VALUE");
    let on_device = Queue::on_device(&setup.context, setup.device)?;
    assert_eq!(status(recorded.enqueue(&[on_device.raw()], &[])), INCOMPATIBLE_QUEUE);
    assert_eq!(made(&[on_device.raw()], &[]), INCOMPATIBLE_QUEUE);
    assert_eq!(status(recorded.enqueue(&[], &[null_mut()])), "CL_INVALID_EVENT_WAIT_LIST");
    let raw = recorded.raw;
    drop(recorded);
    let gone = ManuallyDrop::new(CommandBuffer { setup: &setup, raw });
    assert_eq!(status(gone.enqueue(&[], &[])), INVALID_COMMAND_BUFFER, "it was released");
    Ok(())
}
