//! WITH (...) of CREATE INDEX: how PostgreSQL is to keep an index in its pages.
//!
//! There are no pages here, and no answer depends on it. Schema tools write these options and read them again, so the catalog tells them.

use ashlar_base::{Error, ErrorCode, IndexKind, Result};
use pg_query::protobuf::Node;

use crate::ddl::options::{check_fill, elements, value_of};

/// The options as the catalog tells them: `name=value`.
///
/// # Errors
/// 22023 for an option that indexes of this kind do not have, for one that stands twice and for a value that is none.
pub(super) fn options(given: &[Node], kind: IndexKind) -> Result<Vec<String>> {
    let invalid = |message: String| Err(Error::new(ErrorCode::InvalidParameterValue, message));
    let mut kept: Vec<(&str, String)> = Vec::new();
    for element in elements(given) {
        let name = element.defname.as_str();
        if !element.defnamespace.is_empty() {
            return invalid(format!("unrecognized parameter namespace \"{}\"", element.defnamespace));
        }
        if kept.iter().any(|(known, _)| *known == name) {
            return invalid(format!("parameter \"{name}\" specified more than once"));
        }
        // An option without a value is switched on.
        let value = value_of(element).unwrap_or_else(|| "true".to_owned());
        match (name, kind) {
            ("fillfactor", IndexKind::Btree | IndexKind::Hash) => check_fill(&value)?,
            ("deduplicate_items", IndexKind::Btree) if is_boolean(&value) => {}
            ("deduplicate_items", IndexKind::Btree) => {
                return invalid(format!("invalid value for boolean option \"{name}\": {value}"));
            }
            _ => return invalid(format!("unrecognized parameter \"{name}\"")),
        }
        kept.push((name, value));
    }
    Ok(kept.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
}

/// Whether a text is true or false to an option: a word, in any case, or as much of it as tells it from the others.
fn is_boolean(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let begins = |word: &&str| !value.is_empty() && word.starts_with(value.as_str());
    matches!(value.as_str(), "on" | "of" | "off" | "1" | "0") || ["true", "false", "yes", "no"].iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_true_or_false() {
        for word in ["on", "OFF", "of", "t", "Fal", "yes", "n", "1", "0"] {
            assert!(is_boolean(word), "{word}");
        }
        for word in ["", "o", "maybe", "2", "truely", "onn"] {
            assert!(!is_boolean(word), "{word}");
        }
    }
}
