//! A tree reduction: local memory, and a barrier in each trip of a loop.

use crate::{Stage, median_seconds};
use spirula_tests::cl::sys::CL_MEM_WRITE_ONLY;
use spirula_tests::cl::{Buffer, NdRange};
use std::error::Error;

const GROUP: usize = 256;
const PER_ITEM: usize = 16;
const ELEMENTS: usize = 1 << 24;
const GROUPS: usize = ELEMENTS / GROUP / PER_ITEM;

/// Runs the kernel and checks every group's sum. The elements are small integers, so that the sums are exact in any
/// order.
pub fn show(stage: &Stage) -> Result<(), Box<dyn Error>> {
    let kernel = stage.kernel("reduce")?;
    let input: Vec<f32> =
        (0..ELEMENTS as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as f32).collect();
    let from = Buffer::copy_of(&stage.context, &input)?;
    let to = Buffer::new(&stage.context, CL_MEM_WRITE_ONLY, GROUPS * size_of::<f32>())?;
    kernel.set_object(0, Some(&from))?;
    kernel.set_object(1, Some(&to))?;
    kernel.set_local(2, GROUP * size_of::<f32>())?;
    kernel.set(3, PER_ITEM as i32)?;
    let range = NdRange::new(&[ELEMENTS / PER_ITEM], &[GROUP]);
    let seconds = median_seconds(|| stage.queue.launch(&kernel, range))?;
    let mut sums = vec![f32::NAN; GROUPS];
    stage.queue.read(&to, &mut sums)?;
    let rate = size_of_val(input.as_slice()) as f64 / seconds * 1e-9;
    println!(
        "  run     {:.2} ms, {rate:.2} GB/s ({ELEMENTS} floats, groups of {GROUP} with barriers)",
        seconds * 1e3
    );

    let expected =
        input.chunks(GROUP * PER_ITEM).map(|part| part.iter().map(|&x| x as u32).sum::<u32>() as f32);
    let wrong = expected.zip(&sums).filter(|(expected, sum)| expected != *sum).count();
    println!("  check   {} of {GROUPS} sums equal the host's", GROUPS - wrong);
    if wrong > 0 { Err(format!("reduce: {wrong} of {GROUPS} sums are wrong").into()) } else { Ok(()) }
}
