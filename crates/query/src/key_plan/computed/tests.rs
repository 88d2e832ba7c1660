//! Statements by key that compute give what the engine gives: values, types, errors.

use ashlar_base::ErrorCode;
use ashlar_store::Way;
use datafusion::sql::sqlparser::ast::Statement as AstStatement;

use super::*;
use crate::dml::run::Run;
use crate::grammar::{self, ParsedStatement};
use crate::statement::{Kind, Statement};
use crate::{select, testing};

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, n numeric(10,2), m numeric(12,4) NOT NULL, i integer, \
     s smallint, l bigint, r real, d double precision, x text, v varchar(8))";

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // The generator of Knuth's MMIX; its upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn value(&mut self, sql_type: SqlType) -> Value {
        if self.below(12) == 0 {
            return Value::Null;
        }
        let small = self.below(2001) as i64 - 1000;
        match sql_type.scalar() {
            ScalarType::Int2 => Value::Int2(self.one(&[small as i16, i16::MAX, i16::MIN, 0, 1])),
            ScalarType::Int4 => Value::Int4(self.one(&[small as i32, i32::MAX, i32::MIN, 0, -1])),
            ScalarType::Int8 => Value::Int8(self.one(&[small, i64::MAX, i64::MIN, 0, 3])),
            ScalarType::Numeric { precision, scale } => {
                let greatest = 10i128.pow(u32::from(precision)) - 1;
                let one = 10i128.pow(u32::from(scale));
                Value::Numeric(self.one(&[
                    i128::from(small),
                    i128::from(small) * one / 8,
                    greatest,
                    -greatest,
                    one / 2,
                    0,
                ]))
            }
            ScalarType::Float4 => {
                Value::Float4(self.one(&[small as f32 / 8.0, f32::MAX, f32::MIN_POSITIVE, f32::NAN, -0.0]))
            }
            ScalarType::Float8 => Value::Float8(self.one(&[small as f64 / 3.0, f64::MAX, f64::INFINITY, 1e-300, -0.0])),
            _ => Value::Text(self.one(&["", "a", "BC", "a longer text than fits", "éß"]).into()),
        }
    }
}

fn parsed(sql: &str) -> ParsedStatement {
    grammar::only_one(grammar::parse(sql).unwrap()).unwrap().unwrap()
}

/// What a statement gave: rows and their types, or the code and the message of its error.
type Given = std::result::Result<(u64, Vec<Vec<Value>>, Vec<SqlType>), (ErrorCode, String)>;

fn by_key(
    engine: &Engine,
    sql: &str,
    declared: &[u32],
    values: &mut dyn FnMut(&[SqlType]) -> Vec<Value>,
) -> (Given, Vec<Value>) {
    let planned = Statement::plan(engine, &engine.catalog().current(), &parsed(sql), declared).unwrap();
    let Kind::Key(plan) = &planned.kind else { panic!("{sql} is about one key") };
    let values = values(&planned.parameter_types);
    let mut rows: Vec<Vec<Value>> = Vec::new();
    let count =
        plan.run(&mut Way::default(), &values, &mut |row| rows.push(row.map(|datum| datum.to_value()).collect()));
    let types = planned.columns.iter().flat_map(|columns| columns.iter()).map(|column| column.sql_type).collect();
    let given = count.map(|count| (count, rows, types)).map_err(|error| (error.code(), error.message().to_owned()));
    (given, values)
}

/// The same as the engine runs it: its plan, made anew.
fn by_engine(engine: &Engine, sql: &str, declared: &[u32], values: &[Value]) -> Given {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let catalog = engine.catalog().current();
    let mut transaction = testing::transaction();
    let resources = engine.resources(transaction.time, None);
    let done = runtime.block_on(async {
        match select::parse(&parsed(sql).text)? {
            AstStatement::Update(update) => {
                let mut plan = UpdatePlan::new(engine, &catalog, None, update, declared)?;
                plan.select.short = None;
                let columns = plan.returning.as_ref().map(|returning| Arc::clone(&returning.columns));
                let (catalog, transaction) = (&catalog, &mut transaction);
                let mut run = Run::new(engine, catalog, transaction, values, &resources);
                run.update(&plan).await.map(|outcome| (outcome, columns))
            }
            AstStatement::Delete(delete) => {
                let mut plan = DeletePlan::new(engine, &catalog, None, delete, declared)?;
                plan.select.short = None;
                let columns = plan.returning.as_ref().map(|returning| Arc::clone(&returning.columns));
                let (catalog, transaction) = (&catalog, &mut transaction);
                let mut run = Run::new(engine, catalog, transaction, values, &resources);
                run.delete(&plan).await.map(|outcome| (outcome, columns))
            }
            other => panic!("{other}"),
        }
    });
    let (outcome, columns) = done.map_err(|error| (error.code(), error.message().to_owned()))?;
    transaction.commit(engine.catalog(), engine.store()).unwrap();
    let types = columns.iter().flat_map(|columns| columns.iter()).map(|column| column.sql_type).collect();
    Ok((outcome.count, outcome.rows, types))
}

