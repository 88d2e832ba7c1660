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
    /// What was asked for, `all` for those of the machine, `none` to leave it to the system; by default the server has core 0 and the
    /// client core 1 of a machine that has both.
    pub(crate) fn of(server: Option<&str>, client: Option<&str>, machine_cores: u32) -> Self {
        let all = if machine_cores > 1 { format!("0-{}", machine_cores - 1) } else { "0".to_owned() };
        let one = |given: Option<&str>, default: &str| match given {
            Some("none") => None,
            Some("all") => Some(all.clone()),
            Some(cores) => Some(cores.to_owned()),
            None => (machine_cores >= 2).then(|| default.to_owned()),
        };
        Self { server: one(server, "0"), client: one(client, "1") }
    }

    /// Puts this process, its threads to come, on the client's cores, and finds out whether the server's exist. The cores that
    /// servers are to be started on; None for those of this process, where it was left alone.
    pub(crate) fn pin_this_process(&self) -> Result<Option<String>> {
        if let Some(cores) = &self.server {
            taskset(&["-c", cores, "true"])?;
        }
        let Some(cores) = &self.client else {
            return Ok(self.server.clone());
        };
        // A server inherits the cores of the lab: where it may have any, it gets those that the lab had.
        let before = allowed(&std::fs::read_to_string("/proc/self/status")?);
        taskset(&["-a", "-c", "-p", cores, &std::process::id().to_string()])?;
        Ok(self.server.clone().or(before))
    }
}

/// The cores that a process may run on, of its page in /proc.
fn allowed(status: &str) -> Option<String> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|cores| cores.trim().to_owned())
}

/// How many cores a list like `0,2-4,6-10:2` names, of whose last part every second is one.
pub(crate) fn count(cores: &str) -> usize {
    let count = |part: &str| match part.split_once('-') {
        None => Some(1),
        Some((first, rest)) => {
            let (last, stride) = rest.split_once(':').unwrap_or((rest, "1"));
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            Some((last + 1).saturating_sub(first).div_ceil(stride.parse::<usize>().ok()?.max(1)))
        }
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
        for (cores, expected) in
            [("0", 1), ("0,1", 2), ("0-3", 4), ("0,2-4", 4), ("0-6:2", 4), ("0-5:2,8", 4), ("x-y", 1)]
        {
            assert_eq!(count(cores), expected, "{cores}");
        }
    }

    #[test]
    fn the_cores_of_a_process_are_read_from_its_page() {
        let status = "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,7\nMems_allowed:\t1\n";
        assert_eq!(allowed(status).as_deref(), Some("0-2,7"));
        assert!(allowed(&std::fs::read_to_string("/proc/self/status").unwrap()).is_some());
    }

    #[test]
    fn server_and_client_have_a_core_each_where_there_are_two() {
        let some = |cores: &str| Some(cores.to_owned());
        assert_eq!(Cores::of(None, None, 2), Cores { server: some("0"), client: some("1") });
        assert_eq!(Cores::of(None, None, 1), Cores { server: None, client: None });
        assert_eq!(Cores::of(Some("2-3"), Some("none"), 8), Cores { server: some("2-3"), client: None });
        assert_eq!(Cores::of(Some("all"), None, 4), Cores { server: some("0-3"), client: some("1") });
        assert_eq!(Cores::of(Some("all"), None, 1), Cores { server: some("0"), client: None });
    }
}
