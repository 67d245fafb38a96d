//! Sparse symmetric systems: `L D Lᵀ` in an order that keeps `L` sparse, and the elements of the
//! inverse on its diagonal.
//!
//! The matrices here are quasi-definite, and so have such a decomposition in every order
//! (Vanderbei, "Symmetric quasidefinite matrices", 1995). Few blocks separate the flow graph of a
//! program, so that `L` has few more elements than the matrix.

/// The pattern of a symmetric matrix, and its symbolic decomposition.
pub(super) struct Pattern {
    size: usize,
    /// The original index at each place of the order, and back.
    order: Vec<usize>,
    place: Vec<usize>,
    /// The upper triangle in the new order, by column: row and the element's number.
    starts: Vec<usize>,
    rows: Vec<(usize, usize)>,
    /// The elimination tree, and where the columns of `L` start.
    parent: Vec<usize>,
    lower_starts: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Pattern {
    /// Makes a pattern. `elements` are the row and column of each element of one triangle,
    /// including the whole diagonal. Elements at the same place add up.
    pub fn new(size: usize, elements: &[(usize, usize)]) -> Self {
        let (order, place) = fill_reducing(size, elements);
        let mut starts = vec![0; size + 1];
        let at = |&(row, column): &(usize, usize)| {
            let (row, column) = (place[row], place[column]);
            (row.min(column), row.max(column))
        };
        for element in elements {
            starts[at(element).1 + 1] += 1;
        }
        for column in 0..size {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut rows = vec![(0, 0); elements.len()];
        for (number, element) in elements.iter().enumerate() {
            let (row, column) = at(element);
            rows[next[column]] = (row, number);
            next[column] += 1;
        }
        let mut pattern = Self {
            size,
            order,
            place,
            starts,
            rows,
            parent: vec![NONE; size],
            lower_starts: vec![0; size + 1],
        };
        pattern.build_tree();
        pattern
    }

    fn column(&self, column: usize) -> &[(usize, usize)] {
        &self.rows[self.starts[column]..self.starts[column + 1]]
    }

    /// Builds the elimination tree and the size of each column of `L`.
    fn build_tree(&mut self) {
        let mut mark = vec![NONE; self.size];
        let mut parent = std::mem::take(&mut self.parent);
        let mut counts = vec![0; self.size];
        for column in 0..self.size {
            mark[column] = column;
            for &(row, _) in self.column(column) {
                let mut row = row;
                // Fill-in lies on the path up the tree; each node of it counts once.
                while mark[row] != column {
                    if parent[row] == NONE {
                        parent[row] = column;
                    }
                    counts[row] += 1;
                    mark[row] = column;
                    row = parent[row];
                }
            }
        }
        for (column, count) in counts.into_iter().enumerate() {
            self.lower_starts[column + 1] = self.lower_starts[column] + count;
        }
        self.parent = parent;
    }

    /// Decomposes the matrix whose elements have these values; `None` if a pivot vanishes.
    pub fn decompose(&self, values: &[f64]) -> Option<Factor<'_>> {
        let elements = self.lower_starts[self.size];
        let mut rows = vec![0; elements];
        let mut lower = vec![0.0; elements];
        let mut next = self.lower_starts[..self.size].to_vec();
        let mut diagonal = vec![0.0; self.size];
        let mut mark = vec![NONE; self.size];
        let mut work = vec![0.0; self.size];
        let (mut path, mut stack) = (Vec::new(), Vec::new());
        for column in 0..self.size {
            mark[column] = column;
            stack.clear();
            for &(row, number) in self.column(column) {
                work[row] += values[number];
                let mut row = row;
                path.clear();
                while mark[row] != column {
                    path.push(row);
                    mark[row] = column;
                    row = self.parent[row];
                }
                // Reversed twice in the end: in topological order.
                stack.extend(path.drain(..).rev());
            }
            let mut pivot = std::mem::take(&mut work[column]);
            while let Some(row) = stack.pop() {
                let value = std::mem::take(&mut work[row]);
                for at in self.lower_starts[row]..next[row] {
                    work[rows[at]] -= lower[at] * value;
                }
                let scaled = value / diagonal[row];
                pivot -= scaled * value;
                rows[next[row]] = column;
                lower[next[row]] = scaled;
                next[row] += 1;
            }
            if pivot == 0.0 || !pivot.is_finite() {
                return None;
            }
            diagonal[column] = pivot;
        }
        Some(Factor {
            pattern: self,
            rows,
            lower,
            diagonal,
        })
    }
}

/// Returns an approximate minimum-degree order; the original order if that fails.
fn fill_reducing(size: usize, elements: &[(usize, usize)]) -> (Vec<usize>, Vec<usize>) {
    let mut starts = vec![0; size + 1];
    for (_, column) in elements {
        starts[column + 1] += 1;
    }
    for column in 0..size {
        starts[column + 1] += starts[column];
    }
    let mut next = starts.clone();
    let mut rows = vec![0; elements.len()];
    for (row, column) in elements {
        rows[next[*column]] = *row;
        next[*column] += 1;
    }
    match amd::order(size, &starts, &rows, &amd::Control::default()) {
        Ok((order, place, _)) => (order, place),
        // Every order is correct; a bad one only takes longer.
        Err(_) => ((0..size).collect(), (0..size).collect()),
    }
}

/// A decomposed matrix.
pub(super) struct Factor<'a> {
    pattern: &'a Pattern,
    rows: Vec<usize>,
    lower: Vec<f64>,
    diagonal: Vec<f64>,
}

