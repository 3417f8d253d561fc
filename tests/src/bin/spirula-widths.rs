//! Measures the kernels of `fixtures/widths` in each number of lanes: `spirula-widths > measured.txt` on a quiet machine writes what
//! `jit/compiler/tests/model.rs` judges the cost model by. `SPIRULA_CPU` says for which level of processor.

use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue};
use spirula_tests::isolate::Failure;
use spirula_tests::{fixtures, icd};
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

const WIDTHS: [u32; 6] = [1, 4, 8, 16, 32, 64];
/// As the kernels have it; all is done several times in a launch, whose own time should not count.
const ITEMS: usize = 1 << 16;
const NUMBERS: usize = 1 << 22;
const TIMES: usize = 4;
/// Launches that are timed together, and how long a kernel is measured at least.
const BATCH: usize = 4;
const TIME: Duration = Duration::from_millis(60);

fn main() -> ExitCode {
    let result = if env::args().nth(1).is_some() { one_width() } else { all_widths() };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(why) | Failure::Skipped(why)) => {
            eprintln!("spirula-widths: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A process for each width, three times by turns: the least time of each kernel counts.
fn all_widths() -> Result<(), Failure> {
    let _selected = icd::select()?;
    let mut best: BTreeMap<String, [f64; WIDTHS.len()]> = BTreeMap::new();
    for _round in 0..3 {
        for (column, width) in WIDTHS.into_iter().enumerate() {
            let settings = [
                ("SPIRULA_VECTOR_WIDTH", width.to_string()),
                ("SPIRULA_TIER", "optimized".into()),
                ("SPIRULA_TUNE", "0".into()),
                (icd::CACHE_VARIABLE, String::new()),
            ];
            let output = Command::new(env::current_exe()?).arg("--child").envs(settings).output()?;
            if !output.status.success() {
                return Err(Failure::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
            }
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let (name, time) = line.split_once(' ').ok_or_else(|| Failure::Failed(line.into()))?;
                let time: f64 = time.parse().map_err(|_| Failure::Failed(line.into()))?;
                let times = best.entry(name.into()).or_insert([f64::INFINITY; WIDTHS.len()]);
                times[column] = times[column].min(time);
            }
        }
    }
    println!("# {}; microseconds of a launch in 1, 4, 8, 16, 32 and 64 lanes", processor());
    for (name, times) in best {
        println!("{name} {}", times.map(|time| format!("{time:.1}")).join(" "));
    }
    Ok(())
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim()).to_owned()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, family {}, model {}, {threads} threads",
        field("model name"),
        field("cpu family"),
        field("model\t")
    )
}

/// Every kernel in the number of lanes that the environment says.
fn one_width() -> Result<(), Failure> {
    let device = Device::first();
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_binary(&context, device, &fixtures::load("widths/kernels.bc64"))?;
    program.build("")?;
    let mut state = 0x9e37_79b9_u32;
    let mut draw = || {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let mut numbers = || (0..NUMBERS).map(|_| 1.0 + draw() as f32 / u32::MAX as f32).collect::<Vec<_>>();
    let (a, b) = (numbers(), numbers());
    let index: Vec<u32> = (0..NUMBERS).map(|_| draw() % ITEMS as u32).collect();
    let buffers = [
        Buffer::copy_of(&context, &a)?,
        Buffer::copy_of(&context, &b)?,
        Buffer::copy_of(&context, &vec![0_f32; NUMBERS])?,
        Buffer::copy_of(&context, &index)?,
    ];
    for kernel in program.kernels()? {
        for (number, buffer) in (0..).zip(&buffers) {
            kernel.set_object(number, Some(buffer))?;
        }
        println!(
            "{} {}",
            kernel.info_string(spirula_tests::cl::sys::CL_KERNEL_FUNCTION_NAME)?,
            measured(&queue, &kernel)?
        );
    }
    Ok(())
}

/// Microseconds of a launch, at best.
fn measured(queue: &Queue, kernel: &Kernel) -> Result<f64, Failure> {
    let (mut best, start) = (f64::INFINITY, Instant::now());
    while start.elapsed() < TIME {
        let before = Instant::now();
        for _ in 0..BATCH {
            queue.launch(kernel, NdRange::new(&[ITEMS, TIMES], &[128, 1]))?;
        }
        queue.finish()?;
        best = best.min(before.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    Ok(best)
}
