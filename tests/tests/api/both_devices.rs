//! One context with the device of 64 bits and that of 32: its objects are of use to both, and programs are built for each.

use crate::setup::{status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    self, Buffer, Context, Device, Event, Image, ImageKind, Kernel, NdRange, Object, Platform, Program,
    Queue, SPIR12,
};
use spirula_tests::isolate::{Failure, Outcome, Test};
use spirula_tests::{call, create, fixtures};
use std::ptr::{null, null_mut};

/// This module's tests, in the isolated mode, too.
pub fn on_both() -> Vec<Test> {
    let both: Vec<Test> = tests().iter().map(Test::on_both_devices).collect();
    let isolated: Vec<Test> = both.iter().map(Test::isolated).collect();
    [both, isolated].into_iter().flatten().collect()
}

tests![
    contexts,
    a_source_is_built_for_each,
    binaries_of_each,
    binaries_of_one,
    linked_for_each,
    il_is_for_one,
    kernels_that_differ,
    buffers_are_of_both,
    images_are_of_both,
    commands_of_both,
    memory_of_the_application,
    shared_virtual_memory,
    queues_on_each_device,
    sizes_of_buffers,
];

/// The context, the two devices and a queue of each.
struct Both {
    devices: [Device; 2],
    queues: [Queue; 2],
    context: Context,
}

fn both() -> Result<Both, Failure> {
    let devices: [Device; 2] = Platform::only().devices()?.try_into().expect("two devices");
    let bits = devices.map(|device| device.info::<u32>(CL_DEVICE_ADDRESS_BITS));
    assert_eq!(bits, [Ok(64), Ok(32)]);
    let raw = devices.map(|device| device.raw());
    let context = Context::from_raw(create!(clCreateContext(null(), 2, raw.as_ptr(), None, null_mut()))?);
    let queues = [Queue::new(&context, devices[0])?, Queue::new(&context, devices[1])?];
    Ok(Both { devices, queues, context })
}

impl Both {
    /// A source that is built for both.
    fn program(&self, source: &str, options: &str) -> Result<Program, Failure> {
        if self.devices[0].info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
            return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
        }
        let program = Program::from_source(&self.context, source)?;
        let logs = |_| format!("{:?}", self.devices.map(|device| program.log(device)));
        program.build(options).map_err(logs)?;
        Ok(program)
    }

    /// A program of a binary for each device.
    fn binaries(&self, binaries: [&[u8]; 2]) -> cl::Result<Program> {
        let (raw, mut codes) = (self.devices.map(|device| device.raw()), [1; 2]);
        let (lengths, starts) = (binaries.map(<[u8]>::len), binaries.map(<[u8]>::as_ptr));
        let program = create!(clCreateProgramWithBinary(
            self.context.raw(),
            2,
            raw.as_ptr(),
            lengths.as_ptr(),
            starts.as_ptr(),
            codes.as_mut_ptr()
        ))?;
        assert_eq!(codes, [CL_SUCCESS; 2]);
        Ok(Program::from_raw(program))
    }

    /// Runs fixture `vadd`'s kernel on both, one after the other.
    fn adds(&self, program: &Program) -> Outcome {
        let kernel = Kernel::new(program, "copy_uchar")?;
        for queue in &self.queues {
            let data: Vec<u8> = (0..200).collect();
            let (from, to) =
                (Buffer::copy_of(&self.context, &data)?, Buffer::copy_of(&self.context, &[0_u8; 200])?);
            kernel.set_object(0, Some(&from))?;
            kernel.set_object(1, Some(&to))?;
            queue.launch(&kernel, NdRange::new(&[200], &[50]))?;
            let mut got = [0_u8; 200];
            queue.read(&to, &mut got)?;
            assert_eq!(got[..], data);
        }
        Ok(())
    }
}

