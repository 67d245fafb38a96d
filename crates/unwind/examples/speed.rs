//! Prints the cost of an unwind: `cargo run --release -p unwind --example speed`.
#![allow(missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

#[cfg(target_arch = "x86_64")]
fn main() {
    use std::path::Path;
    use std::time::Instant;
    use unwind::{ModuleCache, StackMemory, Unwinder};

    let directory = tempfile::tempdir().expect("a directory");
    let options = ["-O2", "-fomit-frame-pointer"];
    let program = support::compile(directory.path(), "gcc", "chain.c", &options).expect("gcc");
    let mut traced = support::Traced::start(&program);
    traced.run_to_stop();
    traced.run_to_stop();
    let mut cache = ModuleCache::new(1 << 30);
    let (space, _) = traced.maps(&mut cache);
    let registers = traced.registers();
    let mut copy = vec![0; support::STACK_COPY];
    let copied = traced.memory(registers.sp(), &mut copy);
    let stack = StackMemory::new(registers.sp(), &copy[..copied]);

    let (mut unwinder, mut frames) = (Unwinder::new(), Vec::new());
    let mut measure = |name: &str, rounds: u32, unwinder: &mut Unwinder, fresh: bool| {
        let mut best = f64::INFINITY;
        for _ in 0..9 {
            let mut spent = 0;
            for _ in 0..rounds {
                if fresh {
                    *unwinder = Unwinder::new();
                }
                let start = Instant::now();
                unwinder.unwind(&space, &registers, stack, &mut frames);
                spent += start.elapsed().as_nanos();
            }
            best = best.min(spent as f64 / f64::from(rounds));
        }
        let per_frame = best / frames.len() as f64;
        println!(
            "{name}: {best:.0} ns a stack of {} frames, {per_frame:.0} ns a frame",
            frames.len()
        );
    };
    measure("rules known", 100_000, &mut unwinder, false);
    measure("rules looked up anew", 300, &mut unwinder, true);

    // Memory of a thousand processes that map the same thirty libraries at different addresses.
    let libraries = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").expect("libraries");
    let libraries = libraries.filter_map(|e| Some(e.ok()?.path()));
    let is_library = |p: &std::path::PathBuf| p.is_file() && p.to_string_lossy().contains(".so");
    let mut libraries: Vec<_> = libraries.filter(is_library).collect();
    libraries.sort();
    let before = resident();
    let start = Instant::now();
    let modules: Vec<_> = libraries
        .iter()
        .filter_map(|path| load(&mut cache, Path::new(path)))
        .take(30)
        .collect();
    let loaded = resident();
    println!(
        "{} libraries read in {:.0} ms: {} kB resident, {} kB counted",
        modules.len(),
        start.elapsed().as_secs_f64() * 1e3,
        loaded - before,
        cache.size() / 1024
    );
    let spaces: Vec<_> = (0..1000u64)
        .map(|process| {
            let mut space = unwind::AddressSpace::new();
            for (n, module) in (0u64..).zip(&modules) {
                let start = (1 << 40) + (process << 12) + (n << 30);
                let range =
                    profile::ProcessAddress(start)..profile::ProcessAddress(start + (1 << 20));
                space.add_module(range, 0, module.clone());
            }
            space
        })
        .collect();
    let mapped = resident();
    println!(
        "{} address spaces with {} modules each: {} kB",
        spaces.len(),
        modules.len(),
        mapped - loaded
    );
    let forked: Vec<_> = spaces
        .iter()
        .flat_map(|space| vec![space.clone(); 10])
        .collect();
    println!(
        "{} forked from them: {} kB",
        forked.len(),
        resident() - mapped
    );
}

#[cfg(target_arch = "x86_64")]
fn load(
    cache: &mut unwind::ModuleCache,
    path: &std::path::Path,
) -> Option<std::sync::Arc<unwind::ModuleData>> {
    use std::os::unix::fs::MetadataExt;
    let metadata = path.metadata().ok()?;
    let file = profile::FileIdentity {
        major: 0,
        minor: 0,
        inode: metadata.ino(),
        generation: 0,
    };
    cache.get(file, || unwind::ModuleData::open(path)).ok()
}

/// Returns the resident memory of this program, in kB.
#[cfg(target_arch = "x86_64")]
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("VmRSS");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("registers are only read on x86-64");
}
