//! Trees for tests, and the slow, direct implementation of the set definitions of §2.2.
#![allow(dead_code)]

use analysis::bottleneck::forest::{Forest, Normalisation, ProfiledRun};
use analysis::bottleneck::interface::{Metrics, Profile, Step, overlap_by_totals};
use profile::{CallTree, CallTreeBuilder, DraftNode, NodeId, ValueType};
use std::collections::BTreeSet;

/// Stacks, outermost frame first, with their costs.
pub type Stacks = Vec<(Vec<u8>, i64)>;

pub fn tree(stacks: &Stacks) -> CallTree {
    let values = vec![ValueType {
        name: "cpu".into(),
        unit: "samples".into(),
    }];
    let mut builder = CallTreeBuilder::new(values);
    for (stack, cost) in stacks {
        let mut node = DraftNode::ROOT;
        for method in stack {
            let name = char::from(b'a' + method).to_string();
            let method = builder.method(&name, "").unwrap();
            node = builder.child(node, method).unwrap();
        }
        builder.add(0, node, *cost);
    }
    builder.finish().unwrap()
}

pub fn run(tree: CallTree) -> ProfiledRun {
    ProfiledRun {
        name: "profile".into(),
        tree,
        value: 0,
        work: None,
    }
}

pub fn compared(a: &Stacks, b: &Stacks) -> Forest {
    let run = |stacks| run(tree(stacks));
    Forest::new(vec![run(a)], vec![run(b)], Normalisation::None).unwrap()
}

/// The definitions, by sets of nodes. A summary is only its path. Steps are letters.
pub struct Oracle {
    /// Each tree with its sign.
    trees: Vec<(CallTree, f64)>,
}

impl Oracle {
    pub fn new(trees: Vec<(CallTree, f64)>) -> Self {
        Self { trees }
    }

    fn letter(tree: &CallTree, node: NodeId) -> Option<u8> {
        let method = tree.method(node)?;
        tree.methods()[method.0 as usize].name.bytes().next()
    }

    fn nodes(tree: &CallTree) -> impl Iterator<Item = NodeId> + '_ {
        (0..tree.len() as u32).map(NodeId)
    }

    /// Returns paths(s): each as its nodes from the outermost.
    fn paths(tree: &CallTree, path: &[Step]) -> Vec<Vec<NodeId>> {
        let mut paths: Vec<Vec<NodeId>> = Self::nodes(tree).map(|n| vec![n]).collect();
        for (at, step) in path.iter().enumerate() {
            if at > 0 {
                let grown = |p: &Vec<NodeId>| -> Vec<Vec<NodeId>> {
                    let last = p[p.len() - 1];
                    let children = tree.children(last);
                    children.map(|c| [p.as_slice(), &[c]].concat()).collect()
                };
                paths = paths.iter().flat_map(grown).collect();
            }
            let fits = |p: &Vec<NodeId>| Self::letter(tree, p[at]) == Some(step.0 as u8);
            paths.retain(fits);
        }
        paths
    }

    fn along(tree: &CallTree, paths: &[Vec<NodeId>]) -> BTreeSet<NodeId> {
        let _ = tree;
        paths.iter().flatten().copied().collect()
    }

    fn descendants(tree: &CallTree, paths: &[Vec<NodeId>]) -> BTreeSet<NodeId> {
        let finals: BTreeSet<NodeId> = paths.iter().map(|p| p[p.len() - 1]).collect();
        let below = |node: &NodeId| {
            let mut above = tree.parent(*node);
            while let Some(n) = above {
                if finals.contains(&n) {
                    return true;
                }
                above = tree.parent(n);
            }
            false
        };
        Self::nodes(tree).filter(below).collect()
    }

    fn totals(&self, summaries: &[&Vec<Step>]) -> Metrics {
        let mut metrics = Metrics::default();
        for (tree, sign) in &self.trees {
            let all = summaries.iter().flat_map(|s| Self::paths(tree, s));
            let paths: Vec<Vec<NodeId>> = all.collect();
            let along = Self::along(tree, &paths);
            let cover: BTreeSet<NodeId> = &along | &Self::descendants(tree, &paths);
            let sum = |nodes: &BTreeSet<NodeId>| -> f64 {
                nodes.iter().map(|n| tree.cost(0, *n) as f64).sum()
            };
            metrics.base += sign * sum(&along);
            metrics.cum += sign * sum(&cover);
        }
        metrics
    }

    fn occurs(&self, path: &[Step]) -> bool {
        self.trees
            .iter()
            .any(|(tree, _)| !Self::paths(tree, path).is_empty())
    }

    fn alphabet() -> impl Iterator<Item = Step> {
        (b'a'..=b'e').map(|letter| Step(letter.into()))
    }
}

