//! Queues and events: order, times, user events, callbacks, wait lists, failures.

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Device, Event, Kernel, NdRange, Object, Queue};
use spirula_tests::dispatch::Kind;
use spirula_tests::isolate::{self, Outcome};
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

tests![
    queue_info,
    queue_properties,
    in_order,
    profiling_times,
    profiling_times_enclose_the_work,
    profiling_needs_the_property,
    event_info,
    user_event_holds_commands,
    user_event_error_reaches_dependents,
    user_event_errors,
    callbacks,
    callbacks_of_released_events,
    wait_lists,
    markers_and_barriers,
    finish_waits,
    queues_in_threads,
    release_with_work_pending,
    no_thread_can_start,
];

/// A kernel `y += x` over 64 doubles of 1, and its y and x (which it does not keep alive: OpenCL 1.2, 5.7.2).
fn accumulator(setup: &Setup) -> spirula_tests::cl::Result<(Kernel, Buffer, Buffer)> {
    let kernel = setup.kernel("spir12/vadd.bc64", "daxpy");
    let (x, y) =
        (Buffer::copy_of(&setup.context, &[1f64; 64])?, Buffer::copy_of(&setup.context, &[0f64; 64])?);
    kernel.set_object(0, Some(&x))?;
    kernel.set_object(1, Some(&y))?;
    kernel.set(2, 1f64)?;
    Ok((kernel, y, x))
}

/// Launches `kernel` over 64 work-items behind `waits`.
fn launch_after(queue: &Queue, kernel: &Kernel, waits: &[&Event]) -> spirula_tests::cl::Result<Event> {
    let waits: Vec<_> = waits.iter().map(|e| e.raw()).collect();
    let list = if waits.is_empty() { null() } else { waits.as_ptr() };
    let (queue, kernel, mut event) = (queue.raw(), kernel.raw(), null_mut());
    let count = waits.len() as cl_uint;
    call!(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &64, &16, count, list, &mut event))?;
    Ok(Event::from_raw(event))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn queue_info() -> Outcome {
    let setup = Setup::new();
    assert_eq!(setup.queue.info::<usize>(CL_QUEUE_CONTEXT)?, setup.context.raw() as usize);
    assert_eq!(setup.queue.info::<usize>(CL_QUEUE_DEVICE)?, setup.device.raw() as usize);
    assert_eq!(setup.queue.info::<u32>(CL_QUEUE_REFERENCE_COUNT)?, 1);
    assert_eq!(setup.queue.info::<u64>(CL_QUEUE_PROPERTIES)?, CL_QUEUE_PROFILING_ENABLE);
    Ok(())
}

fn queue_properties() -> Outcome {
    let setup = Setup::new();
    let (context, device) = (setup.context.raw(), setup.device.raw());
    let make =
        |properties| status(create!(clCreateCommandQueue(context, device, properties)).map(Queue::from_raw));
    let supported = setup.device.info::<u64>(CL_DEVICE_QUEUE_PROPERTIES)?;
    let out_of_order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    let expected = if supported & out_of_order != 0 { "CL_SUCCESS" } else { "CL_INVALID_QUEUE_PROPERTIES" };
    assert_eq!(make(out_of_order), expected);
    assert_eq!(make(1 << 40), "CL_INVALID_VALUE");
    assert_eq!(make(0), "CL_SUCCESS");
    Ok(())
}

fn in_order() -> Outcome {
    let setup = Setup::new();
    let (kernel, y, _x) = accumulator(&setup)?;
    let mut expected = 0f64;
    for round in 0..50 {
        setup.queue.write(&y, &[f64::from(round); 64])?;
        for _ in 0..4 {
            launch_after(&setup.queue, &kernel, &[])?;
        }
        expected = f64::from(round) + 4.0;
    }
    let mut got = [0f64; 64];
    setup.queue.read(&y, &mut got)?;
    assert_eq!(got, [expected; 64]);
    Ok(())
}

/// The device's clock.
fn now(device: Device) -> spirula_tests::cl::Result<u64> {
    let mut time = 0;
    call!(clGetDeviceAndHostTimer(device.raw(), &mut time, &mut 0))?;
    Ok(time)
}

