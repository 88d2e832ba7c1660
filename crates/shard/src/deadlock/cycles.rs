//! The waits-for graph, and the transactions in it that wait for themselves in the end.
//!
//! Each transaction is one node, whichever Ashlar process it belongs to and however many connections it has. All
//! processes that see the same waits find the same cycles, and each reports only those that it has to break: those
//! whose youngest wait is its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Steps of one search; a cycle that is not found in so many is looked for again, among those who are left.
const STEPS_MAX: usize = 100_000;

/// Cycles that are looked for at once.
const CYCLES_MAX: usize = 8;

/// Where a PostgreSQL listens: numbers of processes are its own.
pub(super) type Cluster = (String, u16);

/// A process of one.
pub(super) type Process = (Cluster, i32);

/// A transaction that has waited long. They are in the order in which they came to wait, by the clocks of their Ashlars.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// Given once by its Ashlar, and not below 0.
    pub(super) number: i32,
    /// The Ashlar whose it is.
    pub(super) member: Arc<str>,
}

/// What the shards have said.
#[derive(Default)]
pub(super) struct Look {
    /// The transaction whose connection a process serves.
    pub(super) owners: BTreeMap<Process, Name>,
    /// Processes that wait, and for whom.
    pub(super) edges: Vec<(Process, i32)>,
    /// The last round of its Ashlar in which a transaction of another one still waited.
    pub(super) rounds: BTreeMap<Name, u64>,
}

/// Who waits for whom, and with which of their processes: the one that waits, and the other one on its cluster.
pub(super) type Graph<'l> = BTreeMap<&'l Name, BTreeMap<&'l Name, BTreeSet<(&'l Process, i32)>>>;

impl Look {
    /// The transactions that wait for each other, through whomever.
    pub(super) fn graph(&self) -> Graph<'_> {
        let mut blocking: BTreeMap<&Process, Vec<i32>> = BTreeMap::new();
        for (blocked, by) in &self.edges {
            blocking.entry(blocked).or_default().push(*by);
        }
        let mut graph = Graph::new();
        for (start, owner) in &self.owners {
            let mut seen: BTreeSet<i32> = BTreeSet::from([start.1]);
            let mut next = vec![start.clone()];
            while let Some(process) = next.pop() {
                for by in blocking.get(&process).into_iter().flatten() {
                    if !seen.insert(*by) {
                        continue;
                    }
                    let by = (start.0.clone(), *by);
                    match self.owners.get(&by) {
                        Some(other) => {
                            graph.entry(owner).or_default().entry(other).or_default().insert((start, by.1));
                        }
                        // Somebody else's: what he waits for on that cluster counts.
                        None => next.push(by),
                    }
                }
            }
        }
        graph
    }
}

/// Whether one of a member's transactions waits for one of another's.
pub(super) fn waits_for_others(graph: &Graph<'_>, member: &str) -> bool {
    let is_own = |name: &Name| *name.member == *member;
    graph.iter().any(|(name, nexts)| is_own(name) && nexts.keys().any(|next| !is_own(next)))
}

/// Several cycles: one that cannot be broken, since an Ashlar of it says nothing any more, hides none that can. Of those in which the same
/// transaction came last to wait it is one.
pub(super) fn own_cycles(mut graph: Graph<'_>, member: &str) -> Vec<Vec<Name>> {
    let mut all = Vec::new();
    while all.len() < CYCLES_MAX
        && let Some(found) = cycle(&graph, member)
    {
        graph.retain(|name, _| found.iter().max() != Some(*name));
        all.push(found);
    }
    all
}

/// Some who wait for each other with several processes of one of them: what no cluster sees. Of them this member's came last to wait.
fn cycle(graph: &Graph<'_>, member: &str) -> Option<Vec<Name>> {
    let mut search = Search { graph, member, path: Vec::new(), steps: 0 };
    let found = graph.keys().copied().find_map(|root| search.from(root, root))?;
    Some(found.into_iter().cloned().collect())
}

