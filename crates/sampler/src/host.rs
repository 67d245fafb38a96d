//! The measured machine.

use profile::Host;
use std::path::Path;

/// Reads the facts of this machine.
pub fn read_host() -> Host {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = CpuFacts::read();
    Host {
        name: read("/proc/sys/kernel/hostname").trim().to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        machine: std::env::consts::ARCH.to_owned(),
        cpu_model: cpu.model,
        cpu_id: cpu.id,
        clock_hz: cpu.clock_hz,
        cpus: online_cpus().len() as u32,
    }
}

/// Inode of the first PID namespace, which the kernel has fixed.
const FIRST_PID_NAMESPACE: u32 = 4_026_531_836;

/// Returns the inode of this process's PID namespace, if that is not the first one: a container's.
pub(crate) fn own_pid_namespace() -> Option<u32> {
    parse_namespace(&std::fs::read_link("/proc/self/ns/pid").ok()?)
}

/// Parses the target of `/proc/PID/ns/pid`; `None` for the first namespace.
pub(crate) fn parse_namespace(link: &Path) -> Option<u32> {
    let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    let inode = number.parse().ok()?;
    (inode != FIRST_PID_NAMESPACE).then_some(inode)
}

/// Facts of the processor, as the kernel reports them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CpuFacts {
    /// Name for people.
    pub model: Option<String>,
    /// Vendor, family and model on x86-64, implementer and part on AArch64.
    pub id: Option<String>,
    /// Highest clock rate; the current one if the kernel does not know it.
    pub clock_hz: Option<u64>,
    /// True if the processor reports a hypervisor. AArch64 has no such flag.
    pub hypervisor: bool,
}

impl CpuFacts {
    /// Reads the facts of the first CPU.
    pub fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let highest_khz = read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
        Self::parse(&read("/proc/cpuinfo"), &highest_khz)
    }

    /// Parses the text of `/proc/cpuinfo`, and of the file with the highest clock rate in
    /// kilohertz.
    pub fn parse(cpuinfo: &str, highest_khz: &str) -> Self {
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
        // A busy processor mostly runs near its highest rate.
        let highest_khz = highest_khz.trim().parse::<u64>().ok();
        let present_mhz = || field("cpu MHz")?.parse::<f64>().ok();
        let has_flag = |flags: String| flags.split_whitespace().any(|flag| flag == "hypervisor");
        Self {
            model: field("model name"),
            id: join(&["vendor_id", "cpu family", "model"])
                .or_else(|| join(&["CPU implementer", "CPU part"])),
            clock_hz: highest_khz
                .map(|khz| khz.saturating_mul(1000))
                .or_else(|| present_mhz().map(|mhz| (mhz * 1e6) as u64)),
            hypervisor: field("flags").is_some_and(has_flag),
        }
    }
}

/// Returns the online CPUs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_both_architectures_are_read() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
                    model name\t: Xeon\ncpu MHz\t\t: 2100.5\nflags\t\t: fpu hypervisor\n";
        let intel = CpuFacts::parse(text, "");
        assert_eq!(intel.model.as_deref(), Some("Xeon"));
        assert_eq!(intel.id.as_deref(), Some("GenuineIntel-6-143"));
        assert_eq!(intel.clock_hz, Some(2_100_500_000));
        assert!(intel.hypervisor);
        assert_eq!(
            CpuFacts::parse(text, "3800000\n").clock_hz,
            Some(3_800_000_000)
        );
        let arm = CpuFacts::parse("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "");
        assert_eq!(arm.id.as_deref(), Some("0x41-0xd40"));
        assert_eq!((arm.clock_hz, arm.hypervisor), (None, false));
    }

    #[test]
    fn only_other_namespaces_than_the_first_have_a_number() {
        let parse = |link| parse_namespace(Path::new(link));
        assert_eq!(parse("pid:[4026531836]"), None);
        assert_eq!(parse("pid:[4026532281]"), Some(4_026_532_281));
        assert_eq!(parse("mnt:[4026532281]"), None);
    }
}
