//! Tests of the answers for recorded machines and users.

use super::system::{Errno, System, Trial};
use super::{Capabilities, Fix, Question, diagnose, render_capabilities};
use std::collections::HashMap;
use std::io;

const ALL: u64 = (1 << 41) - 1;
const FIRST_NAMESPACE: &str = "         0          0 4294967295\n";

/// A machine that can do everything, until a test takes something away.
#[derive(Clone)]
struct Recorded {
    uid: u32,
    effective: u64,
    bounding: u64,
    seccomp: bool,
    no_new_privileges: bool,
    paranoid: i64,
    files: HashMap<String, Result<String, Errno>>,
    events: HashMap<Trial, Errno>,
    load: Result<(), Errno>,
    rings: Result<(), Errno>,
    memlock: Option<u64>,
    pid_namespace: &'static str,
}

impl Recorded {
    fn root() -> Self {
        let new = Self {
            uid: 0,
            effective: ALL,
            bounding: ALL,
            seccomp: false,
            no_new_privileges: false,
            paranoid: 2,
            files: HashMap::new(),
            events: HashMap::new(),
            load: Ok(()),
            rings: Ok(()),
            memlock: Some(8 << 20),
            pid_namespace: "pid:[4026531836]",
        };
        [
            ("/proc/self/uid_map", FIRST_NAMESPACE),
            ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("/proc/sys/kernel/kptr_restrict", "0\n"),
            ("/proc/sys/kernel/perf_event_mlock_kb", "516\n"),
            ("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n"),
            (
                "/proc/mounts",
                "tracefs /sys/kernel/tracing tracefs rw 0 0\nbpf /sys/fs/bpf bpf rw 0 0\n",
            ),
            ("/proc/filesystems", "nodev\ttracefs\n"),
            ("/proc/kallsyms", "ffffffff81000000 T _text\n"),
            ("/sys/kernel/tracing/events/sched/sched_switch/id", "316\n"),
            ("/sys/kernel/btf/vmlinux", "BTF"),
            ("/sys/bus/event_source/devices/uprobe/type", "9\n"),
        ]
        .into_iter()
        .fold(new, |new, (path, text)| new.file(path, text))
    }

    /// Makes a plain user under this `perf_event_paranoid`, as the kernel treats one.
    fn user(paranoid: i64) -> Self {
        let mut new = Self::root();
        (new.uid, new.effective, new.paranoid) = (1000, 0, paranoid);
        new.load = Err(libc::EPERM);
        let mut refuse = |above: i64, trial: Trial, errno: Errno| {
            if paranoid > above {
                new.events.insert(trial, errno);
            }
        };
        use Trial::*;
        refuse(2, OwnClock, libc::EACCES); // Debian's and Ubuntu's patch
        refuse(1, KernelClock, libc::EACCES);
        refuse(0, MachineClock, libc::EACCES);
        refuse(-1, Tracepoint(316), libc::EPERM);
        for always in [InitClock, Uprobe(9)] {
            refuse(i64::MIN, always, libc::EACCES);
        }
        for own in [Cycles, Instructions, Precise, Branches, Breakpoint] {
            refuse(2, own, libc::EACCES);
        }
        if paranoid > 1 {
            new = new.file("/proc/kallsyms", "0000000000000000 T _text\n");
        }
        new
    }

    fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), Ok(text.to_owned()));
        self
    }

    fn without(mut self, path: &str, errno: Errno) -> Self {
        self.files.insert(path.to_owned(), Err(errno));
        self
    }

    fn event(mut self, trial: Trial, errno: Errno) -> Self {
        self.events.insert(trial, errno);
        self
    }

    fn no_pmu(self) -> Self {
        let trials = [
            Trial::Cycles,
            Trial::Instructions,
            Trial::Precise,
            Trial::Branches,
        ];
        trials
            .into_iter()
            .fold(self, |new, trial| new.event(trial, libc::ENOENT))
    }

    fn ask(&self) -> Capabilities {
        diagnose::capabilities(self)
    }

    /// Returns the missing feature, and the remedy.
    fn gap(&self, question: Question) -> (String, Fix) {
        let gap = self.ask().get(question).expect_err("a gap");
        assert!(!gap.lose.is_empty());
        (gap.missing, gap.fix)
    }

    fn gaps(&self) -> Vec<Question> {
        let probes = self.ask().probes;
        let gaps = probes.into_iter().filter(|probe| probe.gap.is_some());
        gaps.map(|probe| probe.question).collect()
    }
}

