//! Embeds the built page into the crate, or a stub that says how to build it. Never runs npm,
//! because cargo must work without a network.

use std::path::Path;
use std::{env, fs};

const STUB: &str = r#"<!doctype html><html lang="en"><meta charset="utf-8"><title>vitalfew</title>
<body><h1>This vitalfew was built without its page</h1>
<p>The page is written in TypeScript, and cargo alone does not build it. Run <code>make</code> in the source (it needs npm).</p>
<p>Everything that the page shows is text, too: <code>vitalfew report</code>, <code>vitalfew bottlenecks --auto</code>.</p>
<script type="application/octet-stream" id="vitalfew-data"></script></body></html>
"#;

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    let web = Path::new(&root).join("../../web");
    let built = web.join("dist/index.html");
    let page = fs::read_to_string(&built).ok();
    // A missing path would run this script each time, so its directory is watched until it exists.
    let watched = if page.is_some() { &built } else { &web };
    println!("cargo::rerun-if-changed={}", watched.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").expect("cargo says where to write");
    let stub = page.is_none();
    fs::write(
        Path::new(&out).join("page.html"),
        page.unwrap_or_else(|| STUB.to_owned()),
    )
    .expect("the page is written");
    fs::write(Path::new(&out).join("is_stub.rs"), stub.to_string()).expect("written");
}
