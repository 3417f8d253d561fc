//! `spirula bench`: how fast this machine is with Spirula, beside what its hardware can do.

mod hardware;

use crate::arguments::Common;
use crate::client::{Buffer, Context, Device, Kernel, Program, Queue};
use crate::input::{Input, Kind};
use crate::library::Library;
use crate::output::{BAD, DIM, Doing, GOOD, HEADING, NOTE, styled};
use crate::{Result, output};
use opencl_sys::{CL_DEVICE_MAX_COMPUTE_UNITS, CL_DEVICE_NAME};
use serde::Serialize;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// The kernels, as SPIR: `bench/bench.cl`.
const SPIR: &[u8] = include_bytes!("../bench/bench.bc64");
/// Elements of an array: far more than caches hold, three arrays of 128 MiB.
const ELEMENTS: usize = 32 << 20;
/// Work-items that do arithmetic, and their rounds.
const ITEMS: usize = 1 << 16;
const ROUNDS: i32 = 2000;
/// The same in a short launch: enough for many threads.
const SHORT_ITEMS: usize = 1 << 14;
/// Of a round.
const OPERATIONS: f64 = 24.0;
/// Before launches are measured, their kernel's code gets as good as it will be.
const WARM_UP: Duration = Duration::from_millis(1500);
/// Options of builds none of which may take another's code.
const OPTIONS: [&str; 7] = [
    "",
    "-cl-mad-enable",
    "-cl-no-signed-zeros",
    "-cl-finite-math-only",
    "-cl-unsafe-math-optimizations",
    "-cl-fast-relaxed-math",
    "-cl-denorms-are-zero",
];

#[derive(Serialize)]
struct Benched {
    device: String,
    threads: u64,
    measures: Vec<Measure>,
}

#[derive(Serialize)]
struct Measure {
    name: &'static str,
    unit: &'static str,
    spirula: f64,
    /// The same without Spirula, where that can be said.
    hardware: Option<f64>,
    /// What the hardware's number is.
    how: &'static str,
    more_is_better: bool,
}

impl Measure {
    /// How much of what is possible is reached.
    fn share(&self) -> Option<f64> {
        let (this, that) = (self.spirula, self.hardware?);
        Some(if self.more_is_better { this / that } else { that / this })
    }
}

pub fn run(common: &Common, seconds: f64) -> Result<bool> {
    let wanted = Duration::from_secs_f64(seconds);
    // Builds are measured: none may be found.
    let library = Library::load(common, &[("SPIRULA_CACHE_DIR", OsStr::new(""))])?;
    let device = Device::first(&library)?;
    let threads = device.number(CL_DEVICE_MAX_COMPUTE_UNITS)?;
    let context = Context::new(&device)?;
    let mut measures = Vec::new();
    let mut measure = |what: &str, take: &mut dyn FnMut() -> Result<Measure>| -> Result<()> {
        let _doing = Doing::new(what);
        measures.push(take()?);
        Ok(())
    };
    measure("builds", &mut || builds(&device, &context))?;
    let program = build(&device, &context, "")?;
    let queue = Queue::new(&context, &device)?;
    let threads_here = threads as usize;
    measure("launches", &mut || launches(&program, &context, &queue, wanted))?;
    let mut flops = 0.0;
    measure("the processor", &mut || {
        flops = hardware::flops(wanted, threads_here);
        short_launches(&program, &context, &queue, (wanted, flops))
    })?;
    measure("arithmetic", &mut || arithmetic(&program, &context, &queue, (wanted, flops)))?;
    measure("memory", &mut || memory(&program, &context, &queue, (wanted, threads_here)))?;
    let benched = Benched { device: device.string(CL_DEVICE_NAME)?, threads, measures };
    if common.json {
        output::json(&benched)?
    } else {
        output::text(&text(&benched))?
    }
    Ok(true)
}

fn build<'l>(device: &Device<'l>, context: &Context<'l>, options: &str) -> Result<Program<'l>> {
    Program::build(context, device, &[Input { kind: Kind::Spir, bytes: SPIR.to_vec() }], options)
}

