//! Arithmetic with complete groups, against what PostgreSQL says.

use std::cmp::Ordering;

use ashlar_base::ErrorCode;

use super::{INT8, NUMERIC, TEXT, body, run};
use crate::merge::{
    Aggregate, Comparison, Computed, Condition, Expression, Field, Function, Gathering, Having, Kind, Merger, Operand,
    Operator, RowMerge,
};

const INT2: Field = Field { oid: 21, is_binary: false };
const INT4: Field = Field { oid: 23, is_binary: false };
const FLOAT: Field = Field { oid: 701, is_binary: false };

fn written(number: &str) -> Box<Expression> {
    Box::new(Expression::number(number).unwrap())
}

fn column(at: usize) -> Box<Expression> {
    Box::new(Expression::Column(at))
}

fn binary(a: Expression, operator: Operator, b: Expression) -> Expression {
    Expression::Binary(operator, Box::new([a, b]))
}

/// What comes of two columns of a group, as a value of this type.
fn result(
    expression: Expression,
    fields: [Field; 2],
    to: Field,
    values: [Option<&str>; 2],
) -> Result<String, ErrorCode> {
    let merge = RowMerge {
        aggregates: vec![Aggregate::Alike, Aggregate::Alike, Aggregate::Computed],
        computed: vec![Computed { column: 2, expression }],
        ..RowMerge::default()
    };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let mut merger = Merger::new(&gathering, &[fields[0], fields[1], to], 1, true).map_err(|error| error.code())?;
    merger.push(0, &body(&[values[0], values[1], None])).map_err(|error| error.code())?;
    merger.finish(0);
    let row = merger.pop().map_err(|error| error.code())?.unwrap();
    Ok(super::texts(&row)[2].clone().unwrap_or_else(|| "NULL".to_owned()))
}

