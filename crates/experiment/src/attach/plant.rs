//! Brings the signal handler for programs without hooks into a process, by system calls of a
//! borrowed thread.
//!
//! The process gets one range of addresses: the handler, some work pages, the shared memory, and
//! the BPF map with the counts of its threads. The range stays, because a thread may still be in
//! the handler when vitalfew leaves; the next session reuses it. The descriptors of the memory are
//! passed through a socket pair, which works across containers.

use super::borrowed::BorrowedThread;
use super::handler_image::{HandlerImage, KEPT_ACTION, LEAVE, PAGE, find_handlers};
use super::refuse::refusal;
use super::return_frame::{ReturningCall, WayOfReturning};
use crate::Error;
use crate::memory::{CausalMemory, SharedObject};
use runtime_abi::kernel::KernelClocks;
use runtime_abi::{Page, SIGNAL};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// The process that gets the handler, and the memory for it.
pub(super) struct Plant<'a> {
    pub pid: u32,
    /// Descriptor of the process.
    pub descriptor: BorrowedFd<'a>,
    pub memory: &'a CausalMemory,
    pub clocks: BorrowedFd<'a>,
}

/// Work pages behind the handler: for data of system calls and for a return frame.
const WORK: u64 = 16 * PAGE;
/// Offset of the message with descriptors in the work pages.
const MESSAGE: u64 = 0;
const CONTROL: u64 = 128;
const BYTE: u64 = 256;
const SOCKETS: u64 = 264;
const ACTION: u64 = 320;
const OLD_ACTION: u64 = 384;
const FRAME: u64 = PAGE;

/// `SA_RESTORER`, of the kernel's `struct sigaction`.
const HAS_RESTORER: u64 = 0x0400_0000;

/// Addresses of the parts in the process.
struct Layout {
    base: u64,
    work: u64,
    page: u64,
    clocks: u64,
    end: u64,
}

impl Layout {
    fn at(base: u64, image: &HandlerImage) -> Self {
        let length = |size: usize| (size as u64).next_multiple_of(PAGE);
        let work = base + image.size;
        let page = work + WORK;
        let clocks = page + length(size_of::<Page>());
        let end = clocks + length(size_of::<KernelClocks>());
        Self {
            base,
            work,
            page,
            clocks,
            end,
        }
    }
}

/// Maps the handler, which does nothing until [`Page::state`] says so. `first`: code for the first
/// call in a process without a former session. Returns the handler's address.
pub(super) fn plant_handler(
    plant: &Plant<'_>,
    thread: &mut BorrowedThread,
    first: impl FnOnce(&mut BorrowedThread) -> Result<(), Error>,
) -> Result<u64, Error> {
    let pid = plant.pid;
    let image = HandlerImage::read().ok_or_else(|| refusal(pid, "there is no handler for it"))?;
    let handlers = find_handlers(pid);
    let name = image.name();
    let known = handlers.iter().find(|(_, its)| *its == name);
    let layout = match known {
        Some((base, _)) => Layout::at(*base, &image),
        None => {
            first(thread)?;
            map_room(pid, thread, &image)?
        }
    };
    let bytes = image.bytes_at(layout.base, layout.page, layout.clocks);
    let bytes = bytes.ok_or_else(|| refusal(pid, "the handler is damaged"))?;
    let mut planting = Planting {
        plant,
        thread,
        layout: &layout,
    };
    planting.use_own_calls(known.is_none().then_some(&bytes))?;
    let file = SharedObject::named(&name, bytes.len() + WORK as usize)?;
    file.write(&bytes);
    planting.map_all(&image, &file)?;
    let handler = image.entry_at(layout.base);
    planting.take_signal(handler, &handlers)?;
    Ok(handler)
}

/// Reserves the range.
fn map_room(pid: u32, thread: &mut BorrowedThread, image: &HandlerImage) -> Result<Layout, Error> {
    let size = Layout::at(0, image).end;
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let map = [0, size, access as u64, flags as u64, u64::MAX, 0];
    let base = result_of(pid, "mmap", thread.make_call(libc::SYS_mmap, map)?)?;
    Ok(Layout::at(base, image))
}

