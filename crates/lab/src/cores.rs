//! Cores: the server has some, the client others, so that neither takes the other's time unseen.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Who runs where; None where the system decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) server: Option<String>,
    pub(crate) client: Option<String>,
}

impl Cores {
    /// What was asked for, `none` to leave it to the system; by default the server has core 0 and the client core 1 of a
    /// machine that has both.
    pub(crate) fn of(server: Option<&str>, client: Option<&str>, machine_cores: u32) -> Self {
        let one = |given: Option<&str>, default: &str| match given {
            Some("none") => None,
            Some(cores) => Some(cores.to_owned()),
            None => (machine_cores >= 2).then(|| default.to_owned()),
        };
        Self { server: one(server, "0"), client: one(client, "1") }
    }

    /// Puts this process, its threads to come, on the client's cores, and finds out whether the server's exist.
    pub(crate) fn pin_this_process(&self) -> Result<()> {
        if let Some(cores) = &self.server {
            taskset(&["-c", cores, "true"])?;
        }
        if let Some(cores) = &self.client {
            taskset(&["-a", "-c", "-p", cores, &std::process::id().to_string()])?;
        }
        Ok(())
    }
}

/// How many cores a list like `0,2-4` names.
pub(crate) fn count(cores: &str) -> usize {
    let count = |part: &str| match part.split_once('-') {
        None => Some(1),
        Some((first, last)) => Some((last.parse::<usize>().ok()? + 1).saturating_sub(first.parse().ok()?)),
    };
    cores.split(',').filter_map(count).sum::<usize>().max(1)
}

fn taskset(arguments: &[&str]) -> Result<()> {
    match Command::new("taskset").args(arguments).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!(
            "taskset {}: {}; --server-cores and --client-cores name others, or none",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => {
            bail!("taskset, which pins to cores: {error}; --server-cores none --client-cores none do without")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_counted() {
        for (cores, expected) in [("0", 1), ("0,1", 2), ("0-3", 4), ("0,2-4", 4), ("x-y", 1)] {
            assert_eq!(count(cores), expected, "{cores}");
        }
    }

    #[test]
    fn server_and_client_have_a_core_each_where_there_are_two() {
        let some = |cores: &str| Some(cores.to_owned());
        assert_eq!(Cores::of(None, None, 2), Cores { server: some("0"), client: some("1") });
        assert_eq!(Cores::of(None, None, 1), Cores { server: None, client: None });
        assert_eq!(Cores::of(Some("2-3"), Some("none"), 8), Cores { server: some("2-3"), client: None });
    }
}
