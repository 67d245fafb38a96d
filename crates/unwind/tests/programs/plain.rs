// A Rust program with a library built without frame pointers.
use std::collections::BTreeMap;
use std::hint::black_box;

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
}

#[inline(never)]
fn stop() {
    unsafe { raise(19) };
}

#[inline(never)]
fn words(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

fn main() {
    stop();
    let mut list: Vec<_> = words(black_box("the quick brown Fox jumps over The lazy dog")).into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1));
    black_box(format!("{list:?}"));
    stop();
}
