//! Hazelcast and Geode beside the others: a member and a client of each, small Java programs of `crates/lab/grids`.
//!
//! Called by the rows that name them. Their settings are here and in those programs. A product that cannot be had or started
//! (no JDK, no network, no memory) is an error that says so; its caller shows it, and no row is left out because of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::program::Program;
use super::servers::{CLIENT_CORE, SERVER_CORE, free_port, pinned};
use crate::run;

const SOURCES: &str = "crates/lab/grids";

/// Heap of a member; the smallest and the largest size are the same, as their makers advise. Not touched beforehand.
const MEMBER_HEAP: &str = "4g";
const CLIENT_HEAP: &str = "1g";

/// What every JVM here is started with. It has one core, where the serial collector is the quickest and the JVM's own choice;
/// said aloud so that it stays so. Its full collections would leave up to 5 % of the old generation where it lies, dead: with
/// 200,000 entries that made a live heap 40 % larger than it is, so each of them compacts.
const JVM: &[&str] = &["-XX:+UseSerialGC", "-XX:MarkSweepAlwaysCompactCount=1"];

/// A Java program that starts says so within this time: on one core that is busy with its own compiler, it may take long.
const START_MAX: Duration = Duration::from_secs(180);
/// Every other command: the longest fills or overwrites millions of entries.
const ANSWER_MAX: Duration = Duration::from_secs(3600);

/// A folder of [`SOURCES`] with its dependencies (`pom.xml`), the options of its JVMs (`jvm.options`) and its programs.
pub(super) struct Product {
    /// The column of the table.
    pub(super) name: &'static str,
    folder: &'static str,
}

pub(super) const HAZELCAST: Product = Product { name: "Hazelcast", folder: "hazelcast" };

pub(super) const GEODE: Product = Product { name: "Geode", folder: "geode" };

/// The same load through a Java client of RESP.
pub(super) const LETTUCE: Product = Product { name: "Lettuce", folder: "lettuce" };

impl Product {
    /// The version of the first dependency that `pom.xml` names.
    pub(super) fn version(&self) -> String {
        let pom = std::fs::read_to_string(Path::new(SOURCES).join(self.folder).join("pom.xml")).unwrap_or_default();
        version_in(&pom).unwrap_or("?").to_owned()
    }

    /// Its libraries and compiled programs, made once: a folder under the target directory.
    fn built(&self) -> Result<PathBuf> {
        for program in ["java", "javac", "mvn"] {
            run::find(program).with_context(|| format!("absent, {program} is not installed"))?;
        }
        let folder = std::path::absolute(run::target_dir().join("bench").join("grids").join(self.folder))?;
        let own = Path::new(SOURCES).join(self.folder);
        let pom = std::fs::read_to_string(own.join("pom.xml"))?;
        once(&folder.join("pom.xml"), &pom, || {
            eprintln!("x:   {}: fetching its libraries with Maven, once", self.name);
            if folder.join("lib").exists() {
                std::fs::remove_dir_all(folder.join("lib"))?;
            }
            let mut maven = Command::new("mvn");
            maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
            maven.arg(format!("-DoutputDirectory={}", folder.join("lib").display())).arg("--file");
            // It says what is wrong on its standard output, which is not ours to give.
            maven.stdout(std::io::stderr());
            or_absent(run::read(maven.arg(own.join("pom.xml"))), "its libraries could not be fetched")
        })?;
        let mut sources: Vec<PathBuf> = Vec::new();
        for place in [Path::new(SOURCES), &own] {
            for entry in std::fs::read_dir(place)? {
                sources.push(entry?.path());
            }
        }
        sources.retain(|path| path.extension().is_some_and(|extension| extension == "java"));
        sources.sort();
        let mut text = pom;
        for source in &sources {
            text.push_str(&std::fs::read_to_string(source)?);
        }
        once(&folder.join("sources.txt"), &text, || {
            let mut javac = Command::new("javac");
            javac.arg("-d").arg(folder.join("classes")).arg("-cp").arg(folder.join("lib").join("*"));
            or_absent(run::read(javac.args(&sources)), "its programs could not be compiled")
        })?;
        Ok(folder)
    }

    /// Options that its makers name.
    fn jvm_options(&self) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(Path::new(SOURCES).join(self.folder).join("jvm.options"))?;
        Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
    }

    /// Starts one of its programs, such as `GeodeMember`, on a core; returns when it is ready.
    fn start(&self, class: &str, core: &str, heap: &str, arguments: &[&str]) -> Result<Program> {
        let folder = self.built()?;
        let java = run::find("java").context("java is not installed")?;
        let mut command = pinned(core, &java);
        command.args(JVM).args(self.jvm_options()?).args([format!("-Xms{heap}"), format!("-Xmx{heap}"), "-cp".into()]);
        command.arg(format!("{0}/classes:{0}/lib/*", folder.display()));
        command.arg(format!("{}{class}", self.name)).args(arguments);
        Program::start(&format!("{} {class}", self.name), command, START_MAX)
    }
}

/// A client of a product, and the load that it is asked to do.
pub(super) struct Load {
    client: Program,
}

impl Load {
    /// A client at this port of the loopback interface, ready when an entry was written and read back.
    pub(super) fn start(product: &Product, port: u16) -> Result<Load> {
        Ok(Load { client: product.start("Load", CLIENT_CORE, CLIENT_HEAP, &[&port.to_string()])? })
    }

