//! The programs in Java know the same numbers, keys, values and rows as the lab; and none of their files is forgotten.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::numbers::Numbers;
use crate::workload::same;

/// The folder of the sources.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/grids");

#[test]
fn every_file_of_the_folder_is_known() {
    let mut there = Vec::new();
    let mut folders = vec![Path::new(FOLDER).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap() != "README.md" {
                there.push(path.strip_prefix(FOLDER).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    there.sort_unstable();
    let mut known: Vec<&str> = build::FILES.iter().map(|(path, _)| *path).collect();
    known.sort_unstable();
    assert_eq!(known, there);
}

#[test]
fn the_page_of_the_folder_names_every_program() {
    let page = std::fs::read_to_string(Path::new(FOLDER).join("README.md")).unwrap();
    for (path, _) in build::FILES {
        if let Some(program) = path.rsplit('/').next().unwrap().strip_suffix(".java") {
            assert!(page.contains(&format!("`{program}`")), "{program} is not on the page");
        }
    }
}

#[test]
fn options_are_those_of_the_cores_and_of_the_product() {
    let one = Product::Hazelcast.options(1, "4g");
    for option in ["-XX:+UseSerialGC", "-Xms4g", "-Xmx4g", "--add-modules=java.se"] {
        assert!(one.iter().any(|there| there == option), "{option} is not in {one:?}");
    }
    assert!(Product::Lettuce.options(4, "2g").contains(&"-XX:+UseG1GC".to_owned()));
}

#[test]
fn java_makes_the_same_requests_and_knows_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(folder.path());
    javac.args(
        ["ByValue", "Choice", "Documents", "Keys", "Numbers", "Rows", "Same", "Structured"]
            .map(|name| format!("{FOLDER}/{name}.java")),
    );
    let compiled = javac.output().expect("javac, which ./x setup installs, is needed");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new("java").arg("-cp").arg(folder.path()).arg("Same").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let mut expected = String::new();
    for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        let mut numbers = Numbers::of(seed, &[3, 7]);
        write!(expected, "numbers {}", numbers.next()).unwrap();
        for limit in [1, 2, 100, 1 << 20, 4_000_000_000] {
            write!(expected, " {}", numbers.below(limit)).unwrap();
        }
        writeln!(expected, " {:x}", numbers.fraction().to_bits()).unwrap();
    }
    same::tell(&mut expected).unwrap();
    for (ours, theirs) in expected.lines().zip(said.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(expected.lines().count(), said.lines().count());
}
