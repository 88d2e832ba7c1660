//! A SELECT whose rows come from several shards and have to be put together: what each shard is asked instead, and what is
//! then done with the rows.
//!
//! ```text
//!   SELECT a FROM t ORDER BY lower(b) LIMIT 10 OFFSET 5
//!   SELECT a, lower(b) AS "_ashlar_1" FROM t ORDER BY lower(b) LIMIT 15 OFFSET 0     and then: sort, leave out, cut
//! ```

use std::ops::Range;

use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, LimitOption, Node, SelectStmt, SortByDir, SortByNulls, a_const};

use super::query::is_star;
use super::{functions, nodes};
use crate::merge::{Aggregate, Place, RowMerge, SortKey};
use crate::rewrite::quoted;
use crate::rewrite::scan::{self, Token, Tokens};

/// Rows that a statement counts off.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Count {
    /// This many.
    Constant(i64),
    /// As the parameter of this number says, from 0.
    Parameter(u16),
}

/// How rows of several shards are asked for and put together.
#[derive(Debug, PartialEq)]
pub(super) struct Gathered {
    /// The text for the shards.
    pub(super) text: String,
    /// What was put into the statement's text to make it, in ascending order.
    pub(super) splices: Vec<(Range<usize>, String)>,
    pub(super) merge: RowMerge,
    pub(super) take: Option<Count>,
    pub(super) skip: Option<Count>,
}

impl Gathered {
    /// Where a byte of the statement's text is in the text for the shards.
    pub(super) fn moved(&self, at: usize) -> usize {
        let before = self.splices.iter().take_while(|(place, _)| place.end <= at);
        before.fold(at, |at, (place, with)| at - place.len() + with.len())
    }
}

type Attempt<T> = Result<T, String>;

fn no<T>(reason: &str) -> Attempt<T> {
    Err(reason.to_owned())
}

/// Sorting and counting off.
pub(super) fn sorted(select: &SelectStmt, text: &str) -> Attempt<Gathered> {
    if LimitOption::try_from(select.limit_option) == Ok(LimitOption::WithTies) {
        return no("rows that are alike are counted off together");
    }
    let clauses = Clauses::of(text)?;
    let mut splices = Vec::new();
    let mut keys = Vec::new();
    let mut hidden = Vec::new();
    if clauses.sort.len() != select.sort_clause.len() {
        return no("the sort order cannot be found in the text");
    }
    for (node, place) in select.sort_clause.iter().zip(&clauses.sort) {
        let Some((sort, expression)) = sort_of(node) else { return no("the sort order is of an unknown kind") };
        let column = match output(select, expression)? {
            Some(at) => Place::FromStart(at),
            None => {
                hidden.push(format!(", {} AS \"_ashlar_{}\"", &text[place.clone()], hidden.len() + 1));
                // How far from the end it is, is known when all are counted.
                Place::FromEnd(hidden.len() - 1)
            }
        };
        keys.push(SortKey { column, ..sort });
    }
    let count = hidden.len();
    for key in &mut keys {
        if let Place::FromEnd(at) = &mut key.column {
            *at = count - *at;
        }
    }
    if count > 0 {
        let from = clauses.from.ok_or("FROM cannot be found in the text")?;
        splices.push((from..from, format!("{} ", hidden.concat())));
    }
    let take = limit(&select.limit_count)?;
    let skip = limit(&select.limit_offset)?;
    let written = |count: &Count| match count {
        Count::Constant(number) => number.to_string(),
        Count::Parameter(number) => format!("CAST(${} AS bigint)", number + 1),
    };
    match (&take, &clauses.limit) {
        (None, _) => {}
        (Some(take), Some(place)) => {
            let sum = match (take, &skip) {
                (Count::Constant(take), Some(Count::Constant(skip))) => take.saturating_add(*skip).to_string(),
                (take, None) => written(take),
                (take, Some(skip)) => format!("{} + coalesce({}, 0)", written(take), written(skip)),
            };
            splices.push((place.clone(), sum));
        }
        (Some(_), None) => return no("LIMIT cannot be found in the text"),
    }
    match (&skip, &clauses.offset) {
        (None, _) => {}
        (Some(skip), Some(place)) => {
            // A parameter has to stand somewhere, or nobody knows its type.
            let nothing = match (skip, &take) {
                (Count::Parameter(_), None) => format!("{} * 0", written(skip)),
                _ => "0".to_owned(),
            };
            splices.push((place.clone(), nothing));
        }
        (Some(_), None) => return no("OFFSET cannot be found in the text"),
    }
    gathered(select, text, splices, count, RowMerge { keys, hidden: count, aggregates: Vec::new() }, take, skip)
}

