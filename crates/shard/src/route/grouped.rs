//! Counts, sums, averages, least and greatest of the rows of groups, or of all rows: what each shard is asked for, and what becomes of it.
//!
//! Shards send their groups with what they have of each. Which of them are kept and counted off is known when they are put together, so
//! that they send all of them, unless their order says by itself which may be the first.
//!
//! ```text
//!   SELECT a, count(DISTINCT b) FROM t GROUP BY a HAVING sum(c) > 9
//!   SELECT a, count(DISTINCT b) , "b" AS "_ashlar_1", sum(c) AS "_ashlar_2" FROM t GROUP BY a, "b" HAVING true
//! ```

use std::ops::Range;

use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, LimitOption, SelectStmt, a_const};

use super::query::is_star;
use super::several::{self, Added, Attempt, Clauses, Gathered, Stream, no};
use super::{functions, nodes};
use crate::merge::{Aggregate, Computed, Deviation, Having, Place, RowMerge, SortKey};
use crate::rewrite::quoted;
use crate::rewrite::scan::{self, Token, Tokens};

mod computed;
mod condition;
mod sets;

/// Aggregates whose partial results are put together.
const AGGREGATES: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// What is known of a query whose groups are put together.
#[derive(Debug)]
pub(super) struct About<'a> {
    /// Its text.
    pub(super) text: &'a str,
    /// Where that begins in the string that the tree's places count in.
    pub(super) offset: usize,
    /// Names of the columns that it reads; `None` where they are not all known.
    pub(super) inputs: Option<Vec<String>>,
    /// Whether no two shards have, in one group, the same value of what an aggregate has DISTINCT of.
    pub(super) is_apart: bool,
}

/// The groups of several shards; without GROUP BY, the one of all rows.
pub(super) fn grouped(select: &SelectStmt, about: &About<'_>) -> Attempt<Gathered> {
    let is_plain = select.distinct_clause.is_empty()
        && select.window_clause.is_empty()
        && !select.group_distinct
        && LimitOption::try_from(select.limit_option) != Ok(LimitOption::WithTies);
    if !is_plain {
        return no("groups of several shards are looked at once more");
    }
    let clauses = Clauses::of(about.text)?;
    if clauses.has_ties {
        return no("groups that are alike are counted off together");
    }
    let Some(from) = clauses.from else { return no("FROM cannot be found in the text") };
    let places = Places::of(about.text, from).filter(|places| places.is_of(select, &clauses));
    let Some(places) = places else { return no("its clauses cannot be found in the text") };
    let mut asked = Asked::new(select, about, &places)?;
    let groups = asked.groups(select, &places)?;
    asked.others()?;
    let having = match nodes::inner(&select.having_clause) {
        Some(condition) => Some(Having(asked.condition(condition)?)),
        None => None,
    };
    let keys = asked.keys(select, &clauses)?;
    asked.check(select)?;
    let (take, skip) = (several::limit(&select.limit_count)?, several::limit(&select.limit_offset)?);
    let is_cut = having.is_none() && asked.values.is_empty() && is_sorted_by(&groups, &keys);
    let mut splices = several::counted_off(&take, &skip, &clauses, is_cut)?;
    let stream = if asked.is_streamable() { Stream::of(&groups, &keys, &clauses) } else { Stream::default() };
    splices.extend(stream.splice());
    let added = Added { outputs: asked.texts.len(), groups: asked.values.len(), sorts: stream.added.len() };
    splices.extend(asked.splices(select, from, places));
    let mut aggregates: Vec<Aggregate> = asked.becomes.into_iter().flatten().collect();
    aggregates.append(&mut asked.further);
    let merge = RowMerge {
        keys,
        streamed: stream.keys,
        hidden: added.outputs,
        aggregates,
        having,
        computed: asked.computed,
        has_ties: false,
        has_open_stars: false,
    };
    several::gathered(select, about.text, splices, added, merge, (take, skip))
}

/// Whether the first of these keys tell all groups apart: then the first groups of all are among the first ones of each shard that has a part
/// of them.
fn is_sorted_by(groups: &[Vec<usize>], keys: &[SortKey]) -> bool {
    let mut left: Vec<&Vec<usize>> = groups.iter().collect();
    for key in keys {
        let is_key = |columns: &Vec<usize>| matches!(key.column, Place::FromStart(at) if columns.contains(&at));
        if !groups.iter().any(is_key) {
            break;
        }
        left.retain(|columns| !is_key(columns));
    }
    left.is_empty() && !groups.is_empty()
}

