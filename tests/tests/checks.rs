//! The checked mode: kernels with one known fault each, found at its line, and nothing in the same kernels without it.

use serde_json::Value;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    Buffer, Context, Device, Event, Image, ImageKind, Kernel, NdRange, Object, Program, Queue,
};
use spirula_tests::isolate::{self, ExpectedFailures, Failure, Outcome, Test};
use spirula_tests::{call, create, fixtures, supervise};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Tells a process of a test what to run: the `mended` kernels, all or those of a kind that is named behind a hyphen, or those with
/// faults of these kinds, separated by commas.
const RUN: &str = "SPIRULA_CHECKS_TEST_RUN";

fn main() -> ExitCode {
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 5] = [
        ("faults_are_found_at_their_lines_in_the_baseline", || all("baseline", "")),
        ("faults_are_found_at_their_lines_in_optimized_code", || all("optimized", "")),
        ("faults_are_found_at_their_lines_in_packs", || all("optimized", "8")),
        ("what_is_born_infinite_is_found_on_request", born),
        ("what_nobody_asks_for_is_not_looked_for", unasked),
    ];
    let tests = tests.map(|(name, body)| Test { limit: Duration::from_secs(900), ..Test::new(name, body) });
    let here = [
        Test { variables: vec![("SPIRULA_CHECK", "memory")], ..Test::new("shared_memory", shared_memory) },
        Test {
            variables: vec![("SPIRULA_CHECK", "memory"), ("SPIRULA_TIER", "baseline")],
            ..Test::new("texels_that_are_not_there", texels)
        },
        Test {
            variables: vec![("SPIRULA_CHECK", "memory"), ("SPIRULA_TIER", "optimized")],
            ..Test::new("texels_that_are_not_there_in_optimized_code", texels)
        },
        Test {
            variables: vec![("SPIRULA_CHECK", "uninitialized")],
            ..Test::new("written_by_commands", written_by_commands)
        },
        Test {
            variables: vec![("SPIRULA_CHECK", "all"), ("SPIRULA_ISOLATE", "1")],
            ..Test::new("not_in_the_isolated_mode", || refused("unset SPIRULA_ISOLATE"))
        },
        Test {
            variables: vec![("SPIRULA_CHECK", "all"), isolate::DEVICE_OF_32_BITS],
            ..Test::new("not_on_a_device_of_32_bits", || refused("have SPIRULA_DEVICES name cpu64"))
        },
    ];
    isolate::main(tests.into_iter().chain(here).collect(), ExpectedFailures::default())
}

/// A program each.
const FILES: [&str; 2] = ["checks/kernels.cl", "checks/blocks.cl"];

fn source(file: &str) -> String {
    String::from_utf8_lossy(&fixtures::load(file)).into_owned()
}

/// The kernels' names, and the lines of their faults.
fn faults() -> BTreeMap<String, u64> {
    FILES.into_iter().flat_map(faults_of).collect()
}

fn faults_of(file: &str) -> BTreeMap<String, u64> {
    let (mut faults, mut line_of_function) = (BTreeMap::new(), None);
    let mut kernel = None;
    for (number, line) in (1..).zip(source(file).lines().map(str::to_owned).collect::<Vec<_>>()) {
        if let Some(name) = line.strip_prefix("KERNEL(") {
            kernel = Some(name.split(')').next().unwrap_or("").to_owned());
            // Whose function stands in front of it.
            if let Some(at) = line_of_function.take() {
                faults.extend(kernel.take().map(|kernel| (kernel, at)));
            }
        } else if line.contains("BAD(") && !line.starts_with('#') && !line.starts_with("//") {
            match kernel.take() {
                Some(kernel) => drop(faults.insert(kernel, number)),
                None => line_of_function = Some(number),
            }
        }
    }
    faults
}