    /// Writes every key once, in batches.
    pub(super) fn fill(&mut self, keys: u64, value_bytes: usize) -> Result<()> {
        self.client.ask(&format!("load {keys} {value_bytes}"), ANSWER_MAX).map(drop)
    }

    /// Writes `count` random keys anew, in batches.
    pub(super) fn overwrite(&mut self, count: u64, keys: u64, value_bytes: usize) -> Result<()> {
        self.client.ask(&format!("overwrite {count} {keys} {value_bytes}"), ANSWER_MAX).map(drop)
    }

    /// Random keys by `threads` threads, each waiting for its answer: puts a second.
    pub(super) fn puts(&mut self, threads: u32, seconds: u64, keys: u64, value_bytes: usize) -> Result<f64> {
        let rate = self.client.ask(&format!("puts {threads} {seconds} {keys} {value_bytes}"), ANSWER_MAX)?;
        rate.parse().with_context(|| format!("a rate was expected, not {rate}"))
    }
}

/// A member alone in its cluster, and a client of it.
pub(super) struct Grid {
    member: Program,
    /// What the client can be asked.
    pub(super) load: Load,
}

impl Grid {
    /// Starts both. `options` are the member's: Hazelcast's knows `sql`.
    pub(super) fn start(product: &Product, options: &[&str]) -> Result<Grid> {
        let began = Instant::now();
        let port = free_port()?.port();
        let mut arguments = vec![port.to_string()];
        arguments.extend(options.iter().map(|&option| option.to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let member = product.start("Member", SERVER_CORE, MEMBER_HEAP, &arguments)?;
        let load = Load::start(product, port)?;
        eprintln!("x:   {}: member and client are up after {}", product.name, run::spoken(began.elapsed()));
        Ok(Grid { member, load })
    }

    /// Bytes that a full collection leaves in the member's heap.
    pub(super) fn live_heap(&mut self) -> Result<u64> {
        let bytes = self.member.ask("heap", ANSWER_MAX)?;
        bytes.parse().with_context(|| format!("a number of bytes was expected, not {bytes}"))
    }

    /// Bytes of the member's process that are in memory.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        self.member.resident_bytes()
    }

    /// Fills Hazelcast's map of documents from the file that the others load by COPY.
    pub(super) fn documents(&mut self, file: &Path, count: u64) -> Result<()> {
        let loaded = self.load.client.ask(&format!("documents {}", file.display()), ANSWER_MAX)?;
        if loaded != count.to_string() {
            bail!("{loaded} of {count} documents are there");
        }
        Ok(())
    }

    /// A sum over the documents and how long the client waited for it: `sum` by JSON_VALUE, `sum-flat` over a declared column.
    pub(super) fn sum(&mut self, command: &str) -> Result<(String, Duration)> {
        let answer = self.load.client.ask(command, ANSWER_MAX)?;
        let (sum, micros) = answer.split_once(' ').with_context(|| format!("sum and time expected, not {answer}"))?;
        Ok((sum.to_owned(), Duration::from_micros(micros.parse()?)))
    }
}

/// The version of Java in use, `?` if there is none.
pub(super) fn java_version() -> String {
    let text = run::read(Command::new("java").arg("--version")).unwrap_or_default();
    text.split_whitespace().nth(1).unwrap_or("?").to_owned()
}

/// A short reason for the table, which is not the place for paths and for what Maven says; that is shown at once.
fn or_absent(done: Result<String>, reason: &str) -> Result<()> {
    if let Err(error) = done {
        eprintln!("x:   {error:#}");
        bail!("absent, {reason}");
    }
    Ok(())
}

/// Does `work` unless it was done with this text before; the mark is written last.
fn once(mark: &Path, text: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if std::fs::read_to_string(mark).is_ok_and(|done| done == text) {
        return Ok(());
    }
    let folder = mark.parent().context("a mark lies in a folder")?;
    std::fs::create_dir_all(folder)?;
    work()?;
    Ok(std::fs::write(mark, text)?)
}

fn version_in(pom: &str) -> Option<&str> {
    let (_, dependencies) = pom.split_once("<dependencies>")?;
    let (_, version) = dependencies.split_once("<version>")?;
    Some(version.split_once("</version>")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_product_not_of_the_benchmark() {
        let pom = "<version>1</version><dependencies><dependency><version>5.7.0</version></dependency></dependencies>";
        assert_eq!(version_in(pom), Some("5.7.0"));
        assert_eq!(version_in("<version>1</version>"), None);
    }

    #[test]
    fn what_is_absent_is_so_in_a_few_words() {
        assert!(or_absent(Ok(String::new()), "no network").is_ok());
        let reason = or_absent(Err(anyhow::anyhow!("mvn: a path and a long story")), "no network").unwrap_err();
        assert_eq!(reason.to_string(), "absent, no network");
    }

    #[test]
    fn work_is_done_again_when_its_text_changed_and_when_it_failed() {
        let folder = std::env::temp_dir().join(format!("ashlar-once-{}", std::process::id()));
        let mark = folder.join("mark");
        let mut count = 0;
        let mut step = |text: &str, fails: bool| {
            let done = once(&mark, text, || {
                count += 1;
                if fails { bail!("no network") } else { Ok(()) }
            });
            (done.is_ok(), count)
        };
        assert_eq!(step("a", true), (false, 1));
        assert_eq!(step("a", false), (true, 2));
        assert_eq!(step("a", false), (true, 2));
        assert_eq!(step("b", false), (true, 3));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
