//! Signals to the threads that run on the CPUs at this moment.

use crate::Error;
use crate::bpf::programs;
use crate::host::online_cpus;
use libbpf_rs::{Object, ProgramInput};

/// The compiled program.
const CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/interrupt.bpf.o"));
const WHAT: &str = "interrupting threads";
/// Flag of the program's result: a thread of the process was found.
const FOUND: u32 = 1 << 31;
/// `BPF_F_TEST_RUN_ON_CPU`.
const ON_CPU: u32 = 1;

/// Interrupter of a process's threads that run in user mode.
pub struct Interrupts {
    object: Object,
    cpus: Vec<u32>,
    process: u32,
}

impl Interrupts {
    /// Loads the program that interrupts threads of `process`. The process handles SIGSTKFLT at the
    /// address `handler`.
    ///
    /// # Errors
    /// [`Error::Bpf`] if the kernel does not permit it.
    pub fn of_process(process: u32, handler: u64) -> Result<Self, Error> {
        let constants = [handler, 1].map(u64::to_ne_bytes);
        let object = programs::load_programs(CODE, &constants.concat(), WHAT)?;
        let cpus = online_cpus().into_iter().map(|cpu| cpu as u32).collect();
        let this = Self {
            object,
            cpus,
            process,
        };
        this.interrupt_on(this.cpus.first().copied().unwrap_or(0), 0)?;
        Ok(this)
    }

    /// Sends SIGSTKFLT to the threads of the process that run in user mode, except for `spared`.
    /// Skips the CPU `left_out`. Returns the threads that were found running, each with its CPU.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn interrupt_threads(
        &self,
        spared: u32,
        left_out: Option<u32>,
    ) -> Result<Vec<(u32, u32)>, Error> {
        let mut found = Vec::new();
        for cpu in self.cpus.iter().filter(|cpu| Some(**cpu) != left_out) {
            // A CPU may have gone offline.
            if let Ok(result) = self.interrupt_on(*cpu, spared)
                && result & FOUND != 0
            {
                found.push((result & !FOUND, *cpu));
            }
        }
        Ok(found)
    }

    fn interrupt_on(&self, cpu: u32, spared: u32) -> Result<u32, Error> {
        let mut context: Vec<u8> = [self.process, spared]
            .iter()
            .flat_map(|id| u64::from(*id).to_ne_bytes())
            .collect();
        let input = ProgramInput {
            context_in: Some(&mut context),
            cpu,
            flags: ON_CPU,
            ..ProgramInput::default()
        };
        let mut programs = self.object.progs_mut();
        let Some(program) = programs.next() else {
            return Ok(0);
        };
        let output = program.test_run(input).map_err(Error::bpf(WHAT))?;
        Ok(output.return_value)
    }
}