/// Columns that shards are asked for and the client does not see.
#[derive(Default)]
struct Hidden {
    /// What is put before FROM.
    texts: Vec<String>,
    aggregates: Vec<Aggregate>,
}

impl Hidden {
    /// Adds a column: which it is, from 0.
    fn push(&mut self, text: &str, aggregate: Aggregate) -> usize {
        self.texts.push(format!(", {text} AS \"_ashlar_{}\"", self.texts.len() + 1));
        self.aggregates.push(aggregate);
        self.texts.len() - 1
    }

    /// All columns, those that are shown before.
    fn behind(&self, mut shown: Vec<Aggregate>) -> Vec<Aggregate> {
        let all = self.texts.len();
        for aggregate in &mut shown {
            if let Aggregate::Average { sum, count } = aggregate {
                (*sum, *count) = (all - *sum, all - *count);
            }
        }
        shown.extend(&self.aggregates);
        shown
    }

    fn splice(&self, clauses: &Clauses) -> Attempt<Option<(Range<usize>, String)>> {
        if self.texts.is_empty() {
            return Ok(None);
        }
        let from = clauses.from.ok_or("FROM cannot be found in the text")?;
        Ok(Some((from..from, format!("{} ", self.texts.concat()))))
    }
}

/// Counts, sums, averages, least and greatest of all rows.
pub(super) fn aggregated(select: &SelectStmt, text: &str, offset: usize) -> Attempt<Gathered> {
    let is_plain = select.having_clause.is_none()
        && select.distinct_clause.is_empty()
        && select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none();
    if !is_plain {
        return no("aggregates of several shards are looked at once more");
    }
    let (mut aggregates, mut hidden) = (Vec::new(), Hidden::default());
    for target in &select.target_list {
        let Some(NodeEnum::ResTarget(target)) = &target.node else { return no("an output is of an unknown kind") };
        let Some(NodeEnum::FuncCall(call)) = nodes::inner(&target.val) else {
            return no("an output is more than an aggregate");
        };
        let Some(aggregate) = aggregate_of(call, text, offset, &mut hidden)? else {
            return no("an aggregate cannot be put together from those of the shards");
        };
        aggregates.push(aggregate);
    }
    let clauses = Clauses::of(text)?;
    let splices = hidden.splice(&clauses)?.into_iter().collect();
    let (count, aggregates) = (hidden.texts.len(), hidden.behind(aggregates));
    gathered(select, text, splices, count, RowMerge { keys: Vec::new(), hidden: count, aggregates }, None, None)
}

/// What becomes of partial results of a call; `None`: they cannot be put together.
fn aggregate_of(call: &FuncCall, text: &str, offset: usize, hidden: &mut Hidden) -> Attempt<Option<Aggregate>> {
    let is_average = match functions::name(call) {
        Some("avg") => true,
        Some("count" | "sum" | "min" | "max" | "bool_and" | "bool_or" | "every") => false,
        _ => return Ok(None),
    };
    if call.agg_distinct || call.over.is_some() || !call.agg_order.is_empty() {
        return no("an aggregate needs all rows at once");
    }
    if is_average {
        let arguments = if call.agg_filter.is_none() { arguments(call, text, offset) } else { None };
        let Some(arguments) = arguments else { return no("what is averaged cannot be found in the text") };
        let sum = hidden.push(&format!("pg_catalog.sum{arguments}"), Aggregate::Sum);
        let count = hidden.push(&format!("pg_catalog.count{arguments}"), Aggregate::Count);
        return Ok(Some(Aggregate::Average { sum, count }));
    }
    Ok(match functions::name(call) {
        Some("count") => Some(Aggregate::Count),
        Some("sum") => Some(Aggregate::Sum),
        // False is less than true.
        Some("min" | "bool_and" | "every") => Some(Aggregate::Min),
        _ => Some(Aggregate::Max),
    })
}

