//! Compiles the signal handler for programs without hooks (crate `freestanding`) into a
//! self-contained image.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const IMAGE: &str = "freestanding.elf";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for sources in ["runtime-abi", "freestanding", "runtime"] {
        println!("cargo:rerun-if-changed=../{sources}/src");
    }
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        fs::write(out.join(IMAGE), []).expect("the build directory can be written to");
        return;
    }
    let abi = ["--crate-type", "rlib"];
    compile(&out, "runtime_abi", "../runtime-abi/src/lib.rs", &abi);
    let handler = ["--crate-type", "rlib", "--extern", "runtime_abi"];
    compile(&out, "freestanding", "../freestanding/src/lib.rs", &handler);
    let program = [
        "--crate-type",
        "bin",
        "--extern",
        "freestanding",
        "-C",
        "link-arg=-nostdlib",
        "-C",
        "link-arg=-nostartfiles",
        "-C",
        "link-arg=-static-pie",
        "-C",
        "link-arg=-Wl,-e,vitalfew_sample,--build-id=none,-z,norelro,-z,noseparate-code",
        "-C",
        "relocation-model=pie",
        "-o",
        IMAGE,
    ];
    compile(&out, "image", "../freestanding/src/image.rs", &program);
}

/// Compiles a crate without its dependencies, which are compiled before, and without Cargo: the
/// result is small and fast in every profile, and never panics.
fn compile(out: &Path, name: &str, source: &str, arguments: &[&str]) {
    let root = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let status = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"))
        .current_dir(out)
        .args([
            "--edition",
            "2024",
            "--target",
            &target,
            "--crate-name",
            name,
        ])
        .args([
            "-C",
            "opt-level=3",
            "-C",
            "codegen-units=1",
            "-C",
            "panic=abort",
        ])
        .args(["-C", "debuginfo=0", "-C", "overflow-checks=no", "-L", "."])
        .args(["-C", "force-unwind-tables=no", "--cap-lints", "allow"])
        .args(arguments)
        .arg(Path::new(&root).join(source))
        .status();
    let done = status.is_ok_and(|status| status.success());
    assert!(done, "{source} does not compile");
}