/// An output of the query.
struct Shown<'a> {
    /// The name that is written; empty where none is.
    name: &'a str,
    value: &'a NodeEnum,
    /// Where its expression stands, without the name.
    place: Range<usize>,
    /// Those of its expression.
    tokens: Vec<String>,
}

/// What shards are asked for, while it is put together. Columns are counted from 0, those that are not shown behind the others.
struct Asked<'a> {
    about: &'a About<'a>,
    shown: Vec<Shown<'a>>,
    /// What becomes of the outputs; none where that is not known yet.
    becomes: Vec<Option<Aggregate>>,
    /// The columns that are not shown, as they are put before FROM, and what becomes of them.
    texts: Vec<String>,
    further: Vec<Aggregate>,
    /// Names by which groups are told apart, and those of their columns.
    names: Vec<(Vec<&'a str>, usize)>,
    /// The same for expressions that are no outputs, and columns of aggregates that are none.
    expressions: Vec<(Vec<String>, usize)>,
    /// Names of what an aggregate has DISTINCT of, by which shards group besides.
    values: Vec<(String, usize)>,
    /// Whether constants, or parameters, are among the columns.
    has_constants: bool,
    /// Whether groups are made in several ways.
    has_sets: bool,
    /// What is computed of complete groups, and what keeps the shards from computing it where it stands.
    computed: Vec<Computed>,
    asides: Vec<(Range<usize>, String)>,
}

impl<'a> Asked<'a> {
    fn new(select: &'a SelectStmt, about: &'a About<'a>, places: &Places) -> Attempt<Self> {
        let mut shown = Vec::with_capacity(select.target_list.len());
        for (target, place) in select.target_list.iter().zip(&places.outputs) {
            let output = match &target.node {
                Some(NodeEnum::ResTarget(output)) if !is_star(target) => Some(output),
                _ => None,
            };
            let output = output.and_then(|output| Some((output.name.as_str(), nodes::inner(&output.val)?)));
            let Some((name, value)) = output else { return no("an output is of an unknown kind") };
            let Some(place) = without_name(about.text, place, name) else {
                return no("an output cannot be found in the text");
            };
            let tokens = tokens_of(&about.text[place.clone()]);
            shown.push(Shown { name, value, place, tokens });
        }
        let mut asked = Self {
            about,
            becomes: Vec::with_capacity(shown.len()),
            shown,
            texts: Vec::new(),
            further: Vec::new(),
            names: Vec::new(),
            expressions: Vec::new(),
            values: Vec::new(),
            has_constants: false,
            has_sets: false,
            computed: Vec::new(),
            asides: Vec::new(),
        };
        for at in 0..asked.shown.len() {
            let value = asked.shown[at].value;
            let aggregate = match value {
                NodeEnum::FuncCall(call) => asked.aggregate(call)?,
                _ => None,
            };
            asked.becomes.push(aggregate);
        }
        Ok(asked)
    }

    /// Adds a column that is not shown: which it is.
    fn push(&mut self, text: &str, aggregate: Aggregate) -> usize {
        self.texts.push(format!(", {text} AS \"_ashlar_{}\"", self.texts.len() + 1));
        self.further.push(aggregate);
        self.shown.len() + self.texts.len() - 1
    }