/// How long a program takes to be there, in the middle of several.
fn builds(device: &Device, context: &Context) -> Result<Measure> {
    // The first one waits for the compiler to start.
    build(device, context, "-cl-opt-disable")?;
    let mut times = Vec::new();
    for options in OPTIONS {
        let begun = Instant::now();
        build(device, context, options)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(Measure {
        name: "build of 3 kernels",
        unit: "ms",
        spirula: times[times.len() / 2] * 1e3,
        hardware: None,
        how: "",
        more_is_better: false,
    })
}

/// How often something runs in a second, when that goes on for so long; the best of ten parts of it.
fn rate(wanted: Duration, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        run()?;
    }
    let mut best = 0.0_f64;
    for _ in 0..10 {
        let (begun, mut runs) = (Instant::now(), 0.0);
        while runs == 0.0 || begun.elapsed() < wanted / 10 {
            run()?;
            runs += 1.0;
        }
        best = best.max(runs / begun.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn launches(program: &Program, context: &Context, queue: &Queue, wanted: Duration) -> Result<Measure> {
    let (kernel, unused) = (program.kernel("nothing")?, context.buffer(64)?);
    kernel.set_buffer(0, &unused)?;
    let rate = rate(wanted, || {
        queue.launch(&kernel, 1)?;
        Ok(queue.finish()?)
    })?;
    Ok(Measure {
        name: "launch, waited for",
        unit: "µs",
        spirula: 1e6 / rate,
        hardware: None,
        how: "",
        more_is_better: false,
    })
}

/// Seconds of arithmetic in a short launch.
const SHORT: f64 = 100e-6;

/// What is left of the processor's speed where launches are short: all threads begin, end and are waited for each time.
fn short_launches(
    program: &Program,
    context: &Context,
    queue: &Queue,
    (wanted, flops): (Duration, f64),
) -> Result<Measure> {
    let rounds = (flops * SHORT / (SHORT_ITEMS as f64 * OPERATIONS)).max(1.0) as i32;
    let rate = multiply_adds(program, context, queue, (wanted, SHORT_ITEMS, rounds))?;
    Ok(Measure {
        name: "short launch",
        unit: "µs",
        spirula: 1e6 / rate,
        hardware: Some(1e6 * SHORT_ITEMS as f64 * f64::from(rounds) * OPERATIONS / flops),
        how: "its arithmetic alone, in threads that run already",
        more_is_better: false,
    })
}

/// Launches in a second of so many work-items with so many rounds.
fn multiply_adds(
    program: &Program,
    context: &Context,
    queue: &Queue,
    (wanted, items, rounds): (Duration, usize, i32),
) -> Result<f64> {
    let (kernel, result) = (program.kernel("multiply_add")?, context.buffer(items * 4)?);
    kernel.set_buffer(0, &result)?;
    kernel.set_bytes(1, 0.5_f32.to_le_bytes())?;
    kernel.set_bytes(2, 1.0_f32.to_le_bytes())?;
    kernel.set_bytes(3, rounds.to_le_bytes())?;
    rate(wanted, || launch(queue, &kernel, items))
}

fn arithmetic(
    program: &Program,
    context: &Context,
    queue: &Queue,
    (wanted, flops): (Duration, f64),
) -> Result<Measure> {
    let rate = multiply_adds(program, context, queue, (wanted, ITEMS, ROUNDS))?;
    Ok(Measure {
        name: "float arithmetic",
        unit: "Gflop/s",
        spirula: rate * ITEMS as f64 * f64::from(ROUNDS) * OPERATIONS / 1e9,
        hardware: Some(flops / 1e9),
        how: "multiply-adds in the widest registers, in registers alone",
        more_is_better: true,
    })
}

fn memory(
    program: &Program,
    context: &Context,
    queue: &Queue,
    (wanted, threads): (Duration, usize),
) -> Result<Measure> {
    let kernel = program.kernel("triad")?;
    let buffers: Vec<Buffer> = (0..3).map(|_| context.buffer(ELEMENTS * 4)).collect::<Result<_>>()?;
    for (index, buffer) in (0..).zip(&buffers) {
        kernel.set_buffer(index, buffer)?;
    }
    kernel.set_bytes(3, 3.0_f32.to_le_bytes())?;
    let rate = rate(wanted, || launch(queue, &kernel, ELEMENTS))?;
    drop(buffers);
    Ok(Measure {
        name: "memory bandwidth",
        unit: "GB/s",
        spirula: rate * ELEMENTS as f64 * 12.0 / 1e9,
        hardware: Some(hardware::bandwidth(wanted, threads, ELEMENTS) / 1e9),
        how: "the same sum of arrays with stores past the caches",
        more_is_better: true,
    })
}

fn launch(queue: &Queue, kernel: &Kernel, items: usize) -> Result<()> {
    queue.launch(kernel, items)?;
    Ok(queue.finish()?)
}

fn text(Benched { device, threads, measures }: &Benched) -> String {
    let mut text = format!("{}, {threads} threads\n\n", styled(HEADING, device));
    let header = format!("{:20} {:>18} {:>18}", "", "Spirula", "the hardware");
    text += &format!("{}\n", styled(DIM, &header));
    for measure in measures {
        let Measure { name, unit, spirula, hardware, how, .. } = measure;
        let number = |value: f64| format!("{value:.1} {unit}");
        let other = hardware.map(number).unwrap_or_default();
        let share = measure.share().map(|share| {
            let style = if share > 0.8 {
                GOOD
            } else if share > 0.4 {
                NOTE
            } else {
                BAD
            };
            let bar = "█".repeat((share.min(1.0) * 20.0).round() as usize);
            styled(style, &format!("{:>4.0} % {bar:20}", share * 100.0))
        });
        let line = format!("{name:20} {:>18} {other:>18}  {}", number(*spirula), share.unwrap_or_default());
        text += line.trim_end();
        text.push('\n');
        if !how.is_empty() {
            text += &format!("{}\n", styled(DIM, &format!("{:20} beside {how}", "")));
        }
    }
    text
}
