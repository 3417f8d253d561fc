//! Code that gets better while its kernel runs: right results before, meanwhile and after, whatever becomes of the compiler. Each
//! test has steps in processes of their own, with the settings that it is about, and looks at what the library's log says.

use spirula_tests::cl::sys::{
    CL_BGRA, CL_FLOAT, CL_HALF_FLOAT, CL_KERNEL_FUNCTION_NAME, CL_R, CL_RGBA, CL_UNORM_INT8,
};
use spirula_tests::cl::{
    self, Buffer, Context, Device, Event, Image, ImageKind, Kernel, NdRange, Program, Queue, SPIR12,
};
use spirula_tests::isolate::{self, ExpectedFailures, Outcome, Test};
use spirula_tests::{fixtures, icd, supervise};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Tells a process of a test which step it is.
const STEP: &str = "SPIRULA_TIERS_TEST_STEP";
/// Leads a step to the log.
const LOG: &str = "SPIRULA_TIERS_TEST_LOG";

/// What the log says once a kernel has its optimized code, of whatever time it took.
const OPTIMIZED: &str = "kernel mandelbrot: optimized code in ";
/// The same, where that was there.
const MADE_BEFORE: &str = "kernel mandelbrot: optimized code was made before";

/// What the log says once a build has its code of a kernel that sees its groups, and where a later process has found better code.
const GUESSED: &str = "kernel scan: optimized code in ";
const FOUND: &str = "kernel scan: optimized code for work-groups of [64, 1, 1] was made before";

/// The same, where code of other lanes takes the place of some.
const USED: &str = "is used from now on";

fn main() -> ExitCode {
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 13] = [
        ("forced_tiers_give_the_same_results", forced),
        ("other_numbers_of_lanes_give_the_same_results_while_they_take_turns", turns),
        ("launches_change_code_and_stay_right", change),
        ("all_code_of_a_kernel_numbers_groups_alike", columns),
        ("who_measures_launches_measures_the_code_that_stays", measured),
        ("rows_that_packs_do_not_fill_get_code_of_their_own", rows),
        ("images_of_other_formats_get_code_of_their_own", images),
        ("without_optimization_the_baseline_stays", disabled),
        ("a_program_from_a_binary_gets_better_too", from_binary),
        ("what_was_optimized_is_used_at_once", made_before),
        ("a_build_has_code_made_that_is_expected_soon", at_build),
        ("code_of_a_build_makes_room_for_code_for_what_was_launched", guessed),
        ("a_build_tells_its_stages", stages),
    ];
    let tests = tests.map(|(name, body)| Test { limit: Duration::from_secs(300), ..Test::new(name, body) });
    isolate::main(tests.into(), ExpectedFailures::default())
}

/// A folder for the logs and the cache.
struct Place {
    folder: TempDir,
    /// Whether what is compiled is kept.
    keeps: bool,
    /// Whether lanes are chosen by measurement.
    tune: &'static str,
}

/// A step of a test, in another process. Each writes a digest of its results on standard output.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// Many kernels, once each.
    Kernels,
    /// One kernel, again and again until it is optimized.
    UntilOptimized,
    /// The same behind one of a program that is not to be.
    Disabled,
    /// Writes a program's binary to a file.
    Save,
    /// One launch of the program in the file.
    Load,
    /// The same, again and again until it is optimized.
    LoadUntilOptimized,
    /// One launch.
    Once,
    /// A kernel that is never launched.
    Created,
    /// The same, until there is optimized code for it all the same.
    Built,
    /// One of many kernels, which is never launched either, until there is optimized code for it and for no other one.
    Chosen,
    /// Launches of a kernel that sees its groups, whose code the build has made.
    Guessed,
    /// The same, whether that is made or not.
    Sized,
    /// Launches whose rows fill packs until there is code for these, and then such whose rows don't, until there is some for all.
    Rows,
    /// Launches in whose midst code of other lanes takes turns with what was used before, and then its place.
    Turns,
    /// A short launch whose times are read, and another.
    Measured,
    /// Launches of groups that are one item wide, until there is code for that.
    Columns,
    /// Launches with images of one format until there is code for these, and then such with others, until there is some for all.
    Images,
}

