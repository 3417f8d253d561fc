//! `spirula explain`: the compiler's decisions for each kernel, from its remarks (`SPIRULA_REMARKS`), and what would change them.

use crate::Result;
use crate::arguments::{Common, Source};
use crate::built::look_at;
use crate::client::{Device, Program};
use crate::output::{self, DIM, GOOD, HEADING, NOTE, styled};
use opencl_sys::{
    CL_KERNEL_LOCAL_MEM_SIZE, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, CL_KERNEL_PRIVATE_MEM_SIZE,
    CL_KERNEL_WORK_GROUP_SIZE,
};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;

#[derive(Serialize)]
struct Explained<'a> {
    file: &'a Path,
    kernels: Vec<Kernel>,
    /// What the build log says besides.
    log: String,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    /// Work-items that run together at most; 1 in scalar code.
    lanes: u32,
    /// Parts between barriers, each with the decision on it.
    regions: Vec<Region>,
    /// Other decisions.
    decisions: Vec<String>,
    help: Vec<String>,
    private_bytes: u64,
    local_bytes: u64,
    preferred_multiple: u64,
    most_work_items: u64,
}

impl Kernel {
    /// As the log tells, and the library.
    fn of(device: &Device, program: &Program, name: &str, log: &str) -> Result<Kernel> {
        let object = program.kernel(name)?;
        let ask = |what| object.work_group_number(device, what);
        let (regions, decisions) = decisions(log, name);
        Ok(Kernel {
            name: name.to_owned(),
            lanes: regions.iter().map(|region| region.lanes).max().unwrap_or(1),
            help: help(&regions),
            regions,
            decisions,
            private_bytes: ask(CL_KERNEL_PRIVATE_MEM_SIZE)?,
            local_bytes: ask(CL_KERNEL_LOCAL_MEM_SIZE)?,
            preferred_multiple: ask(CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE)?,
            most_work_items: ask(CL_KERNEL_WORK_GROUP_SIZE)?,
        })
    }
}

#[derive(Debug, PartialEq, Serialize)]
struct Region {
    number: u32,
    /// 1: scalar code.
    lanes: u32,
    decision: String,
}

pub fn run(common: &Common, source: &Source) -> Result<bool> {
    let remarks = ("SPIRULA_REMARKS", OsStr::new("1"));
    let (kernels, log) = look_at(common, source, remarks, |device, program, names| {
        let log = program.log(device)?;
        let wanted = |name: &&String| source.kernel.as_ref().is_none_or(|wanted| wanted == *name);
        let kernels = names.iter().filter(wanted).map(|name| Kernel::of(device, program, name, &log));
        Ok((kernels.collect::<Result<_>>()?, log))
    })?;
    let rest: Vec<&str> = log.lines().filter(|line| !line.starts_with("kernel ")).collect();
    let explained = Explained { file: &source.file, kernels, log: rest.join("\n") };
    if common.json {
        output::json(&explained)?
    } else {
        output::text(&text(&explained))?
    }
    Ok(true)
}

/// The lines `kernel NAME: DECISION` about one kernel: those on its regions, and the others.
fn decisions(log: &str, name: &str) -> (Vec<Region>, Vec<String>) {
    let (mut regions, mut others) = (Vec::new(), Vec::new());
    for line in log.lines() {
        let Some(decision) =
            line.strip_prefix("kernel ").and_then(|rest| rest.strip_prefix(name)?.strip_prefix(": "))
        else {
            continue;
        };
        match region(decision) {
            Some(region) => regions.push(region),
            None => others.push(decision.to_owned()),
        }
    }
    (regions, others)
}

/// `region NUMBER: DECISION`, or `sub-groups of LANES work-items`, which is about all regions.
fn region(decision: &str) -> Option<Region> {
    let first_number = |text: &str| text.split_whitespace().next()?.parse().ok();
    if let Some(rest) = decision.strip_prefix("sub-groups of ") {
        return Some(Region { number: 0, lanes: first_number(rest)?, decision: decision.to_owned() });
    }
    let (number, decision) = decision.strip_prefix("region ")?.split_once(": ")?;
    let lanes = if decision.contains(" lanes, ") { first_number(decision)? } else { 1 };
    Some(Region { number: number.parse().ok()?, lanes, decision: decision.to_owned() })
}

/// Words of a decision, and what can be done about it.
const HELP: &[(&str, &str)] = &[
    (
        "scalar: ",
        "Lanes would gain little here: neighbouring work-items should read and write neighbouring elements (index by \
         get_global_id(0) last), and take the same branches",
    ),
    (
        "a loop with several entries",
        "Don't jump into loops: write them with for and while, without goto and without cases inside",
    ),
    (
        "too large",
        "Divide the kernel, or keep large functions from being repeated: give unrolled loops fewer steps",
    ),
    (
        "keeps structures over a barrier",
        "Keep the structure's members in variables of their own, or read it again behind the barrier",
    ),
    ("scalar, as asked for", "-cl-opt-disable or SPIRULA_VECTOR_WIDTH=1 asks for scalar code: leave it out"),
    (
        "sub-groups of 1 work-item, as asked for",
        "-cl-opt-disable or SPIRULA_VECTOR_WIDTH=1 asks for it: leave it out",
    ),
];

fn help(regions: &[Region]) -> Vec<String> {
    let applies = |words: &str| regions.iter().any(|region| region.decision.contains(words));
    HELP.iter().filter(|(words, _)| applies(words)).map(|(_, help)| (*help).to_owned()).collect()
}

fn text(Explained { file, kernels, log }: &Explained) -> String {
    let mut text = format!("{}\n", file.display());
    for kernel in kernels {
        let (style, how) = match kernel.lanes {
            0 | 1 => (NOTE, "scalar".to_owned()),
            lanes => (GOOD, format!("{lanes} work-items at once")),
        };
        text += &format!("\n{}  {}\n", styled(HEADING, &kernel.name), styled(style, &how));
        for Region { number, decision, .. } in &kernel.regions {
            text += &match kernel.regions.len() {
                1 => format!("  {decision}\n"),
                _ => format!("  part {}, between barriers: {decision}\n", number + 1),
            };
        }
        kernel.decisions.iter().for_each(|decision| text += &format!("  {decision}\n"));
        let memory = format!(
            "{} private and {} local memory, groups of up to {}, best a multiple of {}",
            output::bytes(kernel.private_bytes),
            output::bytes(kernel.local_bytes),
            kernel.most_work_items,
            kernel.preferred_multiple
        );
        text += &format!("  {}\n", styled(DIM, &memory));
        kernel
            .help
            .iter()
            .for_each(|help| text += &format!("  {} {help}.\n", styled(NOTE, "what would help:")));
    }
    if !log.trim().is_empty() {
        text += &format!("\n{}\n", log.trim());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_sorted_by_kernel_and_region() {
        let log = "kernel a: 2 barrier region(s), 1 context slot(s)\nkernel a: region 0: 8 lanes, 5.1 times as fast by estimate\n\
                   kernel a: region 1: runs once for the group\nkernel ab: region 0: too large\n";
        let (regions, others) = decisions(log, "a");
        assert_eq!(regions.iter().map(|region| region.lanes).collect::<Vec<_>>(), [8, 1]);
        assert_eq!(others, ["2 barrier region(s), 1 context slot(s)"]);
        let (regions, _) = decisions(log, "ab");
        assert_eq!((regions[0].lanes, help(&regions).len()), (1, 1));
        let sub_groups = region("sub-groups of 16 work-items").unwrap();
        assert_eq!(sub_groups.lanes, 16);
    }
}
