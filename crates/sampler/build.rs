//! Compiles the kernel half of the collector with clang and generates its loader.

use libbpf_cargo::SkeletonBuilder;
use std::{env, path::PathBuf};

const SOURCE: &str = "src/bpf/collect.bpf.c";
/// Loaded as they are.
const OTHERS: [&str; 8] = [
    "waits",
    "external_waits",
    "credits",
    "ticks",
    "snapshot",
    "follow",
    "tasks",
    "interrupt",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("vitalfew measures x86-64 and AArch64, not {other:?}"),
    };
    let builder = |source: &str| {
        let mut builder = SkeletonBuilder::new();
        builder.source(source).clang_args([
            "-mcpu=v3".to_owned(),
            "-Wall".to_owned(),
            format!("-D__TARGET_ARCH_{arch}"),
        ]);
        builder
    };
    builder(SOURCE)
        .build_and_generate(out.join("collect.skel.rs"))
        .unwrap_or_else(|error| panic!("{SOURCE} does not compile; is clang installed? {error:?}"));
    for name in OTHERS {
        let source = format!("src/bpf/{name}.bpf.c");
        builder(&source)
            .obj(out.join(format!("{name}.bpf.o")))
            .build()
            .unwrap_or_else(|error| panic!("{source} does not compile: {error:?}"));
    }
    println!("cargo:rerun-if-changed=src/bpf");
}