#[test]
fn operators_are_postgresqls() {
    use Operator::{Divide, Minus, Modulo, Plus, Times};
    for (a, operator, b, of, expected) in [
        ("7", Divide, "2", INT8, "3"),
        ("-7", Divide, "2", INT8, "-3"),
        ("-7", Modulo, "3", INT8, "-1"),
        ("-9223372036854775808", Modulo, "-1", INT8, "0"),
        ("6", Times, "-7", INT4, "-42"),
        ("10", Divide, "3", NUMERIC, "3.3333333333333333"),
        ("1", Divide, "3.00", NUMERIC, "0.33333333333333333333"),
        ("100.0", Divide, "0.3", NUMERIC, "333.3333333333333333"),
        ("-2", Divide, "-0.5", NUMERIC, "4.0000000000000000"),
        ("0.00", Divide, "7", NUMERIC, "0.00000000000000000000"),
        ("1.5", Times, "-2.25", NUMERIC, "-3.375"),
        ("1.5", Plus, "2.25", NUMERIC, "3.75"),
        ("1.5", Minus, "2.50", NUMERIC, "-1.00"),
        ("7.5", Modulo, "2", NUMERIC, "1.5"),
        ("-7.5", Modulo, "2.00", NUMERIC, "-1.50"),
        ("7", Divide, "2", FLOAT, "3.5"),
        ("1.5", Minus, "-0.25", FLOAT, "1.75"),
    ] {
        let found = result(binary(*column(0), operator, *column(1)), [of, of], of, [Some(a), Some(b)]);
        assert_eq!(found.as_deref(), Ok(expected), "{a} {operator:?} {b}");
    }
    for (a, operator, b, of, expected) in [
        ("1", Divide, "0", INT8, ErrorCode::DivisionByZero),
        ("1", Modulo, "0", INT8, ErrorCode::DivisionByZero),
        ("1.5", Divide, "0.00", NUMERIC, ErrorCode::DivisionByZero),
        ("1.5", Modulo, "0", NUMERIC, ErrorCode::DivisionByZero),
        ("0", Divide, "0", FLOAT, ErrorCode::DivisionByZero),
        ("9223372036854775807", Plus, "1", INT8, ErrorCode::NumericOutOfRange),
        ("-9223372036854775808", Divide, "-1", INT8, ErrorCode::NumericOutOfRange),
        ("2147483647", Plus, "1", INT4, ErrorCode::NumericOutOfRange),
        ("32767", Times, "2", INT2, ErrorCode::NumericOutOfRange),
        ("1e308", Times, "10", FLOAT, ErrorCode::NumericOutOfRange),
        ("1e-300", Divide, "1e300", FLOAT, ErrorCode::NumericOutOfRange),
        ("1", Modulo, "1", FLOAT, ErrorCode::FeatureNotSupported),
        ("12345678901234567890", Times, "1234567890123456789012", NUMERIC, ErrorCode::FeatureNotSupported),
        ("1", Plus, "NaN", NUMERIC, ErrorCode::FeatureNotSupported),
    ] {
        let found = result(binary(*column(0), operator, *column(1)), [of, of], of, [Some(a), Some(b)]);
        assert_eq!(found, Err(expected), "{a} {operator:?} {b}");
    }
    // Of two types, both become the greater one; a NULL is the result of whatever it is in.
    let sum = |fields, to, values| result(binary(*column(0), Plus, *column(1)), fields, to, values);
    assert_eq!(sum([INT2, INT8], INT8, [Some("1"), Some("2")]).as_deref(), Ok("3"));
    assert_eq!(sum([NUMERIC, INT4], NUMERIC, [Some("1.50"), Some("2")]).as_deref(), Ok("3.50"));
    assert_eq!(sum([NUMERIC, FLOAT], FLOAT, [Some("0.1"), Some("0.2")]).as_deref(), Ok("0.30000000000000004"));
    assert_eq!(sum([INT8, INT8], INT8, [Some("1"), None]).as_deref(), Ok("NULL"));
    // What the shards say is another type is not computed, nor what is no number.
    assert_eq!(sum([INT8, INT8], NUMERIC, [Some("1"), Some("2")]), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(sum([TEXT, INT8], INT8, [Some("1"), Some("2")]), Err(ErrorCode::FeatureNotSupported));
}

#[test]
fn functions_and_casts_are_postgresqls() {
    use Function::{Abs, Ceil, Floor, Round, Trunc};
    let of = |expression, from, to, value| result(expression, [from, INT8], to, [value, Some("2")]);
    for (function, value, from, to, expected) in [
        (Round, "2.5", NUMERIC, NUMERIC, "3"),
        (Round, "-2.5", NUMERIC, NUMERIC, "-3"),
        (Round, "2.5", FLOAT, FLOAT, "2"),
        (Round, "5", INT8, FLOAT, "5"),
        (Trunc, "-2.9", NUMERIC, NUMERIC, "-2"),
        (Ceil, "-1.5", NUMERIC, NUMERIC, "-1"),
        (Ceil, "1.01", NUMERIC, NUMERIC, "2"),
        (Floor, "-1.5", NUMERIC, NUMERIC, "-2"),
        (Abs, "-7", INT8, INT8, "7"),
        (Abs, "-7.50", NUMERIC, NUMERIC, "7.50"),
    ] {
        let found = of(Expression::Call(function, column(0)), from, to, Some(value));
        assert_eq!(found.as_deref(), Ok(expected), "{function:?} {value}");
    }
    for (function, digits, value, expected) in [
        (Round, 1, "1.25", "1.3"),
        (Round, 3, "1.5", "1.500"),
        (Round, -1, "155", "160"),
        (Round, 0, "-0.5", "-1"),
        (Trunc, 1, "-1.79", "-1.7"),
        (Trunc, -2, "199", "100"),
    ] {
        let found = of(Expression::Digits(function, digits, column(0)), NUMERIC, NUMERIC, Some(value));
        assert_eq!(found.as_deref(), Ok(expected), "{function:?} {value} {digits}");
    }
    for (kind, value, from, to, expected) in [
        (Kind::Int4, "2.5", NUMERIC, INT4, Ok("3")),
        (Kind::Int4, "2.5", FLOAT, INT4, Ok("2")),
        (Kind::Int2, "40000", INT8, INT2, Err(ErrorCode::NumericOutOfRange)),
        (Kind::Int8, "9223372036854775808", NUMERIC, INT8, Err(ErrorCode::NumericOutOfRange)),
        (Kind::Int8, "1e19", FLOAT, INT8, Err(ErrorCode::NumericOutOfRange)),
        (Kind::Float8, "0.1", NUMERIC, FLOAT, Ok("0.1")),
        (Kind::Numeric, "7", INT8, NUMERIC, Ok("7")),
        (Kind::Numeric, "7", FLOAT, NUMERIC, Err(ErrorCode::FeatureNotSupported)),
    ] {
        let found = of(Expression::Cast(kind, column(0)), from, to, Some(value));
        assert_eq!(found.as_deref(), expected.as_ref().copied(), "{value} as {kind:?}");
    }
    let fitted = |value| of(Expression::Fitted((4, 2), column(0)), NUMERIC, NUMERIC, Some(value));
    assert_eq!(fitted("12.345").as_deref(), Ok("12.35"));
    assert_eq!(fitted("99.995"), Err(ErrorCode::NumericOutOfRange));
    let negated = |value| of(Expression::Negated(column(0)), INT4, INT4, value);
    assert_eq!(negated(Some("-5")).as_deref(), Ok("5"));
    assert_eq!(negated(Some("-2147483648")), Err(ErrorCode::NumericOutOfRange));
    assert_eq!(negated(None).as_deref(), Ok("NULL"));
}

#[test]
fn what_chooses_gives_all_one_type() {
    let of = |expression, to, values| result(expression, [INT8, NUMERIC], to, values);
    let both = || vec![*column(0), *column(1)];
    let or_zero = Expression::Coalesce(vec![*column(0), *written("0")]);
    assert_eq!(of(or_zero.clone(), INT8, [None, None]).as_deref(), Ok("0"));
    // A zero that was an integer is a bigint there.
    let many = binary(or_zero, Operator::Plus, *written("2147483647"));
    let many = binary(many, Operator::Plus, *written("1"));
    assert_eq!(of(many, INT8, [None, None]).as_deref(), Ok("2147483648"));
    assert_eq!(of(Expression::Coalesce(both()), NUMERIC, [Some("1"), Some("2.0")]).as_deref(), Ok("1"));
    let greatest = Expression::Extreme(Ordering::Greater, both());
    assert_eq!(of(greatest.clone(), NUMERIC, [Some("1"), Some("0.5")]).as_deref(), Ok("1"));
    assert_eq!(of(greatest.clone(), NUMERIC, [Some("1"), Some("1.5")]).as_deref(), Ok("1.5"));
    assert_eq!(of(greatest, NUMERIC, [None, Some("1.5")]).as_deref(), Ok("1.5"));
    let least = Expression::Extreme(Ordering::Less, both());
    assert_eq!(of(least, NUMERIC, [Some("1"), Some("1.5")]).as_deref(), Ok("1"));
    let null_if = |b| Expression::NullIf(Box::new([*column(0), b]));
    assert_eq!(of(null_if(*written("0")), INT8, [Some("0"), None]).as_deref(), Ok("NULL"));
    assert_eq!(of(null_if(*written("0")), INT8, [Some("1"), None]).as_deref(), Ok("1"));
    assert_eq!(of(null_if(*written("0.0")), NUMERIC, [Some("0"), None]).as_deref(), Ok("NULL"));
    // The branch that is not taken is not computed.
    let is_none = Condition::Compare(Operand::Column(0), Comparison::Equal, Operand::number("0").unwrap());
    let share = binary(*column(1), Operator::Divide, *column(0));
    let case = Expression::Case(vec![(is_none, *written("-1"))], Some(Box::new(share)));
    assert_eq!(of(case.clone(), NUMERIC, [Some("0"), Some("5")]).as_deref(), Ok("-1"));
    assert_eq!(of(case, NUMERIC, [Some("2"), Some("5")]).as_deref(), Ok("2.5000000000000000"));
}

#[test]
fn groups_are_computed_that_having_keeps() {
    let share = || binary(*column(1), Operator::Divide, *column(2));
    let is_more = |than| {
        let share = Operand::Computed(Box::new(share()));
        Condition::Compare(share, Comparison::Greater, Operand::number(than).unwrap())
    };
    let is_some = Condition::Compare(Operand::Column(2), Comparison::NotEqual, Operand::number("0").unwrap());
    let made = |having, skip, take| {
        let merge = RowMerge {
            hidden: 2,
            aggregates: vec![Aggregate::Computed, Aggregate::Sum, Aggregate::Sum, Aggregate::Group],
            having,
            computed: vec![Computed { column: 0, expression: share() }],
            ..RowMerge::default()
        };
        let gathering = Gathering { merge: &merge, skip, take };
        let mut merger = Merger::new(&gathering, &[INT8, INT8, INT8, INT8], 2, true).unwrap();
        // Neither shard could have divided by its own part of the first group.
        let sources = [
            vec![body(&[None, Some("8"), Some("0"), Some("1")]), body(&[None, Some("1"), Some("1"), Some("2")])],
            vec![body(&[None, Some("4"), Some("3"), Some("1")]), body(&[None, Some("1"), Some("0"), Some("3")])],
        ];
        for (source, rows) in sources.iter().enumerate() {
            rows.iter().for_each(|row| merger.push(source, row).unwrap());
            merger.finish(source);
        }
        let mut found = Vec::new();
        loop {
            match merger.pop() {
                Ok(Some(row)) => found.push(super::texts(&row)[0].clone().unwrap()),
                Ok(None) => return found.join(" "),
                Err(error) => return error.code().sqlstate().to_owned(),
            }
        }
    };
    let having = |parts| Some(Having(Condition::All(parts)));
    assert_eq!(made(having(vec![is_some.clone()]), 0, None), "4 1");
    assert_eq!(made(having(vec![is_some.clone(), is_more("1.5")]), 0, None), "4");
    assert_eq!(made(having(vec![is_more("1.5"), is_some]), 0, None), "22012", "what stands first is computed first");
    assert_eq!(made(None, 0, None), "22012");
    // What is not needed is not computed.
    assert_eq!(made(None, 1, Some(1)), "1");
}

#[test]
fn computed_columns_sort_groups() {
    let merge = RowMerge {
        keys: vec![super::key(crate::merge::Place::FromStart(2), true, false)],
        hidden: 1,
        aggregates: vec![Aggregate::Group, Aggregate::Count, Aggregate::Computed],
        computed: vec![Computed { column: 2, expression: Expression::Negated(column(1)) }],
        ..RowMerge::default()
    };
    let gathering = Gathering { merge: &merge, skip: 0, take: Some(2) };
    let mut merger = Merger::new(&gathering, &[INT8, INT8, INT8], 1, true).unwrap();
    let rows = [("1", "5"), ("2", "3"), ("3", "4")].map(|(group, count)| body(&[Some(group), Some(count), None]));
    let found = run(&mut merger, &[rows.to_vec()]);
    assert_eq!(found.iter().map(|row| row[0].as_deref().unwrap()).collect::<Vec<_>>(), ["2", "3"]);
}
