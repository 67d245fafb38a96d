//! An invented recording shaped like that of a compile job, for repeatable figures.

use profile::*;
use std::time::{Duration, Instant};

/// Waits for another process, for at most a minute.
#[allow(dead_code, reason = "not every test that includes this waits")]
pub fn wait_until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "nothing happened for a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A generator of random numbers (SplitMix64), the same on every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws indexes by weight.
struct Draw(Vec<f64>);

impl Draw {
    fn new(weights: impl Iterator<Item = f64>) -> Self {
        let sum = |sum: &mut f64, weight| {
            *sum += weight;
            Some(*sum)
        };
        Self(weights.scan(0.0, sum).collect())
    }

    /// Makes ranks 1..=n, each with weight rank^-exponent.
    fn zipf(n: usize, exponent: f64) -> Self {
        Self::new((1..=n).map(|rank| (rank as f64).powf(-exponent)))
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|sum| *sum <= at)
    }
}

/// The procedures of an image, hottest first, and how often each instruction of one is sampled.
struct Text {
    image: ImageId,
    procedures: Vec<(u64, u64)>,
    by_heat: Draw,
    within: Draw,
}

impl Text {
    fn new(random: &mut Random, image: ImageId, size: u64, exponent: f64) -> Self {
        let mut procedures = Vec::new();
        let mut at = 0x1000;
        while at < size {
            // Sizes from 16 bytes to some 20 KB, most of them small.
            let len = (16.0 * (random.unit() * random.unit() * 7.0).exp()) as u64;
            procedures.push((at, len));
            at += len.next_multiple_of(16);
        }
        for i in (1..procedures.len()).rev() {
            procedures.swap(i, random.below(i as u64 + 1) as usize);
        }
        Self {
            image,
            by_heat: Draw::zipf(procedures.len(), exponent),
            within: Draw::zipf(4096, 1.0),
            procedures,
        }
    }

    fn sample(&self, random: &mut Random) -> Location {
        let (start, len) = self.procedures[self.by_heat.draw(random)];
        // A procedure's hot instructions are anywhere in it, of four or five bytes each.
        let rank = self.within.draw(random) as u64;
        let mixed = Random(start ^ rank).next() % (len / 4).max(1);
        Location {
            image: self.image,
            offset: ImageOffset(start + mixed * 4 + mixed % 3),
        }
    }
}

const PROCESSES: &[(&str, f64)] = &[
    ("cc1", 80.0),
    ("as", 6.0),
    ("ld", 4.0),
    ("make", 2.0),
    ("sh", 3.0),
    ("gcc", 2.0),
    ("collect2", 0.5),
    ("kworker/0:1", 0.3),
    ("kworker/1:2", 0.3),
    ("ksoftirqd/0", 0.1),
    ("sshd", 0.1),
    ("python3", 1.0),
];

fn images() -> Vec<(Image, u64)> {
    let image = |kind, path: &str, id: u8, size: u64| {
        let file = (kind == ImageKind::File).then_some(FileIdentity {
            major: 254,
            minor: 0,
            inode: 4_000_000 + u64::from(id) * 977,
            generation: 0x1234_5678 + u64::from(id),
        });
        let image = Image {
            kind,
            path: path.to_owned(),
            build_id: BuildId::new(&[id.wrapping_mul(37); 20]),
            file,
            gone: false,
        };
        (image, size)
    };
    use ImageKind::{File, Kernel, KernelModule, Vdso};
    let mut images = vec![
        image(Kernel, "[kernel]", 1, 18 << 20),
        image(File, "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", 2, 25 << 20),
        image(File, "/usr/lib/x86_64-linux-gnu/libc.so.6", 3, 1_400_000),
        image(
            File,
            "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            4,
            150_000,
        ),
        image(File, "/usr/bin/x86_64-linux-gnu-as", 5, 350_000),
        image(File, "/usr/bin/x86_64-linux-gnu-ld.bfd", 6, 1_000_000),
        image(
            File,
            "/usr/lib/x86_64-linux-gnu/libbfd-2.40-system.so",
            7,
            900_000,
        ),
        image(File, "/usr/bin/make", 8, 180_000),
        image(File, "/usr/bin/dash", 9, 90_000),
        image(Vdso, "[vdso]", 10, 0x1800),
    ];
    for id in 11..60 {
        let path = format!("/usr/lib/x86_64-linux-gnu/libsomething-{id}.so.{}", id % 7);
        let kind = if id % 10 == 0 { KernelModule } else { File };
        images.push(image(kind, &path, id, 20_000 * u64::from(id)));
    }
    images
}

