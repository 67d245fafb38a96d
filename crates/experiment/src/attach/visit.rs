//! Actions of the borrowed thread: it makes the memory, loads the runtime and calls it.
//!
//! The thread uses a stack of its own and a few instructions that wait at their end until vitalfew
//! restores it. If vitalfew is gone by then, they restore the thread themselves, as from a signal
//! handler: a killed controller does not harm the program.

use super::borrowed::BorrowedThread;
use super::image::{LibcFunctions, RuntimeImage, runtimes_loaded};
use super::lifeline::Lifeline;
use super::proc_files::open_descriptor;
use super::refuse::refusal;
use crate::Error;
use crate::memory::AttachedMemory;
use std::arch::global_asm;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Results of a visit.
pub(super) struct Visited<M: AttachedMemory> {
    pub memory: M,
    pub lifeline: Lifeline<M>,
}

/// Bytes of memory for the visit: code, data, then the stack.
const ROOM: u64 = 1 << 20;
const DATA: u64 = 4096;
const FRAME: u64 = 8192;
const TEXTS: u64 = FRAME + 64 * 1024;
/// Bytes for a string.
const TEXT: u64 = 128;

/// Maximum number of slashes in a path, which tell builds of the runtime apart.
const MOST_SLASHES: usize = 64;

/// Time limit for loading the runtime: other threads may be loading libraries.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(50);

/// Indexes of the words of the data.
const DONE: usize = 0;
const ERRNO: usize = 1;
const OPEN: usize = 2;
const PATH: usize = 3;
const FLAGS: usize = 4;
const WHY: usize = 5;
const ENTRY: usize = 6;
const BASE: usize = 7;
const DESCRIPTOR: usize = 8;
const RESULT: usize = 9;
const HANDLE: usize = 10;
const REASON: usize = 11;
const RETURN: usize = 13;
const WORDS: usize = 14;

unsafe extern "C" {
    static vitalfew_visit: u8;
    static vitalfew_visit_end: u8;
}

// r15: the data. The last part waits for vitalfew for about a second (longer on a busy machine),
// then returns by itself.
global_asm!(
    ".pushsection .rodata",
    ".globl vitalfew_visit, vitalfew_visit_end",
    ".hidden vitalfew_visit, vitalfew_visit_end",
    "vitalfew_visit:",
    "call [r15 + 8*1]",
    "mov rbx, rax",
    "mov eax, [rbx]",
    "mov [r15 + 8*12], eax",
    "mov rax, [r15 + 8*7]",
    "cmp qword ptr [r15 + 8*2], 0",
    "je 2f",
    "mov rdi, [r15 + 8*3]",
    "mov rsi, [r15 + 8*4]",
    "call [r15 + 8*2]",
    "mov [r15 + 8*10], rax",
    "test rax, rax",
    "jnz 1f",
    "cmp qword ptr [r15 + 8*5], 0",
    "je 3f",
    "call [r15 + 8*5]",
    "mov [r15 + 8*11], rax",
    "jmp 3f",
    // The first word of the result of `dlopen` is the load address (`struct link_map`).
    "1: mov rax, [rax]",
    "2: add rax, [r15 + 8*6]",
    "mov rdi, [r15 + 8*8]",
    "call rax",
    "mov [r15 + 8*9], rax",
    "3: mov eax, [r15 + 8*12]",
    "mov [rbx], eax",
    "mov qword ptr [r15], 1",
    "mov r12d, 2000000",
    "4: mov eax, 24",
    "syscall",
    "dec r12d",
    "jnz 4b",
    "mov rsp, [r15 + 8*13]",
    "mov eax, 15",
    "syscall",
    "vitalfew_visit_end:",
    ".popsection",
);

fn visit_code() -> &'static [u8] {
    // SAFETY: two marks around bytes that do not change.
    unsafe {
        let (first, end) = (&raw const vitalfew_visit, &raw const vitalfew_visit_end);
        std::slice::from_raw_parts(first, end.addr() - first.addr())
    }
}

/// Loads the runtime into the process.
pub(super) fn load_runtime<M: AttachedMemory>(
    pid: u32,
    thread: &mut BorrowedThread,
    image: &RuntimeImage,
    libc: &LibcFunctions,
) -> Result<Visited<M>, Error> {
    thread.prepare_return(libc.returning_call)?;
    let room = map_room(pid, thread)?;
    let mut visit = Visit {
        pid,
        thread,
        room,
        words: [0; WORDS],
        library: None,
    };
    let visited = visit.prepare(image, libc).and_then(|visited| {
        visit.run()?;
        Ok(visited)
    });
    visit.clear();
    visited
}

fn map_room(pid: u32, thread: &mut BorrowedThread) -> Result<u64, Error> {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let map = [0, ROOM, access as u64, flags as u64, u64::MAX, 0];
    made(pid, "mmap", thread.make_call(libc::SYS_mmap, map)?)
}

/// Returns the result of a system call in the target.
fn made(pid: u32, what: &str, result: i64) -> Result<u64, Error> {
    match result {
        0.. => Ok(result as u64),
        // Addresses are positive, too.
        _ => {
            let error = io::Error::from_raw_os_error(-result as i32);
            Err(refusal(pid, &format!("{what} is refused in it: {error}")))
        }
    }
}

struct Visit<'a> {
    pid: u32,
    thread: &'a mut BorrowedThread,
    /// Address of the memory in the target; 0: none.
    room: u64,
    words: [u64; WORDS],
    /// Descriptor of the library's file in the target.
    library: Option<u64>,
}