const SOURCE: &str = "
constant uint table[4] = {1, 2, 3, 4};
kernel void add(global uint *p, local uint *l) {
    l[get_local_id(0)] = table[get_global_id(0) & 3];
    barrier(CLK_LOCAL_MEM_FENCE);
    p[get_global_id(0)] += l[get_local_id(0)];
}
kernel void width(global uint *p) { *p = sizeof(size_t); }
kernel void paint(write_only image2d_t image, uint4 color) {
    write_imageui(image, (int2)(get_global_id(0), get_global_id(1)), color);
}
kernel void look(read_only image2d_t image, global uint4 *p) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    p[at.y * get_global_size(0) + at.x] = read_imageui(image, at);
}";

fn contexts() -> Outcome {
    let Both { devices, context, .. } = both()?;
    assert_eq!(context.info_list::<usize>(CL_CONTEXT_DEVICES)?, devices.map(|device| device.raw() as usize));
    let of_type = create!(clCreateContextFromType(null(), CL_DEVICE_TYPE_CPU, None, null_mut()))?;
    assert_eq!(Context::from_raw(of_type).info::<u32>(CL_CONTEXT_NUM_DEVICES)?, 2);
    let default = create!(clCreateContextFromType(null(), CL_DEVICE_TYPE_DEFAULT, None, null_mut()))?;
    assert_eq!(Context::from_raw(default).info::<u32>(CL_CONTEXT_NUM_DEVICES)?, 1);
    Ok(())
}

fn a_source_is_built_for_each() -> Outcome {
    let both = both()?;
    let program = both.program(SOURCE, "-cl-kernel-arg-info")?;
    assert_eq!(program.info::<usize>(CL_PROGRAM_NUM_KERNELS)?, 4);
    let kernel = Kernel::new(&program, "width")?;
    assert_eq!(kernel.arg_info_string(0, CL_KERNEL_ARG_NAME)?, "p");
    for (queue, bytes) in both.queues.iter().zip([8, 4]) {
        let buffer = Buffer::copy_of(&both.context, &[0_u32])?;
        kernel.set_object(0, Some(&buffer))?;
        queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
        let mut got = [0_u32];
        queue.read(&buffer, &mut got)?;
        assert_eq!(got, [bytes]);
    }
    // Information of work-groups is a device's.
    assert!(
        both.devices
            .iter()
            .all(|&device| kernel.work_group_info::<usize>(device, CL_KERNEL_WORK_GROUP_SIZE).is_ok())
    );
    // What was built for one device only runs there.
    let program = Program::from_source(&both.context, SOURCE)?;
    let second = both.devices[1].raw();
    call!(clBuildProgram(program.raw(), 1, &second, null(), None, null_mut()))?;
    assert_eq!(program.build_info::<i32>(both.devices[0], CL_PROGRAM_BUILD_STATUS)?, CL_BUILD_NONE);
    assert_eq!(program.build_info::<i32>(both.devices[1], CL_PROGRAM_BUILD_STATUS)?, CL_BUILD_SUCCESS);
    let kernel = Kernel::new(&program, "width")?;
    let buffer = Buffer::copy_of(&both.context, &[0_u32])?;
    kernel.set_object(0, Some(&buffer))?;
    let refused = both.queues[0].launch(&kernel, NdRange::new(&[1], &[1]));
    assert_eq!(status(refused), "CL_INVALID_PROGRAM_EXECUTABLE");
    both.queues[1].launch(&kernel, NdRange::new(&[1], &[1]))?;
    both.queues[1].finish()?;
    // A mistake is told for each.
    let program = Program::from_source(&both.context, "kernel void k() { nonsense; }")?;
    assert_eq!(status(program.build("")), "CL_BUILD_PROGRAM_FAILURE");
    for device in both.devices {
        assert!(program.log(device)?.contains("nonsense"), "{}", program.log(device)?);
    }
    Ok(())
}

/// The program's binaries for both.
fn binaries_of(program: &Program) -> Result<[Vec<u8>; 2], Failure> {
    let sizes: [usize; 2] = program.info_list::<usize>(CL_PROGRAM_BINARY_SIZES)?.try_into().expect("two");
    let mut binaries = sizes.map(|size| vec![0_u8; size]);
    let mut places = binaries.each_mut().map(|binary| binary.as_mut_ptr());
    let (size, place) = (size_of_val(&places), (&raw mut places).cast());
    call!(clGetProgramInfo(program.raw(), CL_PROGRAM_BINARIES, size, place, null_mut()))?;
    Ok(binaries)
}

