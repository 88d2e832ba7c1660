//! `./x bench`: builds the server and the lab with optimisation, and has the lab measure one of its suites (`crates/lab/src/suite`) and put
//! its table into docs/benchmarks.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{build, run, setup};

/// The page that has the tables of all suites.
const PAGE: &str = "docs/benchmarks.md";

/// The suite that is meant without a name: the only one whose full length has a table there too.
const SUITE: &str = "bench";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which suite: bench for docs/benchmarks.md; geode, hazelcast, impala, tpcc for what others have shown of their products; proxy for what stands before PostgreSQL
    #[arg(default_value = SUITE)]
    suite: String,
    /// Groups of rows, separated by commas: shown, and not put into the page
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The least work: shows that everything runs, in minutes; nothing is put into the page
    #[arg(long)]
    quick: bool,
    /// The sizes that the rows are about, of bench two hours and more and into a table of its own
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// The folder of the runs; what is measured there already is not measured again
    #[arg(long)]
    out: Option<PathBuf>,
    /// Leave the page as it is
    #[arg(long)]
    no_page: bool,
    /// Cargo profile of both; `release` is the slowest to build and the fastest to run
    #[arg(long, default_value = "figures")]
    profile: String,
}

/// Runs a suite.
pub(crate) fn bench(options: &Options) -> Result<()> {
    setup::require(&[setup::BUILD, setup::CLIENTS, setup::POSTGRES, setup::TEST])?;
    setup::prefer(setup::JAVA);
    setup::prefer(setup::LAB);
    build::programs(&options.profile, &[("ashlar-server", "ashlar"), ("ashlar-lab", "ashlar-lab")])?;
    let (lab, ashlar) = (run::built(&options.profile, "ashlar-lab")?, run::built(&options.profile, "ashlar")?);
    let mut command = Command::new(&lab);
    command.args(arguments(options, &ashlar));
    let status = command.status().with_context(|| format!("running {}", lab.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => bail!("something could not be measured, or was wrong; the table and the lines above say what"),
        _ => bail!("nothing was measured ({status})"),
    }
}

/// What the lab is told.
fn arguments(options: &Options, ashlar: &Path) -> Vec<String> {
    let mut words =
        vec!["suite".to_owned(), options.suite.clone(), "--ashlar".to_owned(), ashlar.display().to_string()];
    let mut flag = |name: &str, value: Option<String>| {
        words.push(name.to_owned());
        words.extend(value);
    };
    if !options.only.is_empty() {
        flag("--only", Some(options.only.join(",")));
    }
    for (name, is_set) in [("--quick", options.quick), ("--full", options.full)] {
        if is_set {
            flag(name, None);
        }
    }
    if let Some(out) = &options.out {
        flag("--out", Some(out.display().to_string()));
    }
    let has_table = options.suite == SUITE || !options.full;
    if has_table && !options.no_page && !options.quick && options.only.is_empty() {
        flag("--page", Some(PAGE.to_owned()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn told(words: &[&str]) -> String {
        let cli = Cli::parse_from([&["bench"], words].concat());
        arguments(&cli.options, Path::new("target/figures/ashlar")).join(" ")
    }

    #[test]
    fn only_whole_suites_are_written_down() {
        assert_eq!(told(&[]), "suite bench --ashlar target/figures/ashlar --page docs/benchmarks.md");
        assert!(told(&["--full"]).ends_with(" --full --page docs/benchmarks.md"));
        assert!(told(&["geode"]).ends_with(" --page docs/benchmarks.md"));
        for words in [&["--quick"][..], &["--only", "get,sum"], &["--no-page"], &["geode", "--full"]] {
            assert!(!told(words).contains("--page"), "{words:?}");
        }
        assert!(told(&["--only", "get,sum", "--out", "x"]).ends_with(" --only get,sum --out x"));
    }
}