impl Visit<'_> {
    /// Writes the code and data for the thread.
    fn prepare<M: AttachedMemory>(
        &mut self,
        image: &RuntimeImage,
        libc: &LibcFunctions,
    ) -> Result<Visited<M>, Error> {
        let page = self.make_file("vitalfew", 0)?;
        self.words[DESCRIPTOR] = page;
        let file = open_descriptor(self.pid, page)?;
        let memory = M::in_file(file.into())?;
        let lifeline = Lifeline::hold(memory.another()?)?;
        self.words[ERRNO] = libc.errno_location;
        self.words[ENTRY] = image.entry;
        match image.loaded_at(self.pid) {
            Some(base) => self.words[BASE] = base,
            None => {
                let library = self.make_file(&image.name, TEXT)?;
                self.library = Some(library);
                let mut file = open_descriptor(self.pid, library)?;
                file.write_all(&image.bytes)
                    .map_err(Error::wrap_io("copying the runtime"))?;
                // The dynamic linker takes a path that it has loaded before for the same library.
                // Another build of the runtime may have had this descriptor's number.
                let slashes = "/".repeat(1 + runtimes_loaded(self.pid) % MOST_SLASHES);
                let path = format!("/proc/self/fd{slashes}{library}\0");
                self.write(TEXTS + 2 * TEXT, path.as_bytes())?;
                self.words[PATH] = self.room + TEXTS + 2 * TEXT;
                self.words[OPEN] = libc.dlopen;
                self.words[FLAGS] = libc.flags;
                self.words[WHY] = libc.dlerror;
            }
        }
        self.write(0, visit_code())?;
        let frame = self.thread.return_frame(self.room + FRAME);
        self.words[RETURN] = self.room + FRAME;
        self.write(FRAME, &frame)?;
        let words: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.write(DATA, &words)?;
        Ok(Visited { memory, lifeline })
    }

    /// Makes a file in memory; returns its descriptor in the target.
    fn make_file(&mut self, name: &str, at: u64) -> Result<u64, Error> {
        self.write(TEXTS + at, format!("{name}\0").as_bytes())?;
        let name = self.room + TEXTS + at;
        let close_on_exec = libc::MFD_CLOEXEC.into();
        let call = [name, close_on_exec, 0, 0, 0, 0];
        let result = self.thread.make_call(libc::SYS_memfd_create, call)?;
        made(self.pid, "memfd_create", result)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = self.thread.memory.write_all_at(bytes, self.room + at);
        let what = format!("writing to the memory of process {}", self.pid);
        written.map_err(Error::wrap_io(what))
    }

    fn word(&self, number: usize) -> u64 {
        let mut bytes = [0; 8];
        let at = self.room + DATA + 8 * number as u64;
        let read = self.thread.memory.read_exact_at(&mut bytes, at);
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// Runs the thread through the code.
    fn run(&mut self) -> Result<(), Error> {
        // Aligned as in front of a call.
        let stack = self.room + ROOM - 4096;
        self.thread.run_from(self.room, stack, self.room + DATA)?;
        let start = Instant::now();
        while self.word(DONE) == 0 {
            if start.elapsed() > PATIENCE {
                self.thread.leave_running();
                self.room = 0;
                return Err(refusal(
                    self.pid,
                    "its dynamic linker does not let the runtime in: another thread is loading a library",
                ));
            }
            std::thread::sleep(PAUSE);
        }
        let code = self.room..self.room + DATA;
        if !self.thread.hold_within(&code) {
            // The thread has waited for too long, and has restored itself.
            self.room = 0;
            return Err(refusal(self.pid, "this machine is too busy; try again"));
        }
        if self.word(HANDLE) == 0 && self.words[OPEN] != 0 {
            return Err(refusal(self.pid, &self.reason()));
        }
        match self.word(RESULT) as i32 {
            0 => Ok(()),
            libc::EBUSY => Err(refusal(
                self.pid,
                "another vitalfew is attached to it, or one was killed while it traced it or the process that it was forked from (then it has to be started anew)",
            )),
            number => {
                let error = io::Error::from_raw_os_error(number);
                Err(refusal(
                    self.pid,
                    &format!("the runtime cannot begin: {error}"),
                ))
            }
        }
    }

    /// Returns the error message of the dynamic linker.
    fn reason(&self) -> String {
        let mut text = vec![0; 256];
        let read = self.thread.memory.read_at(&mut text, self.word(REASON));
        text.truncate(read.unwrap_or(0));
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        let text = String::from_utf8_lossy(text.get(..end).unwrap_or_default()).into_owned();
        format!("its dynamic linker does not load the runtime: {text}")
    }

    /// Unmaps the memory and closes descriptors that are no longer needed.
    fn clear(&mut self) {
        if self.room == 0 {
            return;
        }
        let mut descriptors: Vec<u64> = self.library.into_iter().collect();
        // Once begun, the runtime closes the memory's descriptor itself.
        if self.word(RESULT) != 0 || self.word(DONE) == 0 || self.words[DESCRIPTOR] == 0 {
            descriptors.extend((self.words[DESCRIPTOR] != 0).then_some(self.words[DESCRIPTOR]));
        }
        for descriptor in descriptors {
            let _ = (self.thread).make_call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
        }
        let _ = (self.thread).make_call(libc::SYS_munmap, [self.room, ROOM, 0, 0, 0, 0]);
    }
}
