//! Search for the vital few call sequences.
//!
//! The method of BOTTLENECKS (Ammons, Choi, Gupta, Swamy: *Finding and Removing Performance
//! Bottlenecks in Large Systems*, ECOOP 2004). A **summary** stands for all occurrences of a call
//! sequence in the profile. Its **base** is the cost of the nodes along the sequence, its **cum**
//! adds what they call; both are sums over *sets* of nodes, so that recursion counts no cost twice,
//! and the **total** of several summaries counts their overlap once.
//!
//! | module | section |
//! |---|---|
//! | [`interface`] | §2.1, Figure 3: what a kind of profile must offer |
//! | [`forest`] | §2.2: call trees; the difference of two; the difference of several runs of each |
//! | [`zoom`] | §2.3: extensions that matter |
//! | [`search`] | §2.3: suggesters, numbers, labels, navigation |
//! | [`auto`] | the search without an analyst (ours) |
//! | [`transform`] | trees made simpler before the search (ours) |
//!
//! Nodes are those of a [`profile::CallTree`], in preorder: the subtree of a node is a run of
//! numbers, and a set of nodes is a list of disjoint runs ([`spans`]).

pub mod auto;
pub mod forest;
pub mod interface;
pub mod search;
pub mod spans;
pub mod suggesters;
pub mod transform;
pub mod zoom;

mod claims;
mod paths;
mod tree;
mod united;
mod view;
