//! A SELECT whose rows come from several shards and have to be put together: what each shard is asked instead, and what is
//! then done with the rows.
//!
//! ```text
//!   SELECT a FROM t ORDER BY lower(b) LIMIT 10 OFFSET 5
//!   SELECT a, lower(b) AS "_ashlar_1" FROM t ORDER BY lower(b) LIMIT 15 OFFSET 0     and then: sort, leave out, cut
//! ```

use std::ops::Range;

use pg_query::NodeEnum;
use pg_query::protobuf::{LimitOption, Node, SelectStmt, SortByDir, SortByNulls, a_const};

use super::nodes;
use super::query::is_star;
use crate::merge::{Aggregate, Place, RowMerge, SortKey};
use crate::rewrite::scan::{Token, Tokens};

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

pub(super) type Attempt<T> = Result<T, String>;

pub(super) fn no<T>(reason: &str) -> Attempt<T> {
    Err(reason.to_owned())
}

/// Sorting and counting off.
pub(super) fn sorted(select: &SelectStmt, text: &str) -> Attempt<Gathered> {
    arranged(select, text, false)
}

/// `is_distinct`: of rows that are alike one is kept, so that shards sort them by all of their columns.
fn arranged(select: &SelectStmt, text: &str, is_distinct: bool) -> Attempt<Gathered> {
    let has_ties = LimitOption::try_from(select.limit_option) == Ok(LimitOption::WithTies);
    let clauses = Clauses::of(text)?;
    if has_ties != clauses.has_ties {
        return no("it cannot be seen in the text how rows are counted off");
    }
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
    let (take, skip) = (limit(&select.limit_count)?, limit(&select.limit_offset)?);
    splices.extend(counted_off(&take, &skip, &clauses, true)?);
    let columns: Vec<Vec<usize>> = (0..select.target_list.len()).map(|at| vec![at]).collect();
    let stream = if is_distinct { Stream::of(&columns, &keys, &clauses) } else { Stream::default() };
    splices.extend(stream.splice());
    let added = Added { outputs: count, groups: 0, sorts: stream.added.len() };
    let merge = RowMerge { keys, streamed: stream.keys, hidden: count, has_ties, ..RowMerge::default() };
    gathered(select, text, splices, added, merge, (take, skip))
}

/// What groups come sorted by that tells all of them apart, so that they are put together one after the other.
#[derive(Default)]
pub(super) struct Stream {
    /// Without any they come in no such order.
    pub(super) keys: Vec<SortKey>,
    /// The columns among them that ORDER BY does not have, and that shards sort by besides.
    pub(super) added: Vec<usize>,
    /// Where ORDER BY ends.
    end: usize,
}

impl Stream {
    /// For groups that are told apart by these columns, one of each list, and sorted by these keys.
    pub(super) fn of(groups: &[Vec<usize>], keys: &[SortKey], clauses: &Clauses) -> Self {
        let Some(end) = clauses.sort_end.filter(|_| !groups.is_empty()) else { return Self::default() };
        let is_of =
            |key: &SortKey, columns: &[usize]| matches!(key.column, Place::FromStart(at) if columns.contains(&at));
        let mut left: Vec<&Vec<usize>> = groups.iter().collect();
        let mut streamed = Vec::new();
        for key in keys {
            if left.is_empty() {
                break;
            }
            // What several shards of a server are asked together is sorted by columns, which cannot have a collation said of them.
            if key.is_c_collated || !groups.iter().any(|columns| is_of(key, columns)) {
                return Self::default();
            }
            left.retain(|columns| !is_of(key, columns));
            streamed.push(key.clone());
        }
        let added: Vec<usize> = left.into_iter().filter_map(|columns| columns.first().copied()).collect();
        let of = |column: &usize| SortKey {
            column: Place::FromStart(*column),
            is_descending: false,
            nulls_first: false,
            is_c_collated: false,
        };
        streamed.extend(added.iter().map(of));
        Self { keys: streamed, added, end }
    }

    /// What is put behind ORDER BY.
    pub(super) fn splice(&self) -> Option<(Range<usize>, String)> {
        let numbers: Vec<String> = self.added.iter().map(|column| format!(", {}", column + 1)).collect();
        (!numbers.is_empty()).then(|| (self.end..self.end, numbers.concat()))
    }
}

/// The same of rows that are alike put together too: each of them once. Those that are the first of all are so of each shard that has them.
pub(super) fn distinct(select: &SelectStmt, text: &str) -> Attempt<Gathered> {
    if select.target_list.iter().any(is_star) {
        return no("its rows are told apart by the columns of a star");
    }
    let mut gathered = arranged(select, text, true)?;
    if gathered.merge.hidden > 0 {
        // Of rows that are alike it may be another one for each; a shard with one more column would not say that.
        return no("rows that are alike are sorted by what they do not show");
    }
    if gathered.merge.has_ties {
        return no("rows that are alike are counted off together");
    }
    gathered.merge.aggregates = vec![Aggregate::Group; select.target_list.len()];
    Ok(gathered)
}

