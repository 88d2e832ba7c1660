//! Which casts go, and which stay.

use pg_query::NodeEnum;

use super::settle;
use crate::grammar;
use crate::statement::expression_text;

/// A condition as it is planned.
fn settled(text: &str) -> String {
    let statement = grammar::parse(&format!("SELECT {text}")).unwrap().pop().unwrap();
    let NodeEnum::SelectStmt(mut select) = statement.node else { panic!("{text}") };
    let Some(NodeEnum::ResTarget(target)) = select.target_list.remove(0).node else { panic!("{text}") };
    let mut expression = *target.val.unwrap();
    settle(&mut expression);
    expression_text(&expression).unwrap()
}

#[test]
fn constants_that_are_compared_are_numbers() {
    for (printed, planned) in [
        ("(n > (0)::numeric)", "n > 0.0"),
        ("((n >= (1)::numeric) AND (n <= 99.5))", "n >= 1.0 AND n <= 99.5"),
        ("(n > ('-1'::integer)::numeric)", "n > -1.0"),
        ("(n > '-1.5'::numeric)", "n > -1.5"),
        ("(n = ANY (ARRAY[(1)::numeric, 2.5]))", "n = ANY(ARRAY[1.0, 2.5])"),
        ("((n * (2)::numeric) > (5)::numeric)", "(n * 2::numeric) > 5.0"),
        ("((a)::numeric > n)", "a::numeric > n"),
        ("(n > '1e5'::numeric)", "n > '1e5'::numeric"),
        ("(n > (0)::numeric(5,2))", "n > 0::numeric(5, 2)"),
    ] {
        assert_eq!(settled(printed), settled(planned), "{printed}");
    }
    assert!(!settled("(n > (0)::numeric)").contains("numeric"));
    assert!(settled("((n * (2)::numeric) > (5)::numeric)").contains("numeric"));
}