/// Runs all kernels, and says which commands failed.
fn run(which: &str) -> Outcome {
    let mended = which.starts_with("mended");
    let which = which.strip_prefix("mended").map_or(which, |rest| rest.trim_start_matches('-'));
    let device = Device::first();
    if device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    // Some 30 kernels can wait in it.
    let properties = [CL_QUEUE_PROPERTIES.into(), ON_DEVICE_BY_DEFAULT, CL_QUEUE_SIZE.into(), 8 << 10, 0_u64];
    let _on_device = Queue::from_raw(create!(clCreateCommandQueueWithProperties(
        context.raw(),
        device.raw(),
        properties.as_ptr()
    ))?);
    let options = if mended { "-cl-std=CL2.0 -DMENDED" } else { "-cl-std=CL2.0" };
    let wanted = |name: &&String| which.split(',').any(|kind| name.starts_with(kind));
    for file in FILES {
        let program = Program::from_source(&context, &source(file))?;
        program.build(options).inspect_err(|_| eprintln!("{}", program.log(device).unwrap_or_default()))?;
        run_all(&context, &queue, &program, faults_of(file).keys().filter(wanted))?;
    }
    Ok(())
}

const ON_DEVICE_BY_DEFAULT: u64 =
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_ON_DEVICE | CL_QUEUE_ON_DEVICE_DEFAULT;

fn run_all<'a>(
    context: &Context,
    queue: &Queue,
    program: &Program,
    names: impl Iterator<Item = &'a String>,
) -> Outcome {
    let numbers: Vec<i32> = (0..64).collect();
    for name in names {
        let kernel = Kernel::new(program, name)?;
        let out = Buffer::copy_of(context, &[0_i32; 64])?;
        let input = Buffer::new(context, CL_MEM_READ_ONLY, 256)?;
        queue.write(&input, &numbers)?;
        let whole = Buffer::copy_of(context, &[0_i32; 192])?;
        let part = whole.sub_buffer(CL_MEM_READ_WRITE, 256, 128)?;
        let objects: [(u32, &dyn Object); 4] = [(0, &out), (1, &input), (2, &part), (4, &input)];
        let fresh = Buffer::new(context, CL_MEM_READ_WRITE, 256)?;
        kernel.set_object(6, Some(&fresh))?;
        for (index, object) in objects {
            kernel.set_object(index, Some(object))?;
        }
        kernel.set_local(3, 64)?;
        kernel.set(5, 64_i32)?;
        let launched = queue.launch(&kernel, NdRange::new(&[64], &[16]));
        let ended = launched.and_then(|_| queue.finish());
        println!("{name} {}", if ended.is_ok() { "ended" } else { "failed" });
        // What may not be written was not.
        let mut kept = [0_i32; 64];
        queue.read(&input, &mut kept)?;
        assert_eq!(kept[..], numbers[..], "{name}");
    }
    Ok(())
}

/// What is found in a process of its own.
fn found(which: &str, settings: &[(&str, &str)], report: &Path) -> Result<Vec<Value>, Failure> {
    let _ = fs::remove_file(report);
    let mut command = Command::new(std::env::current_exe()?);
    command.env(RUN, which).env("SPIRULA_CHECK_REPORT", report);
    command.envs(settings.iter().copied());
    let done = supervise::run(&mut command, Duration::from_secs(250))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if !done.status.is_some_and(|status| status.success()) {
        return Err(format!("{settings:?}: {:?}\n{said}", done.status).into());
    }
    let lines = fs::read_to_string(report).unwrap_or_default();
    let list: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for finding in &list {
        let message = finding["message"].as_str().ok_or("no message")?;
        assert!(said.contains(message), "it is told on standard error, too: {message}\n{said}");
    }
    Ok(list)
}

/// The body of a test: its processes come back here, and do what they are to do.
fn with_runs(test: impl FnOnce(&Path) -> Outcome) -> Outcome {
    match std::env::var(RUN).as_deref() {
        Ok(which) => run(which),
        Err(_) => test(&tempfile::tempdir()?.path().join("report")),
    }
}

fn all(tier: &str, width: &str) -> Outcome {
    with_runs(|report| {
        let settings = [("SPIRULA_CHECK", "all"), ("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", width)];
        let mut expected = faults();
        expected.retain(|name, _| !name.starts_with("nan"));
        assert!(expected.len() > 130);
        let list = found("memory,arithmetic,barrier,race,uninitialized", &settings, report)?;
        let kind = |kernel: &str| kernel.split('_').next().unwrap_or("").to_owned();
        let mut wrong = misplaced(&list, &expected, kind);
        let mended = found("mended", &settings, report)?;
        wrong.extend(mended.iter().map(|finding| format!("mended: {finding}")));
        assert!(wrong.is_empty(), "{tier}:\n{}", wrong.join("\n"));
        Ok(())
    })
}

