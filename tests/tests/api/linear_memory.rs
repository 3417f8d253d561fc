//! The device of 32 bits: what it takes and refuses, and that its kernels can't leave their context's memory.

use crate::faults::{Machine, launch, machine_of, told};
use crate::setup::{Setup, again_with, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    Buffer, Context, Device, Image, ImageKind, Kernel, NdRange, Object, Platform, Program, Queue, SPIR12,
};
use spirula_tests::isolate::{Failure, Outcome, Test};
use spirula_tests::{call, create, fixtures};
use std::ffi::c_void;
use std::fs;
use std::ptr::{null, null_mut};

/// This module's tests; those of the device itself in the isolated mode, too.
pub fn on_the_device() -> Vec<Test> {
    let is_of_several = |name: &str| name.ends_with("_by_default") || name.ends_with("_on_both");
    let (others, own): (Vec<Test>, Vec<Test>) =
        tests().into_iter().partition(|test| is_of_several(&test.name));
    let own: Vec<Test> = own.iter().map(Test::on_32_bits).collect();
    let isolated: Vec<Test> = own.iter().map(Test::isolated).collect();
    [others, own, isolated].into_iter().flatten().collect()
}

tests![
    what_the_device_says,
    modules_of_64_bits_are_refused,
    no_kernel_leaves_its_memory,
    forged_descriptors_lead_nowhere,
    memory_comes_back,
    memory_of_the_application_is_copied,
    shared_virtual_memory,
    what_is_not_there_is_refused_by_name,
    there_is_none_by_default,
    devices_on_both,
];

const SOURCE: &str = "
typedef struct { int a[64]; } large;
constant int table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
kernel void good(global int *p) {
    p[get_global_id(0)] += 1;
}
kernel void wild(global int *p, local int *l, uint op, uint a, int b, uint c) {
    private int mine[32];
    for (int i = 0; i < 32; i++) mine[i] = i;
    int id = get_global_id(0);
    switch (op) {
    case 0: *(global int *)(a + id * 4) = b; break;
    case 1: p[b] = id; break;
    case 2: p[(int)(a * id)] += b; break;
    case 3: l[b + id] = id; p[id] = l[b]; break;
    case 4: mine[b & 0x3fffffff] = id; p[id] = mine[c & 31]; break;
    case 5: p[id] = table[b]; break;
    case 6: vstore16((int16)(b), a, p); break;
    case 7: *(global large *)(a + id) = *(global large *)c; break;
    case 8: atomic_add((volatile global int *)(a & ~3u), b); break;
    case 9: { int at = ((global int *)c)[id]; p[at] = b; } break;
    case 10: for (uint i = 0; i < (c & 0xfffffff); i++) ((global char *)a)[i] = (char)b; break;
    case 11: { global int *q = p; for (uint i = 0; i < 64; i++) { *q = b; q += a; } } break;
    case 12: { global long *q = (global long *)(size_t)((ulong)a << 3 | 1); q[id] = b; } break;
    case 13: p[id] = ((constant int *)a)[b]; break;
    case 14: vstore4((float4)(1.0f), b, (global float *)p); break;
    case 15: ((volatile global ulong *)p)[b] = c; break;
    case 16: { local int *q = (local int *)a; q[id] = b; } break;
    case 17: { int i = id; while (i < b) { p[i * 4097] = i; i += 1 + (int)(c & 1023); } } break;
    case 18: ((global int *)p)[-(int)(c & 0x7ffffff)] = b; break;
    default: { private int *q = (private int *)a; q[b] = id; } break;
    }
}
kernel void images(read_only image2d_t in, write_only image2d_t out, uint seed) {
    write_imagei(out, (int2)(get_global_id(0), seed & 63), read_imagei(in, (int2)(seed, get_global_id(0))));
}
kernel void scribble(uint from, uint words, uint seed) {
    for (uint i = 0; i < words; i++) {
        seed = seed * 1664525u + 1013904223u;
        *(volatile global uint *)(from + 4 * i) = seed >> (seed & 15);
    }
}";

fn machine() -> Result<Machine, Failure> {
    machine_of(SOURCE, "")
}

