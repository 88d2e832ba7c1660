//! The report of the lab in a real browser: `tests/browser/look.js` says what is wrong with a page, and is shown pages that are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use ashlar_tests::ashlar::program;
use ashlar_tests::process::find_program;
use ashlar_tests::tools::{node_modules, repository, run};

/// Short runs, whose cores are left to the system: other tests run beside them.
const SHORT: &[&str] = &["--warm-up", "0", "--repeat", "2", "--server-cores", "none", "--client-cores", "none"];

/// Both themes, on a telephone and on a large screen.
const VIEWS: &str = "light:400,light:1600,dark:400,dark:1600";

fn lab(arguments: &[&str]) -> Result<String> {
    run(Command::new(program("ashlar-lab")).args(arguments))
}

/// A run with these arguments, in a folder of this name.
fn measured(folder: &Path, name: &str, arguments: &[&str]) -> Result<PathBuf> {
    let out = folder.join(name);
    lab(&[&["run"], arguments, SHORT, &["--out", &out.to_string_lossy()]].concat())?;
    Ok(out)
}

/// Looks at a page; what is wrong is the error.
fn look(page: &Path, views: &str, runs: &[&Path]) -> Result<String> {
    let browser = repository().join("tests/browser");
    let modules = node_modules(&browser)?;
    let mut command = Command::new(find_program(&["node", "nodejs"])?);
    command
        .env("NODE_PATH", modules)
        .env("CHROMIUM", find_program(&["chromium", "google-chrome"])?)
        .arg(browser.join("look.js"))
        .args(["--views", views])
        .arg(page)
        .args(runs);
    // Pictures for people, if a folder is named.
    if let Some(pictures) = std::env::var_os("PICTURES") {
        command.arg("--pictures").arg(pictures);
    }
    run(&mut command)
}

#[test]
fn a_report_is_whole_in_a_browser_and_what_is_broken_is_seen() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let ashlar = program("ashlar");
    let ashlar = ashlar.to_string_lossy();
    let sweep = ["kv-mixed", "--target", "ashlar,noop", "--ashlar", &*ashlar, "--threads", "1,2,4", "--seconds", "2"];
    let sweep = measured(folder.path(), "sweep", &[&sweep[..], &["--keys", "500"]].concat())?;
    let open = ["kv-get", "--target", "noop", "--threads", "2", "--rate", "800", "--seconds", "2"];
    let open = measured(folder.path(), "open", &[&open[..], &["--keys", "100", "--profile", "cpu,wall"]].concat())?;
    let queries = ["hash-build", "--target", "ashlar", "--ashlar", &*ashlar, "--rows", "20000", "--seconds", "1"];
    let queries = measured(folder.path(), "queries", &queries)?;
    let kinds = ["tpcc", "--target", "ashlar", "--ashlar", &*ashlar, "--threads", "4", "--seconds", "2"];
    let kinds = measured(folder.path(), "kinds", &[&kinds[..], &["--items", "100", "--customers", "30"]].concat())?;
    let runs = [&*sweep, &*open, &*queries, &*kinds];
    let folders: Vec<_> = runs.iter().map(|run| run.to_string_lossy()).collect();
    lab(&[&["report"], &folders.iter().map(AsRef::as_ref).collect::<Vec<_>>()[..]].concat())?;

    let record = std::fs::read_to_string(open.join("run.json"))?;
    assert!(record.contains("\"kind\": \"wall\""), "there are no flame graphs to look at");

    let path = sweep.join("report.html");
    assert_eq!(look(&path, VIEWS, &runs)?.trim(), "ok");

    let page = std::fs::read_to_string(&path)?;
    let (before, line) = page.split_once("\n<polyline class=\"line\" points=\"").unwrap();
    assert!(before.contains("data-kind=\"scaling\""), "the first line is one of scaling");
    let first = line.split([' ', '"']).next().unwrap();
    let sunk = first.split_once(',').unwrap().0.to_owned() + ",1";
    let breaks: &[(&str, &str, &str)] = &[
        ("data-kind=\"over-time\"", "data-kind=\"nothing\"", "plot over-time of 1 threads is there 0 times"),
        (
            "data-kind=\"latency-over-time-p50\"",
            "data-kind=\"nothing\"",
            "plot latency-over-time-p50 of 1 threads is there 0 times",
        ),
        (first, "", "has 2 points of ashlar instead of 3"),
        (
            "\n<path class=\"dot\"",
            "\n<path class=\"dot\" visibility=\"hidden\"",
            "has a mark of ashlar that is not seen",
        ),
        ("<h3>mean latency by query", "<h3>by nothing", "has the tables by nothing,"),
        (">new-order</td>", " style=\"font-size:5px\">new-order</td>", "has a table that cannot be read at: new-order"),
        ("new ResizeObserver", "void", "the flame graph is not drawn"),
        (
            "</h4>",
            "</h4><img src=\"http://127.0.0.1:9/picture\"/>",
            "refused by its policy: http://127.0.0.1:9/picture",
        ),
        ("</section>", "<script>console.warn('planted')</script></section>", "the console says: planted"),
        ("</section>", "<script>throw new Error('thrown')</script></section>", "uncaught: thrown"),
        ("</section>", "<div style=\"width:3000px\">wide</div></section>", "pixels wide and scrolls"),
        ("--t0: #002491", "--t0: #eeeeee", "has a line of ashlar that is not seen"),
        (
            "td:first-child { display: flex",
            "td:first-child { margin-left: 390px; display: flex",
            "has a table that is cut off",
        ),
    ];
    is_seen(&sweep, &runs, &page, breaks);
    is_seen(&sweep, &runs, &page, &[(first, &sunk, "a figure lies at ")]);
    Ok(())
}