/// The findings that are not those that are expected, in their kernels' lines and of their kinds.
fn misplaced(list: &[Value], expected: &BTreeMap<String, u64>, kind: impl Fn(&str) -> String) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for finding in list {
        let text = |name: &str| finding[name].as_str().unwrap_or("");
        assert_eq!(text("file"), "source.cl", "{finding}");
        let place = (text("kind"), finding["line"].as_u64().unwrap_or(0));
        // A block's name begins with that of what it stands in.
        let kernel = text("kernel").split("_block_invoke").next().unwrap_or("").trim_start_matches('_');
        places.entry(kernel).or_default().push(place);
    }
    let mut wrong = Vec::new();
    for (kernel, line) in expected {
        let found = places.remove(kernel.as_str()).unwrap_or_default();
        if found != [(kind(kernel).as_str(), *line)] {
            wrong.push(format!("{kernel}, in line {line}: {found:?}"));
        }
    }
    wrong.extend(places.iter().map(|place| format!("{place:?}")));
    wrong
}

fn born() -> Outcome {
    with_runs(|report| {
        let mut expected = faults();
        expected.retain(|name, _| name.starts_with("nan"));
        for tier in ["baseline", "optimized"] {
            let settings = [("SPIRULA_CHECK", "nan"), ("SPIRULA_TIER", tier)];
            let wrong = misplaced(&found("nan", &settings, report)?, &expected, |_| "arithmetic".into());
            assert!(wrong.is_empty(), "{tier}:\n{}", wrong.join("\n"));
            let mended = found("mended-nan", &settings, report)?;
            assert!(mended.is_empty(), "{tier}: {mended:?}");
        }
        Ok(())
    })
}

fn unasked() -> Outcome {
    with_runs(|report| {
        for (asked, finds) in [("memory", false), ("arithmetic,barriers", true), ("", false)] {
            let found =
                found("arithmetic", &[("SPIRULA_CHECK", asked), ("SPIRULA_TIER", "baseline")], report)?;
            assert_eq!(!found.is_empty(), finds, "{asked}: {found:?}");
        }
        Ok(())
    })
}

/// The first fills some ints, the second one writes to an address that it finds in memory, the third one says an address.
const SHARED: &str =
    "kernel void fill(global int *p, int from, int to) { for (int i = from; i < to; i++) p[i] = 1; }
kernel void through(global ulong *at) { *(global int *)at[0] = 1; }
kernel void show(global int *p, global ulong *at) { at[0] = (ulong)p; }";

/// What the context was told.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

extern "C" fn tell(message: *const c_char, _: *const c_void, _: usize, _: *mut c_void) {
    // SAFETY: a C string, as clCreateContext says.
    let message = unsafe { CStr::from_ptr(message) };
    TOLD.lock().unwrap().push(message.to_string_lossy().into_owned());
}