fn binaries_of_each() -> Outcome {
    let both = both()?;
    let files = ["spir12/vadd.bc64", "spir12/vadd.bc32"].map(fixtures::load);
    let program = both.binaries([&files[0], &files[1]])?;
    program.build(SPIR12)?;
    both.adds(&program)?;
    let built = binaries_of(&program)?;
    assert_ne!(built[0], built[1]);
    let again = both.binaries([&built[0], &built[1]])?;
    again.build("")?;
    both.adds(&again)?;
    // Each is for its own device.
    assert_eq!(status(both.binaries([&built[1], &built[0]])), "CL_INVALID_BINARY");
    let program = both.binaries([&files[1], &files[0]])?;
    assert_eq!(status(program.build(SPIR12)), "CL_INVALID_BINARY");
    for (device, words) in both.devices.into_iter().zip([
        "a 32-bit module (triple spir-unknown-unknown) on a 64-bit device",
        "a 64-bit module (triple spir64-unknown-unknown) on a 32-bit device",
    ]) {
        let log = program.log(device)?;
        assert!(log.contains(words), "{log}");
    }
    Ok(())
}

fn binaries_of_one() -> Outcome {
    let both = both()?;
    for (own, file) in ["spir12/vadd.bc64", "spir12/vadd.bc32"].into_iter().enumerate() {
        let program = Program::from_binary(&both.context, both.devices[own], &fixtures::load(file))?;
        program.build(SPIR12)?;
        let kernel = Kernel::new(&program, "copy_uchar")?;
        let buffers = [Buffer::copy_of(&both.context, &[7_u8])?, Buffer::copy_of(&both.context, &[0_u8])?];
        kernel.set_object(0, Some(&buffers[0]))?;
        kernel.set_object(1, Some(&buffers[1]))?;
        both.queues[own].launch(&kernel, NdRange::new(&[1], &[1]))?;
        let mut got = [0_u8];
        both.queues[own].read(&buffers[1], &mut got)?;
        assert_eq!(got, [7]);
        let refused = both.queues[1 - own].launch(&kernel, NdRange::new(&[1], &[1]));
        assert_eq!(status(refused), "CL_INVALID_PROGRAM_EXECUTABLE");
    }
    Ok(())
}

fn linked_for_each() -> Outcome {
    let both = both()?;
    let parts = [
        "int f(int x); kernel void k(global int *p) { *p = f(*p); }",
        "int f(int x) { return x + sizeof(size_t); }",
    ];
    let parts = parts.map(|text| Program::from_source(&both.context, text));
    let parts = parts.into_iter().collect::<cl::Result<Vec<_>>>()?;
    parts.iter().try_for_each(|part| part.compile(""))?;
    let linked = Program::link(&both.context, "", &[&parts[0], &parts[1]])?;
    let kernel = Kernel::new(&linked, "k")?;
    for (queue, bytes) in both.queues.iter().zip([8, 4]) {
        let buffer = Buffer::copy_of(&both.context, &[100])?;
        kernel.set_object(0, Some(&buffer))?;
        queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
        let mut got = [0];
        queue.read(&buffer, &mut got)?;
        assert_eq!(got, [100 + bytes]);
    }
    // What only one was compiled for can be linked for that one alone.
    let first = both.devices[0].raw();
    let text = "kernel void alone(global int *p) { *p = 1; }";
    let alone = Program::from_source(&both.context, text)?;
    call!(clCompileProgram(alone.raw(), 1, &first, null(), 0, null(), null(), None, null_mut()))?;
    let linked = Program::link(&both.context, "", &[&alone])?;
    Kernel::new(&linked, "alone")?;
    let mixed = Program::link(&both.context, "", &[&alone, &parts[1]]);
    assert_eq!(status(mixed), "CL_INVALID_OPERATION");
    Ok(())
}