impl System for Recorded {
    fn read_text(&self, path: &str) -> io::Result<String> {
        match path {
            "/proc/self/status" => Ok(format!(
                "Name:\tvitalfew\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nNoNewPrivs:\t{}\nSeccomp:\t{}\n",
                self.effective,
                self.bounding,
                u8::from(self.no_new_privileges),
                if self.seccomp { 2 } else { 0 },
            )),
            "/proc/sys/kernel/perf_event_paranoid" => Ok(format!("{}\n", self.paranoid)),
            _ => match self.files.get(path) {
                Some(Ok(text)) => Ok(text.clone()),
                Some(Err(errno)) => Err(io::Error::from_raw_os_error(*errno)),
                None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            },
        }
    }

    fn open_file(&self, path: &str) -> io::Result<()> {
        self.read_text(path).map(drop)
    }

    fn has_entries(&self, path: &str) -> io::Result<bool> {
        self.read_text(path).map(|text| !text.is_empty())
    }

    fn read_link(&self, _: &str) -> io::Result<String> {
        Ok(self.pid_namespace.to_owned())
    }

    fn euid(&self) -> u32 {
        self.uid
    }

    fn online_cpus(&self) -> usize {
        4
    }

    fn memlock_limit(&self) -> Option<u64> {
        self.memlock
    }

    fn try_event(&self, trial: Trial) -> Result<(), Errno> {
        self.events.get(&trial).map_or(Ok(()), |errno| Err(*errno))
    }

    fn map_rings(&self) -> Result<(), Errno> {
        self.rings
    }

    fn load_bpf(&self) -> Result<(), Errno> {
        self.load
    }

    fn attach_bpf(&self) -> Result<(), Errno> {
        Ok(())
    }
}

const SETCAP: &str =
    "sudo setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_syslog=ep $(command -v vitalfew)";
const DOCKER: &str =
    "docker run --cap-add PERFMON --cap-add BPF --cap-add SYS_PTRACE --cap-add SYSLOG ...";

fn command(text: &str) -> Fix {
    Fix::Command(text.to_owned())
}

fn is_advice(fix: &Fix) -> bool {
    matches!(fix, Fix::Advice(_))
}

#[test]
fn root_on_metal_lacks_nothing() {
    let capabilities = Recorded::root().ask();
    assert!(capabilities.probes.iter().all(|probe| probe.gap.is_none()));
    assert_eq!(capabilities.bpf(), Ok(()));
    let text = render_capabilities(&capabilities, true);
    assert_eq!(text.matches('✓').count(), Question::ALL.len(), "{text}");
    assert!(!text.contains("fix") && !text.contains('✗'), "{text}");
}

#[test]
fn each_level_of_paranoia_takes_what_it_takes() {
    use Question::*;
    let (all_users, own) = ([OtherUsers, Bpf, Uprobes], [Kernel, KernelSymbols]);
    let mut expected = all_users.to_vec();
    for (paranoid, more) in [
        (-1, &[][..]),
        (0, &[Tracepoints]),
        (1, &[WholeMachine]),
        (2, &own),
    ] {
        expected.extend(more);
        let mut gaps = Recorded::user(paranoid).gaps();
        let order = |q: &Question| Question::ALL.iter().position(|other| other == q);
        gaps.sort_by_key(order);
        expected.sort_by_key(order);
        assert_eq!(gaps, expected, "paranoid {paranoid}");
    }
}

#[test]
fn a_plain_user_is_told_one_setting_and_one_set_of_rights() {
    let user = Recorded::user(2);
    let sysctl = command("sudo sysctl kernel.perf_event_paranoid=1");
    let (missing, fix) = user.gap(Question::Kernel);
    assert_eq!(
        missing,
        "kernel.perf_event_paranoid is 2, and user 1000 has no cap_perfmon"
    );
    assert_eq!(fix, sysctl);
    assert_eq!(user.gap(Question::KernelSymbols).1, sysctl);
    for question in [
        Question::WholeMachine,
        Question::OtherUsers,
        Question::Bpf,
        Question::Tracepoints,
    ] {
        assert_eq!(user.gap(question).1, command(SETCAP), "{question}");
    }
    assert_eq!(
        user.ask().get(Question::Kernel).unwrap_err().errno,
        Some(libc::EACCES)
    );
    let text = render_capabilities(&user.ask(), false);
    assert_eq!(text.matches("setcap").count(), 1, "{text}");
    assert_eq!(text.matches("sysctl").count(), 1, "{text}");
    assert!(text.lines().count() <= 40 && text.is_ascii(), "{text}");
}