    /// What becomes of partial results of a call; `None`: they cannot be put together, or it is no aggregate.
    fn aggregate(&mut self, call: &FuncCall) -> Attempt<Option<Aggregate>> {
        let Some(name) = functions::name(call).filter(|name| AGGREGATES.contains(name)) else { return Ok(None) };
        if call.over.is_some() || !call.agg_order.is_empty() {
            return no("an aggregate needs all rows at once");
        }
        let is_compared = matches!(name, "min" | "max");
        if is_compared && call.args.iter().filter_map(|arg| arg.node.as_ref()).any(several::has_other_collation) {
            return no("the least and the greatest are those of another collation");
        }
        let is_added = matches!(name, "avg" | "count" | "sum");
        let (sum, count) = match call.agg_distinct && is_added && !self.about.is_apart {
            true => self.value_of(call).map(|column| (Aggregate::SumOf(column), Aggregate::CountOf(column)))?,
            false => (Aggregate::Sum, Aggregate::Count),
        };
        Ok(Some(match name {
            "stddev" | "stddev_samp" => self.deviation(call, true, true)?,
            "stddev_pop" => self.deviation(call, false, true)?,
            "variance" | "var_samp" => self.deviation(call, true, false)?,
            "var_pop" => self.deviation(call, false, false)?,
            "avg" => {
                if !has_same_values(call) {
                    return no("an average needs its values at once");
                }
                let Some((_, arguments)) = place_of(call, self.about) else {
                    return no("what is averaged cannot be found in the text");
                };
                let text = self.about.text;
                let arguments = &text[arguments];
                let sum = self.push(&format!("pg_catalog.sum{arguments}"), sum);
                let count = self.push(&format!("pg_catalog.count{arguments}"), count);
                Aggregate::Average { sum, count }
            }
            "count" => count,
            "sum" => sum,
            "bit_and" => Aggregate::BitAnd,
            "bit_or" => Aggregate::BitOr,
            // A value that several shards have would be counted by each of them.
            "bit_xor" if call.agg_distinct => return no("different values are needed at once"),
            "bit_xor" => Aggregate::BitXor,
            // False is less than true.
            "min" | "bool_and" | "every" => Aggregate::Min,
            _ => Aggregate::Max,
        }))
    }

    /// A variance or a standard deviation: of exact numbers it comes from their number, their sum and that of their squares.
    fn deviation(&mut self, call: &FuncCall, is_sample: bool, is_root: bool) -> Attempt<Aggregate> {
        if call.args.len() != 1 || call.agg_distinct || !has_same_values(call) {
            return no("a deviation needs its values at once");
        }
        let text = self.about.text;
        let place = place_of(call, self.about);
        let found = place.and_then(|(_, all)| Some((scan::lists(text, all.start).into_iter().next()?, all)));
        let Some((value, all)) = found else { return no("the values of a deviation cannot be found in the text") };
        let (value, filter) = (&text[value.clone()], &text[value.end..all.end]);
        let number = format!("{value}::pg_catalog.numeric");
        let count = self.push(&format!("pg_catalog.count{value}{filter}"), Aggregate::Count);
        let sum = self.push(&format!("pg_catalog.sum({number}){filter}"), Aggregate::Sum);
        let squares = self.push(&format!("pg_catalog.sum({number} * {number}){filter}"), Aggregate::Sum);
        Ok(Aggregate::Deviation(Deviation { count, sum, squares, is_sample, is_root }))
    }

    /// The column of what an aggregate has DISTINCT of: shards group by it besides, and say what each of its values adds.
    fn value_of(&mut self, call: &FuncCall) -> Attempt<usize> {
        let argument = match &call.args[..] {
            [argument] => argument.node.as_ref(),
            _ => None,
        };
        let Some(fields) = argument.and_then(nodes::column_name) else {
            return no("different values are those of an expression");
        };
        let name = name_of(&fields);
        if let Some((_, column)) = self.values.iter().find(|(known, _)| *known == name) {
            return Ok(*column);
        }
        let column = self.push(&name, Aggregate::Value);
        self.values.push((name, column));
        Ok(column)
    }

    /// By expression of GROUP BY: its columns; none where that makes groups in several ways.
    fn groups(&mut self, select: &'a SelectStmt, places: &Places) -> Attempt<Vec<Vec<usize>>> {
        if sets::has_sets(select) {
            self.sets(select)?;
            return Ok(Vec::new());
        }
        let mut groups = Vec::with_capacity(select.group_clause.len());
        for (node, place) in select.group_clause.iter().zip(&places.groups) {
            let Some(node) = &node.node else { return no("groups are those of an unknown kind") };
            let columns = self.group(node, place)?;
            self.tell_apart(&columns)?;
            groups.push(columns);
        }
        Ok(groups)
    }

    /// Has columns tell groups apart.
    fn tell_apart(&mut self, columns: &[usize]) -> Attempt<()> {
        for column in columns {
            match self.becomes.get_mut(*column) {
                Some(output @ (None | Some(Aggregate::Group))) => *output = Some(Aggregate::Group),
                Some(Some(_)) => return no("groups are those of an aggregate"),
                // It is not shown.
                None => {}
            }
        }
        Ok(())
    }