fn il_is_for_one() -> Outcome {
    let both = both()?;
    let program = Program::from_il(&both.context, &fixtures::load("spirv/spir12/vadd.spv"))?;
    assert_ne!(status(program.build("")), "CL_SUCCESS");
    assert!(
        program.log(both.devices[1])?.contains("on a 32-bit device"),
        "{}",
        program.log(both.devices[1])?
    );
    let first = both.devices[0].raw();
    call!(clBuildProgram(program.raw(), 1, &first, null(), None, null_mut()))?;
    let kernel = Kernel::new(&program, "copy_uchar")?;
    let buffers = [Buffer::copy_of(&both.context, &[7_u8])?, Buffer::copy_of(&both.context, &[0_u8])?];
    kernel.set_object(0, Some(&buffers[0]))?;
    kernel.set_object(1, Some(&buffers[1]))?;
    both.queues[0].launch(&kernel, NdRange::new(&[1], &[1]))?;
    both.queues[0].finish()?;
    Ok(())
}

fn kernels_that_differ() -> Outcome {
    let both = both()?;
    let source = "
        kernel void same(global int *p) { *p = 1; }
        #ifdef __SPIR32__
        kernel void other(global int *p, int x) { *p = x; }
        #else
        kernel void other(global int *p) { *p = 1; }
        kernel void wide(global int *p) { *p = 1; }
        #endif";
    let program = both.program(source, "")?;
    assert_eq!(status(Kernel::new(&program, "other")), "CL_INVALID_KERNEL_DEFINITION");
    assert_eq!(status(Kernel::new(&program, "none")), "CL_INVALID_KERNEL_NAME");
    assert_eq!(program.kernels()?.len(), 2, "all but the one that differs");
    let kernel = Kernel::new(&program, "wide")?;
    let buffer = Buffer::copy_of(&both.context, &[0])?;
    kernel.set_object(0, Some(&buffer))?;
    both.queues[0].launch(&kernel, NdRange::new(&[1], &[1]))?;
    both.queues[0].finish()?;
    let refused = both.queues[1].launch(&kernel, NdRange::new(&[1], &[1]));
    assert_eq!(status(refused), "CL_INVALID_PROGRAM_EXECUTABLE");
    Ok(())
}

/// Both add to one buffer in turn, each after the other's event.
fn buffers_are_of_both() -> Outcome {
    let both = both()?;
    let program = both.program(SOURCE, "")?;
    let kernel = Kernel::new(&program, "add")?;
    let buffer = Buffer::copy_of(&both.context, &[0_u32; 256])?;
    let half = buffer.sub_buffer(CL_MEM_READ_WRITE, 512, 512)?;
    kernel.set_local(1, 64)?;
    let mut last: Option<Event> = None;
    for turn in 0..40 {
        kernel.set_object(0, Some(if turn < 20 { &buffer } else { &half }))?;
        let queue = &both.queues[turn % 2];
        let (items, group, mut event) = (if turn < 20 { 256 } else { 128 }, 16, null_mut());
        let waits = last.as_ref().map(|event| event.raw());
        let list = waits.as_ref().map_or(null(), |wait| &raw const *wait);
        let (count, queue) = (u32::from(waits.is_some()), queue.raw());
        call!(clEnqueueNDRangeKernel(
            queue,
            kernel.raw(),
            1,
            null(),
            &items,
            &group,
            count,
            list,
            &mut event
        ))?;
        last = Some(Event::from_raw(event));
    }
    let last = last.expect("the last one");
    let raw = last.raw();
    let objects = [buffer.raw()];
    let to = both.queues[1].raw();
    call!(clEnqueueMigrateMemObjects(to, 1, objects.as_ptr(), 0, 1, &raw, null_mut()))?;
    let mut got = [0_u32; 256];
    both.queues[1].read(&buffer, &mut got)?;
    let turns = |index: usize| if index < 128 { 20 } else { 40 };
    assert!(
        got.iter().enumerate().all(|(index, &sum)| sum == turns(index) * (index as u32 % 4 + 1)),
        "{got:?}"
    );
    Ok(())
}