fn profiling_times() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("bench/mandelbrot.bc64", "mandelbrot");
    let output = Buffer::new(&setup.context, 0, 256 * 256 * 4)?;
    kernel.set_object(0, Some(&output))?;
    kernel.set(1, 256)?;
    kernel.set(2, 500)?;
    kernel.set_bytes(3, &(-0.1f32).to_le_bytes())?;
    kernel.set_bytes(4, &(-0.1f32).to_le_bytes())?;
    kernel.set_bytes(5, &0.0001f32.to_le_bytes())?;
    let before = now(setup.device)?;
    let events: Vec<Event> = (0..3)
        .map(|_| setup.queue.launch(&kernel, NdRange::new(&[256, 256], &[16, 16])))
        .collect::<Result<_, _>>()?;
    setup.queue.finish()?;
    let after = now(setup.device)?;
    let times: Vec<[u64; 4]> = events.iter().map(Event::times).collect::<Result<_, _>>()?;
    for [queued, submitted, started, ended] in &times {
        let inner = [before, *queued, *submitted, *started];
        assert!(inner.is_sorted() && started < ended && *ended <= after, "{times:?} in {before} to {after}");
    }
    assert!(times.windows(2).all(|pair| pair[0][3] <= pair[1][2]), "one after the other: {times:?}");
    Ok(())
}

/// A command looks at the clock: that is after its start and before its end.
fn profiling_times_enclose_the_work() -> Outcome {
    isolate::needs_one_process()?;
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn look(_: *mut c_void) {
        SEEN.store(now(Device::first()).expect("a clock"), Ordering::SeqCst);
    }
    let (setup, mut event, none) = (Setup::new(), null_mut(), null_mut());
    let queue = setup.queue.raw();
    call!(clEnqueueNativeKernel(queue, Some(look), none, 0, 0, null(), null(), 0, null(), &mut event))?;
    let event = Event::from_raw(event);
    event.wait()?;
    let [_, _, started, ended] = event.times()?;
    let seen = SEEN.load(Ordering::SeqCst);
    assert!(started <= seen && seen <= ended, "{seen} in {started} to {ended}");
    Ok(())
}

fn profiling_needs_the_property() -> Outcome {
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let plain = Queue::from_raw(create!(clCreateCommandQueue(setup.context.raw(), setup.device.raw(), 0))?);
    let event = launch_after(&plain, &kernel, &[])?;
    event.wait()?;
    assert_eq!(status(event.times()), "CL_PROFILING_INFO_NOT_AVAILABLE");
    let user = Event::user(&setup.context)?;
    assert_eq!(status(user.times()), "CL_PROFILING_INFO_NOT_AVAILABLE");
    user.set_status(CL_COMPLETE)?;
    Ok(())
}

fn event_info() -> Outcome {
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let event = launch_after(&setup.queue, &kernel, &[])?;
    assert_eq!(event.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_NDRANGE_KERNEL);
    assert_eq!(event.info::<usize>(CL_EVENT_COMMAND_QUEUE)?, setup.queue.raw() as usize);
    assert_eq!(event.info::<usize>(CL_EVENT_CONTEXT)?, setup.context.raw() as usize);
    event.wait()?;
    assert_eq!(event.status()?, CL_COMPLETE);
    wait_until("the queue lets go of the event", || {
        event.info::<u32>(CL_EVENT_REFERENCE_COUNT).is_ok_and(|n| n == 1)
    });
    let user = Event::user(&setup.context)?;
    assert_eq!(user.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_USER);
    assert_eq!(user.info::<usize>(CL_EVENT_COMMAND_QUEUE)?, 0);
    assert_eq!(user.status()?, CL_SUBMITTED);
    Ok(())
}

fn user_event_holds_commands() -> Outcome {
    let setup = Setup::new();
    let (kernel, y, _x) = accumulator(&setup)?;
    let gate = Event::user(&setup.context)?;
    let held = launch_after(&setup.queue, &kernel, &[&gate])?;
    let behind = launch_after(&setup.queue, &kernel, &[])?;
    call!(clFlush(setup.queue.raw()))?;
    std::thread::sleep(Duration::from_millis(50));
    assert!(held.status()? > CL_COMPLETE && behind.status()? > CL_COMPLETE, "both wait for the user event");
    gate.set_status(CL_COMPLETE)?;
    behind.wait()?;
    assert_eq!(held.status()?, CL_COMPLETE);
    let mut got = [0f64; 64];
    setup.queue.read(&y, &mut got)?;
    assert_eq!(got, [2.0; 64]);
    Ok(())
}

