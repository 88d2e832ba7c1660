//! Changes of a rule that move no row: shards that are added, and what existing shards keep of their keys.
//!
//! Called by ALTER TABLE; for tables with a full copy on each server see `copies`. Whether a shard has rows that the
//! new rule places elsewhere is not known here. Each shard whose keys change checks that itself, by a constraint
//! ([`Kept`]) that also keeps out rows that are still sent by the old rule.

use std::ops::Range;

use ashlar_base::{Error, Result};

use super::{Distribution, Function, Key, Rule, ShardId};

/// What a change of a rule asks of its shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extension {
    /// The shards that there were not.
    pub added: Range<usize>,
    /// Shards that have other keys now, and what their rows have to satisfy from now on.
    pub changed: Vec<(ShardId, Kept)>,
}

/// What the only key column of all rows of a shard has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// From this on, and below that.
    Between(Option<Key>, Option<Key>),
    /// One of these.
    OneOf(Vec<Key>),
    /// None of these.
    NoneOf(Vec<Key>),
}

impl Extension {
    /// Whether the shards have nothing to do.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty()
    }
}

impl Rule {
    /// What makes another rule of this one, for the same table, without a row that moves.
    ///
    /// # Errors
    /// 0A000 where rows would have to, or may have to.
    pub fn extended(&self, next: &Self) -> Result<Extension> {
        let (old, new) = (&self.0, &next.0);
        let is_same_key = old.key == new.key && old.distribution.classes == new.distribution.classes;
        if old.placement != new.placement || !is_same_key {
            return Err(refused("another placement or sharding key"));
        }
        let count = old.shards.len();
        if new.shards.get(..count) != Some(&old.shards[..]) {
            return Err(refused("other servers or tables for shards that there are").with_hint(
                "Shards are added behind those that there are: name a server for each at the end of \"servers\".",
            ));
        }
        let added = count..new.shards.len();
        match changed(&old.distribution, &new.distribution) {
            Some(changed) => Ok(Extension { added, changed }),
            None if added.is_empty() && old.distribution == new.distribution => {
                Ok(Extension { added, changed: Vec::new() })
            }
            None => Err(refused("another way from the key to the shard")),
        }
    }

    /// What rows of a shard have to satisfy since the rule was changed and the shard has had other keys; `None` where no change does that:
    /// keys are neither listed nor in ranges.
    pub fn kept(&self, shard: ShardId) -> Option<Kept> {
        let function = &self.0.distribution.function;
        match function {
            Function::Ranges(ranges) => ranges.of_shard(shard).map(between),
            Function::List { .. } => Lists::of(function).map(|lists| lists.of_shard(shard).kept()),
            _ => None,
        }
    }
}

/// 0A000
fn refused(what: &str) -> Error {
    Error::unsupported(format!("rows might have to move: {what} cannot be given to a table that is there"))
        .with_hint("Make a table with the new rule, and INSERT the rows of this one into it.")
}

/// The shards that have other keys by the new one; `None` where keys are not listed or in ranges by both.
fn changed(old: &Distribution, new: &Distribution) -> Option<Vec<(ShardId, Kept)>> {
    let shards = (0..old.servers.len()).filter_map(|at| u16::try_from(at).ok().map(ShardId));
    Some(match (&old.function, &new.function) {
        (Function::Ranges(before), Function::Ranges(after)) => shards
            .filter_map(|shard| {
                let (was, is) = (before.of_shard(shard)?, after.of_shard(shard)?);
                // One that has more keys is held to them too: a rule before that may still send others.
                (was != is).then(|| (shard, between(is)))
            })
            .collect(),
        (Function::List { .. }, Function::List { .. }) => {
            let (before, after) = (Lists::of(&old.function)?, Lists::of(&new.function)?);
            shards
                .filter_map(|shard| {
                    let (was, is) = (before.of_shard(shard), after.of_shard(shard));
                    (!is.covers(&was) || !was.covers(&is)).then(|| (shard, is.kept()))
                })
                .collect()
        }
        _ => return None,
    })
}

fn between((low, high): (Option<&Key>, Option<&Key>)) -> Kept {
    Kept::Between(low.cloned(), high.cloned())
}

/// A rule of lists.
struct Lists<'f> {
    values: &'f [(Key, ShardId)],
    others: Option<ShardId>,
}

/// What a shard has of them: these, or all but these.
struct Values<'f> {
    listed: Vec<&'f Key>,
    is_all_but: bool,
}