fn written(count: &Count) -> String {
    match count {
        Count::Constant(number) => number.to_string(),
        Count::Parameter(number) => format!("CAST(${} AS bigint)", number + 1),
    }
}

/// LIMIT and OFFSET for shards of which each sends the rows that may be the first of all, or all that it has where these are not cut.
pub(super) fn counted_off(
    take: &Option<Count>,
    skip: &Option<Count>,
    clauses: &Clauses,
    is_cut: bool,
) -> Attempt<Vec<(Range<usize>, String)>> {
    let mut splices = Vec::new();
    match (take, &clauses.limit) {
        (None, _) => {}
        (Some(take), Some(place)) => {
            let limit = match (take, skip) {
                (Count::Constant(_), _) if !is_cut => "ALL".to_owned(),
                // A parameter has to stand somewhere, or nobody knows its type; NULL is ALL.
                (Count::Parameter(_), _) if !is_cut => format!("nullif({0}, {0})", written(take)),
                (Count::Constant(take), Some(Count::Constant(skip))) => take.saturating_add(*skip).to_string(),
                (take, None) => written(take),
                (take, Some(skip)) => format!("{} + coalesce({}, 0)", written(take), written(skip)),
            };
            let is_all = limit == "ALL";
            let limit = match (clauses.is_fetch, is_all) {
                (false, _) => limit,
                (true, true) => "(NULL)".to_owned(),
                // Behind FETCH stands no expression without parentheses, and perhaps none at all.
                (true, false) => format!("({limit}){}", if place.is_empty() { " " } else { "" }),
            };
            splices.push((place.clone(), limit));
        }
        (Some(_), None) => return no("LIMIT cannot be found in the text"),
    }
    match (skip, &clauses.offset) {
        (None, _) => {}
        (Some(skip), Some(place)) => {
            // The same here, unless it stands in LIMIT.
            let is_told = matches!(skip, Count::Constant(_)) || (is_cut && take.is_some());
            let offset = if is_told { "0".to_owned() } else { format!("{} * 0", written(skip)) };
            splices.push((place.clone(), offset));
        }
        (Some(_), None) => return no("OFFSET cannot be found in the text"),
    }
    Ok(splices)
}

/// A sort key without its column, and the expression that it is of.
pub(super) fn sort_of(node: &Node) -> Option<(SortKey, &NodeEnum)> {
    let Some(NodeEnum::SortBy(sort)) = &node.node else { return None };
    // Of the types whose order is known here, these are its operators.
    let is_descending = match &sort.use_op[..] {
        [] => SortByDir::try_from(sort.sortby_dir) == Ok(SortByDir::SortbyDesc),
        [operator] => match nodes::string(operator)? {
            "<" => false,
            ">" => true,
            _ => return None,
        },
        _ => return None,
    };
    let nulls_first = match SortByNulls::try_from(sort.sortby_nulls) {
        Ok(SortByNulls::SortbyNullsFirst) => true,
        Ok(SortByNulls::SortbyNullsLast) => false,
        _ => is_descending,
    };
    let expression = nodes::inner(&sort.node)?;
    if has_other_collation(expression) {
        return None;
    }
    let is_c_collated = is_c_collated(expression);
    Some((SortKey { column: Place::FromStart(0), is_descending, nulls_first, is_c_collated }, expression))
}

/// What shards are asked for besides.
#[derive(Clone, Copy)]
pub(super) struct Added {
    /// Further outputs.
    pub(super) outputs: usize,
    /// Further expressions of GROUP BY.
    pub(super) groups: usize,
    /// Further expressions of ORDER BY.
    pub(super) sorts: usize,
}

/// Makes the text, and asks the parser whether it is what was meant.
pub(super) fn gathered(
    select: &SelectStmt,
    text: &str,
    mut splices: Vec<(Range<usize>, String)>,
    added: Added,
    merge: RowMerge,
    (take, skip): (Option<Count>, Option<Count>),
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
        let is_alike = again.target_list.len() == select.target_list.len() + added.outputs
            && again.group_clause.len() == select.group_clause.len() + added.groups
            && again.where_clause.is_some() == select.where_clause.is_some()
            && again.having_clause.is_some() == select.having_clause.is_some()
            && again.sort_clause.len() == select.sort_clause.len() + added.sorts
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
pub(super) fn is_c_collated(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::CollateClause(clause) => {
            matches!(clause.collname.last().and_then(nodes::string), Some("C" | "POSIX"))
        }
        _ => false,
    }
}

/// Whether an expression says itself that its text is compared otherwise than the servers do, or byte by byte.
pub(super) fn has_other_collation(expression: &NodeEnum) -> bool {
    let mut left = vec![expression];
    while let Some(node) = left.pop() {
        if matches!(node, NodeEnum::CollateClause(_)) && !is_c_collated(node) {
            return true;
        }
        left.extend(nodes::children(node).into_iter().flatten().filter_map(|child| child.node.as_ref()));
    }
    false
}