#[test]
fn debians_third_level_takes_everything_and_one_setting_gives_it_back() {
    let user = Recorded::user(3);
    for question in [
        Question::OwnPrograms,
        Question::RingBuffers,
        Question::Pmu,
        Question::Precise,
    ] {
        let (missing, fix) = user.gap(question);
        assert!(missing.contains("perf_event_paranoid is 3"), "{missing}");
        assert_eq!(fix, command("sudo sysctl kernel.perf_event_paranoid=1"));
    }
}

#[test]
fn rights_that_are_there_are_not_advised() {
    let mut user = Recorded::user(3);
    user.effective = 1 << 38 | 1 << 39; // cap_perfmon, cap_bpf
    user.events.clear();
    user.load = Ok(());
    user = user.event(Trial::Uprobe(9), libc::EACCES);
    assert_eq!(user.gaps(), [Question::KernelSymbols, Question::Uprobes]);
    let (missing, fix) = user.gap(Question::Uprobes);
    assert_eq!(missing, "user 1000 has no cap_sys_admin");
    assert_eq!(fix, command("sudo vitalfew ..."));
    user.events.clear();
    user.effective |= 1 << 34;
    let user = user.file("/proc/kallsyms", "ffffffff81000000 T _text\n");
    assert!(user.gaps().is_empty());
}

#[test]
fn what_file_rights_cannot_mend_is_not_mended_by_setcap() {
    let mut user = Recorded::user(2);
    user.no_new_privileges = true;
    assert!(is_advice(&user.gap(Question::WholeMachine).1));
    let mut old = Recorded::user(2).file("/proc/sys/kernel/osrelease", "5.4.0-100-generic\n");
    let setcap = "sudo setcap cap_sys_admin,cap_sys_ptrace,cap_syslog=ep $(command -v vitalfew)";
    assert_eq!(old.gap(Question::WholeMachine).1, command(setcap));
    assert_eq!(old.gap(Question::Bpf).0, "user 1000 has no cap_sys_admin");
    old.bounding = 0;
    assert!(is_advice(&old.gap(Question::WholeMachine).1));
}

#[test]
fn a_container_is_mended_from_outside() {
    let mut container = Recorded::user(2)
        .file("/.dockerenv", "")
        .file("/proc/mounts", "proc /proc/sys proc ro,nosuid 0 0\n");
    (container.uid, container.effective, container.bounding) = (0, 0xa804_25fb, 0xa804_25fb);
    container.seccomp = true;
    // The filter refuses the system call itself.
    let refused: Vec<Trial> = container.events.keys().copied().collect();
    for trial in refused.into_iter().chain([Trial::OwnClock]) {
        container.events.insert(trial, libc::EPERM);
    }
    for question in [
        Question::OwnPrograms,
        Question::Kernel,
        Question::WholeMachine,
        Question::Bpf,
    ] {
        let (missing, fix) = container.gap(question);
        assert!(missing.contains("seccomp"), "{missing}");
        assert_eq!(fix, Fix::HostCommand(DOCKER.into()));
    }
    let text = render_capabilities(&container.ask(), true);
    assert!(
        text.contains("container: Docker (/.dockerenv)")
            && text.contains("on the host: docker run"),
        "{text}"
    );

    // Without the filter the gap is a setting, which the container cannot write.
    let mut open = container.clone();
    open.seccomp = false;
    open.events = Recorded::user(2).events;
    let setting = Fix::HostCommand("sudo sysctl kernel.perf_event_paranoid=1".into());
    assert_eq!(open.gap(Question::Kernel).1, setting);
    assert_eq!(
        open.gap(Question::WholeMachine).1,
        Fix::HostCommand(DOCKER.into())
    );
    // The filter does not explain a refusal by the kernel itself.
    open.seccomp = true;
    assert!(open.gap(Question::Tracepoints).0.contains("paranoid"));
}

#[test]
fn containers_are_known_by_more_than_dockers_file() {
    let container = |recorded: Recorded| recorded.ask().user.container;
    assert_eq!(container(Recorded::root()), None);
    let kubernetes = Recorded::root().file("/proc/self/cgroup", "0::/kubepods/besteffort/pod1\n");
    assert_eq!(
        container(kubernetes).unwrap(),
        "kubepods (/proc/self/cgroup)"
    );
    let mut apart = Recorded::root();
    apart.pid_namespace = "pid:[4026532281]";
    assert_eq!(container(apart).unwrap(), "a PID namespace of its own");
}

