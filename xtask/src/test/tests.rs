//! Reading libtest's output.

use super::*;

fn outcome(lines: &[&str]) -> Outcome {
    let mut outcome = Outcome::default();
    lines.iter().for_each(|line| outcome.read(line));
    outcome
}

/// What a shell with this script would be counted as.
fn program(script: &str) -> Outcome {
    TestBinary { name: "shell".to_owned(), executable: "/bin/sh".into(), folder: std::env::temp_dir() }.run(script)
}

#[test]
fn the_result_line_is_counted() {
    let seen = outcome(&[
        "running 3 tests",
        "test a::b ... ok",
        "test a::c ... FAILED",
        "test result: FAILED. 12 passed; 1 failed; 2 ignored; 0 measured; 5 filtered out; finished in 0.01s",
    ]);
    assert_eq!((seen.passed, seen.failed, seen.ignored, seen.crashed), (12, 1, 2, false));
    assert_eq!(seen.failures, ["a::c"]);
}

#[test]
fn a_program_that_died_counts_as_a_failure() {
    let mut total = Outcome::default();
    total.add("store", Outcome { passed: 3, crashed: true, ..Outcome::default() });
    assert_eq!((total.passed, total.failed), (3, 1));
    assert!(conclude(total).is_err());
}

#[test]
fn a_run_without_any_test_is_no_success() {
    assert!(conclude(Outcome::default()).is_err());
    assert!(conclude(Outcome { passed: 1, ..Outcome::default() }).is_ok());
}

#[test]
fn a_dying_test_program_is_noticed_and_a_living_one_is_read() {
    assert!(program("kill -KILL $$").crashed);
    assert_eq!(program("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'").passed, 2);
}

#[test]
fn a_failed_test_that_passes_by_itself_is_named_and_one_that_does_not_stays_failed() {
    let mut total = Outcome::default();
    let failures = vec!["a::b".to_owned(), "a::c".to_owned()];
    total.add("it", Outcome { passed: 7, failed: 2, failures, ..Outcome::default() });
    total.add_again("it", "a::b", &program("echo 'test result: ok. 1 passed; 0 failed; 0 ignored'"));
    assert_eq!((total.passed, total.failed), (8, 1));
    assert_eq!(
        (&total.failures[..], &total.unsteady[..]),
        (&["it: a::c".to_owned()][..], &["it: a::b".to_owned()][..])
    );
    for script in [
        "echo 'test a::c ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101",
        "kill -KILL $$",
        "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'",
    ] {
        total.add_again("it", "a::c", &program(script));
        assert_eq!((total.failed, total.unsteady.len()), (1, 1), "{script}");
    }
    assert!(conclude(total).is_err());
}

#[test]
fn a_test_that_cannot_be_done_here_is_counted_as_skipped() {
    let script = "echo 'SKIPPED  a::b: there is no disk' >&2; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
    let outcome = program(script);
    assert_eq!(outcome, Outcome { passed: 1, ignored: 1, ..Outcome::default() });
    assert!(conclude(outcome).is_ok());
    let script = "echo 'WITHOUT  a::b: there is no disk' >&2; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
    assert_eq!(program(script), Outcome { passed: 2, ..Outcome::default() }, "what does less is not skipped");
}

#[test]
fn all_who_say_that_a_test_cannot_be_done_say_it_by_the_words_that_are_counted() {
    let (tests, lab) =
        (include_str!("../../../tests/src/tools.rs"), include_str!("../../../crates/lab/src/skipped.rs"));
    for (text, mark) in [(tests, SKIPPED), (lab, SKIPPED), (lab, WITHOUT)] {
        assert!(text.contains(&format!("\"{mark}")), "{mark} is not in\n{text}");
    }
}

#[test]
fn what_a_failed_test_said_is_kept_up_to_a_bound() {
    let script = "echo 'test a::b ... FAILED'; echo; echo 'failures:'; echo; echo '---- a::b stdout ----'; seq 100; \
                  echo '---- a::c stdout ----'; echo why; echo; echo 'failures:'; echo '    a::b'; exit 101";
    let told = program(script).told;
    assert_eq!(told.len(), TOLD_MAX + 3, "{told:?}");
    assert_eq!(told[..2], ["---- a::b stdout ----", "1"]);
    assert_eq!(told[TOLD_MAX..], ["---- a::c stdout ----", "why", ""]);
}

#[test]
fn a_failed_test_is_tried_once_more_with_the_random_numbers_that_it_had() {
    // Beyond what is kept of its output, too.
    let script = "echo 'test a::b ... FAILED'; echo; echo 'failures:'; echo; echo '---- a::b stdout ----'; seq 100; \
                  echo ASHLAR_SEED=17; echo ASHLAR_SEEDS=18; echo '---- a::c stdout ----'; echo why; exit 101";
    assert_eq!(program(script).seeds, BTreeMap::from([("a::b".to_owned(), "17".to_owned())]));
    let random = include_str!("../../../tests/it/random.rs");
    assert!(random.contains(&format!("eprintln!(\"{SEED}={{seed}}\")")), "{SEED} is not printed in\n{random}");
}

impl TestBinary {
    fn run(&self, script: &str) -> Outcome {
        run_with(self, &["-c", script], &[], false).unwrap()
    }
}
