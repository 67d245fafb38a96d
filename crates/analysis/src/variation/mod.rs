//! What differs between runs, and which of the differences are more than chance (DCPI section 3.3).
//!
//! # Model
//! Row `i` (a procedure, say) has `c_ij` samples in set `j`. A set has an *exposure* `E_j`: how many
//! samples one unit of what is compared yields in it; it holds the sampling rate, and the length or
//! the work of the run. The amount of the row is `y_ij = c_ij / E_j`. If the row is the same in all
//! sets, it had in set `j` an expected count of `e_ij = E_j · Σc_i / ΣE`.
//!
//! Two things let `c_ij` stray from `e_ij` all the same: sampling (Poisson, variance `e_ij`; for a
//! clock with a random period this is an upper bound), and what differs from run to run for every
//! row: other processes, memory layout, a slower machine. We call the relative size of the second
//! the *noise* `s`, the same for all rows; the variance of a count is then
//!
//! ```text
//! V(e) = e + s²·e²
//! ```
//!
//! # Estimator
//! * [`Noise::fit`]: `s` is chosen so that the median of `X²_i = Σ_j (c_ij − e_ij)² / V(e_ij)` over
//!   the heaviest rows (a tenth of the heaviest, or eight) is that of `χ²` with `sets − 1` degrees
//!   of freedom, or a little below, as the median of few rows is uncertain. Less than half of these
//!   rows may have changed; more than that are taken for noise.
//! * [`Noise::p_value`]: three sets and more by `X²_i`, against `χ²`, or `F` where there is noise,
//!   which was estimated too. Two by the exact binomial test, with counts shrunk to `c / (1 + s²c)`,
//!   which have the relative error that the noisy counts have, and with noise the greater of this
//!   and the former. Rows with fewer than five expected in some set are not tested (and do not count
//!   among the tests).
//! * [`benjamini_hochberg`]: of the rows with `q ≤ 5 %`, at most 5 % are expected to be false.
//! * [`Noise::change`]: the difference of two amounts with an interval: that of each count (exact,
//!   Garwood) joined by the square-and-add rule (Newcombe's MOVER).
//!
//! Measured on made-up counts with 0, 2 and 10 % noise (`cargo test -p analysis -- --nocapture
//! false_discoveries`): with 40 rows at most 5.3 % are false, with 8 rows up to 9 %.
//!
//! # Where it is wrong
//! * Sets that are compared by their share of samples: if one row grows, the shares of all others
//!   shrink. If the row is large, they are reported too. Compare by run, time or work then.
//! * With less than three rows that have enough samples there is no estimate of the noise:
//!   [`Noise::rows`] is 0, and only sampling is allowed for. With noise, half of such claims are
//!   false.
//! * Processes that start at the same moment of every period are sampled less evenly than Poisson.

mod describe;
mod noise;

pub use crate::statistics::benjamini_hochberg;
pub use describe::{Description, describe};
pub use noise::{Change, LEAST_EXPECTED, Noise};