impl Profile for Oracle {
    type Summary = Vec<Step>;
    type Cover = Vec<Vec<Step>>;

    fn step_name(&self, step: Step) -> &str {
        let at = step.0 as usize - usize::from(b'a');
        &"abcdefghijklmnopqrstuvwxyz"[at..=at]
    }

    fn path_of<'a>(&self, summary: &'a Vec<Step>) -> &'a [Step] {
        summary
    }

    fn initial_summaries(&self) -> Vec<Vec<Step>> {
        let all = Self::alphabet().map(|m| vec![m]);
        all.filter(|path| self.occurs(path)).collect()
    }

    fn top_extensions(&self, summary: &Vec<Step>) -> Vec<Step> {
        let occurs = |m: &Step| self.occurs(&[&[*m], summary.as_slice()].concat());
        Self::alphabet().filter(occurs).collect()
    }

    fn bottom_extensions(&self, summary: &Vec<Step>) -> Vec<Step> {
        let occurs = |m: &Step| self.occurs(&[summary.as_slice(), &[*m]].concat());
        Self::alphabet().filter(occurs).collect()
    }

    fn extend_top(&self, summary: &Vec<Step>, step: Step) -> Option<Vec<Step>> {
        let path = [&[step], summary.as_slice()].concat();
        self.occurs(&path).then_some(path)
    }

    fn extend_bottom(&self, summary: &Vec<Step>, step: Step) -> Option<Vec<Step>> {
        let path = [summary.as_slice(), &[step]].concat();
        self.occurs(&path).then_some(path)
    }

    fn trim_top(&self, summary: &Vec<Step>) -> Option<Vec<Step>> {
        (summary.len() > 1).then(|| summary[1..].to_vec())
    }

    fn trim_bottom(&self, summary: &Vec<Step>) -> Option<Vec<Step>> {
        (summary.len() > 1).then(|| summary[..summary.len() - 1].to_vec())
    }

    fn base_of(&self, summary: &Vec<Step>) -> f64 {
        self.totals(&[summary]).base
    }

    fn cum_of(&self, summary: &Vec<Step>) -> f64 {
        self.totals(&[summary]).cum
    }

    fn total_base_of(&self, summaries: &[&Vec<Step>]) -> f64 {
        self.totals(summaries).base
    }

    fn total_cum_of(&self, summaries: &[&Vec<Step>]) -> f64 {
        self.totals(summaries).cum
    }

    fn whole(&self) -> f64 {
        1.0
    }

    fn cover(&self, summaries: &[&Vec<Step>]) -> Vec<Vec<Step>> {
        summaries.iter().map(|s| s.to_vec()).collect()
    }

    fn overlap(&self, summary: &Vec<Step>, cover: &Vec<Vec<Step>>) -> Metrics {
        overlap_by_totals(self, summary, &cover.iter().collect::<Vec<_>>())
    }
}

/// Returns a path as text.
pub fn text<P: Profile>(profile: &P, summary: &P::Summary) -> String {
    let steps = profile.path_of(summary).iter();
    steps.map(|step| profile.step_name(*step)).collect()
}

/// Returns the summary of a path of letters.
pub fn named<P: Profile>(profile: &P, path: &str) -> Option<P::Summary> {
    let initial = profile.initial_summaries();
    let letter = |c: char| {
        let of = |s: &&P::Summary| text(profile, s) == c.to_string();
        initial.iter().find(of).map(|s| profile.path_of(s)[0])
    };
    let steps: Option<Vec<Step>> = path.chars().map(letter).collect();
    profile.summary_of(&steps?)
}
