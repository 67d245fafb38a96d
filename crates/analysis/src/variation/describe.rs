//! The columns of DCPI's Figure 3.

/// Description of one row's amounts in several sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Description {
    /// (max − min) / sum; 0 if the sum is 0.
    pub range: f64,
    /// Sum over the sets.
    pub sum: f64,
    /// Number of sets.
    pub sets: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of one set (divided by `sets − 1`); 0 for one set.
    pub std_dev: f64,
    /// Least amount.
    pub min: f64,
    /// Greatest amount.
    pub max: f64,
}

/// Describes the amounts of one row, one for each set.
pub fn describe_amounts(amounts: &[f64]) -> Description {
    let sets = amounts.len();
    if sets == 0 {
        return Description::default();
    }
    let sum: f64 = amounts.iter().sum();
    let mean = sum / sets as f64;
    let squares: f64 = amounts.iter().map(|amount| (amount - mean).powi(2)).sum();
    let min = amounts.iter().copied().fold(f64::INFINITY, f64::min);
    let max = amounts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Description {
        range: if sum > 0.0 { (max - min) / sum } else { 0.0 },
        sum,
        sets,
        mean,
        std_dev: (squares / (sets.max(2) - 1) as f64).sqrt(),
        min,
        max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_runs_of_smooth() {
        // Eight counts with the minimum, maximum and sum of `smooth_` in Figure 3.
        let counts = [
            38155.0, 88075.0, 38200.0, 38300.0, 38400.0, 82110.0, 39000.0, 78800.0,
        ];
        let row = describe_amounts(&counts);
        assert_eq!(row.sum, 441_040.0);
        assert_eq!(row.mean, 55_130.0);
        assert!((row.range - 0.1132).abs() < 5e-5, "{}", row.range);
    }

    #[test]
    fn the_standard_deviation_is_that_of_a_sample() {
        assert_eq!(describe_amounts(&[1.0, 3.0]).std_dev, 2f64.sqrt());
        assert_eq!(describe_amounts(&[4.0]).std_dev, 0.0);
        assert_eq!(describe_amounts(&[0.0, 0.0]).range, 0.0);
        assert_eq!(describe_amounts(&[]), Description::default());
    }
}
