//! The tour: what is typed, why, and what must come out.
//!
//! Run by the demo, step by step. The expected values are facts of the data, found without this server.

use ashlar_base::clock;

use super::show;
use crate::cli::say;
use crate::client::pg::{self, PgClient};
use crate::client::resp::{self, RespClient};
use crate::client::table;

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    /// What it shows.
    title: &'static str,
    /// What is typed.
    typed: Typed,
    /// What must come out.
    expected: Expected,
}

/// Through which door.
#[derive(Debug)]
enum Typed {
    Sql(&'static str),
    Redis(&'static [&'static str]),
}

/// What must come out.
#[derive(Debug)]
enum Expected {
    /// So many rows, and this is the first.
    Rows(usize, &'static [&'static str]),
    /// This command tag.
    Tag(&'static str),
    /// This COPY output.
    Copied(&'static str),
    /// This number.
    Integer(i64),
    /// A hash with these fields among others.
    Fields(&'static [(&'static str, &'static str)]),
}

use Expected::{Copied, Fields, Integer, Rows, Tag};
use Typed::{Redis, Sql};

/// The steps, in order.
pub(super) const STEPS: &[Step] = &[
    Step {
        title: "How many flights left New York in 2013?",
        typed: Sql("SELECT count(*) FROM flights"),
        expected: Rows(1, &["336776"]),
    },
    Step {
        title: "Which airline flies where most often? A join and an aggregate.",
        typed: Sql(
            "SELECT f.dest, a.name AS airline, count(*) AS flights\n  FROM flights f JOIN airlines a ON a.carrier = f.carrier\n \
             GROUP BY f.dest, a.name ORDER BY flights DESC, f.dest LIMIT 5",
        ),
        expected: Rows(5, &["ATL", "Delta Air Lines Inc.", "10571"]),
    },
    Step {
        title: "When is one late, and is it the wind? A join on two columns.",
        typed: Sql(
            "SELECT f.hour, count(*) AS flights, avg(f.dep_delay)::numeric(6,1) AS minutes_late, avg(w.wind_speed)::numeric(6,1) AS wind_mph\n  \
             FROM flights f JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour\n \
             GROUP BY f.hour ORDER BY minutes_late DESC NULLS LAST LIMIT 6",
        ),
        expected: Rows(6, &["19", "21348", "24.9", "11.2"]),
    },
    Step {
        title: "One row by its key: planned once, then straight to its partition.",
        typed: Sql("SELECT carrier, flight, tailnum, origin, dest, dep_delay FROM flights WHERE id = 42"),
        expected: Rows(1, &["EV", "4144", "N13553", "EWR", "IAD", "24"]),
    },
    Step {
        title: "The same row through the RESP door.",
        typed: Redis(&["HGETALL", "flights:{42}"]),
        expected: Fields(&[("carrier", "EV"), ("tailnum", "N13553"), ("dest", "IAD"), ("dep_delay", "24")]),
    },
    Step {
        title: "Write it there ...",
        typed: Redis(&["HSET", "flights:{42}", "dep_delay", "99"]),
        expected: Integer(0),
    },
    Step {
        title: "... and see it here.",
        typed: Sql("SELECT id, dep_delay FROM flights WHERE id = 42"),
        expected: Rows(1, &["42", "99"]),
    },
    Step {
        title: "Put it right again.",
        typed: Sql("UPDATE flights SET dep_delay = 24 WHERE id = 42"),
        expected: Tag("UPDATE 1"),
    },
    Step { title: "A transaction: an airline disappears ...", typed: Sql("BEGIN"), expected: Tag("BEGIN") },
    Step { title: "", typed: Sql("DELETE FROM flights WHERE carrier = 'UA'"), expected: Tag("DELETE 58665") },
    Step { title: "", typed: Sql("SELECT count(*) FROM flights"), expected: Rows(1, &["278111"]) },
    Step { title: "... and is back.", typed: Sql("ROLLBACK"), expected: Tag("ROLLBACK") },
    Step { title: "", typed: Sql("SELECT count(*) FROM flights"), expected: Rows(1, &["336776"]) },
    Step {
        title: "A table in memory joined with a Parquet file, read in place.",
        typed: Sql(
            "SELECT p.manufacturer, count(*) AS flights\n  FROM flights f JOIN planes_file p ON p.tailnum = f.tailnum\n \
             GROUP BY p.manufacturer ORDER BY flights DESC LIMIT 5",
        ),
        expected: Rows(5, &["BOEING", "82912"]),
    },
    Step {
        title: "Out as CSV.",
        typed: Sql(
            "COPY (SELECT carrier, name FROM airlines ORDER BY carrier LIMIT 3) TO STDOUT WITH (FORMAT csv, HEADER)",
        ),
        expected: Copied("carrier,name\n9E,Endeavor Air Inc.\nAA,American Airlines Inc.\nAS,Alaska Airlines Inc.\n"),
    },
];

/// The steps over the fleet, after those.
pub(super) const SHARDED: &[Step] = &[
    Step {
        title: "A table over two PostgreSQL servers, its rows placed by their flight.",
        typed: Sql(
            "CREATE TABLE seats (flight bigint, seat text, passenger text NOT NULL, PRIMARY KEY (flight, seat))\n  \
             PARTITION BY HASH (flight) USING sharded WITH (servers = 'east,west', algorithm = 'hash_mod')",
        ),
        expected: Tag("CREATE TABLE"),
    },
    Step {
        title: "Rows for both, committed on both or on none.",
        typed: Sql(
            "INSERT INTO seats VALUES (42, '1A', 'Ada'), (42, '1B', 'Grace'), (43, '2C', 'Edith'), (44, '7F', 'Radia'), (45, '3D', 'Barbara')",
        ),
        expected: Tag("INSERT 0 5"),
    },
    Step {
        title: "One flight is on one server: the statement goes there, its answer comes back byte for byte.",
        typed: Sql("SELECT seat, passenger FROM seats WHERE flight = 42 ORDER BY seat"),
        expected: Rows(2, &["1A", "Ada"]),
    },
    Step {
        title: "Rows of both servers, of memory and of a Parquet file in one query.",
        typed: Sql(
            "SELECT s.passenger, f.carrier, f.flight, f.dest, p.model\n  FROM seats s JOIN flights f ON f.id = s.flight \
             LEFT JOIN planes_file p ON p.tailnum = f.tailnum\n ORDER BY s.passenger",
        ),
        expected: Rows(5, &["Ada", "EV", "4144", "IAD", "EMB-145LR"]),
    },
];

impl Step {
    /// Takes the step and prints it; the inner error says what came out instead of what should have.
    pub(super) async fn take(&self, sql: &mut PgClient, keys: &mut RespClient) -> anyhow::Result<Result<(), String>> {
        if !self.title.is_empty() {
            say(&format!("\n-- {}\n", self.title))?;
        }
        match self.typed {
            Sql(text) => {
                say(&format!("{}\n", prompted("sql> ", text)))?;
                let started = clock::monotonic();
                let reply = sql.query(text).await?;
                let time = show::duration(clock::monotonic() - started);
                let shown = shown(&reply);
                // COPY output is shown as it came, its last line end included.
                let shown = if shown.ends_with(")\n") { shown.trim_end() } else { &shown };
                say(&format!("{shown} [{time}]\n"))?;
                Ok(self.expected.check_sql(&reply))
            }
            Redis(arguments) => {
                say(&format!("redis> {}\n", arguments.join(" ")))?;
                let started = clock::monotonic();
                let reply = keys.command(arguments).await?;
                let time = show::duration(clock::monotonic() - started);
                say(&format!("{} [{time}]\n", show::reply(&reply).trim_end()))?;
                Ok(self.expected.check_redis(&reply))
            }
        }
    }
}

/// A statement behind its prompt, its further lines below its first.
fn prompted(prompt: &str, text: &str) -> String {
    let indent = format!("\n{}", " ".repeat(prompt.len()));
    format!("{prompt}{}", text.replace('\n', &indent))
}

fn shown(reply: &pg::Reply) -> String {
    if let Some(error) = &reply.error {
        return error.to_string();
    }
    let one = |answer: &pg::Answer| match &answer.columns {
        Some(_) => table::render(answer),
        None if !answer.copied.is_empty() => answer.copied.clone(),
        None => format!(" {}", answer.tag),
    };
    reply.answers.iter().map(one).collect()
}

impl Expected {
    fn check_sql(&self, reply: &pg::Reply) -> Result<(), String> {
        if let Some(error) = &reply.error {
            return Err(error.message.clone());
        }
        let answer = reply.answers.last().ok_or("no answer")?;
        let right = match *self {
            Rows(count, first) => {
                let found = answer.rows.first().map(|row| row.iter().map(Option::as_deref).collect::<Vec<_>>());
                let expected: Vec<Option<&str>> = first.iter().map(|value| Some(*value)).collect();
                answer.rows.len() == count && found == Some(expected)
            }
            Tag(tag) => answer.tag == tag,
            Copied(text) => answer.copied == text,
            Integer(_) | Fields(_) => false,
        };
        if right { Ok(()) } else { Err(format!("expected {self:?}")) }
    }

    fn check_redis(&self, reply: &resp::Reply) -> Result<(), String> {
        let right = match (self, reply) {
            (Integer(expected), resp::Reply::Integer(found)) => expected == found,
            (Fields(expected), resp::Reply::Array(Some(elements))) => {
                let bulk = |text: &str| resp::Reply::Bulk(Some(text.to_owned()));
                let has = |(name, value): &(&str, &str)| {
                    elements.chunks_exact(2).any(|pair| pair[0] == bulk(name) && pair[1] == bulk(value))
                };
                expected.iter().all(has)
            }
            _ => false,
        };
        if right { Ok(()) } else { Err(format!("expected {self:?}, found {reply:?}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_fails_its_step() {
        let row = |value: &str| pg::Reply {
            answers: vec![pg::Answer { rows: vec![vec![Some(value.to_owned())]], ..pg::Answer::default() }],
            ..pg::Reply::default()
        };
        assert!(Rows(1, &["7"]).check_sql(&row("7")).is_ok());
        assert!(Rows(1, &["7"]).check_sql(&row("8")).is_err());
        assert!(Rows(2, &["7"]).check_sql(&row("7")).is_err());
        assert!(Integer(0).check_redis(&resp::Reply::Integer(1)).is_err());
        assert!(Fields(&[("a", "1")]).check_redis(&resp::Reply::Error("ERR".to_owned())).is_err());
    }

    #[test]
    fn further_lines_of_a_statement_stand_below_the_first() {
        assert_eq!(prompted("sql> ", "SELECT 1\n  FROM t"), "sql> SELECT 1\n       FROM t");
    }
}