impl<'f> Lists<'f> {
    fn of(function: &'f Function) -> Option<Self> {
        match function {
            Function::List { values, others } => Some(Self { values, others: *others }),
            _ => None,
        }
    }

    fn of_shard(&self, shard: ShardId) -> Values<'f> {
        let is_all_but = self.others == Some(shard);
        let listed = self.values.iter().filter(|(_, own)| (*own == shard) != is_all_but).map(|(key, _)| key);
        Values { listed: listed.collect(), is_all_but }
    }
}

impl Values<'_> {
    fn contains(&self, key: &Key) -> bool {
        // They are sorted.
        self.listed.binary_search(&key).is_ok() != self.is_all_but
    }

    /// Whether it has all keys of another one.
    fn covers(&self, other: &Values<'_>) -> bool {
        match (self.is_all_but, other.is_all_but) {
            (_, false) => other.listed.iter().all(|key| self.contains(key)),
            (true, true) => self.listed.iter().all(|key| !other.contains(key)),
            (false, true) => false,
        }
    }

    fn kept(&self) -> Kept {
        let keys = self.listed.iter().copied().cloned().collect();
        if self.is_all_but { Kept::NoneOf(keys) } else { Kept::OneOf(keys) }
    }
}

#[cfg(test)]
mod tests {
    use ashlar_base::Datum;

    use super::super::tests::rule;
    use super::super::{Key, Rule, ShardId, Strategy};
    use super::{Extension, Kept};

    fn number(number: i64) -> Option<Key> {
        Some(Key::Number(number))
    }

    #[test]
    fn what_had_no_shard_may_get_one() {
        let ranges = |servers, ranges| rule(Strategy::Range, &["a"], &[("servers", servers), ("ranges", ranges)]);
        let old = ranges("s0,s1", "0..10; 10..20");
        let same = old.extended(&ranges("s0,s1", "0..10; 10..20")).unwrap();
        assert!(same.is_empty());
        let more = old.extended(&ranges("s0,s1,s2", "0..10; 10..20; 20..30")).unwrap();
        assert_eq!(more, Extension { added: 2..3, changed: Vec::new() });
        let wider = old.extended(&ranges("s0,s1", "-5..10; 10..")).unwrap();
        let (low, high) = (Kept::Between(number(-5), number(10)), Kept::Between(number(10), None));
        assert_eq!(wider, Extension { added: 2..2, changed: vec![(ShardId(0), low), (ShardId(1), high)] });
        let lists = |servers, lists| rule(Strategy::List, &["b"], &[("servers", servers), ("lists", lists)]);
        let old = lists("s0,s1", "de,at; us");
        let more = old.extended(&lists("s0,s1,s2", "de,at; us,ca; fr")).unwrap();
        let kept = Kept::OneOf(["ca", "us"].map(|key| Key::Text(key.into())).to_vec());
        assert_eq!(more, Extension { added: 2..3, changed: vec![(ShardId(1), kept)] });
        let others = old.extended(&lists("s0,s1,s2", "de,at; us; *")).unwrap();
        assert_eq!(others, Extension { added: 2..3, changed: Vec::new() });
    }

    #[test]
    fn what_a_shard_has_no_more_its_rows_must_not_be() {
        let boundaries = |servers, at| rule(Strategy::Range, &["a"], &[("servers", servers), ("boundaries", at)]);
        let split = boundaries("s0,s1", "10").extended(&boundaries("s0,s1,s2", "10,20")).unwrap();
        let kept = Kept::Between(number(10), number(20));
        assert_eq!(split, Extension { added: 2..3, changed: vec![(ShardId(1), kept)] });
        let moved = boundaries("s0,s1", "10").extended(&boundaries("s0,s1", "20")).unwrap();
        let kept = Kept::Between(number(20), None);
        let more = Kept::Between(None, number(20));
        assert_eq!(moved.changed, [(ShardId(0), more), (ShardId(1), kept)]);
        let lists = |servers, lists| rule(Strategy::List, &["a"], &[("servers", servers), ("lists", lists)]);
        let taken = lists("s0,s1", "1,2; *").extended(&lists("s0,s1,s2", "1,2; *; 3")).unwrap();
        let kept = Kept::NoneOf([1, 2, 3].map(Key::Number).to_vec());
        assert_eq!(taken, Extension { added: 2..3, changed: vec![(ShardId(1), kept)] });
        let moved = lists("s0,s1", "1,2; 3").extended(&lists("s0,s1", "1; 2,3")).unwrap();
        let kept = Kept::OneOf(vec![Key::Number(1)]);
        let more = Kept::OneOf([2, 3].map(Key::Number).to_vec());
        assert_eq!(moved.changed, [(ShardId(0), kept), (ShardId(1), more)]);
    }

