//! What is known of PostgreSQL's functions by name: which may be given to a shard at all, which are aggregates, which say
//! the same on every server.
//!
//! A name that is not listed may be a function of the user's on some server, which could read any table: a statement
//! with one is not forwarded.

use pg_query::NodeEnum;
use pg_query::protobuf::FuncCall;

use super::nodes;
use crate::rewrite::scan::{Token, Tokens};

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The same result for the same arguments, everywhere.
    Immutable,
    /// Depends on the session's settings, which are the same on all servers.
    Varying,
    /// Says what time it is, or which server: one answer for a statement, and another on each server.
    Moment,
    /// Another result each time.
    Chance,
    /// Of many rows.
    Aggregate,
    /// Of a window only.
    Window,
}

const IMMUTABLE: &str = " abs acos acosd acosh array_append array_cat array_dims array_fill array_length array_lower array_ndims \
    array_position array_positions array_prepend array_remove array_replace array_to_string array_upper ascii asin asind asinh atan \
    atan2 atan2d atand atanh bit_count bit_length btrim cardinality cbrt ceil ceiling char_length character_length chr concat_ws cos \
    cosd cosh cot cotd date_bin decode degrees div encode exp extract date_part factorial floor format gcd get_bit get_byte generate_series \
    generate_subscripts greatest hashint4 \
    hashint8 hashtext hashint4extended hashint8extended hashtextextended initcap isfinite json_array_length \
    json_extract_path json_extract_path_text json_typeof jsonb_array_length jsonb_build_array jsonb_build_object \
    json_object jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_typeof \
    json_strip_nulls justify_days justify_hours justify_interval lcm least left length ln log log10 lower lpad ltrim \
    make_date make_interval make_time make_timestamp md5 min_scale mod num_nonnulls num_nulls nullif octet_length \
    overlaps overlay pi position power quote_ident quote_literal quote_nullable radians regexp_count regexp_instr \
    regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr \
    repeat replace reverse right round rpad rtrim scale set_bit set_byte sha224 sha256 sha384 sha512 sign sin sind sinh split_part sqrt \
    starts_with string_to_array string_to_table strpos substr substring tan tand tanh timezone to_hex translate trim_array trim_scale trunc \
    unnest upper width_bucket like_escape like notlike json_array_elements json_array_elements_text jsonb_array_elements \
    jsonb_array_elements_text jsonb_each jsonb_each_text json_each json_each_text jsonb_object_keys json_object_keys \
    json_build_array json_build_object jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array \
    jsonb_path_query_first jsonb_set_lax int4range int8range numrange daterange tsrange tstzrange isempty lower_inc lower_inf \
    upper_inc upper_inf range_merge host hostmask masklen netmask family numnode querytree setweight strip ts_rank ts_rank_cd \
    tsvector_to_array array_to_tsvector ";

/// Those of text search: by a configuration that the call names first, or else by that of the server, which is its own affair.
const OF_TEXT_SEARCH: &str = " to_tsvector to_tsquery plainto_tsquery phraseto_tsquery websearch_to_tsquery ";

const VARYING: &str = " array_to_json concat convert convert_from convert_to date_trunc make_timestamptz row_to_json to_char \
    to_date to_json to_jsonb to_number to_timestamp pg_typeof pg_column_size ";

const MOMENT: &str = " age now statement_timestamp transaction_timestamp version ";

/// Those of the same kind that the engine has nothing like: one server says it, or nobody.
const OF_ONE_SERVER: &str = " txid_current txid_current_if_assigned pg_current_xact_id pg_current_xact_id_if_assigned ";

/// Locks of one server, which those who ask another one do not meet; some of them stay with the connection.
const ADVISORY_LOCKS: &str = " pg_advisory_lock pg_advisory_lock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared \
    pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared \
    pg_advisory_unlock pg_advisory_unlock_shared ";

const CHANCE: &str = " clock_timestamp gen_random_uuid pg_sleep random timeofday uuidv4 uuidv7 ";