fn what_the_device_says() -> Outcome {
    let device = Device::first();
    assert_eq!(device.info::<u32>(CL_DEVICE_ADDRESS_BITS)?, 32);
    assert!(device.info::<u64>(CL_DEVICE_GLOBAL_MEM_SIZE)? < 1 << 32);
    let svm = device.info::<u64>(CL_DEVICE_SVM_CAPABILITIES)?;
    assert_eq!(svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, 0);
    Ok(())
}

fn modules_of_64_bits_are_refused() -> Outcome {
    let setup = Setup::new();
    let program = setup.load("spir12/vadd.bc64")?;
    assert_eq!(status(program.build(SPIR12)), "CL_INVALID_BINARY");
    let log = program.log(setup.device)?;
    let words = "a 64-bit module (triple spir64-unknown-unknown) on a 32-bit device";
    assert!(log.contains(words), "{log}");
    setup.load("spir12/vadd.bc32")?.build(SPIR12)?;
    Ok(())
}

fn there_is_none_by_default() -> Outcome {
    let setup = Setup::new();
    assert_eq!(setup.device.info::<u32>(CL_DEVICE_ADDRESS_BITS)?, 64);
    let program = setup.load("spir12/vadd.bc32")?;
    assert_eq!(status(program.build(SPIR12)), "CL_INVALID_BINARY");
    let log = program.log(setup.device)?;
    assert!(log.contains("a 32-bit module (triple spir-unknown-unknown) on a 64-bit device"), "{log}");
    Ok(())
}

fn devices_on_both() -> Outcome {
    if std::env::var_os("SPIRULA_DEVICES").is_none() {
        again_with("linear_memory::devices_on_both", &[("SPIRULA_DEVICES", "cpu64,cpu32")]);
        return Ok(());
    }
    let platforms = Platform::all()?;
    let devices = platforms[0].devices()?;
    let bits: Vec<u32> =
        devices.iter().map(|device| device.info(CL_DEVICE_ADDRESS_BITS)).collect::<Result<_, _>>()?;
    assert_eq!(bits, [64, 32]);
    for (&device, file) in devices.iter().zip(["spir12/vadd.bc64", "spir12/vadd.bc32"]) {
        let context = Context::new(device)?;
        Program::from_binary(&context, device, &fixtures::load(file))?.build(SPIR12)?;
    }
    let mut count = 0;
    call!(clGetDeviceIDs(platforms[0].raw(), CL_DEVICE_TYPE_DEFAULT, 0, null_mut(), &mut count))?;
    assert_eq!(count, 1);
    let whole = create!(clCreateContextFromType(null(), CL_DEVICE_TYPE_CPU, None, null_mut()))?;
    assert_eq!(Context::from_raw(whole).info::<u32>(CL_CONTEXT_NUM_DEVICES)?, 1);
    let raw = [devices[0].raw(), devices[1].raw()];
    let both = create!(clCreateContext(null(), 2, raw.as_ptr(), None, null_mut()));
    assert_eq!(status(both), "CL_INVALID_DEVICE");
    Ok(())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Numbers of every size, with those at ends more often than others.
    fn word(&mut self) -> u32 {
        let ends = [0, 1, 4, 0xfff, 0x1_0000, 0x7fff_fffc, 0x8000_0000, 0xffff_fffc, u32::MAX];
        match self.next() % 3 {
            0 => ends[(self.next() % 9) as usize].wrapping_add((self.next() % 64) as u32),
            1 => (self.next() as u32) >> (self.next() % 32),
            _ => self.next() as u32,
        }
    }
}

/// Where the linear memories of this process are, as it has them mapped.
fn linear_memories() -> Vec<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").expect("the system says what is mapped");
    let lines = maps.lines().filter(|line| line.contains("spirula-linear"));
    let ends = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    };
    lines.filter_map(ends).collect()
}

/// Pages right behind what is reserved on either side, filled with a pattern.
struct Canary(*mut u8);

const CANARY: usize = 1 << 20;

impl Drop for Canary {
    fn drop(&mut self) {
        // SAFETY: mapped when this was made, and of no use to anybody else.
        unsafe { libc::munmap(self.0.cast(), CANARY) };
    }
}

