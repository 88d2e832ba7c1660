//! Links from a page to the files of a run, relative to where the page lies, so that a folder can be moved with its page.

use std::path::{Component, Path};

use anyhow::{Context, Result};

/// The way from the folder of a page to the folder of a run.
pub(super) struct Links(String);

impl Links {
    /// From the folder of the page to that of the run; both are there.
    pub(super) fn between(page: &Path, run: &Path) -> Result<Self> {
        let found = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
        Ok(Self(way(&found(page)?, &found(run)?)))
    }

    /// The link to a file of the run, to stand in an attribute.
    pub(super) fn to(&self, file: &str) -> String {
        format!("{}{}", self.0, encoded(file))
    }
}

/// The relative way between two absolute folders: empty, or with `/` at its end.
fn way(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) = (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(ours, theirs)| ours == theirs).count();
    let mut way = "../".repeat(from.len() - common);
    for part in &to[common..] {
        way.push_str(&encoded(&part.as_os_str().to_string_lossy()));
        way.push('/');
    }
    way
}

/// A path as it may stand in an address (RFC 3986, section 2.3: what is not unreserved is written as its bytes). A colon is: before
/// it a browser would read the name of a protocol.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_the_page_to_the_run() {
        let way = |from: &str, to: &str| way(Path::new(from), Path::new(to));
        assert_eq!(way("/a/run", "/a/run"), "");
        assert_eq!(way("/a/pages", "/a/run 1"), "../run%201/");
        assert_eq!(way("/a", "/a/b/c"), "b/c/");
        assert_eq!(way("/x/y", "/a"), "../../a/");
    }

    #[test]
    fn names_are_written_as_addresses_have_them() {
        let links = Links("../".to_owned());
        assert_eq!(links.to("seconds/ashlar=old_ashlar-8-1.hlog"), "../seconds/ashlar%3Dold_ashlar-8-1.hlog");
        assert_eq!(links.to("a?b#\u{e9}.txt"), "../a%3Fb%23%C3%A9.txt");
    }
}
