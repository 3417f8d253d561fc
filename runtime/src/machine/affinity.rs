//! Which CPUs a device's threads may run on, and the parts of the machine that CPUs share: NUMA nodes and caches (for
//! clCreateSubDevices by affinity domain).

use crate::log;
use rustix::thread::CpuSet;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;

/// Numbers of CPUs.
pub(crate) type Cpus = BTreeSet<usize>;

/// What the CPUs of a part have in common: CL_DEVICE_AFFINITY_DOMAIN_*, from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Domain {
    Numa,
    L4Cache,
    L3Cache,
    L2Cache,
    L1Cache,
}

impl Domain {
    /// All, in the order of CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE.
    pub const ALL: [Domain; 5] =
        [Domain::Numa, Domain::L4Cache, Domain::L3Cache, Domain::L2Cache, Domain::L1Cache];

    /// The CPUs that share this with one; None if the system doesn't say.
    fn around(self, cpu: usize) -> Option<Cpus> {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        let level = match self {
            Domain::Numa => {
                let mut names = fs::read_dir(&folder)
                    .ok()?
                    .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                let node = names.find(|name| {
                    name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
                })?;
                return parse_list(&fs::read_to_string(format!("{folder}/{node}/cpulist")).ok()?);
            }
            Domain::L4Cache => "4",
            Domain::L3Cache => "3",
            Domain::L2Cache => "2",
            Domain::L1Cache => "1",
        };
        (0..10).map(|index| format!("{folder}/cache/index{index}")).find_map(|cache| {
            let read = |file: &str| fs::read_to_string(format!("{cache}/{file}")).ok();
            let data = read("level")?.trim() == level && read("type")?.trim() != "Instruction";
            parse_list(&read("shared_cpu_list").filter(|_| data)?)
        })
    }

    /// Parts `cpus` by this domain; None unless it leaves two parts at least.
    pub(crate) fn part(self, cpus: &Cpus) -> Option<Vec<Cpus>> {
        let mut parts: Vec<Cpus> = Vec::new();
        for &cpu in cpus {
            if !parts.iter().any(|part| part.contains(&cpu)) {
                parts.push(self.around(cpu)?.intersection(cpus).copied().collect());
            }
        }
        let whole = parts.iter().map(Cpus::len).sum::<usize>() == cpus.len();
        (parts.len() > 1 && whole).then_some(parts)
    }
}

/// CPUs as the kernel lists them: "0-3,8".
fn parse_list(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The CPUs that this process may run on; none if the system doesn't say.
pub(crate) fn allowed() -> Cpus {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or_else(|_| Cpus::new(), |set| (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

thread_local! {
    /// Where this thread could run before it was bound.
    static BEFORE: RefCell<Option<Cpus>> = const { RefCell::new(None) };
}

/// Where this thread could run before [`bind`]; None if it was never bound.
pub(crate) fn before_binding() -> Option<Cpus> {
    BEFORE.with_borrow(Clone::clone)
}

/// Binds this thread. A CPU that was taken away meanwhile is no reason not to run.
pub(crate) fn bind(cpus: &Cpus) {
    BEFORE.with_borrow_mut(|before| {
        before.get_or_insert_with(allowed);
    });
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        log::warn(format_args!("a thread of a sub-device is not bound to its CPUs {cpus:?}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!(parse_list("0-2,8\n"), Some(Cpus::from([0, 1, 2, 8])));
        assert_eq!(parse_list("5"), Some(Cpus::from([5])));
        assert_eq!(parse_list(""), None);
        assert_eq!(parse_list("1-x"), None);
    }

    #[test]
    fn parts_are_disjoint_and_whole() {
        let cpus = allowed();
        for parts in Domain::ALL.iter().filter_map(|domain| domain.part(&cpus)) {
            assert!(parts.len() > 1 && parts.iter().all(|part| !part.is_empty()));
            assert_eq!(parts.iter().flatten().copied().collect::<Cpus>(), cpus);
        }
        // One CPU has no parts.
        assert!(
            Domain::ALL.iter().all(|domain| domain.part(&cpus.iter().copied().take(1).collect()).is_none())
        );
    }

    #[test]
    fn a_bound_thread_stays_where_it_was_put() {
        let Some(&last) = allowed().iter().next_back() else { return };
        let bound = std::thread::spawn(move || {
            assert_eq!(before_binding(), None);
            bind(&Cpus::from([last]));
            (allowed(), before_binding())
        });
        assert_eq!(bound.join().unwrap(), (Cpus::from([last]), Some(allowed())));
    }
}
