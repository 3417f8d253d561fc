//! Shared virtual memory: allocation, commands, kernels that follow pointers, and what is refused (OpenCL 3.0, 5.6).

use crate::setup::{Setup, status, tests};
use spirula_tests::call;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, NdRange, Object};
use spirula_tests::isolate::{self, Outcome};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

tests![
    capabilities,
    allocation,
    commands,
    command_errors,
    kernels_take_addresses,
    argument_errors,
    buffers_over_shared_memory,
    freeing_by_command,
];

/// Memory of clSVMAlloc, freed when the queue's commands are done with it.
pub struct Shared<'a>(pub &'a Setup, pub *mut c_void);

impl Shared<'_> {
    pub fn new(setup: &Setup, flags: cl_svm_mem_flags, size: usize, alignment: u32) -> Option<Shared<'_>> {
        // SAFETY: the context lives; everything else the API must check.
        let pointer = unsafe { clSVMAlloc(setup.context.raw(), flags, size, alignment) };
        (!pointer.is_null()).then_some(Shared(setup, pointer))
    }

    fn words(&mut self, count: usize) -> &mut [f32] {
        // SAFETY: the tests ask for no more than they allocated, and have waited for their commands.
        unsafe { std::slice::from_raw_parts_mut(self.1.cast(), count) }
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.0.queue.finish().expect("a queue can be finished");
        // SAFETY: a pointer of clSVMAlloc with its context, which no command uses any more.
        unsafe { clSVMFree(self.0.context.raw(), self.1) }
    }
}

fn capabilities() -> Outcome {
    let system = if isolate::isolates() { 0 } else { CL_DEVICE_SVM_FINE_GRAIN_SYSTEM };
    let all =
        CL_DEVICE_SVM_COARSE_GRAIN_BUFFER | CL_DEVICE_SVM_FINE_GRAIN_BUFFER | system | CL_DEVICE_SVM_ATOMICS;
    assert_eq!(Setup::new().device.info::<u64>(CL_DEVICE_SVM_CAPABILITIES)?, all);
    Ok(())
}

fn allocation() -> Outcome {
    let setup = Setup::new();
    let fits = |flags, size, alignment| Shared::new(&setup, flags, size, alignment).is_some();
    let aligned =
        |alignment| Shared::new(&setup, 0, 8, alignment).map(|shared| shared.1 as usize % alignment as usize);
    assert_eq!([1, 16, 128, 4096].map(aligned), [Some(0); 4]);
    assert!(fits(CL_MEM_READ_ONLY | CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS, 8, 0));
    assert!(!fits(CL_MEM_SVM_ATOMICS, 8, 0), "atomics of memory that is not fine-grained");
    assert!(!fits(CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 8, 0));
    assert!(!fits(CL_MEM_COPY_HOST_PTR, 8, 0));
    assert!(!fits(0, 0, 0) && !fits(0, 8, 3) && !fits(0, 8, 1 << 30));
    let most = setup.device.info::<u64>(CL_DEVICE_MAX_MEM_ALLOC_SIZE)? as usize;
    assert!(!fits(0, most + 1, 0));
    // SAFETY: "if svm_pointer is NULL, no action occurs", and nothing is allocated for no context.
    unsafe {
        clSVMFree(setup.context.raw(), null_mut());
        assert!(clSVMAlloc(null_mut(), 0, 8, 0).is_null());
    }
    Ok(())
}

fn commands() -> Outcome {
    let setup = Setup::new();
    let (queue, none) = (setup.queue.raw(), null_mut());
    let mut a = Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let mut b = Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let pattern = [1f32, 2.0];
    call!(clEnqueueSVMMemFill(queue, a.1, pattern.as_ptr().cast(), 8, 64, 0, null(), none))?;
    call!(clEnqueueSVMMemcpy(queue, CL_TRUE, b.1, a.1, 64, 0, null(), none))?;
    assert_eq!(b.words(4), [1.0, 2.0, 1.0, 2.0]);
    call!(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, a.1, 64, 0, null(), none))?;
    a.words(16).fill(5.0);
    call!(clEnqueueSVMUnmap(queue, a.1, 0, null(), none))?;
    let (pointers, sizes) = ([a.1.cast_const(), b.1.cast_const()], [16usize, 0]);
    call!(clEnqueueSVMMigrateMem(queue, 2, pointers.as_ptr(), sizes.as_ptr(), 0, 0, null(), none))?;
    // Host memory that nobody allocated for this: CL_DEVICE_SVM_FINE_GRAIN_SYSTEM.
    let mut own = [0f32; 16];
    call!(clEnqueueSVMMemcpy(queue, CL_TRUE, own.as_mut_ptr().cast(), a.1, 64, 0, null(), none))?;
    assert_eq!(own, [5.0; 16]);
    Ok(())
}