const AGGREGATES: &str = " any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp \
    every grouping json_agg json_object_agg jsonb_agg jsonb_object_agg max min mode percentile_cont percentile_disc \
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop \
    stddev_samp string_agg sum var_pop var_samp variance xmlagg ";

const WINDOWS: &str =
    " row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value ";

/// Those that make several rows of one.
const OF_ROWS: &str = " generate_series generate_subscripts json_array_elements json_array_elements_text json_each json_each_text \
    json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys jsonb_path_query regexp_matches \
    regexp_split_to_table string_to_table unnest ";

/// The function's own name, in lower case as the grammar has it; `None` where it is of a schema of the user's.
pub(super) fn name(call: &FuncCall) -> Option<&str> {
    match &call.funcname[..] {
        [name] => nodes::string(name),
        [schema, name] if nodes::string(schema) == Some("pg_catalog") => nodes::string(name),
        _ => None,
    }
}

/// What a call does; `None` where that is not known.
pub(super) fn class(call: &FuncCall) -> Option<Class> {
    let name = name(call)?;
    let is_in = |list: &str| list.split_ascii_whitespace().any(|known| known == name);
    if is_in(AGGREGATES) {
        Some(Class::Aggregate)
    } else if is_in(WINDOWS) {
        // Some are aggregates too, of ordered sets.
        Some(if call.over.is_some() { Class::Window } else { Class::Aggregate })
    } else if is_in(IMMUTABLE) || (is_in(OF_TEXT_SEARCH) && call.args.len() == 2) {
        Some(Class::Immutable)
    } else if is_in(VARYING) {
        Some(Class::Varying)
    } else if is_in(MOMENT) || is_of_one_server(call) {
        Some(Class::Moment)
    } else if is_in(CHANCE) {
        Some(Class::Chance)
    } else {
        None
    }
}

/// Whether a call is answered by one server or by nobody.
pub(super) fn is_of_one_server(call: &FuncCall) -> bool {
    name(call).is_some_and(|name| OF_ONE_SERVER.split_ascii_whitespace().any(|known| known == name))
}

/// Whether a call locks a number on one server.
pub(super) fn is_advisory_lock(call: &FuncCall) -> bool {
    name(call).is_some_and(|name| ADVISORY_LOCKS.split_ascii_whitespace().any(|known| known == name))
}

/// Whether a call says the same for the same row whenever and wherever, and makes one row of it.
pub(super) fn is_of_one_row(call: &FuncCall) -> bool {
    let is_of_rows = |name: &str| OF_ROWS.split_ascii_whitespace().any(|known| known == name);
    matches!(class(call), Some(Class::Immutable | Class::Varying)) && name(call).is_some_and(|name| !is_of_rows(name))
}

/// Whether a node, without what is below it, says the same on every server: for writes that go to all of them. Only
/// kinds that are known to are; types whose text depends on the session are left to the caller.
pub(super) fn is_same_everywhere(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::FuncCall(call) => match class(call) {
            Some(Class::Immutable) => name(call) != Some("timezone"),
            // Of the same rows in another order, these make the same.
            Some(Class::Aggregate) => {
                call.over.is_none()
                    && matches!(name(call), Some("count" | "min" | "max" | "bool_and" | "bool_or" | "every"))
            }
            Some(Class::Varying | Class::Moment | Class::Chance | Class::Window) | None => false,
        },
        NodeEnum::SqlvalueFunction(_) => false,
        _ => true,
    }
}

/// Whether a quoted constant of the text is a moment that PostgreSQL reads as the time of its reading.
pub(super) fn names_a_moment(text: &str) -> bool {
    let words = ["now", "today", "tomorrow", "yesterday"];
    let is_moment = |written: &str| words.iter().any(|word| written.trim().eq_ignore_ascii_case(word));
    Tokens::new(text, 0).any(|(token, place)| token == Token::String && is_moment(text[place].trim_matches('\'')))
}
