//! Profiles of Coz: round trips, and errors for damaged files.

use formats::coz::{CozForm, is_coz, read_coz, write_coz};
use profile::*;
use proptest::prelude::*;

const TABBED: &str = "startup\ttime=1415917793864559947\n\
experiment\tselected=a.c:3\tspeedup=0.05\tduration=189155916\tselected-samples=1360\n\
progress-point\tname=main.c:73\ttype=source\tdelta=9\n\
experiment\tselected=a.c:4\tspeedup=0.00\tduration=18446744073705875774\tselected-samples=2\n\
throughput-point\tname=main.c:73\tdelta=11\n\
latency-point\tname=request\tarrivals=7\tdepartures=8\tdifference=18446744073709551615\n\
samples\tlocation=a.c:3\tcount=10\n\
samples\tlocation=a.c:3\tcount=25\n\
runtime\ttime=100\n\
runtime\ttime=500\n\
shutdown\ttime=1415917793864999999\tsamples=25\n\
startup\ttime=1415917793864999999\n\
runtime\ttime=7\n";

#[test]
fn a_profile_is_read_as_the_viewer_reads_it() {
    let profile = read_coz(TABBED.as_bytes()).unwrap();
    let [run] = profile.runs.as_slice() else {
        panic!("a run without samples says nothing: {profile:?}");
    };
    assert_eq!((run.collector.as_str(), run.duration_ns), ("coz", 500));
    assert_eq!(run.fragments[0].name, "a.c:3");
    assert_eq!(run.fragments[0].samples, 25, "the last counts");
    let [first, second] = run.experiments.as_slice() else {
        panic!("{run:?}");
    };
    assert_eq!((first.fragment, first.speedup), (0, 0.05));
    assert_eq!((first.duration_ns, first.samples), (189_155_916, 1360));
    assert_eq!(first.counts, [Progress::Visits(9)]);
    // More was delayed than passed, and counters were read at different moments: below 0 as Coz
    // writes it.
    assert_eq!(second.duration_ns, 0);
    let latency = Progress::Latency {
        arrivals: 7,
        departures: 8,
        in_flight: 0.0,
    };
    assert_eq!(second.counts, [Progress::Visits(11), latency]);
    assert!(run.warnings[0].contains("latencies are rough"));
}