/// Waits until something is told with these words: that may come after the event's end.
fn told(words: &str) {
    let start = Instant::now();
    while !TOLD.lock().unwrap().iter().any(|message| message.contains(words)) {
        assert!(start.elapsed() < Duration::from_secs(50), "nobody is told {words}: {:?}", TOLD.lock());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one work-item, and says whether the command succeeds.
fn ends_well(queue: &Queue, kernel: &Kernel) -> Result<bool, Failure> {
    let (queue, kernel, one, mut event) = (queue.raw(), kernel.raw(), 1_usize, null_mut());
    call!(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &one, &one, 0, null(), &mut event))?;
    let event = Event::from_raw(event);
    let _ = event.wait();
    Ok(event.info::<i32>(CL_EVENT_COMMAND_EXECUTION_STATUS)? >= 0)
}

/// What commands write to a buffer that was made without contents may be used, and no more than that.
fn written_by_commands() -> Outcome {
    let device = Device::first();
    if device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_source(
        &context,
        "kernel void copy(global int *to, global const int *from, int begin, int end) {
             for (int i = begin; i < end; i++) to[i] = from[i];
         }",
    )?;
    program.build("")?;
    let kernel = Kernel::new(&program, "copy")?;
    let [to, fresh, never] = [(); 3].map(|()| Buffer::new(&context, CL_MEM_READ_WRITE, 64));
    let (to, fresh, never) = (to?, fresh?, never?);
    let known = Buffer::copy_of(&context, &[1_i32; 16])?;
    kernel.set_object(0, Some(&to))?;
    kernel.set_object(1, Some(&fresh))?;
    let is_known = |begin: i32, end: i32| -> Result<bool, Failure> {
        kernel.set(2, begin)?;
        kernel.set(3, end)?;
        ends_well(&queue, &kernel)
    };
    let (q, b, w, n) = (queue.raw(), fresh.raw(), null(), null_mut());
    let numbers = [7_i32; 4];
    let place = numbers.as_ptr().cast::<c_void>();
    assert!(!is_known(0, 1)?);
    call!(clEnqueueFillBuffer(q, b, place, 4, 0, 16, 0, w, n))?;
    assert!(is_known(0, 4)? && !is_known(0, 5)?);
    call!(clEnqueueWriteBuffer(q, b, CL_TRUE, 16, 16, place, 0, w, n))?;
    assert!(is_known(0, 8)? && !is_known(4, 9)?);
    let mapped = create!(clEnqueueMapBuffer(q, b, CL_TRUE, CL_MAP_WRITE, 32, 16, 0, w, n))?;
    call!(clEnqueueUnmapMemObject(q, b, mapped, 0, w, n))?;
    assert!(is_known(0, 12)? && !is_known(11, 13)?);
    call!(clEnqueueCopyBuffer(q, known.raw(), b, 0, 48, 16, 0, w, n))?;
    assert!(is_known(0, 16)?);
    // What nobody wrote stays so when it is copied.
    call!(clEnqueueCopyBuffer(q, never.raw(), b, 0, 16, 16, 0, w, n))?;
    assert!(is_known(0, 4)? && !is_known(4, 5)? && is_known(8, 16)?);
    // What a kernel wrote may be read.
    kernel.set_object(0, Some(&fresh))?;
    kernel.set_object(1, Some(&known))?;
    assert!(is_known(4, 8)?);
    kernel.set_object(0, Some(&to))?;
    kernel.set_object(1, Some(&fresh))?;
    assert!(is_known(0, 16)?);
    Ok(queue.finish()?)
}

fn shared_memory() -> Outcome {
    let device = Device::first();
    if device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let raw = device.raw();
    let context = Context::from_raw(create!(clCreateContext(null(), 1, &raw, Some(tell), null_mut()))?);
    let queue = Queue::new(&context, device)?;
    let program = Program::from_source(&context, SHARED)?;
    program.build("")?;
    // SAFETY: the context lives.
    let memory = unsafe { clSVMAlloc(context.raw(), 0, 256, 0) };
    assert!(!memory.is_null());
    let is_right = |kernel: &Kernel| ends_well(&queue, kernel);
    let kernel = Kernel::new(&program, "fill")?;
    let ranges = [(0, 0, 64, true), (128, -32, 32, true), (0, 0, 65, false), (128, -33, 1, false)];
    for (start, from, to, right) in ranges {
        let pointer = memory.cast::<u8>().wrapping_add(start).cast::<c_void>();
        call!(clSetKernelArgSVMPointer(kernel.raw(), 0, pointer))?;
        kernel.set(1, from)?;
        kernel.set(2, to)?;
        assert_eq!(is_right(&kernel)?, right, "{start} {from} {to}");
    }
    told("kernel fill, source.cl:1:");
    let kernel = Kernel::new(&program, "through")?;
    let through = |address: u64| -> Result<bool, Failure> {
        let buffer = Buffer::copy_of(&context, &[address])?;
        kernel.set_object(0, Some(&buffer))?;
        is_right(&kernel)
    };
    let address = memory as u64;
    assert!(through(address)? && through(address + 252)?);
    assert!(!through(address + 253)? && !through(address + 256)? && !through(0)?);
    // A buffer whose address is still known.
    let buffer = Buffer::copy_of(&context, &[0_i32; 4])?;
    let shown = Buffer::new(&context, CL_MEM_READ_WRITE, 8)?;
    let show = Kernel::new(&program, "show")?;
    show.set_object(0, Some(&buffer))?;
    show.set_object(1, Some(&shown))?;
    assert!(is_right(&show)?);
    let mut address_of_buffer = [0_u64];
    queue.read(&shown, &mut address_of_buffer)?;
    drop((show, buffer));
    assert!(!through(address_of_buffer[0])?);
    // SAFETY: no command uses it any more.
    unsafe { clSVMFree(context.raw(), memory) };
    assert!(!through(address)?);
    told("was released");
    Ok(())
}

