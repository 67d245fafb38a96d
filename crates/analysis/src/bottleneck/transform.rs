//! Trees made simpler before the search (ours), as profile viewers do.
//!
//! A transform makes a new tree. Only [`Transform::Focus`] drops cost.

use profile::{CallTree, CallTreeBuilder, CallTreeError, DraftNode, Method, MethodId, NodeId};
use regex::Regex;

/// A change of a tree. Regexes match anywhere in a name.
#[derive(Clone, Debug)]
pub enum Transform {
    /// Takes out calls of methods with this name: their cost and their callees go to their callers.
    HideFunctions(Regex),
    /// Takes out calls of all methods of modules (libraries, packages) with this name.
    HideModules(Regex),
    /// Makes all methods with this name one, named by the text. Calls between them become one call.
    MergeFunctions(Regex, String),
    /// Makes all methods of each module with this name one, named like the module.
    MergeModules(Regex),
    /// Keeps only calls of methods with this name, and everything below them; drops their callers
    /// and all other cost.
    Focus(Regex),
    /// Joins a call of a method that is already on the stack with the outer call: the callees of
    /// the inner call become callees of the outer.
    CollapseRecursion,
}

/// The treatment of the calls of one method.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Keep,
    Hide,
    /// Joined with its caller, if that has the same number in the new tree.
    Merge,
    /// Starts a kept subtree.
    Focus,
}

/// Makes the transformed tree.
///
/// # Errors
/// See [`CallTreeBuilder::finish`]. A tree whose own costs fit never fails.
pub fn apply_transform(tree: &CallTree, transform: &Transform) -> Result<CallTree, CallTreeError> {
    let mut builder = CallTreeBuilder::new(tree.value_types().to_vec());
    let mut methods = Vec::with_capacity(tree.methods().len());
    for method in tree.methods() {
        let (fate, name, module) = method_fate(transform, method);
        methods.push((fate, builder.method(name, module)?));
    }
    let focusing = matches!(transform, Transform::Focus(_));
    let collapsing = matches!(transform, Transform::CollapseRecursion);
    let mut drafts = Drafts::new(tree, builder);
    let top = (!focusing).then_some(ROOT);
    // By depth: the old node, its place in the new tree (none: its cost is dropped), its method
    // there, and the number of places before.
    let mut stack: Vec<(NodeId, Option<usize>, Option<u32>, usize)> = Vec::new();
    stack.push((NodeId::ROOT, top, None, 1));
    // The outermost call of each method on the stack, when recursion is collapsed.
    let mut open: Vec<Option<(NodeId, usize)>> = vec![None; tree.methods().len()];
    drafts.add_costs(NodeId::ROOT, top)?;
    for node in (1..tree.len() as u32).map(NodeId) {
        let parent = tree.parent(node);
        while stack.last().is_some_and(|(open, ..)| Some(*open) != parent) {
            let Some((ended, _, _, places)) = stack.pop() else {
                break;
            };
            drafts.places.truncate(places);
            if let Some(method) = tree.method(ended)
                && open[method.0 as usize].is_some_and(|(node, _)| node == ended)
            {
                open[method.0 as usize] = None;
            }
        }
        let places = drafts.places.len();
        let (above, inside) = stack
            .last()
            .map_or((None, None), |(_, new, m, _)| (*new, *m));
        let Some(old_method) = tree.method(node) else {
            continue;
        };
        let (fate, method) = methods[old_method.0 as usize];
        let place = match fate {
            Fate::Hide => (above, inside),
            Fate::Merge if above.is_some() && inside == Some(method.0) => (above, inside),
            Fate::Focus if above.is_none() => {
                (Some(drafts.child_place(ROOT, method)), Some(method.0))
            }
            _ => match (above, open[old_method.0 as usize]) {
                (Some(_), Some((_, outer))) => (Some(outer), Some(method.0)),
                (Some(above), _) => (Some(drafts.child_place(above, method)), Some(method.0)),
                (None, _) => (None, None),
            },
        };
        if collapsing && open[old_method.0 as usize].is_none() {
            open[old_method.0 as usize] = place.0.map(|place| (node, place));
        }
        stack.push((node, place.0, place.1, places));
        drafts.add_costs(node, place.0)?;
    }
    drafts.builder.finish()
}

/// The place of the root among [`Drafts`].
const ROOT: usize = 0;

/// Nodes of the new tree, made when they get a cost. Otherwise a call whose costs went elsewhere,
/// as those of inner calls do when recursion is collapsed, would stay as a path without cost.
struct Drafts<'t> {
    tree: &'t CallTree,
    builder: CallTreeBuilder,
    /// Each place on the stack: the place above it, its method, and its node once it is made.
    places: Vec<(usize, MethodId, Option<DraftNode>)>,
}

impl<'t> Drafts<'t> {
    fn new(tree: &'t CallTree, builder: CallTreeBuilder) -> Self {
        Self {
            tree,
            builder,
            places: vec![(ROOT, MethodId(0), Some(DraftNode::ROOT))],
        }
    }

    fn child_place(&mut self, above: usize, method: MethodId) -> usize {
        self.places.push((above, method, None));
        self.places.len() - 1
    }

    /// Adds the costs of an old node to a place.
    fn add_costs(&mut self, node: NodeId, place: Option<usize>) -> Result<(), CallTreeError> {
        let Some(place) = place else { return Ok(()) };
        for value in 0..self.tree.value_types().len() {
            match self.tree.cost(value, node) {
                0 => {}
                cost => {
                    let draft = self.node_of_place(place)?;
                    self.builder.add(value, draft, cost);
                }
            }
        }
        Ok(())
    }

    /// Returns the node of a place; makes it and those above it if they are missing.
    fn node_of_place(&mut self, place: usize) -> Result<DraftNode, CallTreeError> {
        let mut missing = Vec::new();
        let mut at = place;
        let mut draft = loop {
            match self.places[at] {
                (_, _, Some(draft)) => break draft,
                (above, ..) => {
                    missing.push(at);
                    at = above;
                }
            }
        };
        for at in missing.into_iter().rev() {
            draft = self.builder.child(draft, self.places[at].1)?;
            self.places[at].2 = Some(draft);
        }
        Ok(draft)
    }
}

fn method_fate<'a>(transform: &'a Transform, method: &'a Method) -> (Fate, &'a str, &'a str) {
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