/// The arguments of a call as they are written, with their parentheses; `None` where they hold a query.
fn arguments<'t>(call: &FuncCall, text: &'t str, offset: usize) -> Option<&'t str> {
    let at = nodes::offset(call.location)?.checked_sub(offset)?;
    let is_name = |token: &Token| matches!(token, Token::Word | Token::Quoted | Token::Sign(b'.'));
    let (token, place) = Tokens::new(text, at).find(|(token, _)| !is_name(token))?;
    let written = &text[scan::lists(text, place.start).into_iter().next()?];
    let has_query =
        |(token, place): (Token, Range<usize>)| token == Token::Word && written[place].eq_ignore_ascii_case("select");
    (token == Token::Sign(b'(') && !Tokens::new(written, 0).any(has_query)).then_some(written)
}

/// Counts, sums, averages, least and greatest of the rows of each group. Shards send all of their groups: which of them are counted
/// off is known when they are put together.
pub(super) fn grouped(select: &SelectStmt, text: &str, offset: usize) -> Attempt<Gathered> {
    let is_plain = select.having_clause.is_none()
        && select.distinct_clause.is_empty()
        && select.window_clause.is_empty()
        && !select.group_distinct
        && LimitOption::try_from(select.limit_option) != Ok(LimitOption::WithTies);
    if !is_plain {
        return no("groups of several shards are looked at once more");
    }
    let values = select.target_list.iter().map(|target| match &target.node {
        Some(NodeEnum::ResTarget(output)) if !is_star(target) => {
            Some((output.name.as_str(), nodes::inner(&output.val)?))
        }
        _ => None,
    });
    let values: Option<Vec<(&str, &NodeEnum)>> = values.collect();
    let Some(values) = values else { return no("an output is of an unknown kind") };
    let mut aggregates: Vec<Option<Aggregate>> = Vec::with_capacity(values.len());
    let mut hidden = Hidden::default();
    for (_, value) in &values {
        aggregates.push(match value {
            NodeEnum::FuncCall(call) => aggregate_of(call, text, offset, &mut hidden)?,
            _ => None,
        });
    }
    let is_column = |value: &NodeEnum, fields: &[&str]| nodes::column_name(value).is_some_and(|other| other == fields);
    for group in &select.group_clause {
        match &group.node {
            Some(NodeEnum::AConst(constant)) => {
                let Some(a_const::Val::Ival(number)) = &constant.val else {
                    return no("groups are those of a constant");
                };
                let at = usize::try_from(number.ival - 1).ok().and_then(|at| aggregates.get_mut(at));
                match at {
                    Some(output @ (None | Some(Aggregate::Group))) => *output = Some(Aggregate::Group),
                    _ => return no("groups are those of an output that there is not"),
                }
            }
            Some(node) => {
                let Some(fields) = nodes::column_name(node) else { return no("groups are those of an expression") };
                let mut is_shown = false;
                for ((_, value), aggregate) in values.iter().zip(&mut aggregates) {
                    if is_column(value, &fields) {
                        *aggregate = Some(Aggregate::Group);
                        is_shown = true;
                    }
                }
                if !is_shown {
                    // Where no column has the name, an output that has it is meant.
                    if values.iter().any(|(name, _)| fields == [*name]) {
                        return no("groups are those of an output's name");
                    }
                    let column: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
                    hidden.push(&column.join("."), Aggregate::Group);
                }
            }
            None => return no("groups are those of an unknown kind"),
        }
    }
    let Some(aggregates) = aggregates.into_iter().collect::<Option<Vec<Aggregate>>>() else {
        return no("an output cannot be put together from those of the shards");
    };
    let clauses = Clauses::of(text)?;
    let mut keys = Vec::new();
    for node in &select.sort_clause {
        let Some((sort, expression)) = sort_of(node) else { return no("the sort order is of an unknown kind") };
        let named = nodes::column_name(expression);
        let at = match output(select, expression)? {
            Some(at) => Some(at),
            None => named.and_then(|fields| values.iter().position(|(_, value)| is_column(value, &fields))),
        };
        let Some(at) = at else { return no("groups are sorted by something that is no output") };
        keys.push(SortKey { column: Place::FromStart(at), is_c_collated: false, ..sort });
    }
    let mut splices: Vec<(Range<usize>, String)> = hidden.splice(&clauses)?.into_iter().collect();
    let (take, skip) = (limit(&select.limit_count)?, limit(&select.limit_offset)?);
    for (count, place, all) in [(&take, &clauses.limit, "ALL"), (&skip, &clauses.offset, "0")] {
        match (count, place) {
            (None, _) => {}
            (Some(Count::Constant(_)), Some(place)) => splices.push((place.clone(), all.to_owned())),
            // It has to stand somewhere, or nobody knows its type.
            (Some(Count::Parameter(_)), _) => return no("groups are counted off by a parameter"),
            (Some(_), None) => return no("LIMIT or OFFSET cannot be found in the text"),
        }
    }
    let (count, aggregates) = (hidden.texts.len(), hidden.behind(aggregates));
    gathered(select, text, splices, count, RowMerge { keys, hidden: count, aggregates }, take, skip)
}