const NUMERIC: u32 = 1700;
const INT2: u32 = 21;
const INT4: u32 = 23;
const INT8: u32 = 20;
const REAL: u32 = 700;
const DOUBLE: u32 = 701;
const TEXT: u32 = 25;

/// Statements, and the types that a client declares of their parameters.
const STATEMENTS: &[(&str, &[u32])] = &[
    ("UPDATE t SET n = n + $1 WHERE id = $2 RETURNING *", &[NUMERIC, INT4]),
    ("UPDATE t SET n = n - $1, m = m * $2 WHERE id = $3 RETURNING n, m, n + m", &[NUMERIC, NUMERIC, INT4]),
    ("UPDATE t SET n = n + 1.005 WHERE id = $1 RETURNING n", &[INT4]),
    ("UPDATE t SET n = n + $1 WHERE id = $2 RETURNING n", &[0, 0]),
    ("UPDATE t SET n = n * 1.5 - $1 WHERE id = $2 RETURNING n, x", &[INT4, INT8]),
    ("UPDATE t SET m = n / $1 WHERE id = $2 RETURNING m", &[NUMERIC, INT4]),
    ("UPDATE t SET m = m % 7, l = l / $1 WHERE id = $2 RETURNING m, l", &[INT8, INT4]),
    ("UPDATE t SET r = r + $1, d = d * $2 WHERE id = $3 RETURNING r, d, r + d", &[REAL, DOUBLE, INT4]),
    ("UPDATE t SET d = d + n, r = r - 1 WHERE id = $1 RETURNING d, r", &[INT4]),
    ("UPDATE t SET i = i + s, s = s + 1 WHERE id = $1 RETURNING i, s, i - s", &[INT2]),
    ("UPDATE t SET i = i + $1 WHERE id = $2 RETURNING i", &[INT8, INT4]),
    (
        "UPDATE t SET i = CASE WHEN i >= $1 THEN i - $2 ELSE i + $3 END, l = l + $4 WHERE id = $5 RETURNING i, x",
        &[INT4, INT4, INT4, INT4, INT4],
    ),
    (
        "UPDATE t SET x = CASE WHEN v = 'BC' THEN substr($1 || x, 1, 20) ELSE x END WHERE id = $2 RETURNING substr(x, 1, 5)",
        &[TEXT, INT4],
    ),
    ("UPDATE t SET x = x || $1, v = v || 'z' WHERE id = $2 RETURNING x, v, length(v)", &[TEXT, INT4]),
    ("UPDATE t SET x = coalesce(x, $1, 'none'), v = upper(v) WHERE id = $2 RETURNING x || v", &[TEXT, INT4]),
    (
        "UPDATE t SET n = coalesce(n, 0) + greatest($1, m), m = nullif(m, $2) WHERE id = $3 RETURNING n, m",
        &[NUMERIC, NUMERIC, INT4],
    ),
    ("UPDATE t SET i = s, s = i, x = n WHERE id = $1 RETURNING i, s, x", &[INT4]),
    ("UPDATE t SET n = i, l = n, d = l WHERE id = $1 RETURNING n, l, d", &[INT8]),
    ("UPDATE t SET i = -i, n = abs(n), d = -d WHERE id = $1 RETURNING i, n, d", &[INT4]),
    ("UPDATE t SET i = i + 1 WHERE id = $1 AND i < $2 RETURNING i", &[INT4, INT4]),
    ("UPDATE t SET n = n + 1 WHERE $1 = id AND (x = $2 OR v IS NULL) RETURNING n", &[INT4, TEXT]),
    ("UPDATE t SET i = 10 / i WHERE id = $1 RETURNING i", &[INT4]),
    ("UPDATE t SET i = i + 1 WHERE id = $1 RETURNING 10 / (i - 1), i", &[INT4]),
    ("DELETE FROM t WHERE id = $1 AND n > $2 RETURNING n * 2, x", &[INT4, NUMERIC]),
    ("DELETE FROM t WHERE id = $1 RETURNING i + l", &[INT8]),
];