fn command_errors() -> Outcome {
    let setup = Setup::new();
    let (queue, none) = (setup.queue.raw(), null_mut());
    let a = Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let copy = |to: *mut c_void, from: *const c_void, size| {
        status(call!(clEnqueueSVMMemcpy(queue, CL_TRUE, to, from, size, 0, null(), none)))
    };
    let at = |offset: usize| a.1.wrapping_byte_add(offset);
    assert_eq!(copy(null_mut(), a.1, 8), "CL_INVALID_VALUE");
    assert_eq!(copy(a.1, null(), 8), "CL_INVALID_VALUE");
    assert_eq!(copy(a.1, at(16), 32), "CL_MEM_COPY_OVERLAP");
    assert_eq!(copy(a.1, at(32), 32), "CL_SUCCESS");
    let fill = |to: *mut c_void, pattern: *const c_void, length, size| {
        status(call!(clEnqueueSVMMemFill(queue, to, pattern, length, size, 0, null(), none)))
    };
    let pattern = [0u8; 256];
    let pattern = pattern.as_ptr().cast();
    assert_eq!(fill(a.1, pattern, 16, 64), "CL_SUCCESS");
    for (to, pattern, length, size) in [
        (null_mut(), pattern, 4, 8),
        (a.1, null(), 4, 8),
        (a.1, pattern, 0, 8),
        (a.1, pattern, 3, 9),
        (a.1, pattern, 256, 256),
        (a.1, pattern, 8, 12),
        (at(4), pattern, 8, 16),
    ] {
        assert_eq!(fill(to, pattern, length, size), "CL_INVALID_VALUE", "{to:?} {length} {size}");
    }
    let map = |flags, pointer: *mut c_void, size| {
        status(call!(clEnqueueSVMMap(queue, CL_TRUE, flags, pointer, size, 0, null(), none)))
    };
    assert_eq!(map(CL_MAP_READ, null_mut(), 8), "CL_INVALID_VALUE");
    assert_eq!(map(CL_MAP_READ, a.1, 0), "CL_INVALID_VALUE");
    assert_eq!(map(1 << 20, a.1, 8), "CL_INVALID_VALUE");
    assert_eq!(status(call!(clEnqueueSVMUnmap(queue, null_mut(), 0, null(), none))), "CL_INVALID_VALUE");
    let migrate = |count, pointers: *const *const c_void, sizes: *const usize, flags| {
        status(call!(clEnqueueSVMMigrateMem(queue, count, pointers, sizes, flags, 0, null(), none)))
    };
    let pointer = a.1.cast_const();
    assert_eq!(migrate(1, &pointer, null(), 0), "CL_SUCCESS");
    assert_eq!(migrate(0, &pointer, null(), 0), "CL_INVALID_VALUE");
    assert_eq!(migrate(1, null(), null(), 0), "CL_INVALID_VALUE");
    assert_eq!(migrate(1, &pointer, &65, 0), "CL_INVALID_VALUE", "more than was allocated");
    assert_eq!(migrate(1, &pointer, null(), 1 << 20), "CL_INVALID_VALUE");
    let wait = call!(clEnqueueSVMUnmap(queue, a.1, 1, null(), none));
    assert_eq!(status(wait), "CL_INVALID_EVENT_WAIT_LIST");
    Ok(())
}

fn kernels_take_addresses() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let mut shared = Shared::new(&setup, CL_MEM_SVM_FINE_GRAIN_BUFFER, 256, 0).ok_or("no memory")?;
    shared.words(64).fill(3.0);
    let own = [4f32; 64];
    let mut sum = [0f32; 64];
    if isolate::isolates() {
        let set = |pointer| status(call!(clSetKernelArgSVMPointer(kernel.raw(), 0, pointer)));
        assert_eq!(
            set(own.as_ptr().cast()),
            "CL_INVALID_ARG_VALUE",
            "kernels have no memory of the system's"
        );
        return of_shared_memory_alone(&setup);
    }
    for (index, pointer) in [shared.1.cast_const(), own.as_ptr().cast(), sum.as_mut_ptr().cast_const().cast()]
        .into_iter()
        .enumerate()
    {
        call!(clSetKernelArgSVMPointer(kernel.raw(), index as u32, pointer))?;
    }
    setup.queue.launch(&kernel, NdRange::new(&[64], &[16]))?;
    setup.queue.finish()?;
    assert_eq!(sum, [7.0; 64]);
    Ok(())
}

