//! The suggesters (§2.3): ways to choose where a search starts.

use super::interface::Metric;

/// A suggester that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suggester {
    /// Its name, for `set suggester`.
    pub name: &'static str,
    /// A description, for `help set`.
    pub description: &'static str,
    /// Its ranking of methods; `None`: the automatic search, which lists call sequences.
    pub ranking: Option<MethodRanking>,
}

/// A ranking of methods as starting points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodRanking {
    /// Metric that methods are ranked by.
    pub metric: Metric,
    /// True if only the cost outside of labelled summaries counts, which is still to be explained
    /// (ours).
    pub only_new: bool,
    /// True if methods that only call one other method are joined with it.
    pub folds_prefixes: bool,
}

/// Ranks methods by cum, from the top down: the default of a search.
pub const HIGH_CUM: MethodRanking = MethodRanking {
    metric: Metric::Cum,
    only_new: false,
    folds_prefixes: true,
};

/// All suggesters; a new one is a row here.
pub const SUGGESTERS: &[Suggester] = &[
    Suggester {
        name: "HighCum",
        description: "methods by cum: for a search from the top down",
        ranking: Some(HIGH_CUM),
    },
    Suggester {
        name: "HighBase",
        description: "methods by base: for a search from the bottom up",
        ranking: Some(MethodRanking {
            metric: Metric::Base,
            only_new: false,
            folds_prefixes: false,
        }),
    },
    Suggester {
        name: "NewCum",
        description: "methods by the cum that no labelled summary has",
        ranking: Some(MethodRanking {
            metric: Metric::Cum,
            only_new: true,
            folds_prefixes: false,
        }),
    },
    Suggester {
        name: "NewBase",
        description: "methods by the base that no labelled summary has",
        ranking: Some(MethodRanking {
            metric: Metric::Base,
            only_new: true,
            folds_prefixes: false,
        }),
    },
    Suggester {
        name: "Auto",
        description: "the call sequences that a search by itself finds",
        ranking: None,
    },
];

impl Suggester {
    /// Finds the suggester of this name, ignoring case.
    pub fn named(name: &str) -> Option<&'static Self> {
        SUGGESTERS
            .iter()
            .find(|one| one.name.eq_ignore_ascii_case(name))
    }
}
