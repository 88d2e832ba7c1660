//! The files of the repository as the rules see them: path and text, read once.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "__pycache__", "corpus", "artifacts", ".venv"];

/// What is read as text; other files are known by name only.
const TEXT: &[&str] = &["rs", "md", "toml", "txt", "py", "sh", "js", "java", "slt", "pt", "resp", "xml", "json"];

/// Every file of ours, by its path from the root, with `/` between the parts.
#[derive(Default)]
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type()?.is_dir() {
                    if !SKIPPED.contains(&name.as_str()) {
                        folders.push(path);
                    }
                    continue;
                }
                let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
                let is_text = extension.is_some_and(|extension| TEXT.contains(&extension.as_str()))
                    || matches!(name.as_str(), "x" | "run");
                let text =
                    if is_text { String::from_utf8_lossy(&std::fs::read(&path)?).into_owned() } else { String::new() };
                let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
                tree.files.insert(relative, text);
            }
        }
        Ok(tree)
    }

    /// A tree for the tests of the rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or a folder of this path exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(file, _)| file.starts_with(&folder))
    }

    /// Path and text of every file with this ending.
    pub(super) fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Path and text of every file that was read as text.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

/// The lines of a Rust file without what `//` starts: number from 1, and code. Good enough for rules about words;
/// a `//` inside a string cuts the line short, which can hide a word but never invents one.
pub(super) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.split("//").next().unwrap_or("")))
}

/// Whether `word` stands in `line` as a word of its own.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_part)
            && !line[at + word.len()..].chars().next().is_some_and(is_part)
    })
}