/// Reads and writes of the texel at `at`, in an image of 4 x 3 and a row of 4: with samplers that say what is outside, and without.
const TEXELS: &str = "constant sampler_t edge = CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST, none = CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
constant sampler_t mean = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_NONE | CLK_FILTER_LINEAR;
kernel void edge_read(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(a, edge, at.xy).x; }
kernel void none_read(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(a, none, at.xy).x; }
kernel void plain_read(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(a, at.xy).x; }
kernel void row_read(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(b, at.x).x; }
kernel void plain_write(write_only image2d_t a, write_only image1d_t b, int4 at, global float *o) { write_imagef(a, at.xy, (float4)(1)); }
kernel void edge_near(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(a, edge, convert_float2(at.xy)).x; }
kernel void none_near(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(a, none, convert_float2(at.xy) + 0.9f).x; }
kernel void none_mean(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(a, mean, (convert_float2(at.xy) + 0.1f) / (float2)(4, 3)).x; }
kernel void row_near(read_only image2d_t a, read_only image1d_t b, int4 at, global float *o) { o[0] = read_imagef(b, none, (float)at.x).x; }
kernel void row_write(write_only image2d_t a, write_only image1d_t b, int4 at, global float *o) { write_imagef(b, at.x, (float4)(1)); }";

fn texels() -> Outcome {
    let device = Device::first();
    if device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let raw = device.raw();
    let context = Context::from_raw(create!(clCreateContext(null(), 1, &raw, Some(tell), null_mut()))?);
    let queue = Queue::new(&context, device)?;
    let program = Program::from_source(&context, TEXELS)?;
    program
        .build("-cl-std=CL2.0")
        .inspect_err(|_| eprintln!("{}", program.log(device).unwrap_or_default()))?;
    let out = Buffer::copy_of(&context, &[0_f32])?;
    // For each kernel whether it may access a texel beside the image, one below it, and one of its last column and row.
    for (name, beside, below) in [
        ("edge_read", true, true),
        ("none_read", false, false),
        ("plain_read", false, false),
        ("row_read", false, true),
        ("edge_near", true, true),
        ("none_near", false, false),
        // It takes texels beside the image for a place on its edge as well, which is right.
        ("none_mean", false, false),
        ("row_near", false, true),
        ("plain_write", false, false),
        ("row_write", false, true),
    ] {
        for format in [(CL_RGBA, CL_FLOAT), (CL_RGBA, CL_SNORM_INT16)] {
            let flat = Image::new(&context, ImageKind::D2, format, [4, 3, 1], 1, None)?;
            let row = Image::new(&context, ImageKind::D1, format, [4, 1, 1], 1, None)?;
            let kernel = Kernel::new(&program, name)?;
            kernel.set_object(0, Some(&flat))?;
            kernel.set_object(1, Some(&row))?;
            kernel.set_object(3, Some(&out))?;
            for (at, is_right) in [([3, 2], true), ([4, 0], beside), ([-1, 1], beside), ([0, 3], below)] {
                kernel.set(2, [at[0], at[1], 0, 0])?;
                assert_eq!(ends_well(&queue, &kernel)?, is_right, "{name} {format:?} {at:?}");
            }
        }
    }
    told("kernel plain_write, source.cl:7:");
    told("writes the texel at (4, 0, 0) of argument 0, `a`, which has 4 x 3 x 1");
    told("reads the texel at (-1, 0, 0) of argument 1, `b`, which has 4 x 1 x 1");
    Ok(())
}

/// Whoever can't be checked is told what to do, on standard error and through the callback.
fn refused(words: &str) -> Outcome {
    let raw = Device::first().raw();
    let context = create!(clCreateContext(null(), 1, &raw, Some(tell), null_mut()));
    assert!(context.is_err());
    told(words);
    Ok(())
}
