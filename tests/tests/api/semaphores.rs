//! Semaphores (cl_khr_semaphore): what is told of them, signals and waits in one queue and across queues, what failed before, and
//! what is refused.

use crate::setup::{Setup, function, setup_with, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Context, Error, Event, Object, Queue};
use spirula_tests::create;
use spirula_tests::isolate::Outcome;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

tests![queries, one_queue, across_queues, many_turns, what_failed_before, misuse];

const TYPES: u32 = 0x204C;
const CONTEXT: u32 = 0x2039;
const REFERENCES: u32 = 0x203A;
const PROPERTIES: u32 = 0x203B;
const PAYLOAD: u32 = 0x203C;
const TYPE: u32 = 0x203D;
const DEVICES: u32 = 0x2053;
/// CL_SEMAPHORE_TYPE_KHR with CL_SEMAPHORE_TYPE_BINARY_KHR.
const BINARY: [u64; 3] = [TYPE as u64, 1, 0];
/// CL_INVALID_SEMAPHORE_KHR, which `cl-sys` doesn't know.
const INVALID_SEMAPHORE: &str = "status -1142";

type Create = unsafe extern "C" fn(cl_context, *const u64, *mut cl_int) -> *mut c_void;
type OfOne = unsafe extern "C" fn(*mut c_void) -> cl_int;
type Info = unsafe extern "C" fn(*mut c_void, cl_uint, usize, *mut c_void, *mut usize) -> cl_int;
type Enqueue = unsafe extern "C" fn(
    cl_command_queue,
    cl_uint,
    *const *mut c_void,
    *const u64,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;

const SIGNAL: &CStr = c"clEnqueueSignalSemaphoresKHR";
const WAIT: &CStr = c"clEnqueueWaitSemaphoresKHR";

fn checked(code: cl_int) -> Result<(), Error> {
    spirula_tests::cl::check("a function of cl_khr_semaphore", code)
}

/// A semaphore, released when it goes.
struct Semaphore<'a> {
    setup: &'a Setup,
    raw: *mut c_void,
}

impl<'a> Semaphore<'a> {
    fn new(setup: &'a Setup) -> Result<Self, Error> {
        Self::with(setup, &BINARY)
    }

    fn with(setup: &'a Setup, properties: &[u64]) -> Result<Self, Error> {
        let create: Create = function(setup, c"clCreateSemaphoreWithPropertiesKHR");
        let list = if properties.is_empty() { null() } else { properties.as_ptr() };
        let mut code = 0;
        // SAFETY: the list ends with a zero.
        let raw = unsafe { create(setup.context.raw(), list, &mut code) };
        checked(code)?;
        Ok(Semaphore { setup, raw })
    }

    fn call(&self, name: &CStr) -> Result<(), Error> {
        // SAFETY: the API must check the handle.
        checked(unsafe { function::<OfOne>(self.setup, name)(self.raw) })
    }

    fn info<T: bytemuck::Pod>(&self, name: cl_uint) -> Result<T, Error> {
        let get: Info = function(self.setup, c"clGetSemaphoreInfoKHR");
        spirula_tests::cl::query(|size, value, needed| {
            // SAFETY: there is room for as many bytes as are said.
            checked(unsafe { get(self.raw, name, size, value, needed) })
        })
    }

    fn is_signaled(&self) -> Result<bool, Error> {
        Ok(self.info::<u64>(PAYLOAD)? == 1)
    }
}

impl Drop for Semaphore<'_> {
    fn drop(&mut self) {
        let _ = self.call(c"clReleaseSemaphoreKHR");
    }
}

/// Enqueues a signal of these semaphores, or a wait for them.
fn enqueue(
    name: &CStr,
    setup: &Setup,
    queue: &Queue,
    semaphores: &[*mut c_void],
    wait: &[cl_event],
) -> Result<Event, Error> {
    let enqueue: Enqueue = function(setup, name);
    let list = if wait.is_empty() { null() } else { wait.as_ptr() };
    let (count, mut event) = (semaphores.len() as u32, null_mut());
    // SAFETY: the lists are as long as is said; the API must check the handles.
    checked(unsafe {
        enqueue(queue.raw(), count, semaphores.as_ptr(), null(), wait.len() as u32, list, &mut event)
    })?;
    Ok(Event::from_raw(event))
}

fn out_of_order(setup: &Setup) -> Result<Queue, Error> {
    let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    Ok(Queue::from_raw(create!(clCreateCommandQueue(setup.context.raw(), setup.device.raw(), properties))?))
}

