//! Names of rows: `table:{key}`, where `key` is the canonical text of the primary key.
//!
//! Called by every command that takes a key name. Pure: it splits and writes names; whether there is such a
//! table is asked by `keyspace`.

/// A name that has the shape of a row's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowName<'a> {
    /// What stands before `:{`.
    pub(super) table: &'a str,
    /// What stands between the braces; it may contain braces itself, and where the key is a `bytea` any bytes.
    pub(super) key: &'a [u8],
}

/// Splits `table:{key}`, or says that this is a plain key.
///
/// A table's name may contain any character, so the first `:{` could belong to it; SQL names that contain `:{`
/// are not addressable, and the first one always ends the table's name.
pub(super) fn split(name: &[u8]) -> Option<RowName<'_>> {
    // Nearly all plain keys leave here.
    if name.last() != Some(&b'}') {
        return None;
    }
    let colon = name.windows(2).position(|pair| pair == b":{")?;
    if colon == 0 {
        return None;
    }
    let table = std::str::from_utf8(&name[..colon]).ok()?;
    Some(RowName { table, key: &name[colon + 2..name.len() - 1] })
}

/// Whether rows of a table with this name can be addressed: [`split`] would give the name back.
pub(super) fn is_addressable(table: &str) -> bool {
    !table.is_empty() && !table.contains(":{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_name_is_a_table_a_colon_and_a_key_in_braces() {
        let check = |name: &str, expected: Option<(&str, &str)>| {
            let found = split(name.as_bytes()).map(|row| (row.table, row.key));
            assert_eq!(found, expected.map(|(table, key)| (table, key.as_bytes())), "{name}");
        };
        check("flights:{42}", Some(("flights", "42")));
        check("weather:{EWR,2013-01-01 01:00:00}", Some(("weather", "EWR,2013-01-01 01:00:00")));
        check("t:{a}b}", Some(("t", "a}b")));
        check("t:{:{x}}", Some(("t", ":{x}")));
        check("t:{}", Some(("t", "")));
        check("user:1000", None);
        check("{user}:1000", None);
        check(":{42}", None);
        check("t{42}", None);
        check("t:{42", None);
        check("t:{42}x", None);
        check("}", None);
        check("", None);
    }

    #[test]
    fn a_key_may_be_any_bytes_and_a_table_may_not() {
        assert_eq!(split(b"t:{\xff}"), Some(RowName { table: "t", key: b"\xff" }));
        assert_eq!(split(b"\xff:{1}"), None);
    }
}