/// A sort key without its column, and the expression that it is of.
fn sort_of(node: &Node) -> Option<(SortKey, &NodeEnum)> {
    let Some(NodeEnum::SortBy(sort)) = &node.node else { return None };
    if !sort.use_op.is_empty() {
        return None;
    }
    let is_descending = SortByDir::try_from(sort.sortby_dir) == Ok(SortByDir::SortbyDesc);
    let nulls_first = match SortByNulls::try_from(sort.sortby_nulls) {
        Ok(SortByNulls::SortbyNullsFirst) => true,
        Ok(SortByNulls::SortbyNullsLast) => false,
        _ => is_descending,
    };
    let expression = nodes::inner(&sort.node)?;
    let is_c_collated = is_c_collated(expression);
    Some((SortKey { column: Place::FromStart(0), is_descending, nulls_first, is_c_collated }, expression))
}

/// Makes the text, and asks the parser whether it is what was meant.
fn gathered(
    select: &SelectStmt,
    text: &str,
    mut splices: Vec<(Range<usize>, String)>,
    added: usize,
    merge: RowMerge,
    take: Option<Count>,
    skip: Option<Count>,
) -> Attempt<Gathered> {
    splices.sort_by_key(|(place, _)| place.start);
    let mut made = String::with_capacity(text.len() + 64);
    let mut copied = 0;
    for (place, with) in &splices {
        made.push_str(&text[copied..place.start]);
        made.push_str(with);
        copied = place.end;
    }
    made.push_str(&text[copied..]);
    if !splices.is_empty() {
        let parsed = pg_query::parse(&made, 0).map_err(|error| format!("its text for the shards is none: {error}"))?;
        let node = parsed.protobuf.stmts.first().and_then(|raw| raw.stmt.as_ref()).and_then(|node| node.node.as_ref());
        let Some(NodeEnum::SelectStmt(again)) = node else { return no("its text for the shards is no query") };
        let is_alike = again.target_list.len() == select.target_list.len() + added
            && again.sort_clause.len() == select.sort_clause.len()
            && again.from_clause.len() == select.from_clause.len()
            && again.limit_count.is_some() == select.limit_count.is_some()
            && again.limit_offset.is_some() == select.limit_offset.is_some()
            && again.locking_clause.len() == select.locking_clause.len();
        if !is_alike {
            return no("its text for the shards would be another query");
        }
    }
    Ok(Gathered { text: made, splices, merge, take, skip })
}