fn queries() -> Outcome {
    let setup = setup_with("cl_khr_semaphore")?;
    assert_eq!(setup.device.info::<u32>(TYPES)?, 1, "binary ones");
    let semaphore = Semaphore::new(&setup)?;
    assert_eq!(semaphore.info::<u32>(TYPE)?, 1);
    assert_eq!(semaphore.info::<usize>(CONTEXT)?, setup.context.raw().addr());
    assert_eq!(semaphore.info::<usize>(DEVICES)?, setup.device.raw().addr());
    assert_eq!(semaphore.info::<[u64; 3]>(PROPERTIES)?, BINARY);
    assert_eq!(semaphore.info::<u64>(PAYLOAD)?, 0);
    semaphore.call(c"clRetainSemaphoreKHR")?;
    assert_eq!(semaphore.info::<u32>(REFERENCES)?, 2);
    semaphore.call(c"clReleaseSemaphoreKHR")?;
    assert_eq!(semaphore.info::<u32>(REFERENCES)?, 1);
    let device = setup.device.raw().addr() as u64;
    let listed = [u64::from(DEVICES), device, 0, u64::from(TYPE), 1, 0];
    let named = Semaphore::with(&setup, &listed)?;
    assert_eq!(named.info::<[u64; 6]>(PROPERTIES)?, listed);
    assert_eq!(status(semaphore.info::<u32>(0x2035)), "CL_INVALID_VALUE");
    Ok(())
}

fn one_queue() -> Outcome {
    let setup = setup_with("cl_khr_semaphore")?;
    let (first, second) = (Semaphore::new(&setup)?, Semaphore::new(&setup)?);
    for queue in [&setup.queue, &out_of_order(&setup)?] {
        for _ in 0..20 {
            let signal = enqueue(SIGNAL, &setup, queue, &[first.raw, second.raw], &[])?;
            assert_eq!(signal.info::<u32>(CL_EVENT_COMMAND_TYPE)?, 0x2043);
            signal.wait()?;
            assert!(first.is_signaled()? && second.is_signaled()?);
            let wait = enqueue(WAIT, &setup, queue, &[first.raw], &[])?;
            assert_eq!(wait.info::<u32>(CL_EVENT_COMMAND_TYPE)?, 0x2042);
            wait.wait()?;
            assert!(!first.is_signaled()? && second.is_signaled()?);
            enqueue(WAIT, &setup, queue, &[second.raw], &[])?;
            queue.finish()?;
            assert!(!second.is_signaled()?);
        }
    }
    Ok(())
}

/// A wait that was enqueued before its signal holds up its queue, and what is behind it sees what was before the signal.
fn across_queues() -> Outcome {
    let setup = setup_with("cl_khr_semaphore")?;
    let (semaphore, other) = (Semaphore::new(&setup)?, out_of_order(&setup)?);
    let buffer = Buffer::copy_of(&setup.context, &[0u32; 1024])?;
    for round in 1..20u32 {
        let wait = enqueue(WAIT, &setup, &setup.queue, &[semaphore.raw], &[])?;
        let gate = Event::user(&setup.context)?;
        let mut found = vec![0u32; 1024];
        let read = setup.queue.begin_read(&buffer, &mut found)?;
        other.write(&buffer, &[round; 1024])?;
        let signal = enqueue(SIGNAL, &setup, &other, &[semaphore.raw], &[gate.raw()])?;
        assert!(wait.status()? > CL_COMPLETE as cl_int && read.status()? > CL_COMPLETE as cl_int);
        gate.set_status(CL_COMPLETE as cl_int)?;
        read.wait()?;
        drop(read);
        // It signals before it ends.
        signal.wait()?;
        assert_eq!([wait.status()?, signal.status()?], [CL_COMPLETE as cl_int; 2]);
        assert_eq!(found, [round; 1024]);
    }
    Ok(())
}