    fn group(&mut self, node: &'a NodeEnum, place: &Range<usize>) -> Attempt<Vec<usize>> {
        if let NodeEnum::AConst(constant) = node {
            let at = match &constant.val {
                Some(a_const::Val::Ival(number)) => usize::try_from(number.ival - 1).ok(),
                _ => None,
            };
            let Some((at, shown)) = at.and_then(|at| Some((at, self.shown.get(at)?))) else {
                return no("groups are those of a constant");
            };
            if let Some(fields) = nodes::column_name(shown.value) {
                self.names.push((fields, at));
            }
            return Ok(vec![at]);
        }
        let text = self.about.text;
        match nodes::column_name(node) {
            Some(fields) => self.group_of_name(fields),
            None => self.group_of_expression(&text[place.clone()]),
        }
    }

    fn group_of_name(&mut self, fields: Vec<&'a str>) -> Attempt<Vec<usize>> {
        let is_it = |shown: &Shown<'_>| nodes::column_name(shown.value).is_some_and(|other| other == fields);
        let mut columns = self.positions(is_it);
        if let (true, &[name]) = (columns.is_empty(), &fields[..]) {
            // Where no column has the name, an output that has it is meant.
            let named = self.positions(|shown| shown.name == name);
            let is_input = self.about.inputs.as_ref().map(|inputs| inputs.iter().any(|input| input == name));
            let may_be_called =
                |shown: &Shown<'_>| shown.name.is_empty() && several::may_be_called(Some(shown.value), name);
            match (is_input, named.len()) {
                (Some(true), _) => {}
                (Some(false), 1) => return Ok(named),
                (None, 0) if self.positions(may_be_called).is_empty() => {}
                _ => return no("groups are those of an output's name"),
            }
        }
        if columns.is_empty() {
            columns.push(self.push(&name_of(&fields), Aggregate::Group));
        }
        self.names.push((fields, columns[0]));
        Ok(columns)
    }

    fn group_of_expression(&mut self, text: &str) -> Attempt<Vec<usize>> {
        let tokens = tokens_of(text);
        let columns = self.positions(|shown| shown.tokens == tokens);
        if !columns.is_empty() {
            return Ok(columns);
        }
        if has_query(text) {
            return no("groups are those of a query");
        }
        let column = self.push(text, Aggregate::Group);
        self.expressions.push((tokens, column));
        Ok(vec![column])
    }

    /// The outputs of which something is true.
    fn positions(&self, is_it: impl Fn(&Shown<'a>) -> bool) -> Vec<usize> {
        self.shown.iter().enumerate().filter(|(_, shown)| is_it(shown)).map(|(at, _)| at).collect()
    }

    /// What becomes of outputs that are neither aggregates nor tell groups apart.
    fn others(&mut self) -> Attempt<()> {
        for at in 0..self.shown.len() {
            if self.becomes[at].is_some() {
                continue;
            }
            match self.is_alike(self.shown[at].value) {
                true => self.becomes[at] = Some(Aggregate::Alike),
                false => self.compute_output(at)?,
            }
        }
        Ok(())
    }

    /// Whether an expression has one value in all rows of a group: it is made of what tells groups apart, and of constants.
    fn is_alike(&self, expression: &NodeEnum) -> bool {
        is_made_of(expression, |column| self.named(column).is_some())
    }

    /// The column that a name by which groups are told apart has.
    fn named(&self, node: &NodeEnum) -> Option<usize> {
        let fields = nodes::column_name(node)?;
        self.names.iter().find(|(known, _)| *known == fields).map(|(_, column)| *column)
    }

    /// The column of an aggregate outside of the outputs.
    fn call(&mut self, call: &FuncCall) -> Attempt<usize> {
        let Some((start, arguments)) = place_of(call, self.about) else {
            return no("an aggregate cannot be found in the text");
        };
        let text = self.about.text;
        let text = &text[start..arguments.end];
        let tokens = tokens_of(text);
        // What is known of an output by now is that it is this aggregate.
        let shown = self.positions(|shown| shown.tokens == tokens).into_iter().find(|at| self.becomes[*at].is_some());
        if let Some(column) = shown.or_else(|| self.further(&tokens)) {
            return Ok(column);
        }
        let Some(aggregate) = self.aggregate(call)? else {
            return no("an aggregate cannot be put together from those of the shards");
        };
        let column = self.push(text, aggregate);
        self.expressions.push((tokens, column));
        Ok(column)
    }

    /// The column of an expression that is no output.
    fn further(&self, tokens: &[String]) -> Option<usize> {
        self.expressions.iter().find(|(known, _)| *known == tokens).map(|(_, column)| *column)
    }

    /// What the groups are sorted by.
    fn keys(&mut self, select: &SelectStmt, clauses: &Clauses) -> Attempt<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(select.sort_clause.len());
        for (node, place) in select.sort_clause.iter().zip(&clauses.sort) {
            let Some((sort, expression)) = several::sort_of(node) else {
                return no("the sort order is of an unknown kind");
            };
            let column = match several::output(select, expression)? {
                Some(at) => at,
                None => self.sorted_by(expression, place)?,
            };
            keys.push(SortKey { column: Place::FromStart(column), ..sort });
        }
        Ok(keys)
    }