/// Returns the image that a process is in.
fn image_of(process: &str, random: &mut Random) -> usize {
    let own = match process {
        "cc1" => 1,
        "as" => 4,
        "ld" | "collect2" => 5,
        "make" => 7,
        "sh" | "gcc" => 8,
        name if name.starts_with('k') => return 0,
        _ => 12,
    };
    match random.below(1000) {
        0..710 => own,
        710..880 => 0,
        880..960 => 2,
        960..985 => 3,
        985..990 if own == 4 || own == 5 => 6,
        985..988 => 9,
        _ => 10 + random.below(49) as usize,
    }
}

/// Makes a recording of `samples` samples, without call stacks.
pub fn compile_job(samples: usize) -> Recording {
    let mut random = Random(42);
    let target = Target::Command(vec!["make".into(), "-j2".into()]);
    let host = Host {
        name: "build-1".into(),
        kernel: "6.18.44".into(),
        machine: "x86_64".into(),
        cpu_model: Some("Some processor".into()),
        cpu_id: None,
        clock_hz: None,
        cpus: 2,
    };
    let mut recording = Recording::new(host, target, Collector::Bpf, CallGraph::None);
    recording.start_unix_ns = 1_795_230_900_123_456_789;
    recording.duration_ns = 60_000_000_000;
    recording.events.push(Event {
        frequency: Some(5000.0),
        taken: samples as u64,
        stored: samples as u64,
        ..Event::new("cpu-clock", Unit::Samples, 200_000)
    });
    let images = images();
    let texts: Vec<Text> = (0..)
        .zip(&images)
        .map(|(id, (_, size))| Text::new(&mut random, ImageId(id), *size, 1.1))
        .collect();
    recording.images = images.into_iter().map(|(image, _)| image).collect();
    let who = Draw::new(PROCESSES.iter().map(|(_, weight)| *weight));
    let mut counted = std::collections::BTreeMap::new();
    for _ in 0..samples {
        let process = who.draw(&mut random);
        let image = image_of(PROCESSES[process].0, &mut random);
        let key = (process, texts[image].sample(&mut random));
        *counted.entry(key).or_insert(0) += 1;
    }
    for ((process, location), count) in counted {
        let process = recording.names.intern(PROCESSES[process].0);
        let stack = recording.stacks.intern(location, None);
        recording
            .samples
            .push(Sample::new(EventId(0), process, stack, count));
    }
    threads(&mut recording, &who, &mut random);
    symbols(&mut recording, &texts[0], &mut random);
    recording
}

/// Adds three thousand threads; most live for a moment.
fn threads(recording: &mut Recording, who: &Draw, random: &mut Random) {
    let mut pid = 1000;
    for _ in 0..3000 {
        pid += 1 + random.below(4) as u32;
        let count = (3.0 / (random.unit() + 0.005)) as u64;
        recording.threads.push(ThreadCount {
            cgroup: None,
            event: EventId(0),
            pid,
            tid: pid,
            process: recording.names.intern(PROCESSES[who.draw(random)].0),
            count,
            weight: count,
        });
    }
}

/// Adds four thousand symbols, made of words as the kernel's are.
fn symbols(recording: &mut Recording, kernel: &Text, random: &mut Random) {
    let words: Vec<&str> = "get put page folio lock unlock read write alloc free vm mm fs ext4 sched \
        task queue rq timer hr irq do sys x64 handle fault map unmap copy user from to zap pte pmd \
        range lru cgroup memcg charge slab kmem cache bulk path lookup open close dentry inode mount \
        super block bio submit net skb tcp ip rcv xmit poll wait wake up event signal rcu tree node \
        insert erase find next prev first last update clear set test bit atomic spin mutex down"
        .split_whitespace()
        .collect();
    let mut starts: Vec<(u64, u64)> = kernel.procedures.iter().take(4000).copied().collect();
    starts.sort_unstable();
    for (start, len) in starts {
        let count = 2 + random.below(3);
        let name: Vec<&str> = (0..count)
            .map(|_| words[random.below(words.len() as u64) as usize])
            .collect();
        recording.symbols.push(EmbeddedSymbol {
            image: ImageId(0),
            start: ImageOffset(start),
            end: ImageOffset(start + len),
            name: name.join("_"),
        });
    }
}