/// Threads that pass one turn around: each counts up what only it may touch.
fn many_turns() -> Outcome {
    const TURNS: u32 = 200;
    let setup = setup_with("cl_khr_semaphore")?;
    let semaphores: Vec<_> = (0..3).map(|_| Semaphore::new(&setup)).collect::<Result<_, _>>()?;
    let raw: Vec<usize> = semaphores.iter().map(|semaphore| semaphore.raw.addr()).collect();
    let counter = Buffer::copy_of(&setup.context, &[0u32])?;
    std::thread::scope(|scope| {
        for own in 0..raw.len() {
            let turns = [raw[own], raw[(own + 1) % raw.len()]];
            let (setup, counter) = (&setup, &counter);
            scope.spawn(move || {
                let [mine, next] = turns.map(std::ptr::without_provenance_mut::<c_void>);
                let queue = Queue::new(&setup.context, setup.device).expect("a queue");
                for turn in 0..TURNS {
                    enqueue(WAIT, setup, &queue, &[mine], &[]).expect("a wait");
                    let mut value = [0u32];
                    queue.read(counter, &mut value).expect("a read");
                    assert_eq!(value[0], turn * 3 + own as u32);
                    queue.write(counter, &[value[0] + 1]).expect("a write");
                    enqueue(SIGNAL, setup, &queue, &[next], &[]).expect("a signal");
                }
                queue.finish().expect("an end");
            });
        }
        enqueue(SIGNAL, &setup, &setup.queue, &[semaphores[0].raw], &[]).expect("the first signal");
    });
    let mut value = [0u32];
    setup.queue.read(&counter, &mut value)?;
    assert_eq!(value[0], TURNS * 3);
    Ok(())
}

fn what_failed_before() -> Outcome {
    let setup = setup_with("cl_khr_semaphore")?;
    let (semaphore, queue) = (Semaphore::new(&setup)?, out_of_order(&setup)?);
    for name in [SIGNAL, WAIT] {
        enqueue(SIGNAL, &setup, &queue, &[semaphore.raw], &[])?.wait()?;
        if name == SIGNAL {
            enqueue(WAIT, &setup, &queue, &[semaphore.raw], &[])?.wait()?;
        }
        let (before, gate) = (semaphore.is_signaled()?, Event::user(&setup.context)?);
        let command = enqueue(name, &setup, &queue, &[semaphore.raw], &[gate.raw()])?;
        gate.set_status(-7)?;
        assert!(command.wait().is_err() && command.status()? < 0);
        assert_eq!(semaphore.is_signaled()?, before, "neither signals nor takes a signal");
        let late = enqueue(name, &setup, &queue, &[semaphore.raw], &[gate.raw()]);
        assert_eq!(status(late), "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
    }
    enqueue(WAIT, &setup, &queue, &[semaphore.raw], &[])?.wait()?;
    Ok(())
}

fn misuse() -> Outcome {
    let setup = setup_with("cl_khr_semaphore")?;
    let made = |properties: &[u64]| status(Semaphore::with(&setup, properties));
    assert_eq!(made(&[]), "CL_INVALID_VALUE");
    assert_eq!(made(&[0]), "CL_INVALID_VALUE");
    assert_eq!(made(&[u64::MAX, 1, 0]), "CL_INVALID_PROPERTY");
    assert_eq!(made(&[u64::from(TYPE), 2, 0]), "CL_INVALID_PROPERTY");
    assert_eq!(made(&[u64::from(TYPE), 1, u64::from(TYPE), 0]), "CL_INVALID_PROPERTY");
    let device = setup.device.raw().addr() as u64;
    let listed =
        |devices: &[u64]| made(&[&[u64::from(TYPE), 1, u64::from(DEVICES)], devices, &[0, 0]].concat());
    assert_eq!(listed(&[]), "CL_INVALID_DEVICE");
    assert_eq!(listed(&[device, device]), "CL_INVALID_DEVICE");
    assert_eq!(listed(&[device + 8]), "CL_INVALID_DEVICE");
    let semaphore = Semaphore::new(&setup)?;
    let foreign = Context::new(setup.device)?;
    let elsewhere = Queue::new(&foreign, setup.device)?;
    for name in [SIGNAL, WAIT] {
        let refused = |queue: &Queue, semaphores: &[*mut c_void], wait: &[cl_event]| {
            status(enqueue(name, &setup, queue, semaphores, wait))
        };
        assert_eq!(refused(&setup.queue, &[], &[]), "CL_INVALID_VALUE");
        assert_eq!(refused(&setup.queue, &[semaphore.raw, null_mut()], &[]), INVALID_SEMAPHORE);
        assert_eq!(refused(&setup.queue, &[setup.queue.raw()], &[]), INVALID_SEMAPHORE);
        assert_eq!(refused(&elsewhere, &[semaphore.raw], &[]), "CL_INVALID_CONTEXT");
        assert_eq!(refused(&setup.queue, &[semaphore.raw], &[null_mut()]), "CL_INVALID_EVENT_WAIT_LIST");
    }
    let raw = semaphore.raw;
    drop(semaphore);
    let gone = std::mem::ManuallyDrop::new(Semaphore { setup: &setup, raw });
    assert_eq!(status(gone.call(c"clRetainSemaphoreKHR")), INVALID_SEMAPHORE);
    assert_eq!(status(gone.info::<u64>(PAYLOAD)), INVALID_SEMAPHORE);
    Ok(())
}