fn of_shared_memory_alone(setup: &Setup) -> Outcome {
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let shared = || Shared::new(setup, CL_MEM_SVM_FINE_GRAIN_BUFFER, 256, 0).ok_or("no memory");
    let mut all = [shared()?, shared()?, shared()?];
    for (index, shared) in all.iter_mut().enumerate() {
        shared.words(64).fill(index as f32 + 3.0);
        call!(clSetKernelArgSVMPointer(kernel.raw(), index as u32, shared.1))?;
    }
    setup.queue.launch(&kernel, NdRange::new(&[64], &[16]))?;
    setup.queue.finish()?;
    assert_eq!(all[2].words(64), [7.0; 64]);
    Ok(())
}

fn argument_errors() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "daxpy");
    let set = |index| status(call!(clSetKernelArgSVMPointer(kernel.raw(), index, null())));
    assert_eq!([set(0), set(2), set(3)], ["CL_SUCCESS", "CL_INVALID_ARG_VALUE", "CL_INVALID_ARG_INDEX"]);
    let stranger = call!(clSetKernelArgSVMPointer(setup.queue.raw(), 0, null()));
    assert_eq!(status(stranger), "CL_INVALID_KERNEL");
    let info = |name, size, value: *const c_void| {
        status(call!(clSetKernelExecInfo(kernel.raw(), name, size, value)))
    };
    let (word, flag) = ([0usize; 1].as_ptr().cast(), [CL_TRUE; 1].as_ptr().cast());
    assert_eq!(info(CL_KERNEL_EXEC_INFO_SVM_PTRS, 8, word), "CL_SUCCESS");
    assert_eq!(info(CL_KERNEL_EXEC_INFO_SVM_PTRS, 0, null()), "CL_SUCCESS", "takes them back");
    let expected = if isolate::isolates() { "CL_INVALID_OPERATION" } else { "CL_SUCCESS" };
    assert_eq!(info(CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, 4, flag), expected);
    assert_eq!(info(CL_KERNEL_EXEC_INFO_SVM_PTRS, 8, null()), "CL_INVALID_VALUE");
    assert_eq!(info(CL_KERNEL_EXEC_INFO_SVM_PTRS, 7, word), "CL_INVALID_VALUE");
    assert_eq!(info(CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, 8, word), "CL_INVALID_VALUE");
    assert_eq!(info(1, 8, word), "CL_INVALID_VALUE");
    Ok(())
}

fn buffers_over_shared_memory() -> Outcome {
    let setup = Setup::new();
    let shared = Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let over = |size| {
        let made =
            spirula_tests::create!(clCreateBuffer(setup.context.raw(), CL_MEM_USE_HOST_PTR, size, shared.1));
        made.map(Buffer::from_raw)
    };
    assert_eq!(over(64)?.info::<u32>(CL_MEM_USES_SVM_POINTER)?, CL_TRUE);
    assert_eq!(status(over(65)), "CL_INVALID_BUFFER_SIZE");
    assert_eq!(Buffer::new(&setup.context, 0, 64)?.info::<u32>(CL_MEM_USES_SVM_POINTER)?, CL_FALSE);
    Ok(())
}

extern "C" fn freed(_: cl_command_queue, count: cl_uint, pointers: *const *const c_void, total: *mut c_void) {
    // SAFETY: the test passes a static AtomicUsize; the runtime `count` pointers.
    unsafe {
        let list = std::slice::from_raw_parts(pointers, count as usize);
        (*total.cast::<AtomicUsize>()).fetch_add(list.iter().map(|p| *p as usize).sum(), Ordering::SeqCst);
    }
}

fn freeing_by_command() -> Outcome {
    static TOTAL: AtomicUsize = AtomicUsize::new(0);
    let setup = Setup::new();
    let (queue, none) = (setup.queue.raw(), null_mut());
    let shared = Shared::new(&setup, 0, 64, 0).ok_or("no memory")?;
    let list = [shared.1.cast_const(), 64 as *const c_void];
    let total = (&raw const TOTAL).cast_mut().cast();
    call!(clEnqueueSVMFree(queue, 2, list.as_ptr(), Some(freed), total, 0, null(), none))?;
    setup.queue.finish()?;
    assert_eq!(TOTAL.load(Ordering::SeqCst), shared.1 as usize + 64, "the application frees by itself");
    let free = |count, list: *const *const c_void| {
        status(call!(clEnqueueSVMFree(queue, count, list, None, null_mut(), 0, null(), none)))
    };
    assert_eq!(free(0, list.as_ptr()), "CL_INVALID_VALUE");
    assert_eq!(free(1, null()), "CL_INVALID_VALUE");
    assert_eq!(free(1, list.as_ptr()), "CL_SUCCESS");
    setup.queue.finish()?;
    let migrate = call!(clEnqueueSVMMigrateMem(queue, 1, list.as_ptr(), null(), 0, 0, null(), none));
    assert_eq!(status(migrate), "CL_INVALID_VALUE", "it is gone");
    std::mem::forget(shared);
    Ok(())
}