impl Canary {
    /// At the first free place from there on, or down from there.
    fn near(address: usize, up: bool) -> Canary {
        const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        for step in 0..200_usize {
            let at = if up { address + (step << 30) } else { address - (step << 30) - CANARY };
            // SAFETY: nothing that is mapped is replaced.
            let page = unsafe {
                libc::mmap(at as *mut c_void, CANARY, libc::PROT_READ | libc::PROT_WRITE, FLAGS, -1, 0)
            };
            if page as usize == at {
                // SAFETY: mapped just now.
                unsafe { page.cast::<u8>().write_bytes(0x5a, CANARY) };
                return Canary(page.cast());
            }
        }
        panic!("there is no place for a canary");
    }

    fn is_well(&self) -> bool {
        // SAFETY: mapped while this lives.
        unsafe { std::slice::from_raw_parts(self.0, CANARY) }.iter().all(|&byte| byte == 0x5a)
    }
}

/// Before and behind each linear memory of this process.
fn canaries() -> Vec<Canary> {
    let memories = linear_memories();
    assert!(!memories.is_empty(), "a context has linear memory");
    let both =
        |&(start, end): &(usize, usize)| [Canary::near(start & !0xffff_ffff, false), Canary::near(end, true)];
    memories.iter().flat_map(both).collect()
}

