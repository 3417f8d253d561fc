//! What the operating system tells of the machine: CPUs that may be used, memory, caches, limits of the container.

pub mod affinity;

use std::fs;
use std::path::Path;

/// The fields of the first CPU in /proc/cpuinfo.
pub(crate) struct CpuInfo {
    text: String,
}

impl CpuInfo {
    pub(crate) fn read() -> CpuInfo {
        CpuInfo { text: fs::read_to_string("/proc/cpuinfo").unwrap_or_default() }
    }

    /// The value of `key`.
    pub(crate) fn field(&self, key: &str) -> Option<&str> {
        let mut lines = self.text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    }
}

/// Nanoseconds of the monotonic clock, which event profiling and clGetHostTimer tell.
pub fn timer() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The device's compute units: as many as the variable SPIRULA_THREADS says, or one for each CPU that can be used.
pub(crate) fn compute_units() -> usize {
    spirula_service::settings::get().threads.map_or_else(usable_cpus, |threads| threads as usize)
}

/// CPUs that this process may run on: its affinity mask, bounded by the cgroup's quota.
pub(crate) fn usable_cpus() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).map_or_else(
        |_| std::thread::available_parallelism().map_or(1, usize::from),
        |set| set.count() as usize,
    );
    let limits = cgroup_values("cpu.max", "cpu", "cpu.cfs_quota_us");
    let quota = limits.iter().filter_map(|(text, path)| {
        let period = fs::read_to_string(path.with_file_name("cpu.cfs_period_us")).ok();
        parse_quota(text, period.as_deref())
    });
    quota.fold(allowed, usize::min).max(1)
}

/// CPUs of a quota: version 2 writes "quota period" or "max period", version 1 has two files and -1.
fn parse_quota(text: &str, period: Option<&str>) -> Option<usize> {
    let mut words = text.split_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next().or(period)?.trim().parse().ok()?;
    (period > 0).then(|| quota.div_ceil(period) as usize)
}

/// Bytes of memory that this process can use.
pub(crate) fn memory_size() -> u64 {
    let total = meminfo("MemTotal:");
    let limits = cgroup_values("memory.max", "memory", "memory.limit_in_bytes");
    limits.iter().filter_map(|(text, _)| text.trim().parse().ok()).fold(total.unwrap_or(1 << 30), u64::min)
}

/// Bytes of memory that this process could still use now, without what it has already.
pub(crate) fn available_memory() -> u64 {
    meminfo("MemAvailable:").map_or(u64::MAX, |available| available.min(memory_size()))
}

fn meminfo(name: &str) -> Option<u64> {
    fs::read_to_string("/proc/meminfo").unwrap_or_default().lines().find_map(|line| {
        let kib: u64 = line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    })
}

/// The contents and paths of a limit's file in this process's cgroup and all above it, whichever version is mounted.
fn cgroup_values(v2_file: &str, v1_controller: &str, v1_file: &str) -> Vec<(String, std::path::PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut values = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup".to_string(), v2_file)
        } else if controllers.split(',').any(|name| name == v1_controller) {
            (format!("/sys/fs/cgroup/{v1_controller}"), v1_file)
        } else {
            continue;
        };
        for above in Path::new(group).ancestors() {
            let path = Path::new(&root).join(above.strip_prefix("/").unwrap_or(above)).join(file);
            values.extend(fs::read_to_string(&path).ok().map(|text| (text, path)));
        }
    }
    values
}

/// The largest cache of CPU 0 in bytes and the length of its lines.
pub(crate) fn cache(cpu: &CpuInfo) -> (u64, u32) {
    let read = |index: u32, file: &str| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}")).ok()
    };
    let size = (0..8).filter_map(|index| parse_size(&read(index, "size")?)).max();
    let line = read(0, "coherency_line_size").and_then(|text| text.trim().parse().ok());
    let size = size.or_else(|| parse_size(cpu.field("cache size")?));
    (size.unwrap_or(256 << 10), line.unwrap_or(64))
}

/// "32K", "1024 KB", "8M".
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('B');
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let scale = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return text.parse().ok(),
    };
    number.trim().parse::<u64>().ok().map(|count| count * scale)
}

/// The highest clock in MHz, 0 if nobody says.
pub(crate) fn max_clock_mhz(cpu: &CpuInfo) -> u32 {
    let khz = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").ok();
    let from_driver = khz.and_then(|text| text.trim().parse::<u32>().ok()).map(|khz| khz / 1000);
    let now = || cpu.field("cpu MHz").and_then(|text| text.parse::<f64>().ok()).map(|mhz| mhz as u32);
    from_driver.or_else(now).unwrap_or(0)
}

/// Bytes of the widest vector register.
pub(crate) fn vector_bytes() -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return 64;
        }
        if std::arch::is_x86_feature_detected!("avx") {
            return 32;
        }
    }
    16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_round_up_to_whole_cpus() {
        assert_eq!(parse_quota("max 100000\n", None), None);
        assert_eq!(parse_quota("150000 100000\n", None), Some(2));
        assert_eq!(parse_quota("-1\n", Some("100000\n")), None);
        assert_eq!(parse_quota("100000\n", Some("100000\n")), Some(1));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("32K\n"), Some(32 << 10));
        assert_eq!(parse_size("1024 KB"), Some(1 << 20));
        assert_eq!(parse_size("8M"), Some(8 << 20));
        assert_eq!(parse_size(""), None);
    }

    #[test]
    fn the_machine_has_cpus_and_memory() {
        assert!((1..=4096).contains(&usable_cpus()));
        assert!(memory_size() > 64 << 20);
        assert!((1 << 20..=memory_size()).contains(&available_memory()));
    }

    #[test]
    fn the_timer_runs() {
        let before = timer();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let passed = timer() - before;
        assert!((2_000_000..10_000_000_000).contains(&passed), "{passed} ns");
    }
}