fn user_event_error_reaches_dependents() -> Outcome {
    let setup = Setup::new();
    let (kernel, y, _x) = accumulator(&setup)?;
    let gate = Event::user(&setup.context)?;
    let failed = launch_after(&setup.queue, &kernel, &[&gate])?;
    gate.set_status(-7)?;
    assert_eq!(status(failed.wait()), "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
    assert!(failed.status()? < 0, "the command must not look complete");
    // Another queue is not harmed.
    let other = Queue::new(&setup.context, setup.device)?;
    launch_after(&other, &kernel, &[])?.wait()?;
    let mut got = [0f64; 64];
    other.read(&y, &mut got)?;
    assert_eq!(got, [1.0; 64], "the failed command did not run, the other did");
    Ok(())
}

fn user_event_errors() -> Outcome {
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let event = Event::user(&setup.context)?;
    assert_eq!(status(event.set_status(CL_RUNNING)), "CL_INVALID_VALUE");
    event.set_status(CL_COMPLETE)?;
    assert_eq!(status(event.set_status(CL_COMPLETE)), "CL_INVALID_OPERATION");
    let command = launch_after(&setup.queue, &kernel, &[])?;
    assert_eq!(status(command.set_status(CL_COMPLETE)), "CL_INVALID_EVENT");
    Ok(())
}

extern "C" fn note(_: cl_event, state: cl_int, data: *mut c_void) {
    // SAFETY: the tests pass the address of a static AtomicI32.
    let cell = unsafe { &*data.cast::<AtomicI32>() };
    cell.store(1000 + state, Ordering::SeqCst);
}

fn callbacks() -> Outcome {
    static DONE: AtomicI32 = AtomicI32::new(0);
    static LATE: AtomicI32 = AtomicI32::new(0);
    static FAILED: AtomicI32 = AtomicI32::new(0);
    let data = |cell: &'static AtomicI32| (&raw const *cell).cast_mut().cast::<c_void>();
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let gate = Event::user(&setup.context)?;
    let event = launch_after(&setup.queue, &kernel, &[&gate])?;
    call!(clSetEventCallback(event.raw(), CL_COMPLETE, Some(note), data(&DONE)))?;
    assert_eq!(DONE.load(Ordering::SeqCst), 0, "not before the command is complete");
    gate.set_status(CL_COMPLETE)?;
    event.wait()?;
    wait_until("the callback", || DONE.load(Ordering::SeqCst) == 1000 + CL_COMPLETE);
    call!(clSetEventCallback(event.raw(), CL_COMPLETE, Some(note), data(&LATE)))?;
    wait_until("a callback set after the end", || LATE.load(Ordering::SeqCst) == 1000 + CL_COMPLETE);
    let failing = Event::user(&setup.context)?;
    call!(clSetEventCallback(failing.raw(), CL_COMPLETE, Some(note), data(&FAILED)))?;
    failing.set_status(-5)?;
    wait_until("the callback of a failure", || FAILED.load(Ordering::SeqCst) == 995);
    assert_eq!(
        status(call!(clSetEventCallback(event.raw(), CL_COMPLETE, None, null_mut()))),
        "CL_INVALID_VALUE"
    );
    assert_eq!(
        status(call!(clSetEventCallback(event.raw(), 77, Some(note), null_mut()))),
        "CL_INVALID_VALUE"
    );
    Ok(())
}

/// The event lives during its callback, although the application has let it go.
fn callbacks_of_released_events() -> Outcome {
    static HEARD: Mutex<Option<(cl_int, Result<u32, cl_int>)>> = Mutex::new(None);
    extern "C" fn hear(event: cl_event, state: cl_int, _: *mut c_void) {
        let references = Kind::event().references(event.addr());
        *HEARD.lock().expect("nobody panicked") = Some((state, references));
    }
    let setup = Setup::new();
    let event = Event::user(&setup.context)?;
    call!(clSetEventCallback(event.raw(), CL_COMPLETE, Some(hear), null_mut()))?;
    event.set_status(-5)?;
    drop(event);
    wait_until("the callback", || HEARD.lock().expect("as above").is_some());
    let heard = *HEARD.lock().expect("as above");
    assert!(matches!(heard, Some((-5, Ok(0 | 1)))), "{heard:?}");
    Ok(())
}

fn wait_lists() -> Outcome {
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let launch = |count, list: *const cl_event| {
        let (queue, kernel) = (setup.queue.raw(), kernel.raw());
        status(call!(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &64, &16, count, list, null_mut())))
    };
    assert_eq!(launch(1, null()), "CL_INVALID_EVENT_WAIT_LIST");
    let event = launch_after(&setup.queue, &kernel, &[])?;
    assert_eq!(launch(0, &event.raw()), "CL_INVALID_EVENT_WAIT_LIST");
    assert_eq!(launch(1, &setup.context.raw()), "CL_INVALID_EVENT_WAIT_LIST");
    assert_eq!(launch(1, &null_mut()), "CL_INVALID_EVENT_WAIT_LIST");
    let released = Event::user(&setup.context)?.raw();
    assert_eq!(launch(1, &released), "CL_INVALID_EVENT_WAIT_LIST");
    let stranger = Setup::new();
    let other = Event::user(&stranger.context)?;
    assert_eq!(launch(1, &other.raw()), "CL_INVALID_CONTEXT");
    assert_eq!(status(call!(clWaitForEvents(0, null()))), "CL_INVALID_VALUE");
    // Across two queues of one context.
    let second = Queue::new(&setup.context, setup.device)?;
    let gate = Event::user(&setup.context)?;
    let first = launch_after(&setup.queue, &kernel, &[&gate])?;
    let then = launch_after(&second, &kernel, &[&first, &event])?;
    gate.set_status(CL_COMPLETE)?;
    then.wait()?;
    assert_eq!(first.status()?, CL_COMPLETE);
    Ok(())
}

