//! Differences between runs that are more than chance (DCPI section 3.3).
//!
//! # Model
//! Row `i` (a procedure, say) has `c_ij` samples in set `j`. A set has an *exposure* `E_j`, the
//! number of samples for one compared unit, which includes the sampling rate and the length or the
//! work of the run. Three effects make `c_ij / E_j` differ although the row has not changed:
//!
//! * *Sampling*: a count varies by its square root (Poisson; for a clock with a random period this
//!   is an upper bound).
//! * *A common factor of all rows*: the machine was slower in one run; or, if shares of all samples
//!   are compared, one row grew and the shares of all others shrank. This factor is estimated from
//!   all rows and divided out. Treated as noise, it would hide every change.
//! * *Noise*: memory layout, caches, other processes, independent for each row. The kernel's rows
//!   have about ten times as much noise as the program's.
//!
//! # Two sets: [`compare_pair`]
//! The logarithm of a row's ratio is normal around the common factor's, with the variance of
//! sampling and of the noise; or, with probability 0.1, the row has changed by some factor. The
//! posterior of common factor and noise is computed on a grid, with priors for the usual slowdown
//! of a machine and the usual noise of rows. So one pair is enough, even with two rows. A row is
//! tested against the estimate from the *other* rows, by Student's distribution, averaged over that
//! posterior; remaining uncertainty makes the tail heavier.
//!
//! # Three sets and more: [`Noise`]
//! The exposures are multiplied by each set's common factor ([`common_factors`]), the noise is the
//! value for which the median of `X²_i = Σ_j (c_ij − e_ij)² / (e_ij + s²e_ij²)` over the heaviest
//! rows equals that of `χ²` with `sets − 1` degrees of freedom, and rows are tested by `X²` against
//! `F`.
//!
//! [`benjamini_hochberg`]: of the rows with `q ≤ 5 %`, at most 5 % are expected to be false.
//! [`amount_change`]: the difference of two amounts, with an interval that combines those of both
//! counts (exact, Garwood) by the square-and-add rule (Newcombe's MOVER).
//!
//! # Where it is wrong
//! * A change of all rows by one factor counts as the common factor: it shows in
//!   [`PairComparison::total`], whose interval includes the usual differences of machines.
//! * Shares of a program with two rows do not show which of them grew.
//! * More than half of the heavy rows may not have changed by one factor.

mod change;
mod describe;
mod noise;
mod pair;

pub use crate::statistics::benjamini_hochberg;
pub use change::{Change, amount_change, share_change};
pub use describe::{Description, describe_amounts};
pub use noise::{LEAST_EXPECTED, Noise};
pub use pair::{
    PairComparison, PairRow, PairScale, PairVerdict, RowOrigin, common_factors, compare_pair,
};
