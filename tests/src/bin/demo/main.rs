//! The demo: two SPIR 1.2 binaries through the real ICD loader, timed, every result checked on the host, and a picture.

mod mandelbrot;
mod picture;
mod reduce;

use spirula_tests::cl::sys::{
    CL_DEVICE_MAX_COMPUTE_UNITS, CL_DEVICE_NAME, CL_PLATFORM_NAME, CL_PLATFORM_VERSION,
};
use spirula_tests::cl::{Context, Device, Event, Kernel, Platform, Program, Queue, SPIR12};
use spirula_tests::{fixtures, icd};
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

/// How often each kernel runs; the median time is reported.
const RUNS: usize = 9;

fn main() -> ExitCode {
    match demo() {
        Ok(()) => {
            println!("\nEvery result agrees with the host's own computation.");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("demo: {why}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Result<(), Box<dyn Error>> {
    let library = icd::library()?;
    let _selected = icd::select_library(&library)?;
    let (platform, device) = (Platform::only(), Device::first());
    println!("library   {}", library.display());
    println!(
        "platform  {}, {}",
        platform.info_string(CL_PLATFORM_NAME)?,
        platform.info_string(CL_PLATFORM_VERSION)?
    );
    let units: u32 = device.info(CL_DEVICE_MAX_COMPUTE_UNITS)?;
    println!("device    {}, {units} compute units", device.info_string(CL_DEVICE_NAME)?.trim());
    let context = Context::new(device)?;
    let stage = Stage { queue: Queue::new(&context, device)?, context, device };
    mandelbrot::show(&stage)?;
    reduce::show(&stage)
}

/// What both kernels run on.
struct Stage {
    device: Device,
    context: Context,
    queue: Queue,
}

impl Stage {
    /// Builds a fixture and says how long that took.
    fn kernel(&self, name: &str) -> Result<Kernel, Box<dyn Error>> {
        let binary = fixtures::load(&format!("bench/{name}.bc64"));
        let start = Instant::now();
        let program = Program::from_binary(&self.context, self.device, &binary)?;
        program
            .build(SPIR12)
            .map_err(|e| format!("{e}: {}", program.log(self.device).unwrap_or_default()))?;
        let kernel = Kernel::new(&program, name)?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        println!("\n{name}.bc64 ({} bytes of SPIR 1.2)", binary.len());
        println!("  build   {milliseconds:.1} ms");
        Ok(kernel)
    }
}

/// Launches `RUNS` times; the median of the events' times in seconds.
fn median_seconds(launch: impl Fn() -> spirula_tests::cl::Result<Event>) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        times.push(launch()?.seconds()?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}