#[test]
fn what_is_computed_by_key_is_what_the_engine_computes() {
    let (key, engine) = (testing::engine_with(&[TABLE]), testing::engine_with(&[TABLE]));
    let mut random = Random(7);
    let (mut errors, mut rows, mut none) = (0, 0, 0);
    for (sql, declared) in STATEMENTS {
        for _ in 0..14 {
            let region = Arc::clone(key.catalog().current().grid("t").unwrap());
            let twin = Arc::clone(engine.catalog().current().grid("t").unwrap());
            let mut row: Vec<Value> =
                region.schema().columns.iter().map(|column| random.value(column.sql_type)).collect();
            row[0] = Value::Int4(1);
            if row[2].is_null() {
                row[2] = Value::Numeric(12_345);
            }
            if let Value::Text(text) = &row[9] {
                row[9] = Value::Text(text.chars().take(8).collect::<String>().into());
            }
            let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
            for region in [&region, &twin] {
                let put =
                    |entry: &mut ashlar_store::Entry<'_>| entry.apply(ashlar_store::Mutation::Upsert { row: &datums });
                region.entry(&datums[..1], put).unwrap();
            }
            let (given, values) = by_key(&key, sql, declared, &mut |types| {
                let mut values: Vec<Value> = types.iter().map(|sql_type| random.value(*sql_type)).collect();
                // Mostly the row is there.
                let of_key = declared.iter().enumerate().filter(|(number, _)| {
                    sql.contains(&format!("id = ${}", number + 1)) || sql.contains(&format!("${} = id", number + 1))
                });
                let place = of_key.map(|(number, _)| number).next().unwrap();
                let id = random.one(&[1i64, 1, 1, 1, 2, i64::MAX]);
                values[place] = match types[place].scalar() {
                    ScalarType::Int2 => Value::Int2(id as i16),
                    ScalarType::Int4 => Value::Int4(id as i32),
                    _ => Value::Int8(id),
                };
                values
            });
            let expected = by_engine(&engine, sql, declared, &values);
            assert_eq!(format!("{given:?}"), format!("{expected:?}"), "{sql} of {row:?} with {values:?}");
            match &given {
                Ok((0, ..)) => none += 1,
                Ok(_) => rows += 1,
                Err(_) => errors += 1,
            }
            // And what is stored then.
            let stored =
                |region: &Arc<ashlar_store::Region>| region.get(&datums[..1], |row| row.map(|row| row.to_values()));
            assert_eq!(
                format!("{:?}", stored(&region)),
                format!("{:?}", stored(&twin)),
                "{sql} of {row:?} with {values:?}"
            );
        }
    }
    assert!(errors > 20 && rows > 100 && none > 15, "{errors} errors, {rows} rows, {none} not found");
}

#[test]
fn statements_beyond_one_row_are_left_to_the_engine() {
    let engine = testing::engine_with(&[TABLE]);
    for sql in [
        "UPDATE t SET n = n + 1 WHERE id > 5",
        "UPDATE t SET n = n + 1 WHERE id = 5 OR i = 3",
        "UPDATE t SET id = id + 1 WHERE id = 5",
        "UPDATE t SET n = (SELECT max(n) FROM t) WHERE id = 5",
        "UPDATE t SET d = random() WHERE id = 5",
        "UPDATE t SET x = repeat(x, 100000000) WHERE id = 5",
        "UPDATE t SET i = i + 1 WHERE id = 5.5",
        "SELECT count(*) FROM t WHERE id = 5",
        "SELECT n + 1 FROM t WHERE id IN (5, 6)",
    ] {
        assert!(!matches!(testing::plan(&engine, sql).kind, Kind::Key(_)), "{sql}");
    }
    for sql in [
        "SELECT n + 1, x || 'a' FROM t WHERE id = 5",
        "SELECT a.n * 2 AS twice FROM t AS a WHERE a.id = 5 AND a.i > 3 LIMIT 1",
        "UPDATE t AS a SET n = a.n + 1 WHERE 5 = a.id RETURNING a.n + 1",
    ] {
        assert!(matches!(testing::plan(&engine, sql).kind, Kind::Key(_)), "{sql}");
    }
}
