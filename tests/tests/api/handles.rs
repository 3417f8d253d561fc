//! Handles: how objects of each type live and die, and the error for what is none of them: null, of another type, released,
//! wild. The table is called directly where the loader would read a wild handle's memory.

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    Buffer, Context, Event, Handle, Image, ImageKind, Object, Platform, Program, Sampler,
};
use spirula_tests::dispatch::Kind;
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create, slot};
use std::ptr::{null, null_mut};

tests![
    platforms,
    devices,
    contexts,
    queues,
    memory_objects,
    samplers,
    programs,
    kernels,
    events,
    what_is_used_lives_on,
    through_the_loader,
    arguments_that_are_handles,
];

/// Takes a new object through its life. `stranger` is of another type.
fn live_and_die(kind: Kind, object: impl Object, stranger: Handle) -> Outcome {
    let handle = object.raw().addr();
    std::mem::forget(object);
    assert_eq!(kind.references(handle), Ok(1));
    assert_eq!(kind.retain(handle), CL_SUCCESS);
    assert_eq!(kind.references(handle), Ok(2));
    assert_eq!([kind.release(handle), kind.release(handle)], [CL_SUCCESS; 2]);
    for bad in [0, 8, handle, handle + 8, stranger.addr(), Platform::only().raw().addr()] {
        kind.assert_invalid(bad);
    }
    Ok(())
}

fn platforms() -> Outcome {
    let (platform, device) = (Platform::only().raw(), Setup::new().device.raw());
    let mut size = 0;
    let mut ask = |handle| slot!(clGetPlatformInfo(handle, CL_PLATFORM_NAME, 0, null_mut(), &mut size));
    assert_eq!([ask(platform), ask(device)], [CL_SUCCESS, CL_INVALID_PLATFORM]);
    assert_eq!(ask(platform.wrapping_byte_add(1)), CL_INVALID_PLATFORM);
    Ok(())
}

/// A root device outlives any number of releases.
fn devices() -> Outcome {
    let (kind, device) = (Kind::device(), Setup::new().device.raw().addr());
    assert_eq!([(); 3].map(|()| kind.release(device)), [CL_SUCCESS; 3]);
    assert_eq!(kind.retain(device), CL_SUCCESS);
    assert_eq!(kind.references(device), Ok(1));
    for bad in [0, device + 1, Platform::only().raw().addr()] {
        kind.assert_invalid(bad);
    }
    Ok(())
}

fn contexts() -> Outcome {
    let setup = Setup::new();
    live_and_die(Kind::context(), Context::new(setup.device)?, setup.queue.raw())
}

fn queues() -> Outcome {
    let setup = Setup::new();
    live_and_die(Kind::queue(), Setup::new().queue, setup.context.raw())
}

fn memory_objects() -> Outcome {
    let (setup, kind) = (Setup::new(), Kind::memory());
    let (context, queue) = (&setup.context, setup.queue.raw());
    live_and_die(kind, Buffer::new(context, 0, 64)?, queue)?;
    live_and_die(kind, Buffer::new(context, 0, 64)?.sub_buffer(0, 0, 64)?, queue)?;
    live_and_die(kind, Image::new(context, ImageKind::D1, (CL_R, CL_FLOAT), [4, 1, 1], 1, None)?, queue)
}

fn samplers() -> Outcome {
    let setup = Setup::new();
    let sampler = Sampler::new(&setup.context, false, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST)?;
    live_and_die(Kind::sampler(), sampler, setup.context.raw())
}

fn programs() -> Outcome {
    let setup = Setup::new();
    live_and_die(Kind::program(), setup.load("spir12/loops.bc64")?, setup.queue.raw())?;
    live_and_die(
        Kind::program(),
        Program::from_source(&setup.context, "kernel void k() {}")?,
        setup.queue.raw(),
    )
}

fn kernels() -> Outcome {
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    live_and_die(Kind::kernel(), kernel, program.raw())
}

fn events() -> Outcome {
    let setup = Setup::new();
    live_and_die(Kind::event(), Event::user(&setup.context)?, setup.context.raw())
}

/// An object without references is still there for others that use it, and no longer.
fn what_is_used_lives_on() -> Outcome {
    let Setup { context, queue, .. } = Setup::new();
    let buffer = Buffer::new(&context, 0, 256)?;
    let part = buffer.sub_buffer(0, 128, 128)?;
    let (all, whole, of_queue) = (context.raw().addr(), buffer.raw().addr(), queue.raw());
    drop((context, buffer));
    assert_eq!((Kind::context().references(all), Kind::memory().references(whole)), (Ok(0), Ok(0)));
    assert_eq!(queue.info::<usize>(CL_QUEUE_CONTEXT)?, all);
    assert_eq!(part.info::<usize>(CL_MEM_ASSOCIATED_MEMOBJECT)?, whole);
    drop(part);
    Kind::memory().assert_invalid(whole);
    queue.finish()?;
    drop(queue);
    Kind::context().assert_invalid(all);
    assert_eq!(slot!(clFinish(of_queue)), CL_INVALID_COMMAND_QUEUE);
    Ok(())
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