/// Which output a sort key is, by name or number; `None` where it is an expression of its own.
pub(super) fn output(select: &SelectStmt, expression: &NodeEnum) -> Attempt<Option<usize>> {
    let found = named_output(select, expression)?;
    let target = found.and_then(|at| select.target_list.get(at)?.node.as_ref());
    match target {
        Some(NodeEnum::ResTarget(target)) if nodes::inner(&target.val).is_some_and(has_other_collation) => {
            no("the sort order is that of another collation")
        }
        _ => Ok(found),
    }
}

fn named_output(select: &SelectStmt, expression: &NodeEnum) -> Attempt<Option<usize>> {
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
    if first_star < select.target_list.len() && select.from_clause.iter().any(merges_columns) {
        return no("the sort order may name a column of a star that is another one in FROM");
    }
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

/// Whether a join has columns that are one of both sides (USING, NATURAL).
fn merges_columns(node: &Node) -> bool {
    let Some(NodeEnum::JoinExpr(join)) = &node.node else { return false };
    let sides = [&join.larg, &join.rarg];
    join.is_natural || !join.using_clause.is_empty() || sides.into_iter().flatten().any(|side| merges_columns(side))
}

/// Whether PostgreSQL may make up this name for an output that has none.
pub(super) fn may_be_called(value: Option<&NodeEnum>, name: &str) -> bool {
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

pub(super) fn limit(node: &Option<Box<Node>>) -> Attempt<Option<Count>> {
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
pub(super) struct Clauses {
    /// The word FROM.
    pub(super) from: Option<usize>,
    /// The expressions of ORDER BY.
    pub(super) sort: Vec<Range<usize>>,
    /// Where ORDER BY ends.
    pub(super) sort_end: Option<usize>,
    /// The expression of LIMIT, or of FETCH; of one that leaves its number out, the place before the word ROW.
    pub(super) limit: Option<Range<usize>>,
    /// Whether it is FETCH, and whether that takes rows with the last one that are sorted like it.
    pub(super) is_fetch: bool,
    pub(super) has_ties: bool,
    /// The expression of OFFSET.
    pub(super) offset: Option<Range<usize>>,
}

impl Clauses {
    pub(super) fn of(text: &str) -> Attempt<Self> {
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
                    clauses.sort_end = tokens.get(end - 1).map(|(_, place)| place.end);
                    let mut first = at + 2;
                    let inside: Vec<usize> =
                        commas.iter().copied().filter(|comma| *comma > *at && *comma < end).collect();
                    for stop in inside.into_iter().chain([end]) {
                        let mut last = stop;
                        while last > first && is_direction(&tokens[last - 1], text) {
                            last -= 1;
                        }
                        let using = words.iter().find(|(at, word)| *at > first && *at < last && word == "using");
                        last = using.map_or(last, |(at, _)| *at);
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
                "fetch" => {
                    let mut end = end_of(*at);
                    clauses.has_ties = end > *at && is_word(&tokens[end - 1], text, &["ties"]);
                    let behind = ["row", "rows", "only", "with", "ties"];
                    while end > at + 2 && is_word(&tokens[end - 1], text, &behind) {
                        end -= 1;
                    }
                    let before_row = || tokens.get(at + 2).map(|(_, place)| place.start..place.start);
                    clauses.limit = expression(at + 2, end).or_else(before_row);
                    clauses.is_fetch = true;
                }
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
                    ORDER BY lower(b) DESC NULLS LAST, a USING < NULLS FIRST, f(x, y) ASC LIMIT $1 OFFSET 5 ROWS \
                    FOR UPDATE";
        let clauses = Clauses::of(text).unwrap();
        assert!(text[clauses.from.unwrap()..].starts_with("FROM t"));
        let sort: Vec<&str> = clauses.sort.iter().map(|place| &text[place.clone()]).collect();
        assert_eq!(sort, ["lower(b)", "a", "f(x, y)"]);
        assert!(text[..clauses.sort_end.unwrap()].ends_with("f(x, y) ASC"));
        assert_eq!((&text[clauses.limit.unwrap()], &text[clauses.offset.unwrap()]), ("$1", "5"));
        for (text, limit) in [
            ("SELECT a FROM t OFFSET 5 ROWS FETCH NEXT $1 ROWS ONLY FOR UPDATE", "$1"),
            ("SELECT a FROM t FETCH FIRST (1 + 1) ROW ONLY", "(1 + 1)"),
            ("SELECT a FROM t FETCH FIRST ROW ONLY", ""),
        ] {
            let clauses = Clauses::of(text).unwrap();
            let place = clauses.limit.unwrap();
            assert!(clauses.is_fetch && text[place.end..].trim_start().starts_with("ROW"), "{text}");
            assert_eq!(&text[place], limit);
        }
        let with_ties = "SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS WITH TIES";
        let clauses = Clauses::of(with_ties).unwrap();
        assert_eq!((&with_ties[clauses.limit.unwrap()], clauses.has_ties), ("2", true));
        assert_eq!(scan::word(text, 0, "limit").map(|place| &text[place.end..place.end + 3]), Some(" $1"));
    }
}
