//! Filter over a recording's samples.

use crate::place_names::procedure_name;
use crate::selection::SampleFilter;
use profile::ProcessNames;
use profile::{Container, NameId, Recording, Sample, SymbolTable, ThreadCount};

/// A filter over the samples and the threads of a recording.
pub struct WantedSamples<'a> {
    recording: &'a Recording,
    table: &'a SymbolTable,
    filter: &'a SampleFilter,
    /// The processes' names, if the filter needs them.
    processes: Option<ProcessNames>,
    /// By [`NameId`]: whether a process or control group of that name passes.
    process_passes: Vec<bool>,
    cgroup_passes: Vec<bool>,
}

impl<'a> WantedSamples<'a> {
    /// Prepares a filter.
    pub fn new(recording: &'a Recording, table: &'a SymbolTable, filter: &'a SampleFilter) -> Self {
        let passing = |part: &Option<String>, is: fn(&str, &str) -> bool| match part {
            Some(part) => recording.names.iter().map(|name| is(name, part)).collect(),
            None => Vec::new(),
        };
        Self {
            recording,
            table,
            filter,
            processes: (filter.process.is_some()).then(|| ProcessNames::of_recording(recording)),
            process_passes: passing(&filter.process, |name, part| name.contains(part)),
            cgroup_passes: passing(&filter.cgroup, is_of_cgroup),
        }
    }

    /// Returns whether a sample passes.
    pub fn has_sample(&self, sample: &Sample) -> bool {
        let filter = self.filter;
        let location = self.recording.stacks.frame(sample.stack).location;
        let has =
            |text: &str, part: &Option<String>| part.as_ref().is_none_or(|p| text.contains(p));
        self.has_process_of(sample)
            && self.has_thread_named(sample.process)
            && has(&self.recording.image(location.image).path, &filter.image)
            && filter.pid.is_none_or(|pid| sample.pid == Some(pid))
            && self.has_cgroup(sample.cgroup)
            && (filter.procedure.is_none()
                || has(&procedure_name(self.table, location), &filter.procedure))
    }

    /// Returns whether the counts of a thread pass.
    pub fn has_thread(&self, thread: &ThreadCount) -> bool {
        let passes = |name: NameId| self.process_passes[name.0 as usize];
        let processes = self.processes.as_ref();
        processes.is_none_or(|names| passes(names.name_of_thread(thread)))
            && self.has_thread_named(thread.process)
            && self.filter.pid.is_none_or(|pid| thread.pid == pid)
            && self.has_cgroup(thread.cgroup)
    }

    /// Returns the names of threads that both a selected process and another one have: without
    /// process ids, their samples cannot be distinguished.
    pub fn shared_threads(&self) -> Vec<&'a str> {
        let Some(processes) = &self.processes else {
            return Vec::new();
        };
        let mut unclear: Vec<NameId> = Vec::new();
        for sample in self
            .recording
            .samples
            .iter()
            .filter(|one| one.pid.is_none())
        {
            let names = processes.names_of_sample(sample);
            let passing = names
                .iter()
                .filter(|name| self.process_passes[name.0 as usize]);
            if (1..names.len()).contains(&passing.count()) && !unclear.contains(&sample.process) {
                unclear.push(sample.process);
            }
        }
        let names = unclear
            .into_iter()
            .map(|name| self.recording.names.get(name));
        names.collect()
    }

    fn has_process_of(&self, sample: &Sample) -> bool {
        let Some(processes) = &self.processes else {
            return true;
        };
        let mut names = processes.names_of_sample(sample).iter();
        names.any(|name| self.process_passes[name.0 as usize])
    }

    fn has_thread_named(&self, name: NameId) -> bool {
        let mut wanted = self.filter.thread.iter();
        wanted.all(|wanted| self.recording.names.get(name).contains(wanted))
    }

    fn has_cgroup(&self, cgroup: Option<NameId>) -> bool {
        self.filter.cgroup.is_none() || cgroup.is_some_and(|one| self.cgroup_passes[one.0 as usize])
    }
}

/// Returns whether a control group has this text in its path or in the name of its container.
fn is_of_cgroup(path: &str, wanted: &str) -> bool {
    let container = || Container::of_cgroup(path).map(|container| container.to_string());
    path.contains(wanted) || container().is_some_and(|name| name.contains(wanted))
}

/// Removes samples and threads outside such a control group, also from the recording's accounts.
pub fn keep_cgroup(recording: &mut Recording, wanted: &str) {
    let kept: Vec<bool> = recording
        .names
        .iter()
        .map(|name| is_of_cgroup(name, wanted))
        .collect();
    let is_kept = |cgroup: Option<NameId>| cgroup.is_some_and(|one| kept[one.0 as usize]);
    let events = &mut recording.events;
    recording.samples.retain(|sample| {
        let keep = is_kept(sample.cgroup);
        if !keep {
            let event = &mut events[usize::from(sample.event.0)];
            event.taken = event.taken.saturating_sub(sample.count);
            event.stored = event.stored.saturating_sub(sample.count);
        }
        keep
    });
    recording.threads.retain(|thread| is_kept(thread.cgroup));
    // The task times cover all that ran.
    recording.task_times = None;
}
