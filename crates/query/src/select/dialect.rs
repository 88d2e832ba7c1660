//! The dialect of SQL that the parser reads: the parser's own one for PostgreSQL, without one feature that costs too
//! much time.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// PostgreSQL's dialect, in which arguments of functions are named by identifiers alone.
///
/// Of the parser's own each argument may be named by an expression, which is parsed to see whether a colon follows, and then again: twice
/// as long for each call around it, so that thirty functions within each other take hours. PostgreSQL has such names in `json_object` alone,
/// since version 16.
#[derive(Debug)]
pub(crate) struct Postgres;

/// The dialect that all else is taken from.
const WHOLE: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! as_there {
    ($($name:ident),+ $(,)?) => {
        $(fn $name(&self) -> bool {
            WHOLE.$name()
        })+
    };
}

impl Dialect for Postgres {
    /// What the parser asks of PostgreSQL's dialect by its name holds here too.
    fn dialect(&self) -> TypeId {
        WHOLE.dialect()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        WHOLE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        WHOLE.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        WHOLE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        WHOLE.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        WHOLE.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        WHOLE.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        WHOLE.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        WHOLE.prec_value(precedence)
    }

    /// `ON` begins what an INSERT does in a conflict.
    fn is_select_item_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        (explicit || *keyword != Keyword::ON) && WHOLE.is_select_item_alias(explicit, keyword, parser)
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    /// `name := value`, the older spelling of `name => value`, and the one in which pg_query writes statements out.
    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    as_there!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many that each level takes twice as long would take longer than anybody waits.
    #[test]
    fn calls_within_calls_are_parsed_once() {
        let depth = 40;
        for (before, after) in
            [("abs(", ")"), ("coalesce(NULL, ", ", 1)"), ("(", ")"), ("CAST(", " AS int)"), ("ARRAY[", "]")]
        {
            let sql = format!("SELECT {}1{}", before.repeat(depth), after.repeat(depth));
            let parsed =
                Parser::new(&Postgres).with_recursion_limit(1000).try_with_sql(&sql).unwrap().parse_statements();
            assert!(parsed.is_ok(), "{sql}: {parsed:?}");
        }
    }

    #[test]
    fn arguments_are_named_by_identifiers() {
        for sql in ["SELECT make_interval(days => 3)", "SELECT make_interval(days := 3)"] {
            let texts = |dialect: &dyn Dialect| Parser::parse_sql(dialect, sql).unwrap()[0].to_string();
            assert_eq!(texts(&Postgres), texts(&WHOLE), "{sql}");
        }
    }
}