impl Factor<'_> {
    fn column(&self, column: usize) -> std::ops::Range<usize> {
        self.pattern.lower_starts[column]..self.pattern.lower_starts[column + 1]
    }

    /// Solves the system for a right-hand side.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let size = self.pattern.size;
        let order = &self.pattern.order;
        let mut x: Vec<f64> = order.iter().map(|index| right[*index]).collect();
        for column in 0..size {
            let value = x[column];
            for at in self.column(column) {
                x[self.rows[at]] -= self.lower[at] * value;
            }
        }
        for column in (0..size).rev() {
            let mut value = x[column] / self.diagonal[column];
            for at in self.column(column) {
                value -= self.lower[at] * x[self.rows[at]];
            }
            x[column] = value;
        }
        self.pattern.place.iter().map(|place| x[*place]).collect()
    }

    /// Returns the diagonal of the inverse by the recurrence of Takahashi, Fagan and Chen, which
    /// computes the inverse only at elements of `L`.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        let size = self.pattern.size;
        let mut inverse = vec![0.0; self.lower.len()];
        let mut diagonal = vec![0.0; size];
        // Position of each row in the current column's pattern.
        let mut position = vec![NONE; size];
        let mut sums = Vec::new();
        for column in (0..size).rev() {
            let range = self.column(column);
            let rows = &self.rows[range.clone()];
            let factors = &self.lower[range.clone()];
            for (index, row) in rows.iter().enumerate() {
                position[*row] = index;
            }
            sums.clear();
            sums.resize(rows.len(), 0.0);
            for (index, row) in rows.iter().enumerate() {
                sums[index] -= factors[index] * diagonal[*row];
                // The elements below the diagonal of a later column, each once.
                for at in self.column(*row) {
                    let other = position[self.rows[at]];
                    if other != NONE {
                        sums[index] -= factors[other] * inverse[at];
                        sums[other] -= factors[index] * inverse[at];
                    }
                }
            }
            let mut own = 1.0 / self.diagonal[column];
            for (index, row) in rows.iter().enumerate() {
                own -= factors[index] * sums[index];
                position[*row] = NONE;
            }
            inverse[range].copy_from_slice(&sums);
            diagonal[column] = own;
        }
        self.pattern
            .place
            .iter()
            .map(|place| diagonal[*place])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `[H Aᵀ; A −I]` with random `A`: the inverse times the matrix is one.
        #[test]
        fn solves_and_inverts(size in 1_usize..12, seed in 0_u64..1_000_000) {
            let mut state = seed;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f64 / (1 << 24) as f64
            };
            let half = size.div_ceil(2);
            let (mut places, mut values) = (Vec::new(), Vec::new());
            for i in 0..size {
                places.push((i, i));
                values.push(if i < half { 0.1 + random() } else { -0.1 - random() });
            }
            for i in half..size {
                for j in 0..half {
                    if random() < 0.4 {
                        places.push((i, j));
                        values.push(random() - 0.5);
                    }
                }
            }
            let mut dense = vec![vec![0.0; size]; size];
            for ((i, j), value) in places.iter().zip(&values) {
                dense[*i][*j] = *value;
                dense[*j][*i] = *value;
            }
            let pattern = Pattern::new(size, &places);
            let factor = pattern.decompose(&values).expect("quasi-definite");
            let diagonal = factor.inverse_diagonal();
            for column in 0..size {
                let mut unit = vec![0.0; size];
                unit[column] = 1.0;
                let x = factor.solve(&unit);
                for (row, elements) in dense.iter().enumerate() {
                    let product: f64 = elements.iter().zip(&x).map(|(a, b)| a * b).sum();
                    let wanted = f64::from(row == column);
                    prop_assert!((product - wanted).abs() < 1e-9, "{product} {wanted}");
                }
                prop_assert!((x[column] - diagonal[column]).abs() < 1e-9 * (1.0 + x[column].abs()));
            }
        }
    }
}
