//! A program that is told what to do a line at a time and answers each line: the Java programs of the benchmarks.
//!
//! Used by `grids`. Never waits without an end, and never outlives the benchmark: the end of its input ends it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::servers::resident_bytes;

/// How long a program may take to end by itself before it is killed.
const GOODBYE_MAX: Duration = Duration::from_secs(20);
/// Lines of its log that are shown when it ends before its time.
const LOG_LINES: usize = 20;

/// A running program. It answers `ok ...` or `error ...`, first of all that it is ready.
pub(super) struct Program {
    name: String,
    child: Child,
    /// Taken at the end.
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    /// Its error output.
    log: PathBuf,
}

impl Program {
    /// Starts it and waits until it says that it is ready.
    pub(super) fn start(name: &str, mut command: Command, patience: Duration) -> Result<Program> {
        let file = format!("ashlar-bench-{}-{}.log", std::process::id(), name.replace(' ', "-"));
        let log = std::env::temp_dir().join(file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the program's output")?;
        // One answer a command, so nothing piles up. The thread ends with the program's output.
        let (sender, answers) = sync_channel(1);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut program = Program { name: name.to_owned(), child, input, answers, log };
        program.answer("its start", patience)?;
        Ok(program)
    }

    /// Gives it a command and returns what it answers.
    pub(super) fn ask(&mut self, command: &str, patience: Duration) -> Result<String> {
        let input = self.input.as_mut().context("the program has ended")?;
        writeln!(input, "{command}").with_context(|| format!("{} has ended", self.name))?;
        self.answer(command, patience)
    }

    fn answer(&mut self, command: &str, patience: Duration) -> Result<String> {
        let line = match self.answers.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                // A late answer must not pass for that of the next command: there is no next one.
                self.input = None;
                bail!("{} did not answer \"{command}\" in {patience:?}", self.name)
            }
            Err(RecvTimeoutError::Disconnected) => bail!("{} ended at \"{command}\": {}", self.name, self.last_words()),
        };
        match line.split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            _ => bail!("{} answered \"{command}\" with: {line}", self.name),
        }
    }

    /// Bytes of the process that are in memory.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(self.child.id())
    }

    /// Shows the end of its log, and returns the line of it that most likely says why.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
        eprintln!("{}", end.join("\n"));
        // A line of a Java stack is indented and says where, not why.
        end.iter().rev().find(|line| !line.starts_with([' ', '\t'])).map_or("no word", |line| line).to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        // Its output ends when it does.
        while self.answers.recv_timeout(GOODBYE_MAX).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Result<Program> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let thread = std::thread::current();
        Program::start(thread.name().unwrap_or("test"), command, SOON)
    }

    #[test]
    fn a_program_is_asked_and_answers_and_its_errors_are_errors() {
        let mut program = shell(
            "echo ok ready; while read word; do [ $word = bad ] && echo error no such word || echo ok $word; done",
        )
        .unwrap();
        assert_eq!(program.ask("one", SOON).unwrap(), "one");
        assert!(program.ask("bad", SOON).unwrap_err().to_string().contains("no such word"));
        assert_eq!(program.ask("two", SOON).unwrap(), "two");
    }

    #[test]
    fn a_program_that_ends_says_why() {
        let failure = shell("echo no class of this name >&2").err().unwrap().to_string();
        assert!(failure.contains("no class of this name"), "{failure}");
        let mut program = shell("echo ok ready; read word; printf 'out of memory\\n\\tat Heap.java:1\\n' >&2").unwrap();
        let failure = program.ask("load", SOON).unwrap_err().to_string();
        assert!(failure.contains("out of memory"), "{failure}");
    }

    #[test]
    fn a_program_that_does_not_answer_is_not_waited_for_without_end() {
        let mut program = shell("echo ok ready; while read word; do :; done").unwrap();
        let failure = program.ask("load", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(failure.contains("did not answer"), "{failure}");
        assert!(program.ask("load", SOON).unwrap_err().to_string().contains("has ended"));
    }
}