    fn sorted_by(&mut self, expression: &NodeEnum, place: &Range<usize>) -> Attempt<usize> {
        let sorted = match expression {
            NodeEnum::CollateClause(clause) if several::is_c_collated(expression) => nodes::inner(&clause.arg),
            NodeEnum::CollateClause(_) => None,
            _ => Some(expression),
        };
        if let Some(column) = sorted.and_then(|sorted| self.named(sorted)) {
            return Ok(column);
        }
        if !matches!(expression, NodeEnum::CollateClause(_) | NodeEnum::ColumnRef(_)) {
            let tokens = tokens_of(&self.about.text[place.clone()]);
            let shown = self.positions(|shown| shown.tokens == tokens).first().copied();
            if let Some(column) = shown.or_else(|| self.further(&tokens)) {
                if self.becomes.get(column) == Some(&Some(Aggregate::Computed)) {
                    self.set_aside(place.clone(), computed::BEHIND.to_owned());
                }
                return Ok(column);
            }
        }
        match expression {
            NodeEnum::FuncCall(call) if functions::class(call) == Some(functions::Class::Aggregate) => self.call(call),
            NodeEnum::GroupingFunc(call) => self.grouping(call),
            NodeEnum::CollateClause(_) | NodeEnum::ColumnRef(_) => {
                no("groups are sorted by something that is no output")
            }
            _ => {
                let column = self.compute_key(expression, place)?;
                self.set_aside(place.clone(), computed::BEHIND.to_owned());
                Ok(column)
            }
        }
    }

    /// Whether what is asked for is certain to be all that is needed.
    fn check(&self, select: &SelectStmt) -> Attempt<()> {
        let mut alike = self.shown.iter().zip(&self.becomes).filter(|(_, made)| **made == Some(Aggregate::Alike));
        let is_constant = |(shown, _): (&Shown<'_>, &Option<Aggregate>)| {
            matches!(shown.value, NodeEnum::AConst(_) | NodeEnum::GroupingFunc(_))
        };
        if self.has_sets && !self.values.is_empty() {
            return no("different values are needed of groups that are made in several ways");
        }
        if select.having_clause.is_some() && !alike.clone().all(is_constant) {
            return no("an output might fail for a group that HAVING leaves out");
        }
        let has_others = self.has_constants || alike.next().is_some();
        if !self.values.is_empty() && select.group_clause.is_empty() && has_others {
            return no("there may be no row that has its outputs, or what aggregates are compared with");
        }
        Ok(())
    }

    /// Whether groups may be put together one after the other: each of them is a row of each shard, and what is made of it has room here.
    fn is_streamable(&self) -> bool {
        let mut aggregates = self.becomes.iter().flatten().chain(&self.further);
        self.values.is_empty() && !aggregates.any(|aggregate| matches!(aggregate, Aggregate::Deviation(_)))
    }

    /// What is put into the text.
    fn splices(&self, select: &SelectStmt, from: usize, places: Places) -> Vec<(Range<usize>, String)> {
        let mut splices = self.asides.clone();
        if !self.texts.is_empty() {
            splices.push((from..from, format!("{} ", self.texts.concat())));
        }
        if !self.values.is_empty() {
            let names: Vec<&str> = self.values.iter().map(|(name, _)| name.as_str()).collect();
            let before = if select.group_clause.is_empty() { " GROUP BY" } else { "," };
            splices.push((places.end..places.end, format!("{before} {}", names.join(", "))));
        }
        if let Some(having) = places.having {
            splices.push((having, "true".to_owned()));
        }
        splices
    }
}

