//! Numbers where they lie are written, compared and copied as values are.

use super::*;
use crate::value::binary;
use crate::value::text::{self, TextStyle};
use crate::{ScalarType, SqlType};

fn both_forms(element: ScalarType, items: &Items<'_>) -> (String, Vec<u8>) {
    let (sql_type, datum) = (SqlType::Array(element), Datum::Array(items.clone()));
    let (mut shown, mut sent) = (Vec::new(), Vec::new());
    text::write(sql_type, &datum, &TextStyle::default(), &mut shown);
    binary::encode(sql_type, &datum, &mut sent);
    (String::from_utf8(shown).unwrap(), sent)
}

#[test]
fn numbers_in_a_column_are_those_of_values() {
    let (few, many) = ([0, -1, i32::MAX, i32::MIN], (-2000..2000).map(|n| n * 77_777).collect::<Vec<i32>>());
    for numbers in [&[][..], &few, &many] {
        let wide: Vec<i64> = numbers.iter().map(|number| i64::from(*number) * 5_000_000_000 / 3).collect();
        for (element, lent) in [(ScalarType::Int4, Items::Int4(numbers)), (ScalarType::Int8, Items::Int8(&wide))] {
            let values = Items::Values(lent.to_values().into_owned().into());
            assert!(matches!(values, Items::Values(_)));
            assert_eq!((lent.len(), lent.is_empty()), (numbers.len(), numbers.is_empty()));
            assert_eq!(lent, values);
            assert_eq!(both_forms(element, &lent), both_forms(element, &values));
            let datum = Datum::Array(lent.clone());
            let (shown, sent) = both_forms(element, &lent);
            let sql_type = SqlType::Array(element);
            assert_eq!(text::parse(sql_type, &shown, &TextStyle::default()).unwrap(), datum.to_value());
            assert_eq!(binary::decode(sql_type, &sent).unwrap(), datum.to_value());
        }
    }
    assert_ne!(Items::Int4(&[1, 2]), Items::Int4(&[1, 3]));
    assert_ne!(Items::Int4(&[1, 2]), Items::Int4(&[1]));
    assert_ne!(Items::Int4(&[1]), Items::Int8(&[1]), "of another type");
}
