//! Sampling error.

/// Returns the 95 % confidence interval of a fraction, given the number of samples (Wilson's
/// interval).
pub fn interval_of_part(part: f64, samples: f64) -> [f64; 2] {
    const Z: f64 = 1.96;
    if samples <= 0.0 {
        return [0.0, 1.0];
    }
    let (square, scale) = (Z * Z / samples, 1.0 + Z * Z / samples);
    let middle = part + square / 2.0;
    let half = (part * (1.0 - part) * square + square * square / 4.0).sqrt();
    [(middle - half) / scale, (middle + half) / scale]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_intervals_of_the_tables() {
        // 8 of 10: 0.490 to 0.943 (Newcombe 1998, method 3).
        let [low, high] = interval_of_part(0.8, 10.0);
        assert!((low - 0.490).abs() < 1e-3 && (high - 0.943).abs() < 1e-3);
        let [low, high] = interval_of_part(0.0, 20.0);
        assert!(low.abs() < 1e-9 && (high - 0.161).abs() < 1e-3);
        assert_eq!(interval_of_part(0.0, 0.0), [0.0, 1.0]);
    }
}
