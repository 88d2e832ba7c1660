//! Rules about the Markdown files: what they point at exists.

use super::tree::Tree;

/// Every relative link of every page leads to a file or a folder.
pub(super) fn links(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (page, text) in tree.ending(".md") {
        for (number, line) in prose(text) {
            for target in targets(line) {
                let path = target.split('#').next().unwrap_or("");
                if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                match resolve(page, path) {
                    Some(path) if tree.exists(&path) => {}
                    _ => problems.push(format!("{page}:{number}: the link to {target} leads nowhere")),
                }
            }
        }
    }
    problems
}

/// A path of this repository in backticks names something that exists; `path/file.rs::name` names a function in it.
pub(super) fn names(tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for (page, text) in tree.ending(".md").filter(|(page, _)| *page != "CHANGELOG.md") {
        for (number, line) in prose(text) {
            for name in line.split('`').skip(1).step_by(2) {
                let (path, function) = name.split_once("::").unwrap_or((name, ""));
                if !is_path_of_ours(tree, path) {
                    continue;
                }
                if !tree.exists(path) {
                    problems.push(format!("{page}:{number}: `{path}` does not exist"));
                } else if !function.is_empty() && !tree.text(path).is_some_and(|text| defines(text, function)) {
                    problems.push(format!("{page}:{number}: `{path}` has no function {function}"));
                }
            }
        }
    }
    problems
}

/// The lines outside fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// What `[text](target)` and `src="target"` point at.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (at, _) in line.match_indices(opening) {
            let rest = &line[at + opening.len()..];
            if let Some(end) = rest.find(closing) {
                found.push(&rest[..end]);
            }
        }
    }
    found
}

/// The path from the root that `target` means on `page`; `None` when it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// `crates/base/src/slot.rs` is one; `application/json` and `tests/*.slt` are not.
fn is_path_of_ours(tree: &Tree, text: &str) -> bool {
    let plain = text.chars().all(|character| character.is_ascii_alphanumeric() || "_-./".contains(character));
    let first = text.split('/').next().unwrap_or("");
    plain
        && text.contains('/')
        && !first.is_empty()
        && !first.starts_with('.')
        && first != "target"
        && tree.exists(&format!("{first}/"))
}

fn defines(text: &str, function: &str) -> bool {
    let function = function.rsplit("::").next().unwrap_or(function);
    text.contains(&format!("fn {function}(")) || text.contains(&format!("fn {function}<"))
}
