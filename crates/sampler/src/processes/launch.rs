//! Starts a command so that it is measured from its first instruction.

use super::command_files::{program_text, script_interpreter};
use super::end_requests::EndRequests;
use super::inheritance::restore_inheritance;
use crate::Error;
use crate::clock::cpu_ns;
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command returned this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Exit {
    /// Returns the exit code that a shell reports: 128 plus the signal's number for a signal.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// A forked process that waits to execute the command.
pub struct Launched {
    pid: u32,
    pidfd: OwnedFd,
    go: Option<OwnedFd>,
    failed: std::fs::File,
    program: String,
    exit: Option<Exit>,
    end_requests: EndRequests,
    /// CPU time of the process and of the children that it waited for, known once it is reaped.
    reaped_cpu_ns: Option<u64>,
}

impl Launched {
    /// Forks a child that waits for [`Self::start`] before it executes `command`.
    ///
    /// # Errors
    /// If the command is empty, or no process can be made.
    pub fn fork_waiting(command: &[OsString]) -> Result<Self, Error> {
        Self::fork_waiting_with(command, &[])
    }

    /// As [`Self::fork_waiting`], with environment variables set for the command only.
    ///
    /// # Errors
    /// As [`Self::fork_waiting`].
    pub fn fork_waiting_with(
        command: &[OsString],
        environment: &[(&str, OsString)],
    ) -> Result<Self, Error> {
        let program = program_text(command);
        let refuse = |_| Error::NotExecutable {
            program: program.clone(),
            source: io::Error::from(io::ErrorKind::InvalidInput),
        };
        let arguments: Vec<CString> = command
            .iter()
            .map(|word| CString::new(word.as_bytes()).map_err(refuse))
            .collect::<Result<_, _>>()?;
        let Some(file) = arguments.first() else {
            return Err(Error::NoSuchProgram { program });
        };
        let pointers = null_terminated(&arguments);

        let environment: Vec<CString> = environment_with(environment)
            .map(|entry| CString::new(entry).map_err(refuse))
            .collect::<Result<_, _>>()?;
        let environment = null_terminated(&environment);

        let (go_read, go_write) = open_pipe()?;
        let (failed_read, failed_write) = open_pipe()?;
        // SAFETY: until it executes the command the child calls only async-signal-safe functions
        // (read, write, close, sigaction, setrlimit, umask, _exit) and execvp on memory made before
        // the fork.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(Error::system("starting a process"));
        }
        if pid == 0 {
            // SAFETY: as above.
            unsafe {
                let ends = [&go_write, &go_read, &failed_write];
                become_command(file, &pointers, &environment, ends)
            }
        }
        // SAFETY: a system call on the id of an unreaped child.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
        if pidfd < 0 {
            return Err(Error::system("opening the new process"));
        }
        Ok(Self {
            pid: pid as u32,
            // SAFETY: the kernel has just returned this descriptor.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
            go: Some(go_write),
            failed: failed_read.into(),
            program,
            exit: None,
            end_requests: EndRequests::watch(pid as u32),
            reaped_cpu_ns: None,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns a descriptor that becomes readable when the command has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Lets the child execute the command.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`], [`Error::NotExecutable`].
    pub fn start(&mut self) -> Result<(), Error> {
        let Some(go) = self.go.take() else {
            return Ok(());
        };
        // SAFETY: writes one byte from a static buffer.
        unsafe { libc::write(go.as_raw_fd(), b"!".as_ptr().cast(), 1) };
        drop(go);
        let mut errno = [0; 4];
        match self.failed.read_exact(&mut errno) {
            Ok(()) => {
                self.wait();
                let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
                let program = self.program.clone();
                if source.kind() == io::ErrorKind::NotFound {
                    let line = script_interpreter(Path::new(&program)).unwrap_or_default();
                    if let Some(interpreter) = line.split_whitespace().next() {
                        let interpreter = interpreter.to_owned();
                        return Err(Error::NoInterpreter {
                            program,
                            interpreter,
                        });
                    }
                    return Err(Error::NoSuchProgram { program });
                }
                Err(Error::NotExecutable { program, source })
            }
            Err(_) => Ok(()), // closed by the exec
        }
    }

    /// Sends the process a signal.
    pub fn send_signal(&self, signal: libc::c_int) {
        if self.exit.is_none() {
            // SAFETY: a system call on an unreaped child.
            unsafe { libc::kill(self.pid as libc::pid_t, signal) };
        }
    }

    /// Returns how the command has ended, if it has.
    pub fn try_wait(&mut self) -> Option<Exit> {
        self.wait_with(libc::WNOHANG)
    }

    /// Returns whether the command has ended. The kernel keeps its data until it is reaped.
    pub fn has_ended(&self) -> bool {
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: a description of zeros is valid; the kernel writes it through the pointer.
        let ended = unsafe {
            let mut seen: libc::siginfo_t = std::mem::zeroed();
            let found = libc::waitid(libc::P_PID, self.pid, &raw mut seen, options) == 0;
            found && seen.si_pid() != 0
        };
        self.exit.is_some() || ended
    }

    /// Sets `stop` if another process told the command to end and it exited by itself: then it is
    /// not to be started again.
    pub fn stop_as_told(&self, stop: &AtomicBool) {
        if matches!(self.exit, Some(Exit::Code(_))) && self.end_requests.any() {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until the command ends, or a signal interrupts.
    pub fn wait(&mut self) -> Option<Exit> {
        self.wait_with(0)
    }

    /// Waits until the command ends.
    pub fn wait_for_end(mut self) -> Exit {
        loop {
            if let Some(exit) = self.wait() {
                return exit;
            }
        }
    }

    /// Returns the CPU time of the command and of the children that it waited for, once it has
    /// ended.
    pub(crate) fn reaped_cpu_ns(&self) -> Option<u64> {
        self.reaped_cpu_ns
    }

    fn wait_with(&mut self, flags: libc::c_int) -> Option<Exit> {
        if self.exit.is_none() {
            let mut status = 0;
            let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: waits for a child of this process; status and usage are written through the
            // pointers.
            let pid = unsafe {
                libc::wait4(
                    self.pid as libc::pid_t,
                    &mut status,
                    flags,
                    usage.as_mut_ptr(),
                )
            };
            if pid == self.pid as libc::pid_t {
                // SAFETY: the kernel has filled it in, and zeros are a valid value, too.
                self.reaped_cpu_ns = Some(cpu_ns(&unsafe { usage.assume_init() }));
                self.exit = Some(if libc::WIFSIGNALED(status) {
                    Exit::Signal(libc::WTERMSIG(status))
                } else {
                    Exit::Code(libc::WEXITSTATUS(status))
                });
            }
        }
        self.exit
    }
}

/// Returns this process's environment with these variables set, each as `NAME=value`.
fn environment_with(set: &[(&str, OsString)]) -> impl Iterator<Item = Vec<u8>> {
    let kept = std::env::vars_os().filter(|(name, _)| !set.iter().any(|(new, _)| name == new));
    let set = set
        .iter()
        .map(|(name, value)| (OsString::from(name), value.clone()));
    kept.chain(set)
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
}

fn null_terminated(texts: &[CString]) -> Vec<*const libc::c_char> {
    let pointers = texts.iter().map(|text| text.as_ptr());
    pointers.chain([std::ptr::null()]).collect()
}

/// # Safety
/// Only in a child that has just been forked; both lists end with a null pointer.
unsafe fn become_command(
    file: &CString,
    pointers: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    [go_write, go_read, failed]: [&OwnedFd; 3],
) -> ! {
    let mut byte = 0u8;
    // SAFETY: see the caller; all pointers are to live memory of the sizes given.
    unsafe {
        libc::close(go_write.as_raw_fd());
        if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
            restore_inheritance();
            libc::execvpe(file.as_ptr(), pointers.as_ptr(), environment.as_ptr());
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(failed.as_raw_fd(), errno.as_ptr().cast(), errno.len());
        }
        libc::_exit(127)
    }
}

fn open_pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors into the array.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(Error::system("making a pipe"));
    }
    // SAFETY: both descriptors are new.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Launched {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Launched::fork_waiting(&words).unwrap()
    }

    #[test]
    fn exit_codes_and_signals_pass_through() {
        for (script, code) in [("exit 7", 7), ("kill -TERM $$", 128 + 15)] {
            let mut child = command(&["sh", "-c", script]);
            child.start().unwrap();
            assert_eq!(child.wait().unwrap().exit_code(), code);
        }
    }

    #[test]
    fn what_cannot_run_says_why() {
        let missing = command(&["/nonexistent/program"]).start();
        assert!(matches!(missing, Err(Error::NoSuchProgram { .. })));
        let directory = command(&["/tmp"]).start();
        assert!(matches!(directory, Err(Error::NotExecutable { .. })));
    }

    #[test]
    fn nothing_runs_before_the_start() {
        let mut child = command(&["true"]);
        assert_eq!(child.try_wait(), None);
        assert!(!child.has_ended());
        child.start().unwrap();
        while !child.has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(child.wait(), Some(Exit::Code(0)));
    }
}
