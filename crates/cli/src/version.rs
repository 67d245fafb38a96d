//! The text of `--version`.

use std::sync::LazyLock;

/// The version with its commit.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("VITALFEW_COMMIT"),
    ")"
);

/// The version, its target, and what is built in.
pub static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let linked = if cfg!(target_feature = "crt-static") {
        "static"
    } else {
        "dynamic"
    };
    let features = [
        (!server::IS_STUB, "page"),
        (cfg!(target_arch = "x86_64"), "interference, attach"),
    ];
    let built_in = features.iter().filter(|(there, _)| *there);
    let built_in: Vec<&str> = built_in.map(|(_, name)| *name).collect();
    let target = env!("VITALFEW_TARGET");
    format!(
        "{VERSION}\ntarget: {target}, {linked}\nfeatures: {}",
        built_in.join(", ")
    )
});