    #[test]
    fn other_changes_are_refused() {
        let by = |strategy, written: &[(&str, &str)]| rule(strategy, &["a"], written);
        let hashed = by(Strategy::Hash, &[("servers", "s0,s1")]);
        for other in [
            by(Strategy::Hash, &[("servers", "s0,s1,s2")]),
            by(Strategy::Hash, &[("servers", "s1,s0")]),
            by(Strategy::Hash, &[("servers", "s0,s1"), ("shards", "4")]),
            by(Strategy::Hash, &[("servers", "s0,s1"), ("algorithm", "mod")]),
            by(Strategy::Hash, &[("servers", "s0,s1"), ("table_suffix", "_x")]),
            by(Strategy::List, &[("servers", "s0,s1"), ("lists", "1; 2")]),
            rule(Strategy::Hash, &["b"], &[("servers", "s0,s1")]),
            rule(Strategy::Hash, &["a", "b"], &[("servers", "s0,s1")]),
        ] {
            let error = hashed.extended(&other).unwrap_err();
            assert!(error.sqlstate() == "0A000" && error.fields().hint.is_some(), "{other:?}\n{error}");
        }
        assert_eq!(hashed.kept(ShardId(0)), None);
        // A shard less, and others that are called otherwise since a server has several.
        let boundaries = |servers, at| by(Strategy::Range, &[("servers", servers), ("boundaries", at)]);
        assert!(boundaries("s0,s1,s2", "1,2").extended(&boundaries("s0,s1", "1")).is_err());
        assert!(boundaries("s0,s1", "1").extended(&boundaries("s0,s1", "1,2")).is_err());
    }

    /// Rules of ranges and of lists, each with its shards on servers of their own.
    fn rules() -> Vec<Rule> {
        let servers = |count: usize| ["s0", "s1", "s2", "s3"][..count].join(",");
        let mut rules = Vec::new();
        for at in ["10", "20", "5,10", "10,20", "10,20,30"] {
            let servers = servers(at.split(',').count() + 1);
            rules.push(rule(Strategy::Range, &["a"], &[("servers", servers.as_str()), ("boundaries", at)]));
        }
        for ranges in ["0..10; 10..20", "10..20; 0..10", "0..10; 20..30", "0..10; 10..20; 20..30", "..0; 0..5; 5.."] {
            let servers = servers(ranges.split(';').count());
            rules.push(rule(Strategy::Range, &["a"], &[("servers", servers.as_str()), ("ranges", ranges)]));
        }
        for lists in ["1,2; 3", "1; 2,3", "1,2; 3; 4", "1,2; *", "*; 1,2", "1,2; *; 3", "1; *; 2"] {
            let servers = servers(lists.split(';').count());
            rules.push(rule(Strategy::List, &["a"], &[("servers", servers.as_str()), ("lists", lists)]));
        }
        rules
    }

    /// A row that its shard keeps is where the new rule looks for it, and no other is.
    #[test]
    fn rows_that_a_shard_keeps_are_found() {
        let rules = rules();
        for (old, new) in rules.iter().flat_map(|old| rules.iter().map(move |new| (old, new))) {
            let Ok(extension) = old.extended(new) else { continue };
            // Whatever it was before.
            for (shard, kept) in &extension.changed {
                assert_eq!(new.kept(*shard).as_ref(), Some(kept), "{old:?}\n{new:?}");
            }
            for key in -20..40 {
                let place = |rule: &Rule| rule.shard_of(&[Datum::Int8(key)]).ok();
                let Some(shard) = place(old) else { continue };
                let is_kept = match extension.changed.iter().find(|(changed, _)| *changed == shard) {
                    None => true,
                    Some((_, Kept::Between(low, high))) => {
                        let key = number(key);
                        (low.is_none() || *low <= key) && (high.is_none() || key < *high)
                    }
                    Some((_, Kept::OneOf(keys))) => keys.contains(&Key::Number(key)),
                    Some((_, Kept::NoneOf(keys))) => !keys.contains(&Key::Number(key)),
                };
                assert_eq!(is_kept, place(new) == Some(shard), "{key}\n{old:?}\n{new:?}");
            }
        }
    }
}
