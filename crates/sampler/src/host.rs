//! The machine that is measured.

use profile::Host;

/// This machine.
pub fn host() -> Host {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let join = |names: &[&str]| -> Option<String> {
        let parts: Option<Vec<String>> = names.iter().map(|name| field(name)).collect();
        parts.map(|parts| parts.join("-"))
    };
    // In kilohertz; the highest, as a busy processor mostly runs near it.
    let highest = read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    let clock_hz = highest.trim().parse::<u64>().ok().map(|khz| khz * 1000);
    let now = || field("cpu MHz")?.parse::<f64>().ok();
    Host {
        name: read("/proc/sys/kernel/hostname").trim().to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        machine: std::env::consts::ARCH.to_owned(),
        cpu_model: field("model name"),
        cpu_id: join(&["vendor_id", "cpu family", "model"])
            .or_else(|| join(&["CPU implementer", "CPU part"])),
        clock_hz: clock_hz.or_else(|| now().map(|mhz| (mhz * 1e6) as u64)),
        cpus: online_cpus().len() as u32,
    }
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let mut ends = range.split('-').map(str::parse::<i32>);
        if let Some(Ok(first)) = ends.next() {
            let last = ends.next().and_then(Result::ok).unwrap_or(first);
            cpus.extend(first..=last);
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}
