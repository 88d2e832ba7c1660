//! Splicing, and the tokens it looks for.

use std::borrow::Cow;

use super::scan::{self, Token, Tokens};
use super::{Hole, Template, quoted};

#[test]
fn nothing_to_fill_is_the_text_itself() {
    let text = "SELECT * FROM orders";
    let template = Template::new(vec![Hole { place: 14..20, value: 0 }]);
    assert!(matches!(template.fill(text, 0..text.len(), |_| None), Cow::Borrowed(_)));
    assert_eq!(template.fill(text, 0..text.len(), |_| Some(quoted("o\"1"))), "SELECT * FROM \"o\"\"1\"");
    assert_eq!(template.fill(text, 0..8, |_| Some("x".into())), "SELECT *");
}

#[test]
fn quotes_and_comments_hide_what_is_in_them() {
    let text = "a 'it''s (' E'\\'(' $t$ ( $1 $t$ \"q\"\"(\" /* ( /* ( */ */ -- (\n U&'(' $2 1.5e3 ) x$y";
    let kinds: Vec<Token> = Tokens::new(text, 0).map(|(token, _)| token).collect();
    use Token::{Number, Parameter, Quoted, Sign, String, Word};
    assert_eq!(kinds, [Word, String, String, String, Quoted, String, Parameter, Number, Sign(b')'), Word]);
    assert_eq!(scan::parameters("$1 '$2' $12"), [(0..2, 0), (8..11, 11)]);
}

#[test]
fn names_and_lists_are_found_whole() {
    assert_eq!(scan::name("from orders o", 5), Some(5..11));
    assert_eq!(scan::name("from \"a b\" . orders", 5), Some(5..19));
    assert_eq!(scan::name("from orders *", 5), None);
    let list = "in (1, -2, 'a,b' /* , */, f(3, 4))";
    let items = scan::items(list, &(4..list.len() - 1)).unwrap();
    let items: Vec<&str> = items.into_iter().map(|place| &list[place]).collect();
    assert_eq!(items, ["1", "-2", "'a,b'", "f(3, 4)"]);
    let text = "insert into t (a, b) values (1, ')'), (f(2, (3)), $1) on conflict do nothing";
    let values = scan::word(text, 0, "values").unwrap();
    let rows: Vec<&str> = scan::lists(text, values.end).into_iter().map(|place| &text[place]).collect();
    assert_eq!(rows, ["(1, ')')", "(f(2, (3)), $1)"]);
}

#[test]
fn names_without_room_for_an_alias_are_known() {
    let all = [
        ("TABLE h", true),
        ("SELECT * FROM (table /* c */ h) AS s", true),
        ("TABLE ONLY h", true),
        ("SELECT * FROM ONLY ( h)", true),
        ("SELECT * FROM ONLY h", false),
        ("SELECT * FROM (h)", false),
        ("SELECT x AS \"table\" , h", false),
        ("h", false),
    ];
    for (text, expected) in all {
        assert_eq!(scan::takes_no_alias(text, text.rfind('h').unwrap()), expected, "{text}");
    }
}
