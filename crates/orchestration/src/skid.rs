//! Skid of samples on this machine. It is measured once and cached.

use profile::Host;
use sampler::EventSpec;
use sampler::skid::{Skid, measure_skid};
use std::collections::BTreeMap;
use std::path::Path;
use whole_file::write_whole_file;

/// Cached measurements, by processor, kernel and event.
type Known = BTreeMap<String, Skid>;

/// Returns the skid of an event's samples on this machine. `None` if it cannot be measured.
pub fn of_this_machine(host: &Host, event: &str) -> Option<Skid> {
    let processor = host.cpu_id.as_ref()?;
    let key = format!("{processor} {} {event}", host.kernel);
    let file = store::cache_directory().map(|directory| directory.join("skid.json"));
    let known = file.as_ref().and_then(|file| std::fs::read(file).ok());
    let mut known: Known = known
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    if let Some(skid) = known.get(&key) {
        return Some(skid.clone());
    }
    let spec = EventSpec::parse(event).ok()?;
    let skid = measure_skid(&spec).ok()?;
    known.insert(key, skid.clone());
    if let Some(file) = file {
        // Without a cache file, the next use measures again.
        let _ = keep_skids(&known, &file);
    }
    Some(skid)
}

fn keep_skids(known: &Known, file: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(file.parent().unwrap_or(file))?;
    write_whole_file(file, &serde_json::to_vec_pretty(known)?)
}

/// Returns the skid of an event's samples on the machine of a recording. `None` if that is another
/// machine.
pub fn of_recording(host: &Host, event: &str) -> Option<Skid> {
    let here = sampler::read_host();
    let same = here.name == host.name && here.kernel == host.kernel && here.cpu_id == host.cpu_id;
    same.then(|| of_this_machine(&here, event))?
}

/// Describes the skid in one line.
pub fn describe_skid(skid: &Skid) -> String {
    let (load, divide) = (100.0 * skid.load, 100.0 * skid.divide);
    let width = skid.retire_width;
    let width = width.map_or(String::new(), |width| format!("; {width} retire together"));
    format!("{load:.0} % of a load's, {divide:.0} % of a division's{width}")
}