#[test]
fn a_differential_flame_graph_is_drawn_in_a_browser_with_what_was_planted_in_red() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let load = ["kv-get", "--target", "noop", "--keys", "100", "--threads", "2", "--rate", "800", "--seconds", "2"];
    let profiled = [&load[..], &["--profile", "cpu"]].concat();
    let base = measured(folder.path(), "base", &profiled)?;
    let test = measured(folder.path(), "test", &[&profiled[..], &["--plant", "spin"]].concat())?;
    // Whether two repetitions are enough to call it slower is no matter here.
    let compared = Command::new(program("ashlar-lab")).arg("compare").args([&base, &test]).output()?;
    assert!(matches!(compared.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&compared.stdout));
    let drawing = test.join("difference-noop-2-cpu-test.svg");
    let look = |function: &str| {
        let browser = repository().join("tests/browser");
        let mut command = Command::new(find_program(&["node", "nodejs"])?);
        command
            .env("NODE_PATH", node_modules(&browser)?)
            .env("CHROMIUM", find_program(&["chromium", "google-chrome"])?);
        run(command.arg(browser.join("look.js")).arg("--difference").arg(&drawing).arg(function))
    };
    assert_eq!(look("noop::plant::spin")?.trim(), "ok");
    let seen = format!("{:#}", look("nobody::planted::this").unwrap_err());
    assert!(seen.contains("nobody::planted::this is not red among: "), "{seen}");
    Ok(())
}

/// Each of these changes of a page, from one text to another, is said to be wrong.
fn is_seen(folder: &Path, runs: &[&Path], page: &str, breaks: &[(&str, &str, &str)]) {
    let broken = breaks.iter().fold(page.to_owned(), |page, (from, to, _)| {
        assert!(page.contains(from), "{from} is not on the page");
        page.replacen(from, to, 1)
    });
    let path = folder.join("broken.html");
    std::fs::write(&path, broken).unwrap();
    let seen = format!("{:#}", look(&path, "light:400", runs).unwrap_err());
    for (from, to, said) in breaks {
        assert!(seen.contains(said), "{from} became {to}, and {said:?} is not in\n{seen}");
    }
}