fn images_are_of_both() -> Outcome {
    let both = both()?;
    let program = both.program(SOURCE, "")?;
    let (paint, look) = (Kernel::new(&program, "paint")?, Kernel::new(&program, "look")?);
    for (writer, reader) in [(0, 1), (1, 0)] {
        let format = (CL_RGBA, CL_UNSIGNED_INT32);
        let image = Image::new(&both.context, ImageKind::D2, format, [8, 4, 1], 1, None)?;
        paint.set_object(0, Some(&image))?;
        paint.set(1, [1_u32, 2, 3, 4])?;
        both.queues[writer].launch(&paint, NdRange::new(&[8, 4], &[4, 2]))?;
        both.queues[writer].finish()?;
        let buffer = Buffer::copy_of(&both.context, &[0_u32; 128])?;
        look.set_object(0, Some(&image))?;
        look.set_object(1, Some(&buffer))?;
        both.queues[reader].launch(&look, NdRange::new(&[8, 4], &[4, 2]))?;
        let mut got = [0_u32; 128];
        both.queues[reader].read(&buffer, &mut got)?;
        assert!(got.chunks(4).all(|color| color == [1, 2, 3, 4]), "{got:?}");
    }
    Ok(())
}

/// Commands about memory on either queue, each after the other's.
fn commands_of_both() -> Outcome {
    let both = both()?;
    let [wide, narrow] = [&both.queues[0], &both.queues[1]].map(|queue| queue.raw());
    for (one, other) in [(wide, narrow), (narrow, wide)] {
        let source = Buffer::copy_of(&both.context, &[1_u32; 1024])?;
        let target = Buffer::copy_of(&both.context, &[0_u32; 1024])?;
        let (five, no_event) = (5_u32, null_mut());
        let (pattern, mut filled, mut copied) = ((&raw const five).cast(), null_mut(), null_mut());
        call!(clEnqueueFillBuffer(one, source.raw(), pattern, 4, 1024, 1024, 0, null(), &mut filled))?;
        let filled = Event::from_raw(filled);
        let (from, to, wait) = (source.raw(), target.raw(), filled.raw());
        call!(clEnqueueCopyBuffer(other, from, to, 0, 2048, 2048, 1, &wait, &mut copied))?;
        let copied = Event::from_raw(copied);
        let (access, wait) = (CL_MAP_READ | CL_MAP_WRITE, copied.raw());
        let mapped = create!(clEnqueueMapBuffer(one, to, CL_TRUE, access, 0, 4096, 1, &wait, null_mut()))?;
        // SAFETY: mapped so far.
        let numbers = unsafe { std::slice::from_raw_parts_mut(mapped.cast::<u32>(), 1024) };
        let expected = |index: usize| [0, 0, 1, 5][index / 256];
        assert!(numbers.iter().enumerate().all(|(index, &number)| number == expected(index)), "{numbers:?}");
        numbers[..256].fill(9);
        call!(clEnqueueUnmapMemObject(one, to, mapped, 0, null(), no_event))?;
        call!(clFinish(one))?;
        let mut got = [0_u32; 256];
        let place = got.as_mut_ptr().cast();
        call!(clEnqueueReadBuffer(other, to, CL_TRUE, 0, 1024, place, 0, null(), no_event))?;
        assert_eq!(got, [9; 256]);
    }
    Ok(())
}

fn memory_of_the_application() -> Outcome {
    let both = both()?;
    let kernel = Kernel::new(&both.program(SOURCE, "")?, "add")?;
    let mut own = vec![7_u32; 4096];
    let (flags, bytes) = (CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, own.len() * 4);
    let raw = create!(clCreateBuffer(both.context.raw(), flags, bytes, own.as_mut_ptr().cast()))?;
    let buffer = Buffer::from_raw(raw);
    kernel.set_object(0, Some(&buffer))?;
    kernel.set_local(1, 64)?;
    for queue in &both.queues {
        queue.launch(&kernel, NdRange::new(&[4096], &[16]))?;
        queue.finish()?;
    }
    let (queue, no_event) = (both.queues[0].raw(), null_mut());
    let (map, none) = (CL_MAP_READ, null());
    let mapped = create!(clEnqueueMapBuffer(queue, buffer.raw(), CL_TRUE, map, 0, bytes, 0, none, no_event))?;
    assert_eq!(mapped, own.as_mut_ptr().cast());
    assert!(own.iter().zip([1, 2, 3, 4].into_iter().cycle()).all(|(&number, step)| number == 7 + 2 * step));
    call!(clEnqueueUnmapMemObject(queue, buffer.raw(), mapped, 0, null(), null_mut()))?;
    Ok(both.queues[0].finish()?)
}

