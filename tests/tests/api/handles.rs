//! Invalid handles: null, of another type, released, wild. Each call must return its object's own error. Released
//! and wild handles go to the dispatch table directly, for the loader would read their memory.

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Event, Handle, Kernel, Object, Platform, Sampler, code_name};
use spirula_tests::dispatch::{self, Dispatch, Slots};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};

tests![
    contexts,
    queues,
    buffers,
    samplers,
    programs,
    kernels,
    events,
    through_the_loader,
    arguments_that_are_handles,
    released_twice_is_an_error,
];

/// Checks the object's three functions on every sort of invalid handle; `make` gives a valid one.
fn check(setup: &Setup, slots: Slots, error: cl_int, make: impl FnOnce() -> Box<dyn Object>) -> Outcome {
    let table = Dispatch::of(Platform::only());
    let program = setup.load("spir12/vadd.bc64")?;
    let released = {
        let object = make(); // the last object made, so that nothing takes its place
        object.raw() as usize
    };
    let others = [setup.context.raw(), setup.queue.raw(), program.raw(), setup.device.raw()];
    let own = |h: &&Handle| table.statuses(slots, **h as usize)[1] == CL_SUCCESS;
    let mut bad: Vec<usize> = vec![0, 8, released, Platform::only().raw() as usize];
    bad.extend(others.iter().filter(|h| !own(h)).map(|h| *h as usize));
    assert!(bad.len() >= 7, "three of the four other handles are of another type");
    for handle in bad {
        let got = table.statuses(slots, handle).map(code_name);
        let expected = std::array::from_fn(|_| code_name(error));
        assert_eq!(got, expected, "info, retain, release of {handle:#x} (released {released:#x})");
    }
    Ok(())
}

fn contexts() -> Outcome {
    let setup = Setup::new();
    let make = || Box::new(Setup::new().context) as Box<dyn Object>;
    check(&setup, dispatch::CONTEXT, CL_INVALID_CONTEXT, make)
}

fn queues() -> Outcome {
    let setup = Setup::new();
    let make = || Box::new(Setup::new().queue) as Box<dyn Object>;
    check(&setup, dispatch::QUEUE, CL_INVALID_COMMAND_QUEUE, make)
}

fn buffers() -> Outcome {
    let setup = Setup::new();
    let make = || Box::new(Buffer::new(&setup.context, 0, 64).expect("a buffer")) as Box<dyn Object>;
    check(&setup, dispatch::MEMORY, CL_INVALID_MEM_OBJECT, make)
}

fn samplers() -> Outcome {
    let setup = Setup::new();
    let make = || {
        let sampler = Sampler::new(&setup.context, false, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST);
        Box::new(sampler.expect("a sampler")) as Box<dyn Object>
    };
    check(&setup, dispatch::SAMPLER, CL_INVALID_SAMPLER, make)
}

fn programs() -> Outcome {
    let setup = Setup::new();
    let make = || Box::new(setup.load("spir12/loops.bc64").expect("a program")) as Box<dyn Object>;
    check(&setup, dispatch::PROGRAM, CL_INVALID_PROGRAM, make)
}

fn kernels() -> Outcome {
    let setup = Setup::new();
    let make = || Box::new(setup.kernel("spir12/vadd.bc64", "vadd")) as Box<dyn Object>;
    check(&setup, dispatch::KERNEL, CL_INVALID_KERNEL, make)
}

fn events() -> Outcome {
    let setup = Setup::new();
    let make = || Box::new(Event::user(&setup.context).expect("an event")) as Box<dyn Object>;
    check(&setup, dispatch::EVENT, CL_INVALID_EVENT, make)
}

fn through_the_loader() -> Outcome {
    let setup = Setup::new();
    let (context, queue, device) = (setup.context.raw(), setup.queue.raw(), setup.device.raw());
    assert_eq!(status(call!(clRetainContext(queue))), "CL_INVALID_CONTEXT");
    assert_eq!(status(call!(clFinish(context))), "CL_INVALID_COMMAND_QUEUE");
    assert_eq!(status(call!(clRetainMemObject(device))), "CL_INVALID_MEM_OBJECT");
    assert_eq!(status(call!(clRetainSampler(context))), "CL_INVALID_SAMPLER");
    assert_eq!(status(call!(clRetainProgram(context))), "CL_INVALID_PROGRAM");
    assert_eq!(status(call!(clRetainKernel(context))), "CL_INVALID_KERNEL");
    assert_eq!(status(call!(clWaitForEvents(1, &context))), "CL_INVALID_EVENT");
    assert_eq!(status(call!(clRetainContext(null_mut()))), "CL_INVALID_CONTEXT");
    assert_eq!(status(call!(clFinish(null_mut()))), "CL_INVALID_COMMAND_QUEUE");
    Ok(())
}

fn arguments_that_are_handles() -> Outcome {
    let setup = Setup::new();
    let (context, queue, device) = (setup.context.raw(), setup.queue.raw(), setup.device.raw());
    assert_eq!(status(create!(clCreateContext(null(), 1, &context, None, null_mut()))), "CL_INVALID_DEVICE");
    assert_eq!(status(create!(clCreateCommandQueue(queue, device, 0))), "CL_INVALID_CONTEXT");
    assert_eq!(status(create!(clCreateCommandQueue(context, context, 0))), "CL_INVALID_DEVICE");
    assert_eq!(status(create!(clCreateBuffer(queue, 0, 4, null_mut()))), "CL_INVALID_CONTEXT");
    assert_eq!(status(create!(clCreateKernel(context, c"vadd".as_ptr()))), "CL_INVALID_PROGRAM");
    let (mut value, place) = (0u32, null_mut());
    let target = (&raw mut value).cast();
    let read = call!(clEnqueueReadBuffer(queue, context, CL_TRUE, 0, 4, target, 0, null(), place));
    assert_eq!(status(read), "CL_INVALID_MEM_OBJECT");
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    assert_eq!(status(kernel.set_object(0, Some(&setup.context))), "CL_INVALID_MEM_OBJECT");
    let launch = call!(clEnqueueNDRangeKernel(queue, context, 1, null(), &1, null(), 0, null(), place));
    assert_eq!(status(launch), "CL_INVALID_KERNEL");
    // An object of another context.
    let stranger = Setup::new();
    let buffer = Buffer::new(&stranger.context, 0, 4)?;
    let read = call!(clEnqueueReadBuffer(queue, buffer.raw(), CL_TRUE, 0, 4, target, 0, null(), place));
    assert_eq!(status(read), "CL_INVALID_CONTEXT");
    Ok(())
}

fn released_twice_is_an_error() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let address = kernel.raw() as usize;
    let second: Kernel = kernel.clone();
    let table = Dispatch::of(Platform::only());
    drop(second);
    assert_eq!(kernel.info::<u32>(CL_KERNEL_REFERENCE_COUNT)?, 1);
    drop(kernel);
    assert_eq!(table.statuses(dispatch::KERNEL, address), [CL_INVALID_KERNEL; 3]);
    Ok(())
}
