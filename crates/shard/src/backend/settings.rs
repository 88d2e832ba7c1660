//! The settings of a connection: of whoever borrows it, and of a transaction in which they change.
//!
//! Called by `pool`, which lends connections with the settings of their borrowers, and by sessions before each statement of a transaction.

use std::sync::Arc;

use ashlar_base::Result;
use ashlar_protocol::pg::TransactionStatus;

use super::{Backend, login};

/// How safe a commit is.
const COMMITS: &str = "synchronous_commit";

/// A setting that few sessions give, and its value there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Given {
    /// What it is called.
    pub name: Arc<str>,
    /// In the setting's own unit, where it has one.
    pub value: Arc<str>,
}

impl Given {
    /// A setting and its value.
    pub fn new(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// What a session gives beside what every session does. Of settings that are not among these a shard has its own value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Carried(
    // Nothing where there is none, and else shared: connections compare theirs with those of who borrows them.
    Option<Arc<Vec<Given>>>,
);

impl Carried {
    /// These, each of them once.
    pub fn new(given: Vec<Given>) -> Self {
        Self((!given.is_empty()).then(|| Arc::new(given)))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Given> {
        self.0.iter().flat_map(|given| given.iter())
    }

    /// What they are called.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.iter().map(|given| &given.name)
    }

    /// The same with commits that are at least as safe as the server's own, and the value of the setting then, as SET takes it; `None` where
    /// they are that safe.
    fn with_safe_commits(&self) -> Option<(Self, &'static str)> {
        let is_of_commits = |given: &Given| *given.name == *COMMITS;
        let wanted = self.iter().find(|given| is_of_commits(given))?;
        let (instead, value) = match &*wanted.value {
            "off" | "local" => (None, "DEFAULT"),
            // The server's own may be less, or more.
            "remote_write" => (Some(Given::new(COMMITS, "on")), "'on'"),
            _ => return None,
        };
        let others = self.iter().filter(|given| !is_of_commits(given)).cloned();
        Some((Self::new(others.chain(instead).collect()), value))
    }
}

/// Settings that a statement's result depends on, or how it comes about: of the session that borrows, or of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `TimeZone`
    pub time_zone: Arc<str>,
    /// `application_name`
    pub application_name: Arc<str>,
    /// `lock_timeout`
    pub lock_timeout_ms: u64,
    /// All others.
    pub carried: Carried,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            time_zone: "UTC".into(),
            application_name: "ashlar".into(),
            lock_timeout_ms: 0,
            carried: Carried::default(),
        }
    }
}

impl Backend {
    /// Whether whoever borrows it with these settings has nothing to change.
    pub fn has_settings(&self, settings: &Settings) -> bool {
        !self.is_unsure && self.settings == *settings
    }

    /// Makes the settings of whoever borrows it its own, where they differ.
    ///
    /// # Errors
    /// What the shard says, which may not know a time zone, or a setting; then it has some of them, and is not lent again.
    pub(crate) async fn adopt(&mut self, settings: &Settings) -> Result<()> {
        if self.has_settings(settings) {
            return Ok(());
        }
        // Before the statement and not with it: it would run all the same where one of these is refused.
        let sql = login::set_all("SET", settings, self.settings.carried.names());
        let done = self.run(&sql).await;
        self.is_broken |= done.is_err();
        self.settings = settings.clone();
        done.map(drop)
    }

    /// Queues what makes these settings those of the transaction that is open there, to its end, where they differ. Where one of them is
    /// refused the transaction has failed: what is queued behind is not carried out.
    pub fn queue_settings(&mut self, settings: &Settings) {
        if self.has_settings(settings) {
            return;
        }
        let before = std::mem::replace(&mut self.settings, settings.clone());
        // Which of those of before are in force may not be known: none of them is left.
        for name in before.carried.names() {
            if !self.told.contains(name) {
                self.told.push(Arc::clone(name));
            }
        }
        let sql = login::set_all("SET LOCAL", settings, self.told.iter());
        self.queue_query(&sql);
        self.lasting.get_or_insert(before);
        self.is_unsure = false;
    }

    /// Queues that what is committed there next is at least as safe as what its server commits for others, whatever its session wants: in the
    /// transaction that is open there, of which nothing but its end is left, or from here on.
    pub(crate) fn queue_safe_commits(&mut self) {
        let Some((carried, value)) = self.settings.carried.with_safe_commits() else { return };
        if self.status != TransactionStatus::Idle {
            self.queue_query(&format!("SET LOCAL {COMMITS} TO {value}"));
            return;
        }
        self.queue_query(&format!("SET {COMMITS} TO {value}"));
        self.settings.carried = carried;
    }

    /// Whether a session has left settings there that others may not have.
    pub(crate) fn is_marked(&self) -> bool {
        self.settings.carried.0.is_some()
    }

    /// A savepoint is gone back to: what was told behind it is not in force any more.
    pub fn doubt_settings(&mut self) {
        self.is_unsure = self.lasting.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_what_a_session_brings_and_what_is_gone() {
        let usual = "SET TimeZone TO 'UTC';SET application_name TO 'ashlar';SET lock_timeout TO '0';";
        assert_eq!(login::set_all("SET", &Settings::default(), std::iter::empty()), usual);
        let text = r"it's \'; DROP TABLE t; --";
        let carried = Carried::new(vec![Given::new("app.who", text), Given::new("work_mem", "64")]);
        let settings = Settings { carried, ..Settings::default() };
        let before =
            Carried::new(vec![Given::new("jit", "on"), Given::new("work_mem", "1"), Given::new("App.Who", "x")]);
        let told = login::set_all("SET", &settings, before.names());
        let expected = r#"SET "jit" TO DEFAULT;SET "App.Who" TO DEFAULT;SET "app.who" TO  E'it''s \\''; DROP TABLE t; --';SET "work_mem" TO '64';"#;
        assert_eq!(told.strip_prefix(usual), Some(expected));
    }

    #[test]
    fn commits_of_several_shards_are_as_safe_as_those_of_their_servers() {
        let with = |value: &str| {
            Carried::new(vec![Given::new("jit", "on"), Given::new(COMMITS, value), Given::new("work_mem", "64")])
        };
        let others = [Given::new("jit", "on"), Given::new("work_mem", "64")];
        for value in ["off", "local"] {
            let expected = (Carried::new(others.to_vec()), "DEFAULT");
            assert_eq!(with(value).with_safe_commits(), Some(expected), "{value}");
        }
        let raised = others.iter().cloned().chain([Given::new(COMMITS, "on")]).collect();
        assert_eq!(with("remote_write").with_safe_commits(), Some((Carried::new(raised), "'on'")));
        for value in ["on", "remote_apply"] {
            assert_eq!(with(value).with_safe_commits(), None, "{value}");
        }
        assert_eq!(Carried::new(others.to_vec()).with_safe_commits(), None);
        assert_eq!(Carried::default().with_safe_commits(), None);
    }

    #[test]
    fn settings_are_compared_by_what_they_say() {
        let with = |value: &str| {
            let carried = Carried::new(vec![Given::new("jit", value)]);
            Settings { carried, ..Settings::default() }
        };
        assert_eq!(with("on"), with("on"));
        assert_ne!(with("on"), with("off"));
        assert_ne!(with("on"), Settings::default());
        assert_eq!(Settings { carried: Carried::new(Vec::new()), ..Settings::default() }, Settings::default());
    }
}
