//! Attempts of kernels to leave the linear memory of the device of 32 bits, by random numbers: at worst their own context's memory is
//! wrong or their command fails. `SPIRULA_TRIALS` says how many there are, `SPIRULA_SEED` with which numbers they begin.

use crate::faults::{Machine, launch, machine_of};
use crate::setup::tests;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Context, Event, Image, ImageKind, Kernel, Object, Queue};
use spirula_tests::isolate::{Failure, Outcome, Test};
use spirula_tests::{call, create};
use std::ffi::c_void;
use std::fs;
use std::time::Duration;

/// This module's tests on that device. Numbers that a kernel's own records are overwritten with may make it run for ever.
pub fn on_the_device() -> Vec<Test> {
    // Up to a tenth of a second for each, where the processor is busy and kernels run in a process of their own.
    let limit = Duration::from_secs(120 + number("SPIRULA_TRIALS").unwrap_or(USUAL_TRIALS) / 8);
    let all = tests().into_iter().map(|test| {
        let variables = [&test.variables[..], &[("SPIRULA_TIMEOUT", "2")]].concat();
        Test { limit, variables, ..test }.on_32_bits()
    });
    let own: Vec<Test> = all.collect();
    let isolated: Vec<Test> = own.iter().map(Test::isolated).collect();
    [own, isolated].into_iter().flatten().collect()
}

/// How many there are if nobody says it.
const USUAL_TRIALS: u64 = 500;

tests![no_kernel_leaves_its_memory, forged_descriptors_lead_nowhere];

