//! Trees made simpler before the search (ours): what people expect of a profile viewer.
//!
//! A transform makes a new tree. None loses cost, but [`Transform::Focus`], whose purpose it is.

use profile::{CallTree, CallTreeBuilder, CallTreeError, DraftNode, Method, NodeId};
use regex::Regex;

/// A change of a tree. Regexes match anywhere in a name.
#[derive(Clone, Debug)]
pub enum Transform {
    /// Takes out calls of methods with this name: their cost and their callees go to their callers.
    HideFunctions(Regex),
    /// The same for all methods of modules (libraries, packages) with this name.
    HideModules(Regex),
    /// Makes all methods with this name one, that is called as the text says. Calls between them
    /// are one call.
    MergeFunctions(Regex, String),
    /// Makes all methods of modules with this name one for each module, called as the module is.
    MergeModules(Regex),
    /// Keeps only calls of methods with this name, with what they call; their callers go, and all
    /// other cost.
    Focus(Regex),
    /// Takes a call of a method that is already on the stack back to the outer call: what is called
    /// from the inner call is called from the outer.
    CollapseRecursion,
}

/// What becomes of the calls of one method.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Keep,
    Hide,
    /// Is one with its caller, if that has the same number of the new tree's method.
    Merge,
    /// Starts a kept subtree.
    Focus,
}

/// Makes the new tree.
///
/// # Errors
/// See [`CallTreeBuilder::finish`]; not with a tree that its own costs fit in.
pub fn apply(tree: &CallTree, transform: &Transform) -> Result<CallTree, CallTreeError> {
    let mut builder = CallTreeBuilder::new(tree.value_types().to_vec());
    let mut methods = Vec::with_capacity(tree.methods().len());
    for method in tree.methods() {
        let (fate, name, module) = fate(transform, method);
        methods.push((fate, builder.method(name, module)?));
    }
    let focusing = matches!(transform, Transform::Focus(_));
    let collapsing = matches!(transform, Transform::CollapseRecursion);
    // By depth: the old node, its place in the new tree (none: its cost is dropped), its method there.
    let mut stack: Vec<(NodeId, Option<DraftNode>, Option<u32>)> = Vec::new();
    let top = (!focusing).then_some(DraftNode::ROOT);
    stack.push((NodeId::ROOT, top, None));
    // The outermost call of each method on the stack, when recursion is collapsed.
    let mut open: Vec<Option<(NodeId, DraftNode)>> = vec![None; tree.methods().len()];
    add(tree, &mut builder, NodeId::ROOT, top);
    for node in (1..tree.len() as u32).map(NodeId) {
        let parent = tree.parent(node);
        while stack.last().is_some_and(|(open, ..)| Some(*open) != parent) {
            if let Some((ended, ..)) = stack.pop()
                && let Some(method) = tree.method(ended)
                && open[method.0 as usize].is_some_and(|(node, _)| node == ended)
            {
                open[method.0 as usize] = None;
            }
        }
        let (above, inside) = stack.last().map_or((None, None), |(_, new, m)| (*new, *m));
        let Some(old_method) = tree.method(node) else {
            continue;
        };
        let (fate, method) = methods[old_method.0 as usize];
        let place = match fate {
            Fate::Hide => (above, inside),
            Fate::Merge if above.is_some() && inside == Some(method.0) => (above, inside),
            Fate::Focus if above.is_none() => (
                Some(builder.child(DraftNode::ROOT, method)?),
                Some(method.0),
            ),
            _ => match (above, open[old_method.0 as usize]) {
                (Some(_), Some((_, outer))) => (Some(outer), Some(method.0)),
                (Some(above), _) => (Some(builder.child(above, method)?), Some(method.0)),
                (None, _) => (None, None),
            },
        };
        if collapsing && open[old_method.0 as usize].is_none() {
            open[old_method.0 as usize] = place.0.map(|place| (node, place));
        }
        stack.push((node, place.0, place.1));
        add(tree, &mut builder, node, place.0);
    }
    builder.finish()
}

fn add(tree: &CallTree, builder: &mut CallTreeBuilder, node: NodeId, place: Option<DraftNode>) {
    let Some(place) = place else { return };
    for value in 0..tree.value_types().len() {
        match tree.cost(value, node) {
            0 => {}
            cost => builder.add(value, place, cost),
        }
    }
}

fn fate<'a>(transform: &'a Transform, method: &'a Method) -> (Fate, &'a str, &'a str) {
    let (name, module) = (method.name.as_str(), method.module.as_str());
    match transform {
        Transform::HideFunctions(r) if r.is_match(name) => (Fate::Hide, name, module),
        Transform::HideModules(r) if r.is_match(module) => (Fate::Hide, name, module),
        Transform::MergeFunctions(r, merged) if r.is_match(name) => (Fate::Merge, merged, ""),
        Transform::MergeModules(r) if r.is_match(module) => (Fate::Merge, module, module),
        Transform::Focus(r) if r.is_match(name) => (Fate::Focus, name, module),
        _ => (Fate::Keep, name, module),
    }
}