fn no_kernel_leaves_its_memory() -> Outcome {
    let trials: u64 = std::env::var("SPIRULA_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let heap = vec![0x5a_u8; 64 << 20];
    let machine = machine()?;
    let canaries = canaries();
    let kernel = Kernel::new(&machine.program, "wild")?;
    let mut random = Random(trials);
    let mut ended = 0;
    for trial in 0..trials {
        let buffer = Buffer::copy_of(&machine.context, &[7_i32; 1024])?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set_local(1, 256)?;
        let (op, a, b, c) = (random.next() as u32 % 20, random.word(), random.word(), random.word());
        kernel.set(2, op)?;
        kernel.set(3, a)?;
        kernel.set(4, b as i32)?;
        kernel.set(5, c)?;
        let (items, group) = [(1, 1), (16, 16), (256, 64)][(random.next() % 3) as usize];
        let event = launch(&machine.queues[0], &kernel, items, group)?;
        let raw = event.raw();
        match call!(clWaitForEvents(1, &raw)) {
            Ok(()) => ended += 1,
            Err(_) => {
                assert_eq!(event.info::<i32>(CL_EVENT_COMMAND_EXECUTION_STATUS)?, CL_OUT_OF_RESOURCES);
                told("wild");
            }
        }
        if trial % 64 == 0 {
            assert!(canaries.iter().all(Canary::is_well), "{op} {a:#x} {b:#x} {c:#x}");
        }
    }
    assert!(ended > trials / 10 && ended < trials, "{ended} of {trials} ended well");
    assert!(canaries.iter().all(Canary::is_well));
    assert!(heap.iter().all(|&byte| byte == 0x5a));
    drop(machine);
    self::machine()?.works()
}

/// All that a context has made is written over, what describes images among it.
fn forged_descriptors_lead_nowhere() -> Outcome {
    let heap = vec![0x5a_u8; 16 << 20];
    for seed in 1_u32..=8 {
        let machine = machine()?;
        let canaries = canaries();
        let format = (CL_RGBA, CL_SIGNED_INT32);
        let image = || Image::new(&machine.context, ImageKind::D2, format, [64, 64, 1], 1, None);
        let (input, output) = (image()?, image()?);
        let (scribble, images) =
            (Kernel::new(&machine.program, "scribble")?, Kernel::new(&machine.program, "images")?);
        images.set_object(0, Some(&input))?;
        images.set_object(1, Some(&output))?;
        images.set(2, seed)?;
        scribble.set(0, 0x1_0000_u32)?;
        scribble.set(1, 1_u32 << 20)?;
        scribble.set(2, seed.wrapping_mul(0x9e37_79b9))?;
        for kernel in [&images, &scribble, &images] {
            let event = launch(&machine.queues[0], kernel, 64, 16)?;
            let raw = event.raw();
            // Whether it ends well is the kernel's own business.
            let _ = call!(clWaitForEvents(1, &raw));
            assert!(canaries.iter().all(Canary::is_well), "{seed}");
        }
    }
    assert!(heap.iter().all(|&byte| byte == 0x5a));
    machine()?.works()
}

/// So much more than 4 GiB, by and by.
fn memory_comes_back() -> Outcome {
    let machine = machine()?;
    for round in 0..12 {
        let size = (512 << 20) - 4096 * round;
        let mut buffers = Vec::new();
        for _ in 0..3 {
            let flags = CL_MEM_READ_WRITE;
            let raw = create!(clCreateBuffer(machine.context.raw(), flags, size, null_mut()))?;
            buffers.push(Buffer::from_raw(raw));
        }
        machine.works()?;
    }
    let too_large = create!(clCreateBuffer(machine.context.raw(), CL_MEM_READ_WRITE, 3 << 30, null_mut()));
    assert_eq!(status(too_large), "CL_INVALID_BUFFER_SIZE");
    // Contexts have memories of their own.
    for _ in 0..20 {
        Context::new(Device::first())?;
    }
    assert!(linear_memories().len() <= 2, "{:x?}", linear_memories());
    Ok(())
}

fn memory_of_the_application_is_copied() -> Outcome {
    let machine = machine()?;
    let mut own = vec![7_i32; 4096];
    let (flags, bytes) = (CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, own.len() * 4);
    let raw = create!(clCreateBuffer(machine.context.raw(), flags, bytes, own.as_mut_ptr().cast()))?;
    let buffer = Buffer::from_raw(raw);
    let kernel = Kernel::new(&machine.program, "good")?;
    kernel.set_object(0, Some(&buffer))?;
    machine.queues[0].launch(&kernel, NdRange::new(&[4096], &[64]))?;
    let queue: &Queue = &machine.queues[0];
    let mapped = create!(clEnqueueMapBuffer(
        queue.raw(),
        buffer.raw(),
        CL_TRUE,
        CL_MAP_READ,
        0,
        bytes,
        0,
        null(),
        null_mut()
    ))?;
    assert_eq!(mapped, own.as_mut_ptr().cast());
    assert!(own.iter().all(|&number| number == 8));
    call!(clEnqueueUnmapMemObject(queue.raw(), buffer.raw(), mapped, 0, null(), null_mut()))?;
    Ok(queue.finish()?)
}

fn shared_virtual_memory() -> Outcome {
    let machine = machine()?;
    let (context, queue) = (machine.context.raw(), &machine.queues[0]);
    // SAFETY: a context, and an allocation that is freed below.
    let memory = unsafe { clSVMAlloc(context, CL_MEM_READ_WRITE, 4096, 0) }.cast::<i32>();
    assert!(!memory.is_null());
    // SAFETY: 4096 bytes of this test's own.
    let numbers = unsafe { std::slice::from_raw_parts_mut(memory, 1024) };
    numbers.fill(7);
    let kernel = Kernel::new(&machine.program, "good")?;
    call!(clSetKernelArgSVMPointer(kernel.raw(), 0, memory.cast()))?;
    queue.launch(&kernel, NdRange::new(&[1024], &[64]))?;
    queue.finish()?;
    assert!(numbers.iter().all(|&number| number == 8));
    let own = vec![7_i32; 1024];
    let refused = call!(clSetKernelArgSVMPointer(kernel.raw(), 0, own.as_ptr().cast()));
    assert_eq!(status(refused), "CL_INVALID_ARG_VALUE");
    // SAFETY: allocated above.
    unsafe { clSVMFree(context, memory.cast()) };
    Ok(())
}

fn what_is_not_there_is_refused_by_name() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc32", "copy_uchar");
    let huge = [1_usize << 33];
    let refused = setup.queue.launch(&kernel, NdRange::new(&huge, &[64]));
    assert_eq!(status(refused), "CL_INVALID_GLOBAL_WORK_SIZE");
    assert_eq!(setup.device.info::<u32>(CL_DEVICE_MAX_ON_DEVICE_QUEUES)?, 0);
    assert_eq!(status(Queue::on_device(&setup.context, setup.device)), "CL_INVALID_QUEUE_PROPERTIES");
    let program = setup.load("spir20/enqueue.bc32")?;
    assert_eq!(status(program.build("-x spir -spir-std=2.0")), "CL_BUILD_PROGRAM_FAILURE");
    let log = program.log(setup.device)?;
    assert!(log.contains("`enqueue_kernel` is used, but a device of 32 bits has no queues"), "{log}");
    Ok(())
}