#[test]
fn root_of_a_user_namespace_is_nobody() {
    let mut root = Recorded::user(2).file("/proc/self/uid_map", "0 1000 1\n");
    (root.uid, root.effective) = (0, ALL);
    let (missing, fix) = root.gap(Question::WholeMachine);
    assert!(
        missing.contains("root of a user namespace has no cap_perfmon"),
        "{missing}"
    );
    assert!(is_advice(&fix));
    assert_eq!(
        root.gap(Question::Kernel).1,
        Fix::HostCommand("sudo sysctl kernel.perf_event_paranoid=1".into())
    );
}

#[test]
fn no_counters_is_the_hypervisors_affair_in_a_virtual_machine_only() {
    let metal = Recorded::root().no_pmu();
    let virtual_machine = metal
        .clone()
        .file("/proc/cpuinfo", "flags\t: fpu hypervisor\n");
    for question in [Question::Pmu, Question::Precise, Question::Branches] {
        let (missing, fix) = virtual_machine.gap(question);
        assert_eq!(
            missing,
            "this virtual machine shows no performance-monitoring unit"
        );
        assert!(
            is_advice(&fix) && fix.to_string().contains("hypervisor"),
            "{fix}"
        );
        let (missing, fix) = metal.gap(question);
        assert!(
            is_advice(&fix) && !fix.to_string().contains("hypervisor"),
            "{missing}: {fix}"
        );
    }
    assert_eq!(
        virtual_machine.ask().pmu().unwrap_err().errno,
        Some(libc::ENOENT)
    );
    let imprecise = Recorded::root().event(Trial::Precise, libc::EOPNOTSUPP);
    assert_eq!(imprecise.gaps(), [Question::Precise]);
    let busy = Recorded::root().event(Trial::Cycles, libc::EBUSY);
    assert_eq!(
        busy.gap(Question::Pmu).1,
        command("sysctl kernel.nmi_watchdog=0")
    );
}

#[test]
fn bpf_needs_rights_types_and_on_old_kernels_memory() {
    let mut root = Recorded::root().without("/sys/kernel/btf/vmlinux", libc::ENOENT);
    let (missing, fix) = root.gap(Question::Btf);
    assert!(
        missing.contains("CONFIG_DEBUG_INFO_BTF") && is_advice(&fix),
        "{missing}"
    );
    assert!(root.ask().bpf().is_err());
    root.load = Err(libc::EPERM);
    let (missing, fix) = root.gap(Question::Bpf);
    assert!(
        missing.contains("security module") && is_advice(&fix),
        "{missing}"
    );
    let locked = root.clone().file(
        "/sys/kernel/security/lockdown",
        "none integrity [confidentiality]\n",
    );
    assert!(
        locked
            .gap(Question::Bpf)
            .0
            .contains("lockdown (confidentiality)")
    );
    let old = root
        .clone()
        .file("/proc/sys/kernel/osrelease", "5.10.0-28-amd64\n");
    assert_eq!(old.gap(Question::Bpf).1, command("ulimit -l unlimited"));
    root.load = Err(libc::ENOSYS);
    assert!(root.gap(Question::Bpf).0.contains("CONFIG_BPF_SYSCALL"));
    let unmounted = Recorded::root().file(
        "/proc/mounts",
        "tracefs /sys/kernel/tracing tracefs rw 0 0\n",
    );
    assert_eq!(
        unmounted.gap(Question::BpfFs).1,
        command("mount -t bpf bpf /sys/fs/bpf")
    );
}

#[test]
fn small_ring_buffers_name_the_size_that_is_enough() {
    let mut user = Recorded::user(1).file("/proc/sys/kernel/perf_event_mlock_kb", "64\n");
    user.rings = Err(libc::EPERM);
    let (missing, fix) = user.gap(Question::RingBuffers);
    assert_eq!(
        missing,
        "kernel.perf_event_mlock_kb is 64, and a buffer takes 516 on each CPU"
    );
    assert_eq!(fix, command("sudo sysctl kernel.perf_event_mlock_kb=516"));
    let user = user.file("/proc/sys/kernel/perf_event_mlock_kb", "516\n");
    let (missing, fix) = user.gap(Question::RingBuffers);
    assert!(
        missing.contains("taken by your other recordings"),
        "{missing}"
    );
    assert_eq!(fix, command("sudo sysctl kernel.perf_event_mlock_kb=1032"));
}