/// Returns the result of a system call in the process.
pub(super) fn result_of(pid: u32, what: &str, result: i64) -> Result<u64, Error> {
    match result {
        0.. => Ok(result as u64),
        _ => {
            let error = io::Error::from_raw_os_error(-result as i32);
            Err(refusal(pid, &format!("{what} is refused in it: {error}")))
        }
    }
}

/// State of mapping the handler.
struct Planting<'a> {
    plant: &'a Plant<'a>,
    thread: &'a mut BorrowedThread,
    layout: &'a Layout,
}

impl Planting<'_> {
    /// Makes further calls through vitalfew's own code in the process and a frame in its own
    /// memory. `bytes` is that code, if it is not there yet.
    fn use_own_calls(&mut self, bytes: Option<&Vec<u8>>) -> Result<(), Error> {
        if let Some(first) = bytes.and_then(|bytes| bytes.get(..PAGE as usize)) {
            self.write(self.layout.base, first)?;
        }
        let code = own_calls(self.layout.base);
        self.thread
            .prepare_return_at(code, self.layout.work + FRAME)
    }

    fn call(&mut self, what: &str, number: i64, arguments: [u64; 6]) -> Result<u64, Error> {
        let result = self.thread.make_call(number, arguments)?;
        result_of(self.plant.pid, what, result)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let written = self.thread.memory.write_all_at(bytes, at);
        let what = format!("writing to the memory of process {}", self.plant.pid);
        written.map_err(Error::wrap_io(what))
    }

    fn word(&self, at: u64) -> Result<u64, Error> {
        let word = self.thread.word_at(at);
        word.ok_or_else(|| refusal(self.plant.pid, "its memory cannot be read"))
    }

    /// Maps the handler, the shared memory and the counts.
    fn map_all(&mut self, image: &HandlerImage, file: &SharedObject) -> Result<(), Error> {
        let Layout { base, work, .. } = *self.layout;
        let page = self.plant.memory.descriptor();
        let sent = [file.descriptor(), page, self.plant.clocks.as_raw_fd()];
        let [handler, page, clocks] = self.pass_descriptors(sent)?;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let data = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let private = libc::MAP_PRIVATE as u64;
        let shared = (libc::MAP_SHARED | libc::MAP_NORESERVE) as u64;
        let start = base + image.data.start;
        let mappings = [
            (base, start, code, private, handler, 0),
            (start, work + WORK, data, private, handler, image.data.start),
            (self.layout.page, self.layout.clocks, data, shared, page, 0),
            (self.layout.clocks, self.layout.end, data, shared, clocks, 0),
        ];
        for (start, end, access, kind, descriptor, offset) in mappings {
            let flags = kind | libc::MAP_FIXED as u64;
            let map = [start, end - start, access, flags, descriptor, offset];
            self.call("mmap", libc::SYS_mmap, map)?;
            if start == base + image.data.start {
                // The frame stood in the former mapping.
                self.use_own_calls(None)?;
            }
        }
        for descriptor in [handler, page, clocks] {
            self.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Passes descriptors to the process; returns their numbers there.
    fn pass_descriptors(&mut self, descriptors: [RawFd; 3]) -> Result<[u64; 3], Error> {
        let work = self.layout.work;
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let pair = [libc::AF_UNIX as u64, kind, 0, work + SOCKETS, 0, 0];
        self.call("socketpair", libc::SYS_socketpair, pair)?;
        let both = self.word(work + SOCKETS)?;
        let [own, ours] = [both & 0xffff_ffff, both >> 32];
        let sent = take_descriptor(self.plant.descriptor, ours as RawFd)
            .and_then(|socket| send_descriptors(&socket, descriptors));
        let received = sent.and_then(|()| self.receive_descriptors(own));
        for socket in [own, ours] {
            self.call("close", libc::SYS_close, [socket, 0, 0, 0, 0, 0])?;
        }
        received
    }

    fn receive_descriptors(&mut self, socket: u64) -> Result<[u64; 3], Error> {
        let work = self.layout.work;
        // One byte of data, and room for the descriptors.
        let part = work + MESSAGE + 64;
        let message = [0, 0, part, 1, work + CONTROL, 64, 0, 0, work + BYTE, 1];
        let bytes: Vec<u8> = message.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(work + MESSAGE, &bytes)?;
        let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as u64;
        let receive = [socket, work + MESSAGE, flags, 0, 0, 0];
        self.call("recvmsg", libc::SYS_recvmsg, receive)?;
        // `struct cmsghdr` takes two words.
        let (two, one) = (
            self.word(work + CONTROL + 16)?,
            self.word(work + CONTROL + 24)?,
        );
        Ok([two & 0xffff_ffff, two >> 32, one & 0xffff_ffff])
    }

    /// Installs the handler. The program's own action is kept: the current one, or the one kept by
    /// a session that was killed before it could restore it.
    fn take_signal(&mut self, handler: u64, handlers: &[(u64, String)]) -> Result<(), Error> {
        const SIZE: u64 = 8;
        let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART) as u64;
        let action = [
            handler,
            flags | HAS_RESTORER,
            self.layout.base + LEAVE,
            u64::MAX,
        ];
        let bytes: Vec<u8> = action.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (new, old) = (self.layout.work + ACTION, self.layout.work + OLD_ACTION);
        self.write(new, &bytes)?;
        let change = [SIGNAL as u64, new, old, SIZE, 0, 0];
        self.call("sigaction", libc::SYS_rt_sigaction, change)?;
        let mut before = [0; 32];
        let read = |at: u64, to: &mut [u8]| self.thread.memory.read_exact_at(to, at).is_ok();
        read(old, &mut before);
        let found = u64::from_le_bytes(before.first_chunk().copied().unwrap_or_default());
        let abandoned = handlers
            .iter()
            .find(|(base, _)| (*base..*base + ROOM).contains(&found));
        if let Some((base, _)) = abandoned {
            read(*base + KEPT_ACTION, &mut before);
        }
        self.write(self.layout.base + KEPT_ACTION, &before)
    }
}

