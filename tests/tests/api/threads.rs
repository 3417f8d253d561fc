//! Many threads on the same objects at once: every call but clSetKernelArg on one kernel is thread-safe (OpenCL 1.2, A.2).

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Context, Event, Kernel, Object, Program, Queue, Result, SPIR12};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

tests![
    transfers_and_launches_on_shared_queues,
    user_events_ended_by_others,
    references_counted_by_all,
    programs_built_side_by_side,
    one_program_built_by_all,
    finishing_while_others_enqueue,
];

const THREADS: usize = 8;
const ITEMS: usize = 256;
const BYTES: usize = 8 * ITEMS;

/// Runs `body` with its number on every thread.
fn on_all_threads(body: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || body(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

fn out_of_order(setup: &Setup) -> Result<Queue> {
    let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    let (context, device) = (setup.context.raw(), setup.device.raw());
    Ok(Queue::from_raw(create!(clCreateCommandQueue(context, device, properties))?))
}

/// An event list's pointer, as OpenCL wants it.
fn list(events: &[cl_event]) -> *const cl_event {
    if events.is_empty() { null() } else { events.as_ptr() }
}

fn launch(queue: &Queue, kernel: &Kernel, wait: &[cl_event]) -> Result<Event> {
    let (queue, kernel, mut event) = (queue.raw(), kernel.raw(), null_mut());
    let (count, list) = (wait.len() as cl_uint, list(wait));
    call!(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &ITEMS, null(), count, list, &mut event))?;
    Ok(Event::from_raw(event))
}

/// `y += factor * x` as a kernel of its own.
fn daxpy(program: &Program, x: &Buffer, y: &Buffer, factor: f64) -> Result<Kernel> {
    let kernel = Kernel::new(program, "daxpy")?;
    kernel.set_object(0, Some(x))?;
    kernel.set_object(1, Some(y))?;
    kernel.set(2, factor)?;
    Ok(kernel)
}

extern "C" fn count(_: cl_event, _: cl_int, data: *mut c_void) {
    // SAFETY: the tests pass the address of a static AtomicUsize.
    unsafe { &*data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn call_back(event: &Event, state: cl_int, counter: &'static AtomicUsize) -> Result<()> {
    call!(clSetEventCallback(event.raw(), state, Some(count), (&raw const *counter).cast_mut().cast()))
}

fn wait_for_count(counter: &AtomicUsize, wanted: usize) {
    let start = Instant::now();
    while counter.load(Ordering::SeqCst) < wanted && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(counter.load(Ordering::SeqCst), wanted, "each callback comes once");
}

/// Write, fill a half, launch, map: by events, as the queue may have no order.
fn one_round(context: &Context, queue: &Queue, program: &Program, seed: usize) -> Outcome {
    let data: Vec<f64> = (0..ITEMS).map(|i| (i * seed) as f64).collect();
    let (x, y) = (Buffer::new(context, CL_MEM_READ_ONLY, BYTES)?, Buffer::copy_of(context, &data)?);
    let half = x.sub_buffer(0, BYTES / 2, BYTES / 2)?;
    let factor = (seed % 7) as f64;
    let kernel = daxpy(program, &x, &y, factor)?;
    let written = queue.begin_write(&x, &data)?;
    let (one, mut filled) = (1f64, null_mut());
    call!(clEnqueueFillBuffer(
        queue.raw(),
        half.raw(),
        (&raw const one).cast(),
        8,
        0,
        BYTES / 2,
        1,
        &written.raw(),
        &mut filled
    ))?;
    let filled = Event::from_raw(filled);
    let ran = launch(queue, &kernel, &[filled.raw()])?;
    drop((half, kernel, x));
    let (flags, wait) = (CL_MAP_READ, [ran.raw()]);
    let start = create!(clEnqueueMapBuffer(
        queue.raw(),
        y.raw(),
        CL_TRUE,
        flags,
        0,
        BYTES,
        1,
        wait.as_ptr(),
        null_mut()
    ))?;
    // SAFETY: the mapped region, until it is unmapped below.
    let got = unsafe { std::slice::from_raw_parts(start.cast::<f64>(), ITEMS) };
    let x = |i: usize| if i < ITEMS / 2 { data[i] } else { 1.0 };
    assert!((0..ITEMS).all(|i| got[i] == data[i] + factor * x(i)), "seed {seed}");
    call!(clEnqueueUnmapMemObject(queue.raw(), y.raw(), start, 0, null(), null_mut()))?;
    assert_eq!([written.status()?, filled.status()?, ran.status()?], [CL_COMPLETE; 3]);
    Ok(())
}

fn transfers_and_launches_on_shared_queues() -> Outcome {
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let queues = [Queue::new(&setup.context, setup.device)?, out_of_order(&setup)?, out_of_order(&setup)?];
    on_all_threads(|thread| {
        (0..60).try_for_each(|round| {
            one_round(&setup.context, &queues[(thread + round) % 3], &program, 1 + thread * 60 + round)
        })
    })?;
    assert_eq!(program.info::<u32>(CL_PROGRAM_REFERENCE_COUNT)?, 1);
    Ok(())
}

/// Each thread holds commands of all queues back, and the next thread lets them go.
fn user_events_ended_by_others() -> Outcome {
    const ROUNDS: usize = 40;
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let zeros = [0f64; ITEMS];
    let (x, y) = (Buffer::copy_of(&setup.context, &zeros)?, Buffer::copy_of(&setup.context, &zeros)?);
    // A queue for each thread: an in-order queue that all share would wait for its own later commands.
    let queues: Vec<Queue> = (0..THREADS)
        .map(|n| if n % 2 == 0 { out_of_order(&setup) } else { Queue::new(&setup.context, setup.device) })
        .collect::<Result<_>>()?;
    let (gates, opened): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::channel::<Event>()).unzip();
    let opened: Vec<_> = opened.into_iter().map(std::sync::Mutex::new).collect();
    on_all_threads(|thread| {
        let kernel = daxpy(&program, &x, &y, 0.0)?;
        for round in 0..ROUNDS {
            let gate = Event::user(&setup.context)?;
            let first = launch(&queues[thread], &kernel, &[gate.raw()])?;
            let second = launch(&queues[thread], &kernel, &[first.raw(), gate.raw()])?;
            [CL_SUBMITTED, CL_RUNNING, CL_COMPLETE]
                .into_iter()
                .try_for_each(|state| call_back(&first, state, &CALLED))?;
            call!(clFlush(queues[thread].raw()))?;
            gates[thread].send(gate).expect("the next thread listens");
            let theirs = opened[(thread + 1) % THREADS].lock().expect("nobody panicked").recv();
            theirs.expect("it sends as many").set_status(if round % 4 == 3 { -77 } else { CL_COMPLETE })?;
            let waited = status(second.wait());
            match first.status()? {
                CL_COMPLETE => assert_eq!(waited, "CL_SUCCESS"),
                code => assert_eq!(
                    (code, &*waited),
                    (
                        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                        "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"
                    )
                ),
            }
        }
        Ok(())
    })?;
    wait_for_count(&CALLED, 3 * ROUNDS * THREADS);
    Ok(())
}

fn references_counted_by_all() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let buffer = Buffer::new(&setup.context, 0, BYTES)?;
    let event = Event::user(&setup.context)?;
    on_all_threads(|_| {
        for _ in 0..500 {
            let copies = (setup.context.clone(), setup.queue.clone(), buffer.clone(), kernel.clone());
            let copy = event.clone();
            assert_eq!(copies.2.info::<usize>(CL_MEM_SIZE)?, BYTES);
            assert_eq!(copies.3.info_string(CL_KERNEL_FUNCTION_NAME)?, "vadd");
            assert_eq!(copy.status()?, CL_SUBMITTED);
        }
        Ok(())
    })?;
    assert_eq!(kernel.info::<u32>(CL_KERNEL_REFERENCE_COUNT)?, 1);
    assert_eq!(buffer.info::<u32>(CL_MEM_REFERENCE_COUNT)?, 1);
    assert_eq!(event.info::<u32>(CL_EVENT_REFERENCE_COUNT)?, 1);
    assert_eq!(setup.queue.info::<u32>(CL_QUEUE_REFERENCE_COUNT)?, 1);
    Ok(())
}

fn programs_built_side_by_side() -> Outcome {
    let setup = Setup::new();
    on_all_threads(|thread| {
        for round in 0..3 {
            let program = setup.program("spir12/vadd.bc64");
            one_round(&setup.context, &setup.queue, &program, 1 + 3 * thread + round)?;
        }
        Ok(())
    })
}

/// One of them builds; the others are told that it is being built, or has kernels, or build it again.
fn one_program_built_by_all() -> Outcome {
    let setup = Setup::new();
    for round in 0..20 {
        let program = setup.load("spir12/vadd.bc64")?;
        let built = AtomicUsize::new(0);
        on_all_threads(|_| {
            let outcome = status(program.build(SPIR12));
            match &*outcome {
                "CL_SUCCESS" => drop(built.fetch_add(1, Ordering::SeqCst)),
                other => assert_eq!(other, "CL_INVALID_OPERATION"),
            }
            program.log(setup.device)?;
            Ok(())
        })?;
        assert!(built.load(Ordering::SeqCst) >= 1);
        one_round(&setup.context, &setup.queue, &program, 1 + round)?;
    }
    Ok(())
}

fn finishing_while_others_enqueue() -> Outcome {
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let queues = [Queue::new(&setup.context, setup.device)?, out_of_order(&setup)?];
    on_all_threads(|thread| {
        let data = [1f64; ITEMS];
        let (x, y) = (Buffer::copy_of(&setup.context, &data)?, Buffer::copy_of(&setup.context, &data)?);
        let kernel = daxpy(&program, &x, &y, 1.0)?;
        let queue = &queues[thread % 2];
        for round in 0..50 {
            let mut last: Option<Event> = None;
            for _ in 0..4 {
                let wait: Vec<cl_event> = last.iter().map(Object::raw).collect();
                last = Some(launch(queue, &kernel, &wait)?);
            }
            if round % 3 == 0 {
                call!(clEnqueueBarrierWithWaitList(queue.raw(), 0, null(), null_mut()))?;
            }
            queue.finish()?;
            assert_eq!(last.map(|event| event.status()).transpose()?, Some(CL_COMPLETE));
        }
        let mut got = [0f64; ITEMS];
        queue.read(&y, &mut got)?;
        assert_eq!(got, [201.0; ITEMS]);
        Ok(())
    })
}