/// Looks for a cycle through one of those who wait and others that come after it in order.
struct Search<'g> {
    graph: &'g Graph<'g>,
    member: &'g str,
    path: Vec<&'g Name>,
    steps: usize,
}

impl<'g> Search<'g> {
    fn from(&mut self, root: &'g Name, name: &'g Name) -> Option<Vec<&'g Name>> {
        let graph = self.graph;
        self.path.push(name);
        for next in graph.get(name).into_iter().flat_map(BTreeMap::keys).copied() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                break;
            }
            if next == root && self.is_spread() && self.is_ours() {
                return Some(std::mem::take(&mut self.path));
            }
            if next > root
                && !self.path.contains(&next)
                && let Some(found) = self.from(root, next)
            {
                return Some(found);
            }
        }
        self.path.pop();
        None
    }

    /// Whether no cluster sees it: on none do processes wait for each other all around.
    fn is_spread(&self) -> bool {
        !self.waits().next().into_iter().flatten().any(|(start, by)| {
            let mut reached = BTreeSet::from([*by]);
            for waits in self.waits().skip(1) {
                let next = waits.iter().filter(|(process, _)| process.0 == start.0 && reached.contains(&process.1));
                reached = next.map(|(_, by)| *by).collect();
            }
            reached.contains(&start.1)
        })
    }

    /// How each on the path waits for the next one.
    fn waits(&self) -> impl Iterator<Item = &'g BTreeSet<(&'g Process, i32)>> {
        let graph = self.graph;
        let nexts = self.path.iter().skip(1).chain(self.path.first());
        self.path.iter().zip(nexts).filter_map(move |(name, next)| graph.get(*name)?.get(*next))
    }

    /// Whether the one on the path that came last to wait is this member's.
    fn is_ours(&self) -> bool {
        self.path.iter().max().is_some_and(|last| *last.member == *self.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(port: u16) -> Cluster {
        ("h".to_owned(), port)
    }

    /// The connections of transactions, each with the process of one number on the clusters of these ports, and who waits for whom. They
    /// are the members' in turn.
    fn look(members: &[&str], owners: &[(i32, &[u16])], edges: &[(u16, i32, i32)]) -> Look {
        let mut look = Look::default();
        for ((number, member), (pid, ports)) in (0..).zip(members.iter().cycle()).zip(owners) {
            let name = Name { number, member: Arc::from(*member) };
            look.owners.extend(ports.iter().map(|port| ((on(*port), *pid), name.clone())));
        }
        look.edges = edges.iter().map(|(port, blocked, by)| ((on(*port), *blocked), *by)).collect();
        look
    }

    /// The numbers of those in the cycle that is this member's to break.
    fn found(look: &Look, member: &str) -> Option<Vec<i32>> {
        cycle(&look.graph(), member).map(|names| names.iter().map(|name| name.number).collect())
    }

    fn check(owners: &[(i32, &[u16])], edges: &[(u16, i32, i32)], expected: Option<&[i32]>) {
        assert_eq!(found(&look(&["a"], owners, edges), "a").as_deref(), expected, "{edges:?}");
    }

    #[test]
    fn cycles_over_clusters_are_found() {
        check(&[(10, &[0, 1]), (20, &[1, 0])], &[(0, 10, 20), (1, 20, 10)], Some(&[0, 1]));
        // One waits, the other works.
        check(&[(10, &[0, 1]), (20, &[1, 0])], &[(0, 10, 20)], None);
        // Numbers of another cluster are others.
        check(&[(10, &[0, 1]), (20, &[2, 3])], &[(0, 10, 20), (2, 20, 10)], None);
        // Three, and one that only waits for them.
        let four: &[(i32, &[u16])] = &[(5, &[0, 1]), (10, &[0, 2]), (20, &[1, 0]), (30, &[2, 1])];
        check(four, &[(0, 5, 10), (0, 10, 20), (1, 20, 30), (2, 30, 10)], Some(&[1, 2, 3]));
        // Through somebody who is on one shard only, or of another program.
        check(&[(10, &[0, 1]), (20, &[1, 0])], &[(0, 10, 7), (0, 7, 8), (0, 8, 20), (1, 20, 10)], Some(&[0, 1]));
        // What a cluster sees itself, it breaks itself.
        check(&[(10, &[0, 1]), (20, &[0, 1])], &[(0, 10, 20), (0, 20, 10)], None);
        check(&[(10, &[0, 1]), (20, &[0, 1])], &[(0, 10, 20), (1, 10, 20), (0, 20, 10)], None);
        // Each has two connections to one cluster, as to two of its databases.
        let mut two = look(&["a"], &[(10, &[0]), (20, &[0])], &[(0, 10, 20), (0, 21, 11)]);
        for (pid, other) in [(10, 11), (20, 21)] {
            let name = two.owners[&(on(0), pid)].clone();
            two.owners.insert((on(0), other), name);
        }
        assert_eq!(found(&two, "a"), Some(vec![0, 1]));
        two.edges.push(((on(0), 20), 10));
        assert_eq!(found(&two, "a"), None);
        // Two connections of one transaction, on one cluster under two names.
        let mut both = look(&["a"], &[(10, &[0])], &[(0, 10, 11)]);
        let name = both.owners[&(on(0), 10)].clone();
        both.owners.insert((on(0), 11), name);
        assert_eq!(found(&both, "a"), Some(vec![0]));
    }

    #[test]
    fn a_cycle_is_broken_by_the_one_whose_transaction_came_last() {
        let owners: &[(i32, &[u16])] = &[(10, &[0, 1]), (20, &[1, 2]), (30, &[2, 0])];
        let three = look(&["a", "b", "c"], owners, &[(1, 10, 20), (2, 20, 30), (0, 30, 10)]);
        assert_eq!(["a", "b", "c"].map(|member| found(&three, member)), [None, None, Some(vec![0, 1, 2])]);
        assert!(["a", "b", "c"].iter().all(|member| waits_for_others(&three.graph(), member)));
        // Others' own hide none of ours: the first two are in one, the others in another.
        let owners: &[(i32, &[u16])] = &[(10, &[0, 1]), (20, &[1, 0]), (30, &[0, 1]), (40, &[1, 0])];
        let edges = &[(0, 10, 20), (1, 20, 10), (0, 30, 40), (1, 40, 30)];
        let two = look(&["b", "b", "a", "a"], owners, edges);
        assert_eq!(["a", "b"].map(|member| found(&two, member)), [Some(vec![2, 3]), Some(vec![0, 1])]);
        assert!(!["a", "b"].iter().any(|member| waits_for_others(&two.graph(), member)));
    }

    #[test]
    fn a_cycle_hides_no_other_one() {
        // The first is one with another member; of the last two, which have the one in common that came last, one is enough.
        let owners: &[(i32, &[u16])] = &[(10, &[0, 1]), (20, &[1, 0]), (30, &[0, 1]), (40, &[1, 0]), (50, &[0, 1])];
        let edges = &[(0, 10, 20), (1, 20, 10), (0, 30, 50), (1, 50, 30), (0, 40, 50), (1, 50, 40)];
        let all = look(&["b", "a"], owners, edges);
        let numbers = |member: &str| -> Vec<Vec<i32>> {
            let found = own_cycles(all.graph(), member);
            found.iter().map(|names| names.iter().map(|name| name.number).collect()).collect()
        };
        assert_eq!(numbers("a"), [[0, 1]]);
        assert_eq!(numbers("b"), [[2, 4]]);
        let own = look(&["a"], owners, edges);
        assert_eq!(own_cycles(own.graph(), "a").len(), 2);
    }

    #[test]
    fn a_search_has_an_end() {
        // Everybody waits for everybody, on one cluster: no cycle counts, and there are very many.
        let ports: &[u16] = &[0, 1];
        let owners: Vec<(i32, &[u16])> = (0..40).map(|pid| (pid, ports)).collect();
        let edges: Vec<(u16, i32, i32)> = (0..40).flat_map(|a| (0..40).map(move |b| (0, a, b))).collect();
        check(&owners, &edges, None);
    }
}