/// Upper bound of a handler's size.
const ROOM: u64 = 1 << 20;

/// Returns vitalfew's code for system calls, in front of the handler.
fn own_calls(base: u64) -> ReturningCall {
    ReturningCall {
        call: base,
        back: WayOfReturning::Call(base + LEAVE),
    }
}

/// Restores the program's own action of the signal.
pub(super) fn give_signal_back(
    pid: u32,
    thread: &mut BorrowedThread,
    handler: u64,
) -> Result<(), Error> {
    let image = HandlerImage::read().ok_or_else(|| refusal(pid, "there is no handler for it"))?;
    let layout = Layout::at(handler - image.entry_at(0), &image);
    thread.prepare_return_at(own_calls(layout.base), layout.work + FRAME)?;
    let ignore = layout.work + ACTION;
    let bytes = [libc::SIG_IGN as u64, 0, 0, 0]
        .map(u64::to_le_bytes)
        .concat();
    let written = thread.memory.write_all_at(&bytes, ignore);
    written.map_err(|_| refusal(pid, "its memory cannot be written to"))?;
    // Ignoring the signal first discards it where it is pending in threads that block it.
    for action in [ignore, layout.base + KEPT_ACTION] {
        let change = [SIGNAL as u64, action, 0, 8, 0, 0];
        let result = thread.make_call(libc::SYS_rt_sigaction, change)?;
        result_of(pid, "sigaction", result)?;
    }
    Ok(())
}

/// Copies a descriptor of another process into this one.
fn take_descriptor(process: BorrowedFd<'_>, number: RawFd) -> Result<OwnedFd, Error> {
    // SAFETY: a plain call; the result is new.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    if taken < 0 {
        return Err(Error::system_error("sharing a socket with the process"));
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(taken as RawFd) })
}

/// Sends descriptors, with a byte.
fn send_descriptors(socket: &OwnedFd, descriptors: [RawFd; 3]) -> Result<(), Error> {
    let mut byte = [0u8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    let size = size_of_val(&descriptors) as u32;
    let mut control = [0u64; 8];
    // SAFETY: zeros are a valid message; the control data have room for a header and the
    // descriptors, and live during the call.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
        libc::CMSG_DATA(header)
            .cast::<[RawFd; 3]>()
            .write_unaligned(descriptors);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, 0)
    };
    match sent {
        1 => Ok(()),
        _ => Err(Error::system_error("handing descriptors over")),
    }
}
