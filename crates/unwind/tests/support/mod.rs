//! A small debugger: starts a program, stops it, steps it, and takes the data of a sample.
#![allow(dead_code, missing_docs)]

use object::{Object, ObjectSymbol};
use profile::{MapsLine, ProcessAddress};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use unwind::{AddressSpace, ModuleCache, ModuleData, UnwindRegisters};

/// Maximum size of perf's copy of the stack, without its header.
pub const STACK_COPY: usize = 65_528;

/// Compiles a program of `tests/programs`; `None` if the compiler is not installed.
pub fn compile(
    directory: &Path,
    compiler: &str,
    source: &str,
    options: &[&str],
) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let program = directory.join(format!("{compiler}-{}", options.concat()).replace('/', "_"));
    let run = Command::new(compiler)
        .args(options)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output();
    let run = match run {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{compiler} is not installed: skipped");
            return None;
        }
        run => run.expect("the compiler runs"),
    };
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    Some(program)
}

/// Reason why a traced thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Stopped(i32),
    Exited,
}

pub struct Traced {
    child: Child,
    pub pid: i32,
    /// The examined thread.
    pub tid: i32,
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // The process only ends after each of its threads has been waited for.
        let mut status = 0;
        // SAFETY: `status` outlives the calls.
        while unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) } > 0 {}
        let _ = self.child.wait();
    }
}

impl Traced {
    /// Starts the program, stopped after its exec.
    pub fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("HOME", "/");
        // SAFETY: the hook only makes a system call.
        unsafe {
            command.pre_exec(|| {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                Ok(())
            })
        };
        let child = command.spawn().expect("the program starts");
        let pid = child.id() as i32;
        let mut new = Self {
            child,
            pid,
            tid: pid,
        };
        assert_eq!(new.wait(), Event::Stopped(libc::SIGTRAP));
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        // SAFETY: no memory is passed.
        let set = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) };
        assert_eq!(set, 0);
        new
    }

    fn wait(&mut self) -> Event {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(tid > 0, "{}", std::io::Error::last_os_error());
        self.tid = tid;
        if libc::WIFSTOPPED(status) {
            Event::Stopped(libc::WSTOPSIG(status))
        } else {
            Event::Exited
        }
    }

    fn resume(&mut self, tid: i32, how: libc::c_uint, signal: i32) {
        // SAFETY: no memory is passed.
        let done = unsafe { libc::ptrace(how, tid, 0, signal) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// Runs until the program raises SIGSTOP; all other signals are passed on to it.
    pub fn run_to_stop(&mut self) {
        let mut signal = 0;
        loop {
            self.resume(self.tid, libc::PTRACE_CONT, signal);
            signal = match self.wait() {
                Event::Stopped(libc::SIGSTOP) if self.raised_itself() => return,
                Event::Stopped(libc::SIGTRAP | libc::SIGSTOP) => 0,
                Event::Stopped(other) => other,
                Event::Exited => panic!("the program ended"),
            };
        }
    }

    /// Returns whether the thread stopped itself: a new thread also starts with a SIGSTOP, which it
    /// did not send itself.
    fn raised_itself(&self) -> bool {
        // SAFETY: all zeroes is a valid siginfo, and it outlives the call.
        let info = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let done = libc::ptrace(libc::PTRACE_GETSIGINFO, self.tid, 0, &raw mut info);
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            info
        };
        info.si_code == libc::SI_TKILL
    }

    /// Executes one instruction.
    pub fn step(&mut self, signal: i32) -> Event {
        self.resume(self.tid, libc::PTRACE_SINGLESTEP, signal);
        self.wait()
    }

    #[cfg(target_arch = "x86_64")]
    pub fn registers(&self) -> UnwindRegisters {
        // SAFETY: all zeroes is valid, and it outlives the call.
        let r = unsafe {
            let mut r: libc::user_regs_struct = std::mem::zeroed();
            let done = libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0, &raw mut r);
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            r
        };
        let all = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        let start = UnwindRegisters::x86_64(r.rip, r.rsp, r.rbp);
        (0..)
            .zip(all)
            .fold(start, |regs, (n, value)| regs.with(n, value))
    }

    /// Reads memory of the program, as much as is mapped; returns its size.
    pub fn memory(&self, address: u64, buffer: &mut [u8]) -> usize {
        // One range per page: a transfer ends before the first unmapped one.
        let local = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let end = address + buffer.len() as u64;
        let mut remote = Vec::new();
        let mut at = address;
        while at < end {
            let next = ((at | 0xfff) + 1).min(end);
            remote.push(libc::iovec {
                iov_base: at as *mut libc::c_void,
                iov_len: (next - at) as usize,
            });
            at = next;
        }
        // SAFETY: the local range is `buffer`; the kernel checks the remote ones.
        let read = unsafe {
            libc::process_vm_readv(self.pid, &local, 1, remote.as_ptr(), remote.len() as u64, 0)
        };
        usize::try_from(read).unwrap_or(0)
    }

    /// Returns the mapped images, and the functions in them.
    pub fn maps(&self, cache: &mut ModuleCache) -> (AddressSpace, Symbols) {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        let (mut space, mut symbols) = (AddressSpace::new(), Symbols::default());
        for line in MapsLine::parse_all(&text).filter(|line| line.executable) {
            let (start, end) = (line.addresses.start, line.addresses.end);
            let (offset, path) = (line.file_offset, line.path);
            let module = if path == "[vdso]" {
                let mut bytes = vec![0; (end - start) as usize];
                assert_eq!(self.memory(start, &mut bytes), bytes.len());
                symbols.add(start..end, offset, &bytes);
                Arc::new(ModuleData::from_bytes(path, &bytes).unwrap())
            } else if path.starts_with('/') {
                symbols.add(start..end, offset, &std::fs::read(path).unwrap());
                cache
                    .get(line.file.unwrap(), || ModuleData::open(Path::new(path)))
                    .unwrap()
            } else {
                continue;
            };
            space.add_module(ProcessAddress(start)..ProcessAddress(end), offset, module);
        }
        (space, symbols)
    }
}