/// Whether an expression has the same value however often it is computed for rows that have the same columns, and all that it has are these.
fn is_made_of(expression: &NodeEnum, is_one: impl Fn(&NodeEnum) -> bool) -> bool {
    let mut left = vec![expression];
    while let Some(node) = left.pop() {
        let is_known = match node {
            NodeEnum::ColumnRef(_) => is_one(node),
            NodeEnum::FuncCall(call) => functions::is_of_one_row(call),
            NodeEnum::SubLink(_) => false,
            _ => true,
        };
        let Some(children) = nodes::children(node).filter(|_| is_known) else { return false };
        left.extend(children.into_iter().filter_map(|child| child.node.as_ref()));
    }
    true
}

/// Whether an aggregate, and others of the same arguments and FILTER beside it, are all of the same values.
fn has_same_values(call: &FuncCall) -> bool {
    let nodes = call.args.iter().chain(call.agg_filter.as_deref());
    nodes.filter_map(|node| node.node.as_ref()).all(|node| is_made_of(node, |_| true))
}

/// A column's name as it is written in SQL.
fn name_of(fields: &[&str]) -> String {
    let names: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    names.join(".")
}

/// What expressions have alike that differ in blanks, comments and the case of words only.
fn tokens_of(text: &str) -> Vec<String> {
    let written = |(token, place): (Token, Range<usize>)| match token {
        Token::Word => text[place].to_ascii_lowercase(),
        _ => text[place].to_owned(),
    };
    Tokens::new(text, 0).map(written).collect()
}

/// Where an output's expression stands, of an output that stands there with this name.
fn without_name(text: &str, place: &Range<usize>, name: &str) -> Option<Range<usize>> {
    let mut tokens: Vec<(Token, Range<usize>)> = Tokens::new(text.get(..place.end)?, place.start).collect();
    if !name.is_empty() {
        tokens.pop();
        tokens.pop_if(|(token, place)| *token == Token::Word && text[place.clone()].eq_ignore_ascii_case("as"));
    }
    Some(tokens.first()?.1.start..tokens.last()?.1.end)
}

fn has_query(text: &str) -> bool {
    Tokens::new(text, 0).any(|(token, place)| token == Token::Word && text[place].eq_ignore_ascii_case("select"))
}

/// Where a call begins, and where its arguments are, with their parentheses and FILTER behind them; `None` where they hold a query.
fn place_of(call: &FuncCall, about: &About<'_>) -> Option<(usize, Range<usize>)> {
    place_at(call.location, call.agg_filter.is_some(), about)
}

/// The same of a call that begins at this place of the tree.
fn place_at(location: i32, has_filter: bool, about: &About<'_>) -> Option<(usize, Range<usize>)> {
    let text = about.text;
    let start = nodes::offset(location)?.checked_sub(about.offset)?;
    let is_name = |token: &Token| matches!(token, Token::Word | Token::Quoted | Token::Sign(b'.'));
    let (token, place) = Tokens::new(text, start).find(|(token, _)| !is_name(token))?;
    if token != Token::Sign(b'(') {
        return None;
    }
    let mut arguments = scan::lists(text, place.start).into_iter().next()?;
    if has_filter {
        let (token, filter) = Tokens::new(text, arguments.end).next()?;
        if token != Token::Word || !text[filter.clone()].eq_ignore_ascii_case("filter") {
            return None;
        }
        arguments.end = scan::lists(text, filter.end).into_iter().next()?.end;
    }
    (!has_query(&text[arguments.clone()])).then_some((start, arguments))
}

/// Where the clauses of a query stand that groups are about.
#[derive(Debug)]
struct Places {
    /// The outputs, with their names.
    outputs: Vec<Range<usize>>,
    /// The expressions of GROUP BY.
    groups: Vec<Range<usize>>,
    /// The condition of HAVING.
    having: Option<Range<usize>>,
    /// Behind GROUP BY, or where that would stand.
    end: usize,
}

