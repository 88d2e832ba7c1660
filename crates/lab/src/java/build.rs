//! Fetches the libraries of a product with Maven and compiles its programs, once: under `target/lab/java`, or where Cargo's target folder is.
//!
//! The sources are part of this program, so it needs no repository around it. Two of them at a time wait for each other.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Product;
use crate::say;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../grids/", $path)))),*]
    };
}

/// The files of `crates/lab/grids`: path there, and text. A test keeps the list complete.
pub(super) const FILES: &[(&str, &str)] = &files![
    "ByValue.java",
    "Caller.java",
    "Choice.java",
    "Documents.java",
    "Entries.java",
    "Heap.java",
    "Keys.java",
    "Lab.java",
    "Lines.java",
    "Load.java",
    "Measurement.java",
    "Memory.java",
    "Numbers.java",
    "Plan.java",
    "Product.java",
    "Rows.java",
    "Same.java",
    "Structured.java",
    "StructuredEntries.java",
    "Table.java",
    "geode/GeodeLab.java",
    "geode/GeodeLoad.java",
    "geode/GeodeMember.java",
    "geode/GeodeValue.java",
    "geode/jvm.options",
    "geode/pom.xml",
    "hazelcast/HazelcastLab.java",
    "hazelcast/HazelcastLoad.java",
    "hazelcast/HazelcastMember.java",
    "hazelcast/HazelcastPredicates.java",
    "hazelcast/HazelcastRows.java",
    "hazelcast/HazelcastSql.java",
    "hazelcast/HazelcastValue.java",
    "hazelcast/Row.java",
    "hazelcast/jvm.options",
    "hazelcast/pom.xml",
    "lettuce/LettuceLab.java",
    "lettuce/LettuceLoad.java",
    "lettuce/jvm.options",
    "lettuce/pom.xml",
];

/// Lines of a failed program that are shown.
const LAST_LINES: usize = 15;

/// The text of a file; empty for one that is not there.
pub(super) fn text(path: &str) -> &'static str {
    FILES.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text)
}

/// The folder with a product's libraries (`lib`) and programs (`classes`).
pub(super) fn built(product: Product) -> Result<PathBuf> {
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let folder = std::path::absolute(target.join("lab/java").join(product.name()))?;
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Until the file is closed.
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let pom = text(&format!("{}/pom.xml", product.name()));
    once(&folder, "fetched", pom, || {
        say::note(&format!("{}: fetching its libraries with Maven, once", product.name()));
        fs::write(folder.join("pom.xml"), pom)?;
        renew(&folder.join("lib"))?;
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", folder.join("lib").display()));
        run(maven.current_dir(&folder)).context("its libraries could not be fetched")
    })?;
    let sources: Vec<&(&str, &str)> = FILES.iter().filter(|(path, _)| is_source_of(product, path)).collect();
    // With the libraries, for the programs are compiled against them.
    let all = sources.iter().fold(pom.to_owned(), |all, (_, text)| all + text);
    once(&folder, "compiled", &all, || {
        let (from, to) = (folder.join("sources"), folder.join("classes"));
        renew(&from)?;
        renew(&to)?;
        let mut javac = Command::new("javac");
        javac.arg("-d").arg(&to).arg("-cp").arg(folder.join("lib").join("*"));
        for (path, text) in sources {
            let path = from.join(path.rsplit('/').next().unwrap_or(path));
            fs::write(&path, text)?;
            javac.arg(path);
        }
        run(&mut javac).context("its programs could not be compiled")
    })?;
    Ok(folder)
}

/// Programs of the product itself, and those of all.
fn is_source_of(product: Product, path: &str) -> bool {
    let folder = path.split_once('/').map_or(product.name(), |(folder, _)| folder);
    folder == product.name() && path.ends_with(".java")
}

/// Does `work` unless it was done with this text before; the mark is written last.
fn once(folder: &Path, mark: &str, text: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let mark = folder.join(mark);
    if fs::read_to_string(&mark).is_ok_and(|done| done == text) {
        return Ok(());
    }
    work()?;
    Ok(fs::write(mark, text)?)
}

/// An empty folder.
fn renew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir(folder)?)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    // Maven says on its standard output what is wrong, javac on the other.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().take(LAST_LINES).collect();
    bail!("{}: {}\n{}", command.get_program().to_string_lossy(), output.status, lines.join("\n"))
}