/// Whether an expression says itself that its text is compared byte by byte.
fn is_c_collated(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::CollateClause(clause) => {
            matches!(clause.collname.last().and_then(nodes::string), Some("C" | "POSIX"))
        }
        _ => false,
    }
}

/// Which output a sort key is, by name or number; `None` where it is an expression of its own.
fn output(select: &SelectStmt, expression: &NodeEnum) -> Attempt<Option<usize>> {
    let first_star = select.target_list.iter().position(is_star).unwrap_or(select.target_list.len());
    if let NodeEnum::AConst(constant) = expression {
        let Some(a_const::Val::Ival(number)) = &constant.val else { return no("the sort order is a constant") };
        return match usize::try_from(number.ival - 1) {
            // What stands behind a star has a number that only the server knows.
            Ok(at) if at < first_star => Ok(Some(at)),
            _ => no("the sort order counts columns of a star"),
        };
    }
    let Some(fields) = nodes::column_name(expression) else { return Ok(None) };
    let [name] = fields[..] else { return Ok(None) };
    let mut found = None;
    for (at, target) in select.target_list.iter().enumerate() {
        if is_star(target) {
            continue;
        }
        let Some(NodeEnum::ResTarget(target)) = &target.node else { continue };
        let value = nodes::inner(&target.val);
        let is_named = if target.name.is_empty() {
            value.and_then(nodes::column_name).is_some_and(|fields| fields.last() == Some(&name))
        } else {
            target.name == name
        };
        if is_named {
            if found.is_some() {
                return no("the sort order names one of two outputs");
            }
            found = Some(at);
        }
        // Other outputs have names that the server makes up: a sort key could be meant by one.
        if target.name.is_empty() && may_be_called(value, name) {
            return no("the sort order names an output without a name of its own");
        }
    }
    match found {
        Some(at) if at < first_star => Ok(Some(at)),
        Some(_) => no("the sort order names an output behind a star"),
        None => Ok(None),
    }
}

/// Whether PostgreSQL may make up this name for an output that has none.
fn may_be_called(value: Option<&NodeEnum>, name: &str) -> bool {
    match value {
        Some(NodeEnum::FuncCall(call)) => call.funcname.last().and_then(nodes::string) == Some(name),
        // These are called `?column?`, which is no word.
        Some(
            NodeEnum::ColumnRef(_)
            | NodeEnum::AConst(_)
            | NodeEnum::ParamRef(_)
            | NodeEnum::BoolExpr(_)
            | NodeEnum::NullTest(_),
        ) => false,
        Some(NodeEnum::AExpr(_)) => name == "nullif",
        _ => true,
    }
}

fn limit(node: &Option<Box<Node>>) -> Attempt<Option<Count>> {
    Ok(Some(match nodes::inner(node) {
        None => return Ok(None),
        Some(NodeEnum::AConst(constant)) if constant.isnull => return no("LIMIT ALL is written"),
        Some(NodeEnum::AConst(constant)) => match &constant.val {
            Some(a_const::Val::Ival(number)) => Count::Constant(i64::from(number.ival)),
            _ => return no("rows are counted off by something that is no number"),
        },
        Some(NodeEnum::ParamRef(parameter)) => match u16::try_from(parameter.number - 1) {
            Ok(number) => Count::Parameter(number),
            Err(_) => return no("rows are counted off by an unknown parameter"),
        },
        Some(_) => return no("rows are counted off by an expression"),
    }))
}

/// Where the clauses of a query stand that are spliced.
#[derive(Debug, Default)]
struct Clauses {
    /// The word FROM.
    from: Option<usize>,
    /// The expressions of ORDER BY.
    sort: Vec<Range<usize>>,
    /// The expression of LIMIT.
    limit: Option<Range<usize>>,
    /// The expression of OFFSET.
    offset: Option<Range<usize>>,
}