fn markers_and_barriers() -> Outcome {
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let event = launch_after(&setup.queue, &kernel, &[])?;
    let (queue, list) = (setup.queue.raw(), event.raw());
    let (mut marker, mut barrier) = (null_mut(), null_mut());
    call!(clEnqueueMarkerWithWaitList(queue, 0, null(), &mut marker))?;
    call!(clEnqueueBarrierWithWaitList(queue, 1, &list, &mut barrier))?;
    let (marker, barrier) = (Event::from_raw(marker), Event::from_raw(barrier));
    barrier.wait()?;
    assert_eq!([event.status()?, marker.status()?, barrier.status()?], [CL_COMPLETE; 3]);
    assert_eq!(marker.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_MARKER);
    assert_eq!(barrier.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_BARRIER);
    Ok(())
}

fn finish_waits() -> Outcome {
    let setup = Setup::new();
    let (kernel, _y, _x) = accumulator(&setup)?;
    let events: Vec<Event> =
        (0..200).map(|_| launch_after(&setup.queue, &kernel, &[])).collect::<Result<_, _>>()?;
    setup.queue.finish()?;
    for event in events {
        assert_eq!(event.status()?, CL_COMPLETE);
    }
    Ok(())
}

fn queues_in_threads() -> Outcome {
    let device = Device::first();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || -> spirula_tests::cl::Result<f64> {
                let setup = Setup::new();
                let (kernel, y, _x) = accumulator(&setup)?;
                assert_eq!(setup.device.raw(), device.raw());
                for _ in 0..100 {
                    launch_after(&setup.queue, &kernel, &[])?;
                }
                let mut got = [0f64; 64];
                setup.queue.read(&y, &mut got)?;
                Ok(got.iter().sum())
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic")?, 6400.0);
    }
    Ok(())
}

/// Everything is released while commands are queued: they must still run, and nothing may crash.
fn release_with_work_pending() -> Outcome {
    let setup = Setup::new();
    let gate = Event::user(&setup.context)?;
    let last;
    {
        let queue = Queue::new(&setup.context, setup.device)?;
        let (kernel, _y, _x) = accumulator(&setup)?;
        last = launch_after(&queue, &kernel, &[&gate])?;
        gate.set_status(CL_COMPLETE)?;
    }
    last.wait()?;
    assert_eq!(last.status()?, CL_COMPLETE);
    Ok(())
}

/// While no thread can start, an enqueue fails and does nothing, or what it queues is done.
fn no_thread_can_start() -> Outcome {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let setup = Setup::new();
    let buffer = Buffer::copy_of(&setup.context, &[7u8; 4096])?;
    let queues = [Queue::new(&setup.context, setup.device)?, Queue::new(&setup.context, setup.device)?];
    let before = getrlimit(Resource::As);
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let size = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096;
    let (mut first, mut second) = (vec![0u8; 4096], vec![0u8; 4096]);
    let read = |queue: &Queue, into: &mut [u8], wait: &[Event]| -> spirula_tests::cl::Result<Event> {
        let list: Vec<_> = wait.iter().map(Object::raw).collect();
        let (place, mut event) = (into.as_mut_ptr().cast(), null_mut());
        let wait = if list.is_empty() { null() } else { list.as_ptr() };
        let count = list.len() as u32;
        call!(clEnqueueReadBuffer(
            queue.raw(),
            buffer.raw(),
            CL_FALSE,
            0,
            4096,
            place,
            count,
            wait,
            &mut event
        ))?;
        Ok(Event::from_raw(event))
    };
    // Room for anything but a thread's stack.
    setrlimit(Resource::As, rustix::process::Rlimit { current: Some(size + (4 << 20)), ..before })?;
    let one = read(&queues[0], &mut first, &[]);
    let other = match &one {
        Ok(one) => read(&queues[1], &mut second, std::slice::from_ref(one)),
        Err(_) => read(&queues[1], &mut second, &[]),
    };
    setrlimit(Resource::As, before)?;
    for (enqueued, queue, bytes) in [(&one, &queues[0], &first), (&other, &queues[1], &second)] {
        queue.finish()?;
        match enqueued {
            Ok(event) => {
                event.wait()?;
                assert_eq!(bytes[4095], 7, "what was queued is done");
            }
            Err(error) => {
                assert!(error.to_string().contains("CL_OUT_OF_HOST_MEMORY"), "{error}");
                assert_eq!(bytes[4095], 0, "what failed does nothing");
            }
        }
    }
    // With memory again all goes on.
    let event = read(&queues[0], &mut first, &[])?;
    event.wait()?;
    assert_eq!(first[4095], 7);
    Ok(())
}
