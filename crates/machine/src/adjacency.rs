/// Neighbours of each vertex of a graph, with the edges to them, in one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Adjacency {
    starts: Vec<usize>,
    /// Neighbour and edge.
    neighbours: Vec<(usize, usize)>,
}

impl Adjacency {
    /// Builds the lists. `pairs` gives (vertex, neighbour, edge); vertices are less than
    /// `vertices`.
    pub fn new(
        vertices: usize,
        pairs: impl Iterator<Item = (usize, usize, usize)> + Clone,
    ) -> Self {
        let mut starts = vec![0; vertices + 1];
        for (vertex, ..) in pairs.clone() {
            starts[vertex + 1] += 1;
        }
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let mut next = starts.clone();
        let mut neighbours = vec![(0, 0); starts[vertices]];
        for (vertex, neighbour, edge) in pairs {
            neighbours[next[vertex]] = (neighbour, edge);
            next[vertex] += 1;
        }
        Self { starts, neighbours }
    }

    pub fn of(&self, vertex: usize) -> &[(usize, usize)] {
        &self.neighbours[self.starts[vertex]..self.starts[vertex + 1]]
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Runs a depth-first search from each of the roots in turn, over vertices that are not yet
    /// `seen`.
    pub fn search(
        &self,
        roots: impl Iterator<Item = usize>,
        seen: &mut [bool],
    ) -> DepthFirstSearch {
        let mut search = DepthFirstSearch::default();
        for root in roots {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            search.before.push(root);
            let mut stack = vec![(root, 0)];
            while let Some((vertex, next)) = stack.last_mut() {
                match self.of(*vertex).get(*next) {
                    Some((neighbour, _)) => {
                        *next += 1;
                        if !std::mem::replace(&mut seen[*neighbour], true) {
                            search.before.push(*neighbour);
                            stack.push((*neighbour, 0));
                        }
                    }
                    None => {
                        search.after.push(*vertex);
                        stack.pop();
                    }
                }
            }
        }
        search
    }
}

/// The orders of a depth-first search.
#[derive(Debug, Default)]
pub(crate) struct DepthFirstSearch {
    /// Vertices in the order of their first visit.
    pub before: Vec<usize>,
    /// Vertices in the order of completion.
    pub after: Vec<usize>,
}