/// Names of functions by their address in the process.
#[derive(Default)]
pub struct Symbols {
    by_start: BTreeMap<u64, (u64, String)>,
    mapped: Vec<std::ops::Range<u64>>,
}

impl Symbols {
    fn add(&mut self, mapping: std::ops::Range<u64>, offset: u64, bytes: &[u8]) {
        use object::read::elf::{ElfFile64, ProgramHeader};
        self.mapped.push(mapping.clone());
        let file = ElfFile64::<object::LittleEndian>::parse(bytes).unwrap();
        let le = object::LittleEndian;
        let segments = file.elf_program_headers().iter();
        let code =
            segments.filter(|s| s.p_type(le) == object::elf::PT_LOAD && s.p_flags(le).0 & 1 != 0);
        let code: Vec<_> = code
            .map(|s| (s.p_offset(le), s.p_vaddr(le), s.p_filesz(le)))
            .collect();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Ok(name) = symbol.name() else { continue };
            for (start, address, size) in &code {
                let inside = (*address..address + size).contains(&symbol.address());
                let at = symbol.address().wrapping_sub(*address).wrapping_add(*start);
                if inside
                    && at >= offset
                    && at - offset < mapping.end - mapping.start
                    && !name.is_empty()
                {
                    let at = mapping.start + at - offset;
                    self.by_start
                        .insert(at, (at + symbol.size().max(1), name.to_owned()));
                }
            }
        }
    }

    /// Returns whether the address was mapped when the maps were read.
    pub fn covers(&self, address: ProcessAddress) -> bool {
        self.mapped.iter().any(|range| range.contains(&address.0))
    }

    pub fn name(&self, address: ProcessAddress) -> &str {
        let found = self.by_start.range(..=address.0).next_back();
        // Assembly functions often have no size.
        match found {
            Some((start, (end, name))) if address.0 < *end || *end == start + 1 => name,
            _ => "?",
        }
    }

    pub fn names(&self, frames: &[ProcessAddress]) -> Vec<&str> {
        frames.iter().map(|frame| self.name(*frame)).collect()
    }
}

/// Counts by name, the most frequent first.
pub fn ranking(counts: &HashMap<String, usize>) -> Vec<(&String, &usize)> {
    let mut ranking: Vec<_> = counts.iter().collect();
    ranking.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    ranking
}