#[test]
fn both_forms_say_the_same() {
    let lines = [
        r#"{"type":"startup","time":5}"#,
        r#"{"type":"experiment","selected":"a.c:3","speedup":0.05,"duration":10,"selected_samples":3}"#,
        r#"{"type":"throughput-point","name":"p","delta":9}"#,
        r#"{"type":"runtime","time":12,"later":[1]}"#,
    ];
    let json = read_coz(lines.join("\n").as_bytes()).unwrap();
    let tabbed = "startup\ttime=5\nexperiment\tselected=a.c:3\tspeedup=0.05\tduration=10\tselected-samples=3\n\
                  throughput-point\tname=p\tdelta=9\nruntime\ttime=12\tlater=[1]\n";
    assert_eq!(json, read_coz(tabbed.as_bytes()).unwrap());
    assert!(is_coz(lines[0].as_bytes()) && is_coz(tabbed.as_bytes()));
    for other in [
        "",
        "startup",
        "{}",
        "{\"type\":1}",
        "a;b 1\n",
        "\u{1f}\u{8b}",
    ] {
        assert!(!is_coz(other.as_bytes()), "{other:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_offset() {
    let cases = [
        (
            "startup\ttime=1\nexperiment\tselected=a\n",
            15,
            "no speedup",
        ),
        (
            "experiment\tselected=a\tspeedup=2\tduration=1\n",
            0,
            "not from 0 to 1",
        ),
        (
            "experiment\tselected=a\tspeedup=nan\tduration=1\n",
            0,
            "not from 0 to 1",
        ),
        ("experiment\tspeedup=0\tduration=1\n", 0, "no selected"),
        (
            "throughput-point\tname=p\tdelta=1\n",
            0,
            "without an experiment",
        ),
        ("samples\tlocation=a\tcount=-1\n", 0, "count is \"-1\""),
        ("startup\n\nnonsense\ta=b\n", 9, "\"nonsense\" is no record"),
        ("{\"type\":\"experiment\"", 0, "EOF"),
        ("startup\ttime=1\n\u{0}\u{1}", 15, "no record of Coz"),
    ];
    for (text, offset, what) in cases {
        let error = read_coz(text.as_bytes()).unwrap_err();
        assert!(
            error.offset == offset && error.what.contains(what),
            "{text:?}: {error}"
        );
    }
    assert_eq!(read_coz(b"\xff\xfe").unwrap_err().what, "not UTF-8");
    let many: String = (0..1001)
        .map(|n| format!("throughput-point\tname={n}\tdelta=1\n"))
        .collect();
    let many = format!("experiment\tselected=a\tspeedup=0\tduration=1\n{many}");
    assert!(
        read_coz(many.as_bytes())
            .unwrap_err()
            .what
            .contains("more than 1000")
    );
}

/// A file cut anywhere, or with any bit changed, is read or refused without other effects.
#[test]
fn damage_is_survived() {
    let bytes = TABBED.as_bytes();
    for length in 0..bytes.len() {
        let _ = read_coz(&bytes[..length]);
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << bit;
            if let Err(error) = read_coz(&changed) {
                assert!(error.offset <= at, "{error}");
            }
        }
    }
}

fn any_run() -> impl Strategy<Value = CausalRun> {
    let latency =
        (any::<u32>(), any::<u32>(), 0u32..1000).prop_map(|(arrivals, departures, many)| {
            Progress::Latency {
                arrivals: arrivals.into(),
                departures: departures.into(),
                in_flight: many.into(),
            }
        });
    let counts = (any::<u32>(), latency).prop_map(|(n, l)| vec![Progress::Visits(n.into()), l]);
    let experiment = (0u32..2, 0u8..=100, any::<u32>(), any::<u32>(), counts);
    let experiment =
        experiment.prop_map(
            |(fragment, percent, duration, samples, counts)| Experiment {
                fragment,
                speedup: f64::from(percent) / 100.0,
                start_ns: 0,
                duration_ns: duration.into(),
                delay_ns: 0,
                samples: samples.into(),
                counts,
                disturbance: None,
                meetings: None,
                spinning: None,
                at_pace: false,
            },
        );
    let experiments = proptest::collection::vec(experiment, 1..20);
    (experiments, any::<u64>(), 1..u64::MAX).prop_map(|(experiments, start_unix_ns, count)| {
        CausalRun {
            command: Vec::new(),
            asked: AskedExperiments::default(),
            host: Host::default(),
            collector: "coz".into(),
            start_unix_ns,
            duration_ns: 9,
            undelayed_ns: 0,
            end: RunEnd::Unknown,
            settings: ExperimentSettings::default(),
            images: Vec::new(),
            points: ["p", "p"]
                .map(|name| ProgressPoint {
                    name: name.into(),
                    counted_by: CountedBy::Source,
                    visits: 0,
                })
                .into(),
            fragments: ["std::vector<a, b>::f(int)", "b.c:3"]
                .map(|name| Fragment {
                    name: name.into(),
                    detail: String::new(),
                    image: None,
                    samples: count,
                    undelayed_samples: 0,
                    waiting: None,
                    copy_of: None,
                })
                .into(),
            experiments,
            warnings: Vec::new(),
        }
    })
}

proptest! {
    /// Every value that the form can hold survives a round trip.
    #[test]
    fn what_is_written_is_read(run in any_run(), json in any::<bool>()) {
        let form = if json { CozForm::JsonLines } else { CozForm::Tabbed };
        let profile = CausalProfile { runs: vec![run] };
        let mut bytes = Vec::new();
        write_coz(&profile, form, &mut bytes).unwrap();
        let found = read_coz(&bytes).unwrap();
        let (run, found) = (&profile.runs[0], &found.runs[0]);
        prop_assert_eq!(run.start_unix_ns, found.start_unix_ns);
        prop_assert_eq!(run.duration_ns, found.duration_ns);
        prop_assert_eq!(run.experiments.len(), found.experiments.len());
        let name = |run: &CausalRun, experiment: &Experiment| run.fragments[experiment.fragment as usize].name.clone();
        for (wrote, read) in run.experiments.iter().zip(&found.experiments) {
            prop_assert_eq!(name(run, wrote), name(found, read));
            prop_assert_eq!(wrote.speedup, read.speedup);
            prop_assert_eq!(wrote.duration_ns, read.duration_ns);
            prop_assert_eq!(&wrote.counts, &read.counts);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (is_coz(&bytes), read_coz(&bytes));
    }
}
