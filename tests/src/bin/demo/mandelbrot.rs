//! The Mandelbrot set: a loop whose trip count differs between neighbouring work-items.

use crate::{Stage, median_seconds, picture};
use spirula_tests::cl::sys::CL_MEM_WRITE_ONLY;
use spirula_tests::cl::{Buffer, NdRange};
use std::error::Error;
use std::path::Path;
use std::thread;

const WIDTH: usize = 1536;
const HEIGHT: usize = 1024;
const ITERATIONS: i32 = 512;
const LEFT: f32 = -2.25;
const TOP: f32 = -1.0;
const STEP: f32 = 3.0 / WIDTH as f32;
const PICTURE: &str = "target/demo/mandelbrot.png";
/// The part of the pixels that may differ from both of the host's evaluations: a compiler may contract any product
/// and sum into one rounding, and near the border one rounding decides.
const BORDER: f64 = 0.005;

/// Runs the kernel, checks every pixel and writes the picture.
pub fn show(stage: &Stage) -> Result<(), Box<dyn Error>> {
    let kernel = stage.kernel("mandelbrot")?;
    let output = Buffer::new(&stage.context, CL_MEM_WRITE_ONLY, WIDTH * HEIGHT * size_of::<i32>())?;
    kernel.set_object(0, Some(&output))?;
    kernel.set(1, WIDTH as i32)?;
    kernel.set(2, ITERATIONS)?;
    kernel.set(3, LEFT)?;
    kernel.set(4, TOP)?;
    kernel.set(5, STEP)?;
    let range = NdRange::new(&[WIDTH, HEIGHT], &[16, 16]);
    let seconds = median_seconds(|| stage.queue.launch(&kernel, range))?;
    let mut counts = vec![-1i32; WIDTH * HEIGHT];
    stage.queue.read(&output, &mut counts)?;
    let rate = (WIDTH * HEIGHT) as f64 / seconds * 1e-6;
    println!(
        "  run     {:.2} ms, {rate:.1} Mpixel/s ({WIDTH} x {HEIGHT}, up to {ITERATIONS} iterations)",
        seconds * 1e3
    );

    let (rows, worst) = disagreements(&counts);
    let (odd, share) = (rows, rows as f64 / counts.len() as f64);
    let equal = counts.len() - odd;
    println!("  check   {equal} of {} pixels equal the host's", counts.len());
    if share > BORDER {
        return Err(format!(
            "mandelbrot: {odd} pixels differ, by up to {worst}; {:.1} % may",
            BORDER * 100.0
        )
        .into());
    }
    picture::write(Path::new(PICTURE), WIDTH, &counts, ITERATIONS)?;
    println!("  picture {PICTURE}");
    Ok(())
}

/// How many pixels differ from the host's value with and without fused multiply-add, and by how much at most.
fn disagreements(counts: &[i32]) -> (usize, i32) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let band = HEIGHT.div_ceil(threads);
    thread::scope(|scope| {
        let check = |first: usize, part: &[i32]| {
            let mut result = (0, 0);
            for (index, &got) in part.iter().enumerate() {
                let (x, y) = (index % WIDTH, first + index / WIDTH);
                let distance =
                    [escape(x, y, |a, b, c| a * b + c), escape(x, y, f32::mul_add)].map(|n| (n - got).abs());
                let distance = distance[0].min(distance[1]);
                result = (result.0 + usize::from(distance > 0), result.1.max(distance));
            }
            result
        };
        let bands: Vec<_> = counts
            .chunks(band * WIDTH)
            .enumerate()
            .map(|(i, part)| scope.spawn(move || check(i * band, part)))
            .collect();
        bands
            .into_iter()
            .map(|b| b.join().expect("the host's check"))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1.max(b.1)))
    })
}

/// The kernel's own loop, with `fma` as `a * b + c`.
fn escape(px: usize, py: usize, fma: impl Fn(f32, f32, f32) -> f32) -> i32 {
    let (cx, cy) = (fma(STEP, px as f32, LEFT), fma(STEP, py as f32, TOP));
    let (mut x, mut y, mut n) = (0f32, 0f32, 0);
    while n < ITERATIONS && fma(x, x, y * y) < 4.0 {
        let t = fma(x, x, -(y * y)) + cx;
        y = fma(2.0 * x, y, cy);
        x = t;
        n += 1;
    }
    n
}
