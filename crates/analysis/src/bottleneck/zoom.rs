//! Extensions and trimmings that are worth showing (§2.3).
//!
//! ```text
//! Routine Zoom(s, c) = ZoomRec(s, c |cum_of(s)|)
//! Routine ZoomRec(s, C) =
//!   T   := top extensions of s, in descending order by |cum_of|
//!   T_z := first N summaries in T, where N > 0 is smallest s.t. |total_cum_of(T_z)| >= C,
//!          or ∅ if no such N exists
//!   If |T_z| = 1 Then Return ZoomRec(first(T_z), C)
//!   Else Return T_z
//! ```
//!
//! Four places of the paper need an interpretation:
//!
//! - Taken literally, zooming through a single extension that cannot be extended further returns ∅,
//!   but the paper's own example ([cd] zooms to [abcd], which begins at the top) returns it. So a
//!   single extension that cannot be extended is the result.
//! - The last summary of zooming is often the bottleneck itself (as in §2.3), but the routine
//!   returns only its extensions. We return both.
//! - A single extension by a method that the path has already is recursion: it adds a step and no
//!   information, and a stack of thousands of such calls would be walked to its end. Zooming stops
//!   there.
//! - "Trimmings are similar": there is one trimming at each end, and its cost is as a rule no
//!   smaller than the summary's, so the routine would always trim down to one method. We follow the
//!   aim: a trimming is uninteresting as long as the summary concentrates its cost. So trimming
//!   goes on while |cum_of(s)| ≥ c |cum_of(trimmed)|. The result is the first trimming with notably
//!   more cost, or the last one.

use super::interface::Profile;

/// Side of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The outermost step.
    Top,
    /// The innermost step.
    Bottom,
}

/// Returns the extensions of a summary, by descending |cum|.
pub fn extensions<P: Profile>(profile: &P, summary: &P::Summary, end: End) -> Vec<P::Summary> {
    let mut extended = match end {
        End::Top => profile.extended_top(summary),
        End::Bottom => profile.extended_bottom(summary),
    };
    // Equal costs are ordered by the path, so that the order is always the same.
    extended.sort_by(|a, b| {
        let by_cum = profile.cum_of(b).abs().total_cmp(&profile.cum_of(a).abs());
        by_cum.then_with(|| step_names(profile, a).cmp(step_names(profile, b)))
    });
    extended
}

fn step_names<'a, P: Profile>(profile: &'a P, s: &'a P::Summary) -> impl Iterator<Item = &'a str> {
    profile
        .path_of(s)
        .iter()
        .map(|step| profile.step_name(*step))
}

/// The result of zooming.
#[derive(Clone, Debug)]
pub struct Zoomed<S> {
    /// The last summary that zooming went through, because it has the cost alone.
    pub through: Option<S>,
    /// The extensions of `through`, or of the summary itself, that have the cost together; two or
    /// more, or none.
    pub extensions: Vec<S>,
}

impl<S> Zoomed<S> {
    /// Returns the result of the paper's Zoom.
    pub fn result(self) -> Vec<S> {
        if self.extensions.is_empty() {
            self.through.into_iter().collect()
        } else {
            self.extensions
        }
    }
}

/// Maximum number of steps that zooming adds: nobody reads longer paths, and each step takes as
/// long as the path.
const MOST_STEPS: usize = 1000;

/// Zooms by extensions, with the cutoff ratio `cutoff` > 0 (the paper's c).
pub fn zoom<P: Profile>(
    profile: &P,
    summary: &P::Summary,
    end: End,
    cutoff: f64,
) -> Zoomed<P::Summary> {
    let goal = cutoff * profile.cum_of(summary).abs();
    let mut through: Option<P::Summary> = None;
    let longest = profile.path_of(summary).len() + MOST_STEPS;
    loop {
        let from = through.as_ref().unwrap_or(summary);
        let mut extended = extensions(profile, from, end);
        match profile.smallest_reaching(&extended, goal) {
            Some(1)
                if repeats_method(profile, from, &extended[0], end)
                    || profile.path_of(from).len() >= longest =>
            {
                return Zoomed {
                    through,
                    extensions: Vec::new(),
                };
            }
            Some(1) => through = extended.into_iter().next(),
            Some(number) => {
                extended.truncate(number);
                return Zoomed {
                    through,
                    extensions: extended,
                };
            }
            None => {
                return Zoomed {
                    through,
                    extensions: Vec::new(),
                };
            }
        }
    }
}

/// Returns whether an extension at `end` adds a method that the path already has.
fn repeats_method<P: Profile>(
    profile: &P,
    from: &P::Summary,
    extended: &P::Summary,
    end: End,
) -> bool {
    let longer = profile.path_of(extended);
    let added = match end {
        End::Top => longer.first(),
        End::Bottom => longer.last(),
    };
    added.is_some_and(|step| profile.path_of(from).contains(step))
}

/// Zooms by trimmings.
pub fn zoom_trim<P: Profile>(
    profile: &P,
    summary: &P::Summary,
    end: End,
    cutoff: f64,
) -> Option<P::Summary> {
    let own = profile.cum_of(summary).abs();
    let concentrated = |s: &P::Summary| own >= cutoff * profile.cum_of(s).abs();
    if end == End::Top || profile.may_be_negative() {
        let mut trimmed = trim(profile, summary, end)?;
        while concentrated(&trimmed) {
            match trim(profile, &trimmed, end) {
                Some(next) => trimmed = next,
                None => break,
            }
        }
        return Some(trimmed);
    }
    // Trimming the last steps only adds cost. (Trimming the first ones may lose the callers' own
    // cost.) So the result lies between the shortest trimming and the longest, and is usually the
    // longest.
    let path = profile.path_of(summary);
    let of_length = |length: usize| profile.summary_of(&path[..length]);
    let (mut short, mut long) = (1, path.len().checked_sub(1).filter(|length| *length > 0)?);
    let mut found = of_length(short)?;
    if concentrated(&found) {
        return Some(found);
    }
    let mut middle = long;
    while short < long {
        let trimmed = of_length(middle)?;
        if concentrated(&trimmed) {
            long = middle - 1;
        } else {
            (short, found) = (middle, trimmed);
        }
        middle = (short + long).div_ceil(2);
    }
    Some(found)
}

/// Returns the summary without its step at `end`.
pub fn trim<P: Profile>(profile: &P, summary: &P::Summary, end: End) -> Option<P::Summary> {
    match end {
        End::Top => profile.trim_top(summary),
        End::Bottom => profile.trim_bottom(summary),
    }
}
