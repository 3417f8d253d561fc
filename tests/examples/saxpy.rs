//! Runs a SPIR binary's kernel saxpy (y = a*x + y) through the ICD loader and checks every result.
//! `cargo run --release -p spirula-tests --example saxpy -- [tests/fixtures/bench/saxpy.bc64]`

use cl_sys::*;
use std::ptr::{null, null_mut};

/// The first device of any platform that takes SPIR.
fn find_device() -> Option<cl_device_id> {
    let mut platforms = [null_mut(); 16];
    let mut count = 0;
    // SAFETY: there is room for 16 platforms and their number.
    assert_eq!(unsafe { clGetPlatformIDs(16, platforms.as_mut_ptr(), &mut count) }, CL_SUCCESS);
    platforms.into_iter().take(count as usize).find_map(|platform| {
        let (mut device, mut text) = (null_mut(), [0u8; 8192]);
        let (size, start) = (text.len(), text.as_mut_ptr().cast());
        // SAFETY: there is room for one device, and for `size` bytes of text.
        let found = unsafe {
            clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &mut device, null_mut()) == CL_SUCCESS
                && clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, start, null_mut()) == CL_SUCCESS
        };
        (found && String::from_utf8_lossy(&text).contains("cl_khr_spir")).then_some(device)
    })
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or("tests/fixtures/bench/saxpy.bc64".into());
    let binary = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let device = find_device().expect("no device takes SPIR");
    let x: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let (mut y, a, size) = (vec![1.0f32; x.len()], 2.0f32, size_of_val(&x[..]));
    let (mut e, mut log) = (0, vec![0u8; 65536]);
    let pass = |status| assert_eq!(status, CL_SUCCESS, "an OpenCL function's error");
    // SAFETY: each pointer is to what its function reads or writes, as long as the size beside it says; blocking reads
    // end before they return. What was created goes with the process.
    unsafe {
        let context = clCreateContext(null(), 1, &device, None, null_mut(), &mut e);
        let queue = clCreateCommandQueue(context, device, 0, &mut e);
        let (length, start) = (binary.len(), binary.as_ptr());
        let program = clCreateProgramWithBinary(context, 1, &device, &length, &start, null_mut(), &mut e);
        pass(e);
        let options = c"-x spir -spir-std=1.2".as_ptr();
        if clBuildProgram(program, 1, &device, options, None, null_mut()) != CL_SUCCESS {
            let (size, start) = (log.len(), log.as_mut_ptr().cast());
            pass(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, start, null_mut()));
            panic!("{}", String::from_utf8_lossy(&log).trim_end_matches('\0'));
        }
        let kernel = clCreateKernel(program, c"saxpy".as_ptr(), &mut e);
        pass(e);
        let [xs, ys] = [&x, &y]
            .map(|v| clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, v.as_ptr() as *mut c_void, &mut e));
        pass(clSetKernelArg(kernel, 0, size_of_val(&xs), (&raw const xs).cast()));
        pass(clSetKernelArg(kernel, 1, size_of_val(&ys), (&raw const ys).cast()));
        pass(clSetKernelArg(kernel, 2, size_of_val(&a), (&raw const a).cast()));
        pass(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &x.len(), null(), 0, null(), null_mut()));
        pass(clEnqueueReadBuffer(queue, ys, 1, 0, size, y.as_mut_ptr().cast(), 0, null(), null_mut()));
    }
    assert!(x.iter().zip(&y).all(|(x, y)| *y == a * x + 1.0), "y is not a * x + 1");
    println!("{} results are right", y.len());
}
