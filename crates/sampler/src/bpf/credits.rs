//! Credits for the delays of wakers, counted by the kernel for a program without hooks.

use crate::Error;
use crate::bpf::programs::{self, read_u64};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use std::os::fd::{AsFd, BorrowedFd};

/// The compiled programs.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/credits.bpf.o"));
const WHAT: &str = "watching who wakes whom";

/// Credits threads for the delays of their wakers, from [`Self::begin`] until it is dropped.
pub struct KernelCredits {
    links: Vec<Link>,
    object: Object,
}

impl KernelCredits {
    /// Loads the programs, which do nothing yet.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel does not allow it.
    pub fn load() -> Result<Self, Error> {
        Ok(Self {
            links: Vec::new(),
            object: programs::load_programs(CODE, &[], WHAT)?,
        })
    }

    /// Returns the memory with the threads' counts (`runtime_abi::kernel`), which the program maps.
    pub fn clocks(&self) -> Option<BorrowedFd<'_>> {
        let map = self.object.maps().find(|map| map.name() == "clocks")?;
        // SAFETY: the map stays open as long as `self`.
        Some(unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&map.as_fd())) })
    }

    /// Starts crediting the threads of processes whose handler of SIGSTKFLT is at address
    /// `handler`.
    ///
    /// # Errors
    /// [`Error::Bpf`] where the kernel does not allow it.
    pub fn begin(&mut self, handler: u64) -> Result<(), Error> {
        let state = [handler.to_ne_bytes(), 0u64.to_ne_bytes()].concat();
        if let Some(map) = self.state() {
            (map.update(&0u32.to_ne_bytes(), &state, MapFlags::ANY)).map_err(Error::bpf(WHAT))?;
        }
        for program in self.object.progs_mut() {
            self.links.push(program.attach().map_err(Error::bpf(WHAT))?);
        }
        Ok(())
    }

    /// Stops crediting threads.
    pub fn end(&mut self) {
        self.links.clear();
    }

    /// Returns the number of waits of 20 µs or more that another thread of the program ended.
    pub fn meetings(&self) -> u64 {
        let state = self
            .state()
            .and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?);
        state.map_or(0, |state| read_u64(&state, 8))
    }

    fn state(&self) -> Option<libbpf_rs::MapImpl<'_>> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name().to_string_lossy().ends_with(".bss"))
    }
}