fn shared_virtual_memory() -> Outcome {
    let both = both()?;
    let kernel = Kernel::new(&both.program(SOURCE, "")?, "add")?;
    // SAFETY: a context, and an allocation that is freed below.
    let memory = unsafe { clSVMAlloc(both.context.raw(), CL_MEM_READ_WRITE, 1024, 0) }.cast::<u32>();
    assert!(!memory.is_null());
    // SAFETY: 1024 bytes of this test's own.
    let numbers = unsafe { std::slice::from_raw_parts_mut(memory, 256) };
    numbers.fill(7);
    call!(clSetKernelArgSVMPointer(kernel.raw(), 0, memory.cast()))?;
    kernel.set_local(1, 64)?;
    for queue in &both.queues {
        queue.launch(&kernel, NdRange::new(&[256], &[16]))?;
        queue.finish()?;
    }
    assert!(
        numbers.iter().zip([1, 2, 3, 4].into_iter().cycle()).all(|(&number, step)| number == 7 + 2 * step)
    );
    // The device of 64 bits shares addresses with the application, and the other one does not.
    for (queue, expected) in both.queues.iter().zip(["CL_SUCCESS", "CL_INVALID_OPERATION"]) {
        let (queue, zero) = (queue.raw(), [0_u8; 4].as_ptr().cast());
        let filled = call!(clEnqueueSVMMemFill(queue, memory.cast(), zero, 4, 1024, 0, null(), null_mut()));
        assert_eq!(status(filled), expected);
    }
    both.queues[0].finish()?;
    assert_eq!(numbers, [0; 256]);
    // SAFETY: allocated above.
    unsafe { clSVMFree(both.context.raw(), memory.cast()) };
    Ok(())
}

/// Each has its default queue, and its kernels' children are kernels of its own program.
fn queues_on_each_device() -> Outcome {
    let both = both()?;
    let source = "kernel void parent(global uint *p) {
        clk_event_t first;
        enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(16), 0, NULL, &first,
                       ^{ p[get_global_id(0)] = sizeof(size_t); });
        enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(16), 1, &first, NULL,
                       ^{ p[get_global_id(0)] += 1; });
        release_event(first);
    }";
    let kernel = Kernel::new(&both.program(source, "-cl-std=CL2.0")?, "parent")?;
    for (number, bytes) in [8, 4].into_iter().enumerate() {
        let _default = Queue::on_device(&both.context, both.devices[number])?;
        let buffer = Buffer::copy_of(&both.context, &[0_u32; 16])?;
        kernel.set_object(0, Some(&buffer))?;
        both.queues[number].launch(&kernel, NdRange::new(&[1], &[1]))?;
        let mut got = [0_u32; 16];
        both.queues[number].read(&buffer, &mut got)?;
        assert_eq!(got, [bytes + 1; 16]);
    }
    Ok(())
}

/// What is too much for one device alone can't be in the memory that it shares with the other.
fn sizes_of_buffers() -> Outcome {
    let both = both()?;
    let [wide, narrow] = both.devices.map(|device| device.info::<u64>(CL_DEVICE_MAX_MEM_ALLOC_SIZE));
    let (wide, narrow) = (wide?, narrow?);
    let make = |bytes: u64| Buffer::new(&both.context, CL_MEM_READ_WRITE, bytes as usize);
    make(narrow)?;
    assert_eq!(status(make(wide + 1)), "CL_INVALID_BUFFER_SIZE");
    if wide > narrow {
        assert_eq!(status(make(narrow + 1)), "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    }
    Ok(())
}