impl Clauses {
    fn of(text: &str) -> Attempt<Self> {
        let mut clauses = Self::default();
        let tokens: Vec<(Token, Range<usize>)> = Tokens::new(text, 0).collect();
        let mut depth = 0_i32;
        // Bytes and name of the words outside of parentheses and brackets.
        let mut words: Vec<(usize, String)> = Vec::new();
        let mut commas: Vec<usize> = Vec::new();
        for (at, (token, place)) in tokens.iter().enumerate() {
            match token {
                Token::Sign(b'(' | b'[') => depth += 1,
                Token::Sign(b')' | b']') => depth -= 1,
                Token::Sign(b',') if depth == 0 => commas.push(at),
                Token::Word if depth == 0 => words.push((at, text[place.clone()].to_ascii_lowercase())),
                _ => {}
            }
        }
        let start = |at: usize| tokens[at].1.start;
        let is_last = |word: &str| matches!(word, "order" | "limit" | "offset" | "fetch" | "for");
        let end_of = |at: usize| {
            let next = words.iter().find(|(other, word)| *other > at && is_last(word));
            next.map_or(tokens.len(), |(other, _)| *other)
        };
        let expression = |first: usize, end: usize| (first < end).then(|| tokens[first].1.start..tokens[end - 1].1.end);
        for (number, (at, word)) in words.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &words[before]);
            match word.as_str() {
                "from" if clauses.from.is_none() => {
                    let is_distinct = before.is_some_and(|(other, word)| *other + 1 == *at && word == "distinct");
                    if !is_distinct {
                        clauses.from = Some(start(*at));
                    }
                }
                "order" if words.get(number + 1).is_some_and(|(_, word)| word == "by") => {
                    let end = end_of(*at);
                    let mut first = at + 2;
                    let inside: Vec<usize> =
                        commas.iter().copied().filter(|comma| *comma > *at && *comma < end).collect();
                    for stop in inside.into_iter().chain([end]) {
                        let mut last = stop;
                        while last > first && is_direction(&tokens[last - 1], text) {
                            last -= 1;
                        }
                        clauses.sort.push(expression(first, last).ok_or("ORDER BY cannot be read")?);
                        first = stop + 1;
                    }
                }
                "limit" => clauses.limit = expression(at + 1, end_of(*at)),
                "offset" => {
                    let mut end = end_of(*at);
                    while end > at + 1 && is_word(&tokens[end - 1], text, &["row", "rows"]) {
                        end -= 1;
                    }
                    clauses.offset = expression(at + 1, end);
                }
                "fetch" => return no("rows are counted off by FETCH"),
                "union" | "intersect" | "except" => return no("several queries are put together"),
                _ => {}
            }
        }
        Ok(clauses)
    }
}

fn is_word((token, place): &(Token, Range<usize>), text: &str, words: &[&str]) -> bool {
    *token == Token::Word && words.iter().any(|word| text[place.clone()].eq_ignore_ascii_case(word))
}

fn is_direction(token: &(Token, Range<usize>), text: &str) -> bool {
    is_word(token, text, &["asc", "desc", "nulls", "first", "last"])
}

#[cfg(test)]
mod tests {
    use super::Clauses;
    use crate::rewrite::scan;

    #[test]
    fn clauses_are_found_outside_of_parentheses() {
        let text = "SELECT a IS DISTINCT FROM b, (SELECT 1 FROM x ORDER BY 1 LIMIT 1), c[1, 2] FROM t \
                    ORDER BY lower(b) DESC NULLS LAST, a, f(x, y) ASC LIMIT $1 OFFSET 5 ROWS FOR UPDATE";
        let clauses = Clauses::of(text).unwrap();
        assert!(text[clauses.from.unwrap()..].starts_with("FROM t"));
        let sort: Vec<&str> = clauses.sort.iter().map(|place| &text[place.clone()]).collect();
        assert_eq!(sort, ["lower(b)", "a", "f(x, y)"]);
        assert_eq!((&text[clauses.limit.unwrap()], &text[clauses.offset.unwrap()]), ("$1", "5"));
        assert_eq!(scan::word(text, 0, "limit").map(|place| &text[place.end..place.end + 3]), Some(" $1"));
    }
}