#[test]
fn hidden_kernel_symbols_by_who_asks() {
    let hidden = |recorded: Recorded, restrict: &str| {
        let recorded = recorded.file("/proc/kallsyms", "0000000000000000 T _text\n");
        recorded
            .file("/proc/sys/kernel/kptr_restrict", restrict)
            .gap(Question::KernelSymbols)
    };
    let (missing, fix) = hidden(Recorded::root(), "2\n");
    assert!(missing.contains("even from root"), "{missing}");
    assert_eq!(fix, command("sysctl kernel.kptr_restrict=1"));
    assert_eq!(hidden(Recorded::user(2), "1\n").1, command(SETCAP));
    let both = "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1";
    assert_eq!(hidden(Recorded::user(2), "2\n").1, command(both));
    assert_eq!(
        hidden(Recorded::user(1), "2\n").1,
        command("sudo sysctl kernel.kptr_restrict=0")
    );
    assert!(is_advice(&hidden(Recorded::root(), "0\n").1));
    let gone = Recorded::root().without("/proc/kallsyms", libc::ENOENT);
    assert!(
        gone.gap(Question::KernelSymbols)
            .0
            .contains("CONFIG_KALLSYMS")
    );
}

#[test]
fn tracepoints_need_a_readable_tracefs() {
    let unreadable = Recorded::user(-1)
        .without(
            "/sys/kernel/tracing/events/sched/sched_switch/id",
            libc::EACCES,
        )
        .without("/sys/kernel/tracing/events", libc::EACCES);
    let remount = "sudo mount -o remount,mode=755 /sys/kernel/tracing";
    assert_eq!(unreadable.gap(Question::Tracepoints).1, command(remount));
    assert_eq!(
        unreadable
            .ask()
            .get(Question::Tracepoints)
            .unwrap_err()
            .errno,
        Some(libc::EACCES)
    );
    let unmounted = unreadable.file("/proc/mounts", "");
    let mount = "sudo mount -t tracefs -o mode=755 tracefs /sys/kernel/tracing";
    assert_eq!(unmounted.gap(Question::Tracepoints).1, command(mount));
    let mut root = unmounted.clone();
    (root.uid, root.effective) = (0, ALL);
    assert_eq!(root.ask().get(Question::Tracepoints), Ok(()));
    let none = unmounted.file("/proc/filesystems", "nodev\tproc\n");
    assert!(none.gap(Question::Tracepoints).0.contains("CONFIG_TRACING"));
}

#[test]
fn other_errors_are_told_as_they_are() {
    let no_perf = Recorded::root().event(Trial::OwnClock, libc::ENOSYS);
    assert!(
        no_perf
            .gap(Question::OwnPrograms)
            .0
            .contains("CONFIG_PERF_EVENTS")
    );
    let files = Recorded::root().event(Trial::MachineClock, libc::EMFILE);
    assert_eq!(
        files.gap(Question::WholeMachine).1,
        command("ulimit -n 65536")
    );
    let taken = Recorded::root().event(Trial::Breakpoint, libc::ENOSPC);
    assert!(taken.gap(Question::Breakpoints).0.contains("in use"));
    let selinux = Recorded::root().event(Trial::OwnClock, libc::EACCES);
    assert!(
        selinux
            .gap(Question::OwnPrograms)
            .0
            .contains("security module")
    );
    let strange = Recorded::root().event(Trial::Uprobe(9), libc::E2BIG);
    assert!(strange.gap(Question::Uprobes).0.contains("uprobes: "));
}

#[test]
fn json_has_a_schema_and_typed_gaps() {
    let json = serde_json::to_value(Recorded::user(2).ask()).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["limits"]["perf_event_paranoid"], 2);
    let kernel = &json["probes"][1];
    assert_eq!(kernel["question"], "kernel");
    assert_eq!(kernel["gap"]["errno"], libc::EACCES);
    assert_eq!(kernel["gap"]["fix"]["kind"], "command");
    assert_eq!(json["probes"][7]["gap"], serde_json::Value::Null);
}

/// On any machine: every question is answered, and the text mentions each once.
#[test]
fn this_machine_answers() {
    let capabilities = super::probe_machine();
    assert_eq!(capabilities.probes.len(), Question::ALL.len());
    let text = render_capabilities(&capabilities, false);
    for question in Question::ALL {
        assert_eq!(
            text.lines()
                .filter(|line| line.get(2..).map(str::trim) == Some(&question.to_string()))
                .count(),
            1,
            "{text}"
        );
    }
    assert!(capabilities.machine.cpus > 0 && !capabilities.machine.kernel.is_empty());
}
