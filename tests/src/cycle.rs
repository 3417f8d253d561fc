//! A whole life of OpenCL objects, again and again, and what it costs in memory.

use crate::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue, SPIR12};
use crate::fixtures;
use crate::isolate::Outcome;
use std::fs;

/// Creates all objects, builds, runs a kernel with barriers, checks its result and releases everything.
pub fn once(device: Device, round: usize) -> Outcome {
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_binary(&context, device, &fixtures::load("bench/reduce.bc64"))?;
    program.build(SPIR12)?;
    let kernel = Kernel::new(&program, "reduce")?;
    let (group, groups, per_item) = (64, 4, 3);
    let input: Vec<f32> = (0..group * groups * per_item).map(|i| ((i + round) % 17) as f32).collect();
    let output = vec![0f32; groups];
    let (from, to) = (Buffer::copy_of(&context, &input)?, Buffer::copy_of(&context, &output)?);
    kernel.set_object(0, Some(&from))?;
    kernel.set_object(1, Some(&to))?;
    kernel.set_local(2, group * size_of::<f32>())?;
    kernel.set(3, per_item as i32)?;
    let event = queue.launch(&kernel, NdRange::new(&[group * groups], &[group]))?;
    event.wait()?;
    let mut output = output;
    queue.read(&to, &mut output)?;
    let expected: Vec<f32> = input.chunks(group * per_item).map(|part| part.iter().sum()).collect();
    if output == expected {
        Ok(())
    } else {
        Err(format!("round {round}: {output:?}, expected {expected:?}").into())
    }
}

/// Resident memory of this process in KiB.
pub fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Open file descriptors of this process.
pub fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// How many processes this one started that still exist (zombies too).
pub fn children() -> usize {
    children_of("self").len()
}

/// The compiler processes of this application: children of its children.
pub fn compilers() -> Vec<i32> {
    children_of("self").iter().flat_map(|keeper| children_of(&keeper.to_string())).collect()
}

/// The processes that one started, and that still exist, by its number or as `self`.
pub fn children_of(process: &str) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<i32>>())
        .collect()
}
