//! The README's tour: every line of it runs against the demo server, and what comes back is what the README shows.
//!
//! A `sql` block goes to psql and a `text` block after it is the output; a `console` block holds `$ commands`, each
//! followed by its output. `UPDATE_EXPECT=1` writes what really came back into the README instead of failing.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use ashlar_tests::ashlar::{Ashlar, Options};
use ashlar_tests::tools::{repository, run};

/// The heading under which everything is executed.
const TOUR: &str = "## Five minutes with it";

/// A fenced block: its language, its lines, and the line of the README where they start.
struct Block {
    language: String,
    lines: Vec<String>,
    start: usize,
}

#[test]
fn every_line_of_the_tour_is_true() {
    let readme = repository().join("README.md");
    let text = std::fs::read_to_string(&readme).unwrap();
    let blocks = tour(&text).unwrap();
    let commands = blocks.iter().filter(|block| block.language != "text").count();
    assert!(commands >= 8, "the tour has only {commands} blocks: was a heading renamed?");

    let server = Ashlar::start(Options { demo: true, ..Options::default() }).unwrap();
    let mut written: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    let mut replacements = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let (shown, answered, place) = match block.language.as_str() {
            "sql" => {
                let shown = blocks.get(index + 1).filter(|next| next.language == "text");
                let shown = shown.unwrap_or_else(|| panic!("README.md:{}: no text block follows", block.start));
                (shown.lines.clone(), psql(&server, &block.lines.join("\n")).unwrap(), shown.start)
            }
            "console" => (block.lines.clone(), console(&server, &block.lines).unwrap(), block.start),
            _ => continue,
        };
        if shown != answered {
            wrong.push(format!("README.md:{place}: shown\n{}\nbut it is\n{}\n", shown.join("\n"), answered.join("\n")));
            replacements.push((place, shown.len(), answered));
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        // From the end, so that a replacement does not move the blocks before it.
        for (place, length, answered) in replacements.into_iter().rev() {
            written.splice(place..place + length, answered);
        }
        std::fs::write(&readme, written.join("\n") + "\n").unwrap();
        return;
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_tour_with_an_unknown_block_is_refused() {
    let page = format!("{TOUR}\n```sql\nSELECT 1;\n```\n```text\n1\n```\n## Next\n```rust\nfn main() {{}}\n```\n");
    assert_eq!(tour(&page).unwrap().len(), 2);
    assert!(tour(&page.replace("```text", "```output")).is_err());
    assert!(tour("# Another page\n").is_err());
}

/// The blocks of the tour, in order; a language that nothing would execute is an error.
fn tour(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(block) = &mut open {
            if line == "```" {
                blocks.extend(open.take());
            } else {
                block.lines.push(line.to_owned());
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let language = language.to_owned();
            if inside && !["sql", "text", "console"].contains(&language.as_str()) {
                bail!("README.md:{}: nothing executes a block of \"{language}\"", index + 1);
            }
            open = Some(Block { language, lines: Vec::new(), start: index + 1 });
        } else if line.starts_with("## ") {
            if inside {
                return Ok(blocks);
            }
            inside = line == TOUR;
            blocks.clear();
        }
    }
    if !inside {
        bail!("README.md has no heading \"{TOUR}\"");
    }
    Ok(blocks)
}

/// What psql prints for these statements, errors included, as a person sees it.
fn psql(server: &Ashlar, sql: &str) -> Result<Vec<String>> {
    // The demo runs in the repository and finds data/ there; this server runs elsewhere.
    let data: PathBuf = repository().join("data");
    let sql = sql.replace("'data/", &format!("'{}/", data.display()));
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("tour.sql");
    std::fs::write(&file, sql)?;
    let address = server.pg();
    let mut command = Command::new("sh");
    command
        .args(["-c", "psql -X -h \"$1\" -p \"$2\" -U demo demo < \"$3\" 2>&1", "psql"])
        .args([address.ip().to_string(), address.port().to_string()])
        .arg(&file)
        .env("LC_ALL", "C.UTF-8");
    for name in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS", "PSQLRC"] {
        command.env_remove(name);
    }
    Ok(trimmed(&run(&mut command)?))
}

/// The block again, with every command's own output below it.
fn console(server: &Ashlar, lines: &[String]) -> Result<Vec<String>> {
    let mut answered = Vec::new();
    for line in lines {
        let Some(command) = line.strip_prefix("$ ") else {
            continue;
        };
        answered.push(line.clone());
        let rest = command.strip_prefix("redis-cli -p 6380 ").with_context(|| format!("not for redis-cli: {line}"))?;
        // --no-raw: what a person sees at a terminal.
        let script = format!("redis-cli --no-raw -h {} -p {} {rest} 2>&1", server.resp().ip(), server.resp().port());
        answered.extend(trimmed(&run(Command::new("sh").args(["-c", &script]))?));
    }
    Ok(answered)
}

/// The lines of an output, without the blank ones that psql puts behind a result.
fn trimmed(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = output.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
