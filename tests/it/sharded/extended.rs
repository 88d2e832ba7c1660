//! The extended protocol message by message: statements under names, values in either form, how an answer is described and what is said beside
//! it. A driver would hide which of these came when.

use super::*;

/// Which protocol asks, and how values travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Simple,
    Text,
    Binary,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Name, type and modifier of each column, where the answer says them.
    pub(super) columns: Vec<(String, i32, i32)>,
    /// Bodies of DataRows.
    pub(super) rows: Vec<Vec<u8>>,
    pub(super) tag: String,
    pub(super) notices: Vec<String>,
}

/// The error is SQLSTATE, message, detail and context, and how many rows came before it where there were any.
pub(super) type Told = Result<Answer, String>;

impl Answer {
    /// The rows, whose values came as texts.
    pub(super) fn texts(&self) -> Vec<Vec<Option<String>>> {
        self.rows.iter().map(|body| pg::Message { kind: b'D', body: body.clone() }.row()).collect()
    }
}

/// Reads up to ReadyForQuery.
fn read(client: &mut pg::Connection, what: &str) -> Told {
    let (mut answer, mut failure) = (Answer::default(), None);
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{what}\n{error:#}"));
        match message.kind {
            b'T' => answer.columns = columns(&message.body),
            b'D' => answer.rows.push(message.body),
            b'C' => answer.tag = String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned(),
            b'N' => answer.notices.extend(message.field(b'M')),
            b'E' if failure.is_none() => {
                let fields = [b'C', b'M', b'D', b'W'].into_iter().filter_map(|field| message.field(field));
                let rows = (!answer.rows.is_empty()).then(|| format!("after {} rows", answer.rows.len()));
                failure = Some(fields.chain(rows).collect::<Vec<_>>().join("\n"));
            }
            b'Z' => return failure.map_or(Ok(answer), Err),
            _ => {}
        }
    }
}

/// What a RowDescription says.
fn columns(body: &[u8]) -> Vec<(String, i32, i32)> {
    let mut body = pg::Cursor(body);
    let count = body.i16();
    (0..count)
        .map(|_| {
            let name = body.string();
            // Which column of which table it is differs from server to server.
            body.bytes(6);
            let oid = body.i32();
            body.bytes(2);
            let modifier = body.i32();
            body.bytes(2);
            (name, oid, modifier)
        })
        .collect()
}

/// Query.
pub(super) fn query(client: &mut pg::Connection, sql: &str) -> Told {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    read(client, sql)
}

/// Parse, Describe and Sync: the columns.
pub(super) fn prepare(client: &mut pg::Connection, name: &str, sql: &str) -> Told {
    let parse = pg::message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0", &[0, 0]]);
    let describe = pg::message(b'D', &[b"S", name.as_bytes(), b"\0"]);
    client.send(&[parse, describe, pg::message(b'S', &[])].concat()).unwrap();
    read(client, sql)
}

/// Parse and Sync: how the statement looks is not asked.
pub(super) fn parse(client: &mut pg::Connection, name: &str, sql: &str) -> Told {
    let parse = pg::message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0", &[0, 0]]);
    client.send(&[parse, pg::message(b'S', &[])].concat()).unwrap();
    read(client, sql)
}

/// Describe of a statement, and Sync: the columns.
pub(super) fn describe(client: &mut pg::Connection, name: &str) -> Told {
    let describe = pg::message(b'D', &[b"S", name.as_bytes(), b"\0"]);
    client.send(&[describe, pg::message(b'S', &[])].concat()).unwrap();
    read(client, name)
}

/// Bind, Execute and Sync of a prepared statement, with parameters and results in one form.
pub(super) fn run(client: &mut pg::Connection, name: &str, parameters: &[&[u8]], form: Form) -> Told {
    let code: [u8; 2] = if form == Form::Binary { [0, 1] } else { [0, 0] };
    let mut values = (parameters.len() as u16).to_be_bytes().to_vec();
    for value in parameters {
        values.extend((value.len() as u32).to_be_bytes());
        values.extend_from_slice(value);
    }
    let bind = pg::message(b'B', &[b"\0", name.as_bytes(), b"\0", &[0, 1], &code, &values, &[0, 1], &code]);
    let execute = pg::message(b'E', &[b"\0", &[0; 4]]);
    client.send(&[bind, execute, pg::message(b'S', &[])].concat()).unwrap();
    read(client, name)
}

/// A statement without parameters, told of its columns in whichever protocol.
pub(super) fn ask(client: &mut pg::Connection, sql: &str, form: Form) -> Told {
    if form == Form::Simple {
        return query(client, sql);
    }
    let columns = prepare(client, "", sql)?.columns;
    Ok(Answer { columns, ..run(client, "", &[], form)? })
}