const SOURCE: &str = "
typedef struct { int a[64]; } large;
typedef struct { int a[1 << 18]; } block;
typedef struct { char a[0x7ffff000]; int tail; } huge;
constant int table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
global int variable[64];
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
    case 19: { private int *q = (private int *)a; q[b] = id; } break;
    case 20: p[((long)b << 20) + (long)c * id] = a; break;
    case 21: *(global long8 *)(a + 64 * id) = (long8)(b); break;
    case 22: atomic_cmpxchg((volatile global int *)(a & ~3u), b, c); atomic_xchg((volatile local int *)(c & ~3u), b); break;
    case 23: atomic_fetch_add((volatile global atomic_int *)((a & ~3u) + id * 4), b); break;
    case 24: if (id & 1) p[a] = b; else l[b] = c; break;
    case 25: ((global huge *)a)[c & 3].tail = b; p[id] = ((global huge *)p)->a[c]; break;
    case 26: *(global block *)a = *(global block *)c; break;
    case 27: prefetch(p + b, c); p[id & 1023] = (p + b)[0]; break;
    case 28: { int *q = (id & 1) ? (int *)(p + b) : (int *)(l + c); *q = a; } break;
    case 29: { uint8 at = (uint8)(a) + (uint8)(0, 1, 2, 3, 4, 5, 6, 7) * (uint8)(c); p[at.s0] = p[at.s7]; p[at.s3] = p[at.s4]; } break;
    case 30: variable[b] = id; p[id & 1023] = variable[(int)c]; break;
    case 31: { global int *volatile kept[4]; kept[id & 3] = p + b; kept[c & 0xffff] = (global int *)a; *kept[id & 3] = c; } break;
    case 32: ((global short *)a)[b] = (short)c; ((global double *)(a & ~7u))[id] = (double)b; break;
    case 33: vstore_half8((float8)(b), a, (global half *)p); p[id & 1023] = (int)vload_half(b, (global half *)c); break;
    case 34: ((global int *)(ulong)((ulong)a << 32 | c))[(ulong)b << 30] = id; break;
    default: { ulong at = (ulong)p; *(global int *)(size_t)(at + ((ulong)a << 31) + (ulong)(long)b) = id; } break;
    }
}
kernel void images(read_only image2d_t in, write_only image2d_t out, uint seed) {
    write_imagei(out, (int2)(get_global_id(0), seed & 63), read_imagei(in, (int2)(seed, get_global_id(0))));
}
kernel void put(write_only pipe int q, uint n) {
    for (uint i = 0; i < (n & 63); i++) { int x = i; write_pipe(q, &x); }
    reserve_id_t r = reserve_write_pipe(q, n & 15);
    int x = 5;
    if (is_valid_reserve_id(r)) { write_pipe(q, r, n & 15, &x); commit_write_pipe(q, r); }
}
kernel void take(read_only pipe int q, global int *p, uint n) {
    for (uint i = 0; i < (n & 63); i++) { int x = i; if (!read_pipe(q, &x)) p[x & 1023] = i; }
    reserve_id_t r = reserve_read_pipe(q, n & 15);
    int x = 5;
    if (is_valid_reserve_id(r)) { read_pipe(q, r, n & 15, &x); commit_read_pipe(q, r); }
    p[1] = get_pipe_num_packets(q);
}
kernel void scribble(uint from, uint words, uint seed) {
    for (uint i = 0; i < words; i++) {
        seed = seed * 1664525u + 1013904223u;
        *(volatile global uint *)(from + 4 * i) = seed >> (seed & 31);
    }
}
kernel void spawn(global int *p, uint seed, uint from, uint words, uint wild) {
    queue_t q = get_default_queue();
    clk_event_t one, two, forged = *(clk_event_t *)&wild;
    ndrange_t r = ndrange_1D(16, 4);
    int flags = seed & 1 ? CLK_ENQUEUE_FLAGS_NO_WAIT : CLK_ENQUEUE_FLAGS_WAIT_KERNEL;
    for (uint i = 0; i < (seed & 7); i++)
        enqueue_kernel(q, flags, r, ^{ p[get_global_id(0)] += seed; });
    enqueue_kernel(q, flags, r, 0, NULL, &one, ^{ p[get_global_id(0)] = seed; });
    enqueue_kernel(q, flags, r, 1, &one, &two, ^(local void *l) { ((local int *)l)[get_local_id(0)] = seed; }, 64u);
    if (seed & 2) capture_event_profiling_info(two, CLK_PROFILING_COMMAND_EXEC_TIME, (global ulong *)wild);
    if (seed & 4) { retain_event(forged); set_user_event_status(forged, CL_COMPLETE); release_event(forged); }
    if (seed & 8) enqueue_kernel(q, flags, r, seed >> 4 & 3, (clk_event_t *)wild, (clk_event_t *)(wild + 64), ^{ p[0] = 1; });
    for (uint i = 0; i < words; i++) {
        seed = seed * 1664525u + 1013904223u;
        if ((seed >> 8 & 3) == 0) *(volatile global uint *)(from + 4 * i) = seed >> (seed & 31);
    }
    release_event(one);
    release_event(two);
}";

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Where a context's objects begin, or not much behind.
    fn place(&mut self) -> u32 {
        0x1_0000 + 4 * (self.next() as u32 % (3 << 19))
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
pub fn linear_memories() -> Vec<(usize, usize)> {
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// One to read and one to write.
fn images_of(context: &Context) -> Result<[Image; 2], Failure> {
    let format = (CL_RGBA, CL_SIGNED_INT32);
    let image = || Image::new(context, ImageKind::D2, format, [64, 64, 1], 1, None);
    Ok([image()?, image()?])
}

/// What trials are made with; what a kernel overwrites of it stays as it is.
struct Trials {
    machine: Machine,
    _on_device: Queue,
    images: [Image; 2],
    pipe: Buffer,
}

impl Trials {
    fn new() -> Result<Trials, Failure> {
        const DEFAULT: u64 = CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | 1 << 3;
        const SIZE: u64 = 0x1094;
        let machine = machine_of(SOURCE, "-cl-std=CL2.0")?;
        let (context, list) = (&machine.context, [CL_QUEUE_PROPERTIES.into(), DEFAULT, SIZE, 64 << 10, 0]);
        let device = cl::Device::first().raw();
        let on_device = create!(clCreateCommandQueueWithProperties(context.raw(), device, list.as_ptr()))?;
        let (images, pipe) = (images_of(context)?, Buffer::pipe(context, 4, 64)?);
        Ok(Trials { _on_device: Queue::from_raw(on_device), images, pipe, machine })
    }

    /// A kernel with a buffer and some numbers as its arguments, as far as it takes them.
    fn launch(
        &self,
        name: &str,
        objects: &[&dyn Object],
        numbers: &[u32],
        items: usize,
    ) -> Result<Event, Failure> {
        let kernel = Kernel::new(&self.machine.program, name)?;
        for (index, &object) in (0..).zip(objects) {
            kernel.set_object(index, Some(object))?;
        }
        for (index, &number) in (objects.len() as u32..).zip(numbers) {
            kernel.set(index, number)?;
        }
        launch(&self.machine.queues[0], &kernel, items, items.min(16))
    }

    /// Random words somewhere in what the context has made.
    fn scribble(&self, random: &mut Random) -> Result<Event, Failure> {
        self.launch("scribble", &[], &[random.place(), 1 << (random.next() % 16), random.next() as u32], 1)
    }

    /// One trial: what was launched.
    fn attempt(&self, random: &mut Random) -> Result<Vec<Event>, Failure> {
        let buffer = Buffer::copy_of(&self.machine.context, &[7_i32; 1024])?;
        let [input, output] = &self.images;
        Ok(match random.next() % 20 {
            0 => {
                let numbers = [random.word()];
                vec![self.scribble(random)?, self.launch("images", &[input, output], &numbers, 64)?]
            }
            1 => {
                let numbers = [random.word()];
                vec![
                    self.launch("put", &[&self.pipe], &numbers, 16)?,
                    self.scribble(random)?,
                    self.launch("put", &[&self.pipe], &numbers, 16)?,
                    self.launch("take", &[&self.pipe, &buffer], &numbers, 16)?,
                ]
            }
            2 | 3 => {
                let words = 1 << (random.next() % 16);
                let numbers = [random.next() as u32, random.place(), words, random.word()];
                vec![self.launch("spawn", &[&buffer], &numbers, 1)?]
            }
            _ => {
                let kernel = Kernel::new(&self.machine.program, "wild")?;
                kernel.set_object(0, Some(&buffer))?;
                kernel.set_local(1, 256)?;
                kernel.set(2, random.next() as u32 % 36)?;
                kernel.set(3, random.word())?;
                kernel.set(4, random.word() as i32)?;
                kernel.set(5, random.word())?;
                let (items, group) = [(1, 1), (16, 16), (256, 64)][(random.next() % 3) as usize];
                vec![launch(&self.machine.queues[0], &kernel, items, group)?]
            }
        })
    }
}

fn no_kernel_leaves_its_memory() -> Outcome {
    /// Trials with one context.
    const TOGETHER: u64 = 250;
    let count = number("SPIRULA_TRIALS").unwrap_or(USUAL_TRIALS);
    let heap = vec![0x5a_u8; 64 << 20];
    let mut random = Random(number("SPIRULA_SEED").unwrap_or(count));
    let mut ended = 0;
    for first in (0..count).step_by(TOGETHER as usize) {
        let trials = Trials::new()?;
        let canaries = canaries();
        for trial in first..count.min(first + TOGETHER) {
            let start = random.0;
            let mut all_ended = true;
            for event in trials.attempt(&mut random)? {
                let raw = event.raw();
                all_ended &= call!(clWaitForEvents(1, &raw)).is_ok();
                assert!(event.info::<i32>(CL_EVENT_COMMAND_EXECUTION_STATUS)? <= 0);
            }
            ended += u64::from(all_ended);
            if trial % 16 == 0 {
                assert!(canaries.iter().all(Canary::is_well), "SPIRULA_SEED={start}, or shortly before");
            }
        }
        assert!(canaries.iter().all(Canary::is_well), "SPIRULA_SEED={}, or shortly before", random.0);
    }
    println!("{ended} of {count} trials ended well");
    assert!(ended > count / 10 && ended < count, "{ended} of {count} ended well");
    assert!(heap.iter().all(|&byte| byte == 0x5a));
    Trials::new()?.machine.works()
}

/// All that a context has made is written over, what describes images among it.
fn forged_descriptors_lead_nowhere() -> Outcome {
    /// Trials with one context.
    const TOGETHER: u64 = 250;
    let count = number("SPIRULA_TRIALS").unwrap_or(USUAL_TRIALS);
    let heap = vec![0x5a_u8; 16 << 20];
    let mut random = Random(number("SPIRULA_SEED").unwrap_or(count));
    for first in (0..count).step_by(TOGETHER as usize) {
        let mut trials = Trials::new()?;
        let canaries = canaries();
        for trial in first..count.min(first + TOGETHER) {
            let start = random.0;
            // What describes those of before may be anything by now.
            trials.images = images_of(&trials.machine.context)?;
            let [input, output] = &trials.images;
            let number = random.word();
            let (place, words) = match trial % 8 {
                0 => (0x1_0000, 1 << 20),
                _ => (random.place(), 1 << (random.next() % 16)),
            };
            for event in [
                trials.launch("images", &[input, output], &[number], 64)?,
                trials.launch("scribble", &[], &[place, words, random.next() as u32], 1)?,
                trials.launch("images", &[input, output], &[number], 64)?,
            ] {
                let raw = event.raw();
                // Whether it ends well is the kernel's own business.
                let _ = call!(clWaitForEvents(1, &raw));
            }
            if trial % 16 == 0 {
                assert!(canaries.iter().all(Canary::is_well), "SPIRULA_SEED={start}, or shortly before");
            }
        }
        assert!(canaries.iter().all(Canary::is_well), "SPIRULA_SEED={}, or shortly before", random.0);
    }
    assert!(heap.iter().all(|&byte| byte == 0x5a));
    Trials::new()?.machine.works()
}
