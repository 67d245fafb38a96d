//! Helpers shared by the tests of the readers.

use formats::read::{ReadError, ReadOptions, TreeProfile, read_profile};
use profile::{CallTree, NodeId};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Reads bytes as a file.
pub fn read_bytes(bytes: &[u8], options: &ReadOptions) -> Result<TreeProfile, ReadError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file.flush().unwrap();
    read_profile(file.path(), options)
}

/// Returns the path of a fixture.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Reads a fixture with the usual options.
pub fn read_fixture(name: &str) -> TreeProfile {
    read_profile(&fixture(name), &ReadOptions::default()).unwrap()
}

/// Returns the frames of a node, outermost first, as `name` or `name [module]`.
pub fn path(tree: &CallTree, mut node: NodeId) -> Vec<String> {
    let mut path = Vec::new();
    while let Some(method) = tree.method(node) {
        let method = &tree.methods()[method.0 as usize];
        path.push(match method.module.as_str() {
            "" => method.name.clone(),
            module => format!("{} [{module}]", method.name),
        });
        node = tree.parent(node).unwrap();
    }
    path.reverse();
    path
}

/// Returns every stack with a cost of a value type, and the cost.
pub fn stacks(tree: &CallTree, value: usize) -> BTreeMap<Vec<String>, i64> {
    (0..tree.len() as u32)
        .map(NodeId)
        .map(|node| (path(tree, node), tree.cost(value, node)))
        .filter(|(_, cost)| *cost != 0)
        .collect()
}

/// Returns the stacks as sorted lines like `a;b 3`.
pub fn folded(tree: &CallTree, value: usize) -> Vec<String> {
    let stacks = stacks(tree, value).into_iter();
    stacks
        .map(|(path, cost)| format!("{} {cost}", path.join(";")))
        .collect()
}