impl Places {
    /// `None` where they are not found. `from`: where FROM stands.
    fn of(text: &str, from: usize) -> Option<Self> {
        let tokens: Vec<(Token, Range<usize>)> = Tokens::new(text, 0).collect();
        let mut depth = 0_i32;
        // The words outside of parentheses that are no names.
        let mut words: Vec<(usize, String)> = Vec::new();
        for (at, (token, place)) in tokens.iter().enumerate() {
            match token {
                Token::Sign(b'(' | b'[') => depth += 1,
                Token::Sign(b')' | b']') => depth -= 1,
                Token::Word if depth == 0 && !is_named(&tokens[..at], text) => {
                    words.push((at, text[place.clone()].to_ascii_lowercase()));
                }
                _ => {}
            }
        }
        let is_clause =
            |word: &str| matches!(word, "group" | "having" | "window" | "order" | "limit" | "offset" | "fetch" | "for");
        let behind = |at: usize| words.iter().filter(move |(other, _)| *other > at);
        let end_of = |at: usize| behind(at).find(|(_, word)| is_clause(word)).map_or(tokens.len(), |(next, _)| *next);
        let between = |first: usize, end: usize| {
            let last = tokens.get(first..end)?.last()?;
            Some(tokens[first].1.start..last.1.end)
        };
        let (select, _) = words.iter().find(|(_, word)| word == "select")?;
        let (from, _) = words.iter().find(|(at, _)| tokens[*at].1.start == from)?;
        let is_all = tokens
            .get(select + 1)
            .is_some_and(|(token, place)| *token == Token::Word && text[place.clone()].eq_ignore_ascii_case("all"));
        let outputs = between(select + 1 + usize::from(is_all), *from)?;
        let clause = |wanted: &str| behind(*from).find(|(_, word)| word == wanted).map(|(at, _)| *at);
        let mut last = end_of(*from);
        let mut groups = Vec::new();
        if let Some(group) = clause("group") {
            last = end_of(group);
            groups = scan::items(text, &between(group + 2, last)?)?;
        }
        let having = match clause("having") {
            Some(having) => Some(between(having + 1, end_of(having))?),
            None => None,
        };
        let outputs = scan::items(text, &outputs)?;
        Some(Self { outputs, groups, having, end: tokens.get(last.checked_sub(1)?)?.1.end })
    }

    /// Whether they are as many as the query has.
    fn is_of(&self, select: &SelectStmt, clauses: &Clauses) -> bool {
        self.outputs.len() == select.target_list.len()
            && self.groups.len() == select.group_clause.len()
            && self.having.is_some() == select.having_clause.is_some()
            && clauses.sort.len() == select.sort_clause.len()
    }
}

/// Whether a word behind these tokens is a name, whatever it is.
fn is_named(before: &[(Token, Range<usize>)], text: &str) -> bool {
    match before.last() {
        Some((Token::Sign(b'.'), _)) => true,
        Some((Token::Word, place)) => text[place.clone()].eq_ignore_ascii_case("as"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, tokens_of};

    #[test]
    fn clauses_of_groups_are_found_outside_of_parentheses() {
        let text = "SELECT ALL a.group AS having, count(*) FILTER (WHERE b > 0), extract(year FROM d) x FROM t AS g \
                    WHERE t.order = f(1, (SELECT 2 GROUP BY 1)) -- HAVING\n \
                    GROUP BY a.group, lower(b), (c) HAVING max(x) > 3 AND true ORDER BY 1 LIMIT 2";
        let from = text.find("FROM t").unwrap();
        let places = Places::of(text, from).unwrap();
        let written = |places: &[std::ops::Range<usize>]| -> Vec<String> {
            places.iter().map(|place| text[place.clone()].to_owned()).collect()
        };
        let outputs = ["a.group AS having", "count(*) FILTER (WHERE b > 0)", "extract(year FROM d) x"];
        assert_eq!(written(&places.outputs), outputs);
        assert_eq!(written(&places.groups), ["a.group", "lower(b)", "(c)"]);
        assert_eq!(places.having.map(|place| &text[place]), Some("max(x) > 3 AND true"));
        assert!(text[..places.end].ends_with("(c)"));
        let text = "SELECT count(DISTINCT x) FROM t WHERE a = 1 /* b */ LIMIT 3 -- end";
        let places = Places::of(text, text.find("FROM").unwrap()).unwrap();
        assert!(text[..places.end].ends_with("a = 1") && places.groups.is_empty() && places.having.is_none());
        let text = "SELECT count(DISTINCT x) FROM t -- end";
        let places = Places::of(text, text.find("FROM").unwrap()).unwrap();
        assert!(text[..places.end].ends_with("FROM t"));
    }

    #[test]
    fn expressions_are_alike_by_their_tokens() {
        assert_eq!(tokens_of("Lower( \"T\" )/* x */||'A'"), tokens_of("lower(\"T\") || 'A'"));
        assert_ne!(tokens_of("lower(\"T\")"), tokens_of("lower(\"t\")"));
        assert_ne!(tokens_of("a || 'A'"), tokens_of("a || 'a'"));
    }
}
