//! Changing the servers of a table that has a full copy on each of them: copies that are added, removed or renamed.
//!
//! Called by ALTER TABLE. A writer that still uses the old rule, because it has not heard of the change or waits behind
//! it, must not find the existing copies when one is added, or it would miss the new one: so the existing copies are
//! renamed. If one is removed, such a writer does not find that copy.

use std::sync::Arc;

use ashlar_base::{Error, Result};

use super::{Generator, Placement, Rule, Shard};

/// What becomes of the copies of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Those that stay, as they were and as they are called from now on.
    pub kept: Vec<(Shard, Shard)>,
    /// Those that come.
    pub added: Vec<Shard>,
    /// Those that go.
    pub removed: Vec<Shard>,
}

impl Rule {
    /// What makes another rule of this one, where both are of a table that is on all of its servers; `None` for other tables, and where all
    /// copies are where they are and called as they are.
    ///
    /// # Errors
    /// 0A000 where none would stay; where copies come, and those that there are would keep their names; where copies go to another schema, or
    /// keys that are generated might be made twice.
    pub fn copied(&self, next: &Self) -> Result<Option<Copies>> {
        let (old, new) = (&self.0, &next.0);
        let is_copied = old.placement == Placement::Broadcast && new.placement == Placement::Broadcast;
        if !is_copied || old.shards == new.shards {
            return Ok(None);
        }
        let on = |shards: &[Shard], server: &Arc<str>| shards.iter().find(|shard| shard.server == *server).cloned();
        let mut copies = Copies::default();
        for shard in &old.shards {
            match on(&new.shards, &shard.server) {
                Some(next) => copies.kept.push((shard.clone(), next)),
                None => copies.removed.push(shard.clone()),
            }
        }
        copies.added = new.shards.iter().filter(|shard| on(&old.shards, &shard.server).is_none()).cloned().collect();
        if copies.kept.is_empty() {
            return Err(refused("none of its servers stays").with_hint("Keep one, whose rows the others get."));
        }
        if copies.kept.iter().any(|(was, is)| was.schema != is.schema) {
            return Err(refused("copies would go to another schema").with_hint("Name the schema that they are in."));
        }
        if self.home() != next.home() && matches!(old.generated, Some((_, Generator::Snowflake))) {
            return Err(refused("worker numbers of its keys are leased of the first of its servers")
                .with_hint("Leave the first one where it is."));
        }
        let is_renamed = copies.kept.iter().all(|(was, is)| was.table != is.table);
        if !copies.added.is_empty() && !is_renamed {
            let why = "whoever has not heard of it would go on writing to those that there are alone";
            return Err(refused(why)
                .with_hint("Give the copies another name as well: SET (servers = ..., table_suffix = '_2')."));
        }
        Ok(Some(copies))
    }
}

/// 0A000
fn refused(why: &str) -> Error {
    Error::unsupported(format!("other servers cannot be given to a table that is on all of its servers: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::copied;
    use super::super::{Rule, Shard};

    fn rule(servers: &str, suffix: &str) -> Rule {
        copied(&[("servers", servers), ("table_suffix", suffix)])
    }

    /// Copies, as `server.table`.
    fn named<'s>(shards: impl IntoIterator<Item = &'s Shard>) -> String {
        let names = shards.into_iter().map(|shard| format!("{}.{}", shard.server, shard.table));
        names.collect::<Vec<String>>().join(" ")
    }

    #[test]
    fn copies_come_and_go() {
        let copies = rule("s0,s1", "").copied(&rule("s1,s2,s0", "_2")).unwrap().unwrap();
        assert_eq!(named(copies.kept.iter().map(|(was, _)| was)), "s0.t s1.t");
        assert_eq!(named(copies.kept.iter().map(|(_, is)| is)), "s0.t_2 s1.t_2");
        assert_eq!((named(&copies.added).as_str(), named(&copies.removed).as_str()), ("s2.t_2", ""));
        let copies = rule("s0,s1,s2", "").copied(&rule("s2", "")).unwrap().unwrap();
        assert_eq!((named(&copies.added).as_str(), named(&copies.removed).as_str()), ("", "s0.t s1.t"));
        assert_eq!(rule("s0,s1", "").copied(&rule("s0,s1", "")).unwrap(), None);
    }

    #[test]
    fn what_others_would_not_hear_of_is_refused() {
        let made =
            |servers: &str| copied(&[("servers", servers), ("key_generator", "snowflake"), ("generated_column", "a")]);
        let moved = copied(&[("servers", "s0,s1"), ("schema", "other"), ("table_suffix", "_2")]);
        for (old, new) in [
            (rule("s0", ""), rule("s0,s1", "")),
            (rule("s0", ""), rule("s1", "_2")),
            (rule("s0", ""), moved),
            (made("s0,s1"), made("s1")),
        ] {
            let error = old.copied(&new).unwrap_err();
            assert!(error.sqlstate() == "0A000" && error.fields().hint.is_some(), "{old:?}\n{new:?}\n{error}");
        }
        assert!(made("s0,s1").copied(&made("s0")).unwrap().is_some());
    }
}