impl Step {
    const ALL: [Step; 17] = [
        Step::Kernels,
        Step::UntilOptimized,
        Step::Disabled,
        Step::Save,
        Step::Load,
        Step::LoadUntilOptimized,
        Step::Once,
        Step::Created,
        Step::Built,
        Step::Chosen,
        Step::Guessed,
        Step::Sized,
        Step::Rows,
        Step::Turns,
        Step::Measured,
        Step::Columns,
        Step::Images,
    ];

    fn run(self) -> Outcome {
        let setup = Setup::new()?;
        let digest = match self {
            Step::Kernels => setup.kernels()?,
            Step::UntilOptimized => setup.until_optimized(&setup.program("bench/mandelbrot", SPIR12)?)?,
            Step::Disabled => {
                let program = setup.program("bench/mandelbrot", &format!("{SPIR12} -cl-opt-disable"))?;
                let expected = setup.mandelbrot(&program)?;
                for _ in 0..20 {
                    assert_eq!(setup.mandelbrot(&program)?, expected);
                }
                assert!(!setup.log().contains("optimized code"), "{}", setup.log());
                // Jobs are done in their order: what was begun for that program would end first.
                setup.until_optimized(&setup.program("bench/mandelbrot", SPIR12)?)?
            }
            Step::Save => {
                let program = setup.program("bench/mandelbrot", SPIR12)?;
                fs::write(setup.file()?, program.binary()?)?;
                setup.mandelbrot(&program)?
            }
            Step::Load => setup.mandelbrot(&setup.loaded()?)?,
            Step::LoadUntilOptimized => setup.until_optimized(&setup.loaded()?)?,
            Step::Turns => {
                let program = setup.program("bench/mandelbrot", SPIR12)?;
                let expected = setup.mandelbrot(&program)?;
                // How many there are besides is the cost model's affair.
                while !setup.log().contains(USED) {
                    assert_eq!(setup.mandelbrot(&program)?, expected);
                }
                assert_eq!(setup.mandelbrot(&program)?, expected);
                expected
            }
            Step::Rows => setup.rows()?,
            Step::Measured => setup.measured()?,
            Step::Columns => setup.columns()?,
            Step::Images => setup.images()?,
            Step::Once => setup.mandelbrot(&setup.program("bench/mandelbrot", SPIR12)?)?,
            Step::Created => {
                Kernel::new(&setup.program("bench/mandelbrot", SPIR12)?, "mandelbrot")?;
                0
            }
            Step::Built => {
                let _program = setup.program("bench/mandelbrot", SPIR12)?;
                setup.wait_for("kernel mandelbrot: code for all launches in ");
                0
            }
            Step::Guessed | Step::Sized => {
                let program = setup.program("bench/scan", SPIR12)?;
                if self == Step::Guessed {
                    setup.wait_for(GUESSED);
                }
                let kernel = Kernel::new(&program, "scan")?;
                let results =
                    (0..50).map(|_| setup.scan(&kernel, 500, 64)).collect::<cl::Result<Vec<_>>>()?;
                assert!(results.iter().all(|result| *result == results[0]));
                results[0]
            }
            Step::Chosen => {
                // More than a build waits for, on any number of processors.
                let kernels = (0..50)
                    .map(|n| format!("kernel void k{n}(global int *p) {{ p[get_global_id(0)] += {n}; }}\n"));
                let program = Program::from_source(&setup.context, &kernels.collect::<String>())?;
                program.build("")?;
                let _kernel = Kernel::new(&program, "k7")?;
                setup.wait_for("kernel k7: code for all launches in ");
                assert_eq!(setup.log().matches("code for all launches in ").count(), 1);
                0
            }
        };
        println!("{digest:x}");
        Ok(())
    }
}

