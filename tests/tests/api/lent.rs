//! The tests' own watch over memory that commands have: a process that lets go of it too early must not live on. (See
//! `spirula_tests::lent`; that it leaves others alone is what all other tests show with `SPIRULA_TEST_DELAY`.)

use crate::setup::{Setup, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Event, Kernel, NdRange, Object};
use spirula_tests::isolate::{self, Outcome};
use spirula_tests::{call, create, shuffle, supervise};
use std::env;
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Duration;

tests![freed, grown, freed_by_svm_free, freed_under_a_kernel, freed_under_a_buffer, left_on_the_stack, kept];

/// A process of its own is at it.
const CULPRIT: &str = "SPIRULA_TEST_CULPRIT";

/// Has another process do it, which must end with these words, or well if there are none.
fn convict(test: &str, said: &str, deed: impl FnOnce(&Setup, &Event) -> cl::Result<()>) -> Outcome {
    if env::var_os(CULPRIT).is_some() {
        let setup = Setup::new();
        // No command runs before the deed is done.
        let gate = Event::user(&setup.context)?;
        return Ok(deed(&setup, &gate)?);
    }
    let mut command = isolate::child(&format!("lent::{test}"))?;
    command.env(CULPRIT, "1").env(shuffle::VARIABLE, "1");
    let done = supervise::run(&mut command, Duration::from_secs(50))?;
    let text = String::from_utf8_lossy(&done.stderr);
    let ended_well = done.status.is_some_and(|status| status.success());
    assert!(ended_well == said.is_empty() && text.contains(said), "{:?}: {text}", done.status);
    Ok(())
}

/// A read that waits for the gate.
fn read(setup: &Setup, gate: &Event, buffer: &Buffer, into: *mut u8) -> cl::Result<()> {
    let (queue, place) = (setup.queue.raw(), into.cast());
    call!(clEnqueueReadBuffer(queue, buffer.raw(), CL_FALSE, 0, 64, place, 1, &gate.raw(), null_mut()))
}

fn freed() -> Outcome {
    convict("freed", "clEnqueueReadBuffer", |setup, gate| {
        let buffer = Buffer::copy_of(&setup.context, &[1_u8; 64])?;
        let mut bytes = vec![0; 64];
        read(setup, gate, &buffer, bytes.as_mut_ptr())
    })
}

fn grown() -> Outcome {
    convict("grown", "clEnqueueReadBuffer", |setup, gate| {
        let buffer = Buffer::copy_of(&setup.context, &[1_u8; 64])?;
        let bytes: &mut Vec<u8> = Box::leak(Box::new(vec![0; 64]));
        read(setup, gate, &buffer, bytes.as_mut_ptr())?;
        bytes.reserve(1 << 20);
        Ok(())
    })
}

fn freed_by_svm_free() -> Outcome {
    convict("freed_by_svm_free", "clEnqueueSVMMemFill", |setup, gate| {
        // SAFETY: the context lives.
        let shared = unsafe { clSVMAlloc(setup.context.raw(), 0, 64, 0) };
        let (to, pattern) = (shared.wrapping_byte_add(32), (&raw const *b"spir").cast());
        call!(clEnqueueSVMMemFill(setup.queue.raw(), to, pattern, 4, 32, 1, &gate.raw(), null_mut()))?;
        // SAFETY: none of it is read or written before the process ends.
        unsafe { clSVMFree(setup.context.raw(), shared) };
        Ok(())
    })
}

fn freed_under_a_kernel() -> Outcome {
    convict("freed_under_a_kernel", "clEnqueueNDRangeKernel", |setup, gate| {
        let kernel: Kernel = setup.kernel("spir12/vadd.bc64", "vadd");
        let mut numbers = vec![0_f32; 64];
        for index in 0..3 {
            call!(clSetKernelArgSVMPointer(kernel.raw(), index, numbers.as_mut_ptr().cast()))?;
        }
        let (queue, kernel, none) = (setup.queue.raw(), kernel.raw(), null_mut());
        call!(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &64, null(), 1, &gate.raw(), none))
    })
}

fn freed_under_a_buffer() -> Outcome {
    convict("freed_under_a_buffer", "clCreateBuffer", |setup, _| {
        let mut bytes = vec![0_u8; 64];
        let (context, place) = (setup.context.raw(), bytes.as_mut_ptr().cast());
        let buffer = create!(clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 64, place))?;
        drop(bytes);
        drop(Buffer::from_raw(buffer));
        Ok(())
    })
}

fn left_on_the_stack() -> Outcome {
    #[inline(never)]
    fn lend(setup: &Setup, gate: &Event, buffer: &Buffer) -> cl::Result<()> {
        let mut bytes = black_box([0_u8; 4096]);
        read(setup, gate, buffer, black_box(&mut bytes).as_mut_ptr())
    }
    convict("left_on_the_stack", "clEnqueueReadBuffer", |setup, gate| {
        let buffer = Buffer::copy_of(&setup.context, &[1_u8; 64])?;
        lend(setup, gate, &buffer)?;
        setup.queue.write(&buffer, &[1_u8; 64])
    })
}

/// What waits for its commands is left alone.
fn kept() -> Outcome {
    convict("kept", "", |setup, gate| {
        let buffer = Buffer::copy_of(&setup.context, &[1_u8; 64])?;
        let mut bytes = vec![0; 64];
        read(setup, gate, &buffer, bytes.as_mut_ptr())?;
        let (_other, mut grown) = (vec![1_u8; 64], vec![2_u8; 64]);
        grown.reserve(1 << 20);
        let kernel = setup.kernel("spir12/vadd.bc64", "copy_uchar");
        kernel.set_object(0, Some(&buffer))?;
        kernel.set_object(1, Some(&buffer))?;
        setup.queue.launch(&kernel, NdRange::new(&[64], &[16]))?;
        gate.set_status(CL_COMPLETE)?;
        setup.queue.finish()?;
        assert_eq!(bytes, [1; 64]);
        drop(bytes);
        Ok(())
    })
}
