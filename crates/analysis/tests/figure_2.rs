//! The worked example of the paper: Figure 2, with the values of §2.2, and a session as in §2.3.
//!
//! The text has no picture; this tree is reconstructed from its statements: two nodes `c`, one
//! called from `a`'s child `b` and with the children `d` and `e`; [c;d] has one root, the left `c`;
//! the top extensions of [c] are `a` and `b`; base of [c] 15, cum 97; of {[a], [c]} 16 and 100;
//! [cd] zooms to [abcd].

mod common;

use analysis::bottleneck::forest::Forest;
use analysis::bottleneck::interface::Profile;
use analysis::bottleneck::zoom::{End, extensions, zoom};
use common::{Oracle, Stacks, named, run, text, tree};

fn figure_2() -> Stacks {
    let node = |path: &str, cost| (path.bytes().map(|b| b - b'a').collect(), cost);
    vec![
        node("a", 1),
        node("ab", 2),
        node("abc", 5),
        node("abcd", 60),
        node("abce", 7),
        node("ac", 10),
        node("ace", 15),
    ]
}

fn check<P: Profile>(profile: &P) {
    let of = |path: &str| named(profile, path).unwrap();
    let list = |summaries: Vec<P::Summary>| -> Vec<String> {
        let mut texts: Vec<String> = summaries.iter().map(|s| text(profile, s)).collect();
        texts.sort();
        texts
    };
    assert_eq!(list(profile.initial_summaries()), ["a", "b", "c", "d", "e"]);
    assert_eq!(list(profile.extended_top(&of("c"))), ["ac", "bc"]);
    assert_eq!(list(profile.extended_bottom(&of("c"))), ["cd", "ce"]);
    assert_eq!(profile.base_of(&of("c")), 15.0);
    assert_eq!(profile.cum_of(&of("c")), 97.0);
    let (a, c) = (of("a"), of("c"));
    assert_eq!(profile.total_base_of(&[&a, &c]), 16.0);
    assert_eq!(profile.total_cum_of(&[&a, &c]), 100.0);
    // Without zooming, the top extension of [cd] is the 1-method one; with it, [abcd].
    assert_eq!(list(extensions(profile, &of("cd"), End::Top)), ["bcd"]);
    assert_eq!(
        list(zoom(profile, &of("cd"), End::Top, 0.95).result()),
        ["abcd"]
    );
    assert_eq!(list(vec![profile.trim_top(&of("bcd")).unwrap()]), ["cd"]);
    assert_eq!(list(vec![profile.trim_bottom(&of("bcd")).unwrap()]), ["bc"]);
    assert!(profile.trim_top(&of("c")).is_none());
}

#[test]
fn the_fast_implementation() {
    check(&Forest::single(run(tree(&figure_2()))).unwrap());
}

#[test]
fn the_definitions() {
    check(&Oracle::new(vec![(tree(&figure_2()), 1.0)]));
}