/// What steps start from.
struct Setup {
    device: Device,
    context: Context,
    queue: Queue,
}

impl Setup {
    fn new() -> cl::Result<Setup> {
        let device = Device::first();
        let context = Context::new(device)?;
        Ok(Setup { queue: Queue::new(&context, device)?, context, device })
    }

    fn program(&self, fixture: &str, options: &str) -> cl::Result<Program> {
        let binary = fixtures::load(&format!("{fixture}.bc64"));
        let program = Program::from_binary(&self.context, self.device, &binary)?;
        program.build(options)?;
        Ok(program)
    }

    fn log(&self) -> String {
        std::env::var(LOG).map(|path| fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
    }

    /// Waits until the log says so.
    fn wait_for(&self, text: &str) {
        while !self.log().contains(text) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where a binary lies.
    fn file(&self) -> Result<PathBuf, String> {
        let log = std::env::var(LOG).map_err(|error| error.to_string())?;
        Ok(Path::new(&log).with_file_name("binary"))
    }

    fn loaded(&self) -> Result<Program, String> {
        let binary = fs::read(self.file()?).map_err(|error| error.to_string())?;
        let text = |error: cl::Error| error.to_string();
        let program = Program::from_binary(&self.context, self.device, &binary).map_err(text)?;
        program.build("").map_err(text)?;
        Ok(program)
    }

    /// The digest of a picture.
    fn mandelbrot(&self, program: &Program) -> cl::Result<u64> {
        const WIDTH: usize = 512;
        let mut picture = vec![0_i32; WIDTH * WIDTH];
        let buffer = Buffer::copy_of(&self.context, &picture)?;
        let kernel = Kernel::new(program, "mandelbrot")?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set(1, WIDTH as i32)?;
        kernel.set(2, 500_i32)?;
        for (index, value) in [(3, -2.0_f32), (4, -1.25), (5, 2.5 / WIDTH as f32)] {
            kernel.set(index, value)?;
        }
        self.queue.launch(&kernel, NdRange::new(&[WIDTH, WIDTH], &[16, 4]))?;
        self.queue.read(&buffer, &mut picture)?;
        assert!(picture.contains(&500) && picture.iter().any(|&count| count < 10), "it is a picture");
        Ok(digest(&picture))
    }

    /// Launches until the kernel has its optimized code, and once more; all results are the same.
    fn until_optimized(&self, program: &Program) -> cl::Result<u64> {
        let expected = self.mandelbrot(program)?;
        while !self.log().contains(OPTIMIZED) {
            assert_eq!(self.mandelbrot(program)?, expected);
            assert!(!self.log().contains("no optimized code"), "{}", self.log());
        }
        assert_eq!(self.mandelbrot(program)?, expected);
        Ok(expected)
    }

    /// A kernel that sees its groups, for rows that fill packs and others, again and again until there is optimized code for both.
    fn rows(&self) -> cl::Result<u64> {
        // Each has its own launches to go by.
        let kernel = |options: &str| Kernel::new(&self.program("bench/scan", options)?, "scan");
        let (other, sizes) = (kernel(SPIR12)?, [64, 128, 24, 1]);
        let expected = sizes.map(|local| self.scan(&other, 500, local));
        let expected = expected.into_iter().collect::<cl::Result<Vec<_>>>()?;
        // Launches of one size, and of two that packs fill; then of one that they don't.
        let firsts = [(1, "optimized code for work-groups of [64, 1, 1] in "), (2, "optimized code in ")];
        for (number, (first, made)) in (1..).zip(firsts) {
            // What was made for the one before is not for it.
            let kernel = kernel(&[SPIR12, " -cl-mad-enable"][..number].concat())?;
            let stages = [(0..first, made, 1), (2..3, "code for all launches in ", number)];
            for (launched, made, times) in stages {
                let is_made = |log: &str| log.matches(&format!("kernel scan: {made}")).count() >= times;
                // Scalar code, if somebody wants it, has no packs to be filled.
                while !is_made(&self.log()) && !self.log().contains(", 1 lanes") {
                    for at in launched.clone() {
                        assert_eq!(self.scan(&kernel, 500, sizes[at])?, expected[at], "{}", sizes[at]);
                    }
                    assert!(!self.log().contains("kernel scan: no "), "{}", self.log());
                }
                for (&expected, local) in std::iter::zip(&expected, sizes) {
                    assert_eq!(self.scan(&kernel, 500, local)?, expected, "{local}");
                }
            }
        }
        Ok(expected[0])
    }

    /// Sums of lines, by groups that lie across the first dimension: each launch writes all of them, in whatever code each group runs.
    fn columns(&self) -> cl::Result<u64> {
        const SOURCE: &str = "
            kernel void sums(global const int *lines, global int *sums) {
                local int parts[256];
                size_t place = get_local_id(1), line = get_global_id(0);
                parts[place] = lines[line * get_global_size(1) + get_global_id(1)];
                for (uint left = 128; left > 0; left >>= 1) {
                    barrier(CLK_LOCAL_MEM_FENCE);
                    if (place < left) parts[place] += parts[place + left];
                }
                if (place == 0) sums[line * get_num_groups(1) + get_group_id(1)] = parts[0];
            }";
        const LINES: usize = 20_000;
        let program = Program::from_source(&self.context, SOURCE)?;
        program.build("")?;
        let kernel = Kernel::new(&program, "sums")?;
        let numbers: Vec<i32> = (0..LINES as i32 * 512).map(|number| number * 7919 % 1000).collect();
        let expected: Vec<i32> = numbers.chunks(256).map(|part| part.iter().sum()).collect();
        let lines = Buffer::copy_of(&self.context, &numbers)?;
        kernel.set_object(0, Some(&lines))?;
        let is_made =
            || self.log().contains("kernel sums: optimized code for work-groups of [1, 256, 1] in ");
        let mut is_last = false;
        while !is_last {
            is_last = is_made();
            let mut sums = vec![-1; expected.len()];
            let buffer = Buffer::copy_of(&self.context, &sums)?;
            kernel.set_object(1, Some(&buffer))?;
            self.queue.launch(&kernel, NdRange::new(&[LINES, 512], &[1, 256]))?;
            self.queue.read(&buffer, &mut sums)?;
            assert!(sums == expected, "{} groups did not run", sums.iter().filter(|&&sum| sum < 0).count());
        }
        Ok(digest(&expected))
    }

    /// Pictures of several formats: right in code for any, in code for one, and in what others run in meanwhile.
    fn images(&self) -> cl::Result<u64> {
        const SOURCE: &str = "
            kernel void turned(read_only image2d_t from, write_only image2d_t to) {
                const sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
                int2 place = (int2)(get_global_id(0), get_global_id(1));
                float4 colour = read_imagef(from, nearest, place.yx) + read_imagef(from, nearest, place - 1);
                write_imagef(to, place, colour.yzwx * 0.5f);
            }";
        const SIZE: usize = 256;
        let program = Program::from_source(&self.context, SOURCE)?;
        program.build("")?;
        let kernel = Kernel::new(&program, "turned")?;
        let image = |format| Image::new(&self.context, ImageKind::D2, format, [SIZE, SIZE, 1], 1, None);
        let formats =
            [(CL_RGBA, CL_FLOAT), (CL_RGBA, CL_UNORM_INT8), (CL_R, CL_HALF_FLOAT), (CL_BGRA, CL_UNORM_INT8)];
        let pictures = formats.map(|format| Ok((image(format)?, image(format)?)));
        let pictures = pictures.into_iter().collect::<cl::Result<Vec<_>>>()?;
        let turned = |at: usize| {
            let (from, to) = &pictures[at];
            let bytes = [16, 4, 2, 4][at] * SIZE * SIZE;
            // Floats and halves of small integers, and bytes.
            let texels: Vec<u8> = match at {
                0 => (0..bytes / 4).flat_map(|i| ((i * 7919 % 251) as f32).to_ne_bytes()).collect(),
                2 => (0..bytes / 2).flat_map(|i| (0x4000 + (i * 7919 % 251) as u16).to_ne_bytes()).collect(),
                _ => (0..bytes).map(|i| (i * 7919 % 251) as u8).collect(),
            };
            self.queue.write_image(from, &texels)?;
            kernel.set_object(0, Some(from))?;
            kernel.set_object(1, Some(to))?;
            self.queue.launch(&kernel, NdRange::new(&[SIZE, SIZE], &[64, 1]))?;
            let mut result = vec![0; bytes];
            self.queue.read_image(to, &mut result)?;
            let result: Vec<i32> = result.into_iter().map(i32::from).collect();
            Ok(digest(&result))
        };
        let all = || (0..formats.len()).map(turned).collect::<cl::Result<Vec<_>>>();
        let until = |at: usize, expected, made: &str| {
            while !self.log().contains(&format!("kernel turned: {made}")) {
                assert_eq!(turned(at)?, expected, "{:?}", formats[at]);
                assert!(!self.log().contains("kernel turned: no "), "{}", self.log());
            }
            Ok::<_, cl::Error>(())
        };
        let first = turned(0)?;
        until(0, first, "optimized code in ")?;
        assert!(!self.log().contains("code for all launches"), "{}", self.log());
        // In the baseline.
        let expected = all()?;
        assert_eq!(expected[0], first);
        until(1, expected[1], "code for all launches in ")?;
        assert_eq!(all()?, expected);
        Ok(digest(&expected.iter().map(|&digest| digest as i32).collect::<Vec<_>>()))
    }

    /// Launches of which the first is measured: those behind it wait for optimized code, in proportion to what they take.
    fn measured(&self) -> cl::Result<u64> {
        let kernel = Kernel::new(&self.program("bench/scan", SPIR12)?, "scan")?;
        let expected = self.scan(&kernel, 400, 64)?;
        assert!(!self.log().contains("optimized code"), "{}", self.log());
        let (begun, mut launches) = (Instant::now(), 0);
        self.launch_scan(&kernel, 400, 64)?.0.seconds()?;
        while !self.log().contains("kernel scan: optimized code") {
            launches += 1;
            assert_eq!(self.scan(&kernel, 400, 64)?, expected);
            // A few wait together as long as any compiler takes; without waiting they would be over in an instant.
            assert!(
                launches < 12 || begun.elapsed() > Duration::from_secs(5),
                "nothing waits: {}",
                self.log()
            );
        }
        Ok(expected)
    }

    /// The digest of what so many groups of that size sum up.
    fn scan(&self, kernel: &Kernel, groups: usize, local: usize) -> cl::Result<u64> {
        let (_, buffer) = self.launch_scan(kernel, groups, local)?;
        let mut output = vec![0_i32; local * 2 * groups];
        self.queue.read(&buffer, &mut output)?;
        Ok(digest(&output))
    }

    /// Sums up so many groups of that size, into a buffer.
    fn launch_scan(&self, kernel: &Kernel, groups: usize, local: usize) -> cl::Result<(Event, Buffer)> {
        let input: Vec<i32> = (0..(local * 2 * groups) as i32).map(|i| i * 7919 % 1000).collect();
        let zeros = vec![0_i32; input.len()];
        let buffers = (Buffer::copy_of(&self.context, &input)?, Buffer::copy_of(&self.context, &zeros)?);
        kernel.set_object(0, Some(&buffers.0))?;
        kernel.set_object(1, Some(&buffers.1))?;
        kernel.set_local(2, 2 * local * size_of::<i32>())?;
        Ok((self.queue.launch(kernel, NdRange::new(&[groups * local], &[local]))?, buffers.1))
    }

    /// Kernels with barriers, local memory and much library code, for local sizes that fill lanes and others.
    fn kernels(&self) -> cl::Result<u64> {
        let mut all = DefaultHasher::new();
        all.write_u64(self.mandelbrot(&self.program("bench/mandelbrot", SPIR12)?)?);
        let scan = self.program("bench/scan", SPIR12)?;
        for local in [64, 24, 1] {
            all.write_u64(self.scan(&Kernel::new(&scan, "scan")?, 37, local)?);
        }
        let x: Vec<f32> = (0..5000).map(|i| (i as f32 - 2500.0) * 0.0137).collect();
        let input = Buffer::copy_of(&self.context, &x)?;
        for kernel in self.program("bench/math_sweep", SPIR12)?.kernels()? {
            let mut y = vec![0_f32; x.len()];
            let output = Buffer::copy_of(&self.context, &y)?;
            kernel.set_object(0, Some(&input))?;
            kernel.set_object(1, Some(&output))?;
            self.queue.launch(&kernel, NdRange::new(&[x.len()], &[50]))?;
            self.queue.read(&output, &mut y)?;
            let bits: Vec<i32> = y.iter().map(|y| if y.is_nan() { -1 } else { y.to_bits() as i32 }).collect();
            println!("{} {:x}", kernel.info_string(CL_KERNEL_FUNCTION_NAME)?, digest(&bits));
        }
        Ok(all.finish())
    }
}

fn digest(values: &[i32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    values.iter().for_each(|value| hasher.write_i32(*value));
    hasher.finish()
}

/// The body of a test: its steps come back here, and do what they are to do.
fn with_steps(test: impl FnOnce(&mut Place) -> Outcome) -> Outcome {
    if let Ok(number) = std::env::var(STEP) {
        return Step::ALL[number.parse::<usize>()?].run();
    }
    test(&mut Place { folder: tempfile::tempdir()?, keeps: false, tune: "0" })
}

impl Place {
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Runs a step; what it wrote, and what the log says.
    fn step(&self, step: Step, tier: &str, compiler: Option<&Path>) -> Result<(String, String), String> {
        let _ = fs::remove_file(self.log());
        let number = Step::ALL.iter().position(|other| *other == step).expect("one of all");
        let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        let mut setting = std::ffi::OsString::from("debug:");
        setting.push(self.log());
        command.env(STEP, number.to_string()).env(LOG, self.log());
        command.env("SPIRULA_TIER", tier).env("SPIRULA_LOG", setting).env("SPIRULA_TUNE", self.tune);
        // Where a test is not about it, kernels begin in the baseline.
        let waits = [Step::Built, Step::Chosen, Step::Guessed].contains(&step);
        command.envs((!waits).then_some(("SPIRULA_BUILD_WAIT", "0")));
        command.envs(self.keeps.then(|| (icd::CACHE_VARIABLE, self.folder.path().join("cache"))));
        command.envs(compiler.map(|path| ("SPIRULA_COMPILER", path)));
        let done =
            supervise::run(&mut command, Duration::from_secs(100)).map_err(|error| error.to_string())?;
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        if !done.status.is_some_and(|status| status.success()) {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("{step:?} {tier}: {:?} {said}\n{log}", done.status));
        }
        Ok((String::from_utf8_lossy(&done.stdout).into_owned(), log))
    }
}

fn forced() -> Outcome {
    with_steps(|place| {
        let (baseline, log) = place.step(Step::Kernels, "baseline", None)?;
        assert!(baseline.lines().count() > 20 && !log.contains("optimized code"), "{baseline}\n{log}");
        for tier in ["optimized", "auto"] {
            assert_eq!(place.step(Step::Kernels, tier, None)?.0, baseline, "{tier}");
        }
        Ok(())
    })
}

fn turns() -> Outcome {
    with_steps(|place| {
        let (baseline, log) = place.step(Step::Kernels, "baseline", None)?;
        assert!(!log.contains(USED), "{log}");
        place.tune = "always";
        for tier in ["optimized", "auto"] {
            assert_eq!(place.step(Step::Kernels, tier, None)?.0, baseline, "{tier}");
        }
        place.tune = "0";
        let (right, _) = place.step(Step::Once, "optimized", None)?;
        place.tune = "always";
        assert_eq!(place.step(Step::Turns, "optimized", None)?.0, right);
        Ok(())
    })
}

fn change() -> Outcome {
    with_steps(|place| {
        let (right, _) = place.step(Step::Once, "optimized", None)?;
        assert_eq!(place.step(Step::UntilOptimized, "auto", None)?.0, right);
        Ok(())
    })
}

fn measured() -> Outcome {
    with_steps(|place| place.step(Step::Measured, "auto", None).map(drop).map_err(Into::into))
}

fn columns() -> Outcome {
    with_steps(|place| place.step(Step::Columns, "auto", None).map(drop).map_err(Into::into))
}

fn images() -> Outcome {
    with_steps(|place| place.step(Step::Images, "auto", None).map(drop).map_err(Into::into))
}

fn rows() -> Outcome {
    with_steps(|place| place.step(Step::Rows, "auto", None).map(drop).map_err(Into::into))
}

fn disabled() -> Outcome {
    with_steps(|place| {
        let (_, log) = place.step(Step::Disabled, "auto", None)?;
        assert_eq!(log.matches(OPTIMIZED).count(), 1, "{log}");
        Ok(())
    })
}

fn from_binary() -> Outcome {
    const BUILT: &str = "a program: compiled; ";
    with_steps(|place| {
        let (right, log) = place.step(Step::Save, "auto", None)?;
        assert!(log.contains(BUILT), "{log}");
        let (result, log) = place.step(Step::LoadUntilOptimized, "auto", None)?;
        assert!(result == right && !log.contains(BUILT), "{log}");
        let (result, log) = place.step(Step::Load, "baseline", None)?;
        assert!(result == right && !log.contains(BUILT), "{log}");
        // Where all code is to be optimized, the baseline's will not do.
        let (result, log) = place.step(Step::Load, "optimized", None)?;
        assert!(result == right && log.contains(BUILT), "{log}");
        Ok(())
    })
}

fn made_before() -> Outcome {
    with_steps(|place| {
        place.keeps = true;
        let (right, log) = place.step(Step::UntilOptimized, "auto", None)?;
        assert!(!log.contains(MADE_BEFORE), "{log}");
        let nowhere = place.folder.path().join("no-compiler");
        let (result, log) = place.step(Step::Once, "auto", Some(&nowhere))?;
        assert!(log.contains(MADE_BEFORE) && !log.contains(OPTIMIZED), "{log}");
        assert_eq!(result, right);
        // It is loaded before the first launch, which may take less time.
        let (_, log) = place.step(Step::Created, "auto", Some(&nowhere))?;
        assert!(log.contains(MADE_BEFORE), "{log}");
        Ok(())
    })
}

fn at_build() -> Outcome {
    with_steps(|place| {
        place.step(Step::Built, "auto", None)?;
        place.step(Step::Chosen, "auto", None)?;
        Ok(())
    })
}

/// Code for the size that was launched is left to another process, and later ones find it.
fn guessed() -> Outcome {
    with_steps(|place| {
        let (right, _) = place.step(Step::Sized, "baseline", None)?;
        place.keeps = true;
        let (result, log) = place.step(Step::Guessed, "auto", None)?;
        assert_eq!(result, right);
        assert!(log.contains("builds that were left to another process: 1"), "{log}");
        loop {
            let (result, log) = place.step(Step::Sized, "auto", None)?;
            assert_eq!(result, right);
            if log.contains(FOUND) {
                return Ok(());
            }
        }
    })
}

fn stages() -> Outcome {
    with_steps(|place| {
        let (_, log) = place.step(Step::Once, "baseline", None)?;
        let line = log.lines().find(|line| line.contains("a program: compiled; ")).ok_or("no such line")?;
        let names = ["read ", "harden ", "link ", "clean up ", "import ", "Kernel IR ", "code "];
        assert!(names.iter().all(|name| line.contains(name)), "{line}");
        Ok(())
    })
}
