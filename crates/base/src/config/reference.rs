//! The reference page of the configuration, written from the table of fields.
//!
//! Called by `ashlar config reference` and by the test that holds `docs/reference/config.md` to it.

use super::{Config, FIELDS, Field, ROOMS};
use std::fmt::Write;

/// The page as markdown.
pub fn reference_page() -> String {
    let defaults = Config::default();
    let mut page = String::from(
        "<!-- Written by `ashlar config reference` from crates/base/src/config.rs; a test compares the two. -->\n\
         # Configuration\n\n\
         A value comes from the first of these that names it: a flag (`--pg ADDR`, or `--set section.field=VALUE` for \
         any field), the environment (`ASHLAR_SECTION__FIELD`), the file given with `--config`, the default. \
         `ashlar config show` prints every value and where it came from; `ashlar config check` finds mistakes.\n",
    );
    for room in ROOMS {
        let _ = write!(page, "\n## `[{}]`\n\n{}\n", room.name, sentence(room.doc));
        for field in FIELDS.iter().filter(|field| field.room == room.name) {
            let _ = write!(
                page,
                "\n### `{}`\n\n{}\n\n- Value: {}\n- Default: `{}`\n- Environment: `{}`\n",
                field.path(),
                sentence(field.doc),
                value(field),
                shown(field, &defaults),
                field.variable(),
            );
        }
    }
    let _ = write!(page, "\n## The defaults as a file\n\n```toml\n{}```\n", default_file());
    page
}

/// A configuration file that changes nothing: every field commented out at its default.
pub fn default_file() -> String {
    let defaults = Config::default();
    let mut file = String::new();
    for room in ROOMS {
        if !file.is_empty() {
            file.push('\n');
        }
        let _ = writeln!(file, "# {}\n[{}]", sentence(room.doc), room.name);
        for field in FIELDS.iter().filter(|field| field.room == room.name) {
            for line in field.doc.lines() {
                let _ = writeln!(file, "# {}", line.trim());
            }
            let _ = writeln!(file, "#{}", field.assignment(&defaults));
        }
    }
    file
}

fn sentence(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Quotation marks where there is nothing else to see.
fn shown(field: &Field, config: &Config) -> String {
    let text = (field.show)(config);
    if text.is_empty() { "\"\"".to_owned() } else { text }
}

fn value(field: &Field) -> String {
    match field.range {
        Some((low, high)) => format!("{}, {low} to {high}", field.accepts),
        None => field.accepts.to_owned(),
    }
}
