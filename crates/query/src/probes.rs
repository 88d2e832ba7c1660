//! Lookups in a table's key and indexes, derived from the conditions of a scan.
//!
//! Called by `grid_table` when a scan is planned, with the statement's parameters filled in. A condition that no index
//! helps with is left out, because the scan evaluates every condition again, row by row. A partial index is used if the
//! conditions imply its predicate.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_base::value::interval::arithmetic::of_order;
use ashlar_base::{ColumnId, Datum, IndexDef, IndexKind, PartitionId, Result, ScalarType, SqlType, TableSchema, Value};
use ashlar_functions::array_order;
use ashlar_functions::times::operators::within_order;
use ashlar_store::arrow_types::to_arrow_type;
use ashlar_store::{ColumnReader, Partitions, Probe, ReadView, Region, ScanBatch};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::{split_binary, split_conjunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};

use crate::estimate::Estimator;
use crate::index_rows::{IndexExpressions, column_by_id, named_by_ids};

/// An index that has more than this part of the rows to name is not asked: counting its entries would be in vain.
pub(crate) const PART_MAX: f64 = 0.6;

/// Probes of a union at most: of a longer list of values an index says nothing.
const UNION_MAX: usize = 256;

/// What the conditions say about one column, or about an expression that an index is on.
struct Said {
    equal: Option<Value>,
    /// It is one of these.
    any: Option<Vec<Value>>,
    low: Bound<Value>,
    high: Bound<Value>,
    is_null: bool,
    is_not_null: bool,
}

impl Default for Said {
    fn default() -> Self {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        Self { equal: None, any: None, low, high, is_null: false, is_not_null: false }
    }
}

/// What the conditions of a scan, all of which hold for a wanted row, leave of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Values of the primary key, in its order: one row at most.
    pub(crate) key: Option<Box<[Value]>>,
    /// For each index that can be asked, and for each OR whose parts all can be, probes of which one finds the row; none
    /// where the key is known.
    pub(crate) unions: Vec<Vec<Probe>>,
    /// What is asked of each index that has every row and is on columns alone, in one probe, however many rows that are.
    pub(crate) plain: Vec<Probe>,
    /// The part of the rows that the conditions leave, as far as ANALYZE knows.
    pub(crate) part: Option<f64>,
}

impl Asked {
    /// The names of the indexes that may be asked, each once.
    pub(crate) fn index_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for probe in self.unions.iter().flatten() {
            if !names.contains(&probe.index.name.as_str()) {
                names.push(&probe.index.name);
            }
        }
        names
    }

    /// Whether few rows are looked at, as far as conditions tell.
    pub(crate) fn is_narrow(&self) -> bool {
        let is_narrow = |union: &Vec<Probe>| union.iter().all(|probe| !probe.equal.is_empty());
        self.key.is_some() || self.unions.iter().any(is_narrow)
    }

    /// Whether nothing is asked.
    pub(crate) fn is_nothing(&self) -> bool {
        self.key.is_none() && self.unions.is_empty()
    }

    /// The partitions that can have such rows, those aside that the view's own transaction has written; `None`: all.
    pub(crate) fn candidates(&self, region: &Region, view: &ReadView) -> Option<Partitions> {
        if let Some(key) = &self.key {
            return Some(Partitions::with_key(region, &datums(key)));
        }
        if self.unions.is_empty() {
            return None;
        }
        let unions: Vec<&[Probe]> = self.unions.iter().map(Vec::as_slice).collect();
        region.candidates_of(&view.snapshot, &unions)
    }

    /// What a view sees of one partition; rows that are not wanted may be among them.
    pub(crate) fn scan(
        &self,
        region: &Region,
        view: &ReadView,
        partition: PartitionId,
        columns: &[usize],
        version: u32,
    ) -> Result<Vec<ScanBatch>> {
        match &self.key {
            Some(key) => region.scan_key(view, partition, columns, Some(version), &datums(key)),
            None => region.scan_searched(view, partition, columns, Some(version), &self.unions),
        }
    }
}

fn datums(key: &[Value]) -> Vec<Datum<'_>> {
    key.iter().map(Value::as_datum).collect()
}

/// What conditions are read with.
struct Reader<'s> {
    schema: &'s TableSchema,
    indexes: Vec<Arc<IndexDef>>,
}

/// What conditions ask.
pub(crate) fn of(region: &Region, conditions: &[Expr]) -> Asked {
    if conditions.is_empty() {
        return Asked::default();
    }
    let schema = region.schema();
    let reader = Reader { schema: &schema, indexes: region.standing_indexes() };
    let known: Vec<Expr> = conditions
        .iter()
        .flat_map(split_conjunction)
        .filter_map(|condition| named_by_ids(condition.clone(), &schema).ok())
        .collect();
    let said = reader.said(&known);
    let of_key = |ordinal: &usize| said.get(&column_by_id(schema.columns[*ordinal].id))?.equal.clone();
    if let key @ Some(_) = schema.key.iter().map(of_key).collect() {
        return Asked { key, ..Asked::default() };
    }
    let unions = reader.unions(&known, &said);
    let of_plain = |union: &Vec<Probe>| match &union[..] {
        [probe] if probe.index.is_plain() => Some(probe.clone()),
        _ => None,
    };
    let plain = unions.iter().filter_map(of_plain).collect();
    let Some(analysed) = region.statistics() else { return Asked { key: None, unions, plain, part: None } };
    let estimator = Estimator { schema: &schema, known: &analysed };
    let is_worth = |union: &Vec<Probe>| union.iter().map(|probe| estimator.probe(probe)).sum::<f64>() <= PART_MAX;
    let part = (known.len() == conditions.iter().map(|condition| split_conjunction(condition).len()).sum::<usize>())
        .then(|| estimator.all(&known));
    Asked { key: None, unions: unions.into_iter().filter(is_worth).collect(), plain, part }
}

impl Reader<'_> {
    /// What conditions, all of which hold, say about columns and expressions.
    fn said(&self, known: &[Expr]) -> HashMap<Expr, Said> {
        let mut said: HashMap<Expr, Said> = HashMap::new();
        for condition in known {
            match condition {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                    // To the engine arrays are equal as they are to indexes, but in another order.
                    let is_array = |side: &Expr| self.type_of(side).is_some_and(SqlType::is_array);
                    if *op == Operator::Eq || !is_array(left) && !is_array(right) {
                        self.note_sides(&mut said, left, *op, right);
                    }
                }
                Expr::ScalarFunction(_) => {
                    if let Some((left, op, right)) = array_order::compared(condition) {
                        self.note_sides(&mut said, left, op, right);
                    }
                }
                Expr::Between(Between { expr, negated: false, low, high })
                    if !self.type_of(expr).is_some_and(SqlType::is_array) =>
                {
                    let target = compared_in(expr);
                    for (bound, op) in [(low, Operator::GtEq), (high, Operator::LtEq)] {
                        let Expr::Literal(literal, _) = bound.as_ref() else { continue };
                        if let Some(value) = self.value_of(target, literal) {
                            note(said.entry(target.clone()).or_default(), op, value);
                        }
                    }
                }
                Expr::InList(InList { expr, list, negated: false }) if list.len() <= UNION_MAX => {
                    let target = compared_in(expr);
                    // NULL in the list is nobody's value.
                    let literals = list.iter().map(|item| match item {
                        Expr::Literal(literal, _) if literal.is_null() => Some(None),
                        Expr::Literal(literal, _) => self.value_of(target, literal).map(Some),
                        _ => None,
                    });
                    if let Some(values) = literals.collect::<Option<Vec<_>>>() {
                        let any = values.into_iter().flatten().collect();
                        said.entry(target.clone()).or_default().any = Some(any);
                    }
                }
                Expr::Like(like) => self.note_pattern(&mut said, like),
                Expr::IsNull(target) if self.type_of(target).is_some() => {
                    said.entry(target.as_ref().clone()).or_default().is_null = true;
                }
                Expr::IsNotNull(target) if self.type_of(target).is_some() => {
                    said.entry(target.as_ref().clone()).or_default().is_not_null = true;
                }
                Expr::Column(_) if self.is_boolean(condition) => {
                    said.entry(condition.clone()).or_default().equal = Some(Value::Bool(true));
                }
                Expr::Not(target) if self.is_boolean(target) => {
                    said.entry(target.as_ref().clone()).or_default().equal = Some(Value::Bool(false));
                }
                _ => {}
            }
        }
        said
    }

    /// What a comparison says of one of its sides, where the other one is a constant.
    fn note_sides(&self, said: &mut HashMap<Expr, Said>, left: &Expr, op: Operator, right: &Expr) {
        let (target, op, literal) = match (left, right) {
            (target, Expr::Literal(literal, _)) => (target, Some(op), literal),
            (Expr::Literal(literal, _), target) => (target, op.swap(), literal),
            _ => return,
        };
        let target = compared_in(target);
        if let (Some(op), Some(value)) = (op, self.value_of(target, literal)) {
            note(said.entry(target.clone()).or_default(), op, value);
        }
    }

    /// What LIKE says of a text: what its pattern begins with is what the text begins with.
    fn note_pattern(&self, said: &mut HashMap<Expr, Said>, like: &Like) {
        let is_plain = !like.negated && !like.case_insensitive && like.escape_char.is_none_or(|escape| escape == '\\');
        let target = like.expr.as_ref();
        let is_text =
            matches!(self.type_of(target), Some(SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. })));
        let Some(pattern) = pattern_of(&like.pattern).filter(|_| is_plain && is_text) else { return };
        let prefix = prefix_of(pattern);
        if prefix.is_empty() {
            return;
        }
        let said = said.entry(target.clone()).or_default();
        let text = |text: &str| Value::Text(text.into());
        if prefix.len() == pattern.len() {
            said.equal = Some(text(prefix));
            return;
        }
        // What another condition says of the order may be narrower.
        if said.low == Bound::Unbounded {
            said.low = Bound::Included(text(prefix));
        }
        if let (Bound::Unbounded, Some(after)) = (&said.high, after_prefix(prefix)) {
            said.high = Bound::Excluded(text(&after));
        }
    }

    /// A union for each index that conditions ask something of, and for each OR.
    fn unions(&self, known: &[Expr], said: &HashMap<Expr, Said>) -> Vec<Vec<Probe>> {
        let mut unions: Vec<Vec<Probe>> = Vec::new();
        unions.extend(self.indexes.iter().filter_map(|index| self.ask(index, &|wanted| follows(known, wanted), said)));
        for condition in known {
            let Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) = condition else { continue };
            let parts = split_binary(condition, Operator::Or);
            if parts.len() > UNION_MAX || self.indexes.is_empty() {
                continue;
            }
            let union = parts.iter().map(|part| self.best(part, known)).collect::<Option<Vec<_>>>();
            let union: Option<Vec<Probe>> = union.map(|parts| parts.into_iter().flatten().collect());
            unions.extend(union.filter(|union| union.len() <= UNION_MAX));
        }
        unions
    }

    /// What one part of an OR asks of the index that says the most about it. Beside it the other conditions hold too.
    fn best(&self, part: &Expr, beside: &[Expr]) -> Option<Vec<Probe>> {
        let own: Vec<Expr> = split_conjunction(part).into_iter().cloned().collect();
        let said = self.said(&own);
        let holds = |wanted: &Expr| follows(&own, wanted) || follows(beside, wanted);
        let asked = self.indexes.iter().filter_map(|index| self.ask(index, &holds, &said));
        let weight = |union: &Vec<Probe>| {
            let equal = union.iter().map(|probe| probe.equal.len()).min().unwrap_or(0);
            (equal, std::cmp::Reverse(union.len()))
        };
        asked.max_by_key(weight)
    }

    /// What is asked of an index, where it helps. `holds` tells of conditions whether they do.
    fn ask(
        &self,
        index: &Arc<IndexDef>,
        holds: &dyn Fn(&Expr) -> bool,
        said: &HashMap<Expr, Said>,
    ) -> Option<Vec<Probe>> {
        let computes = IndexExpressions::of(index);
        if index.rows.is_some() && computes.is_none() {
            return None;
        }
        if !computes.is_none_or(|computes| computes.conditions().iter().all(holds)) {
            return None;
        }
        let mut equals: Vec<Vec<Value>> = vec![Vec::new()];
        let mut range = (Bound::Unbounded, Bound::Unbounded);
        for id in &index.columns {
            let stand_in = || index.rows.as_ref().and_then(|rows| rows.key_of(*id));
            let said = match stand_in().or_else(|| IndexDef::expression(*id)) {
                None => said.get(&column_by_id(*id)),
                Some(expression) => computes.and_then(|computes| said.get(computes.expressions().nth(expression)?)),
            };
            let Some(said) = said else { break };
            let one = said.equal.clone().or_else(|| said.is_null.then_some(Value::Null));
            match (one, &said.any) {
                (Some(value), _) => equals.iter_mut().for_each(|equal| equal.push(value.clone())),
                (None, Some(any)) if any.len() * equals.len() <= UNION_MAX => {
                    let longer = |equal: &Vec<Value>| -> Vec<Vec<Value>> {
                        any.iter().map(|value| [&equal[..], std::slice::from_ref(value)].concat()).collect()
                    };
                    equals = equals.iter().flat_map(longer).collect();
                }
                _ => {
                    range = (said.low.clone(), said.high.clone());
                    if said.is_not_null && range == (Bound::Unbounded, Bound::Unbounded) {
                        range.1 = Bound::Excluded(Value::Null);
                    }
                    break;
                }
            }
        }
        let asked = equals.first().map_or(index.columns.len(), Vec::len);
        let is_useful = match index.kind {
            IndexKind::Hash => asked == index.columns.len(),
            // A partial index may say enough by its predicate alone.
            IndexKind::Btree => {
                let is_partial = computes.is_some_and(|computes| !computes.conditions().is_empty());
                asked > 0 || range != (Bound::Unbounded, Bound::Unbounded) || is_partial
            }
        };
        is_useful.then(|| {
            let probe = |equal| Probe { index: Arc::clone(index), equal, range: range.clone() };
            equals.into_iter().map(probe).collect()
        })
    }

    /// The type of a column, or of an expression that an index is on.
    fn type_of(&self, target: &Expr) -> Option<SqlType> {
        if let Expr::Column(_) = target {
            let column = self.schema.columns.iter().find(|column| column_by_id(column.id) == *target);
            return column.map(|column| column.sql_type);
        }
        self.indexes.iter().find_map(|index| {
            let position = IndexExpressions::of(index)?.expressions().position(|expr| expr == target)?;
            index.rows.as_ref()?.types().get(position).copied()
        })
    }

    fn is_boolean(&self, target: &Expr) -> bool {
        self.type_of(target) == Some(SqlType::Scalar(ScalarType::Bool))
    }

    /// The constant that a target, as [`compared_in`] has it, is compared with.
    fn value_of(&self, target: &Expr, literal: &ScalarValue) -> Option<Value> {
        constant(self.type_of(target)?, literal)
    }
}

/// What is compared, in one side of a comparison: intervals are compared by the number that stands for their order.
pub(crate) fn compared_in(side: &Expr) -> &Expr {
    within_order(side).unwrap_or(side)
}

/// The value of a constant that values of a type are compared with, where it is of that very type: another one may
/// order otherwise.
pub(crate) fn constant(sql_type: SqlType, literal: &ScalarValue) -> Option<Value> {
    if sql_type == SqlType::Scalar(ScalarType::Interval) {
        let ScalarValue::Decimal128(Some(order), _, 0) = literal else { return None };
        return of_order(*order).map(Value::Interval);
    }
    let is_of_type = match (literal.data_type(), to_arrow_type(sql_type)) {
        (DataType::List(found), DataType::List(wanted)) => found.data_type() == wanted.data_type(),
        (found, wanted) => found == wanted,
    };
    if literal.is_null() || !is_of_type {
        return None;
    }
    let array = literal.to_array().ok()?;
    let reader = ColumnReader::new(&array, sql_type).ok()?;
    Some(reader.datum(0).to_value())
}

/// The text of a pattern that is known, behind the check that patterns of parameters have.
fn pattern_of(pattern: &Expr) -> Option<&str> {
    match pattern {
        Expr::Literal(literal, _) => literal.try_as_str()?,
        Expr::Cast(cast) => pattern_of(&cast.expr),
        Expr::ScalarFunction(function) if function.func.name() == "like_pattern" => pattern_of(function.args.first()?),
        _ => None,
    }
}

/// What every text that a LIKE pattern matches begins with.
fn prefix_of(pattern: &str) -> &str {
    pattern.find(['%', '_', '\\']).map_or(pattern, |end| &pattern[..end])
}

/// The least text that is greater than all that begin with a prefix; `None`: there is none. Texts are in the order of their bytes,
/// which is that of their characters.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut after: Vec<char> = prefix.chars().collect();
    while let Some(last) = after.pop() {
        // The surrogates are no characters, and are stepped over.
        if let Some(next) = (last..=char::MAX).nth(1) {
            after.push(next);
            return Some(after.into_iter().collect());
        }
    }
    None
}

fn note(said: &mut Said, op: Operator, value: Value) {
    match op {
        Operator::Eq => said.equal = Some(value),
        Operator::Gt => said.low = Bound::Excluded(value),
        Operator::GtEq => said.low = Bound::Included(value),
        Operator::Lt => said.high = Bound::Excluded(value),
        Operator::LtEq => said.high = Bound::Included(value),
        _ => {}
    }
}

/// The column in one side of a comparison, and the constant in the other one, of its very type.
pub(crate) fn value_of(schema: &TableSchema, side: &Expr, literal: &ScalarValue) -> Option<(ColumnId, Value)> {
    let Expr::Column(column) = compared_in(side) else { return None };
    let column = &schema.columns[schema.column(&column.name)?];
    Some((column.id, constant(column.sql_type, literal)?))
}

/// Whether conditions hold of every row for which all of the known ones do: those that are among them, and what follows from
/// one of them by itself. No where nobody knows.
pub(crate) fn implies(known: &[Expr], wanted: &[Expr]) -> bool {
    wanted.iter().all(|wanted| follows(known, wanted))
}

fn follows(known: &[Expr], wanted: &Expr) -> bool {
    if known.contains(wanted) || known.iter().any(|known| follows_from(known, wanted)) {
        return true;
    }
    match wanted {
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => true,
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => split_binary(wanted, Operator::Or)
            .into_iter()
            .any(|part| split_conjunction(part).into_iter().all(|part| follows(known, part))),
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let bound = |op: Operator, bound: &Expr| {
                let bound = BinaryExpr::new(expr.clone(), op, Box::new(bound.clone()));
                follows(known, &Expr::BinaryExpr(bound))
            };
            bound(Operator::GtEq, low) && bound(Operator::LtEq, high)
        }
        _ => false,
    }
}

/// What a comparison with a constant says of its other side.
fn compared(expr: &Expr) -> Option<(&Expr, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (target, op, literal) = match (left.as_ref(), right.as_ref()) {
        (target, Expr::Literal(literal, _)) => (target, *op, literal),
        (Expr::Literal(literal, _), target) => (target, op.swap()?, literal),
        _ => return None,
    };
    let is_comparison =
        matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    (is_comparison && !literal.is_null()).then_some((target, op, literal))
}

/// Whether one condition by itself implies another.
fn follows_from(known: &Expr, wanted: &Expr) -> bool {
    if let Expr::Between(Between { expr, negated: false, low, high }) = known {
        return [(Operator::GtEq, low), (Operator::LtEq, high)].into_iter().any(|(op, bound)| {
            let bound = BinaryExpr::new(expr.clone(), op, bound.clone());
            follows_from(&Expr::BinaryExpr(bound), wanted)
        });
    }
    // Whatever is compared with a constant is not NULL, where that holds.
    if let Expr::IsNotNull(target) = wanted {
        return match known {
            Expr::InList(InList { expr, negated: false, .. }) => expr == target,
            _ => compared(known).is_some_and(|(known, ..)| known == target.as_ref()),
        };
    }
    if let Expr::InList(InList { expr, list, negated: false }) = known {
        return list.iter().all(|item| {
            let item = BinaryExpr::new(expr.clone(), Operator::Eq, Box::new(item.clone()));
            follows_from(&Expr::BinaryExpr(item), wanted)
        });
    }
    let Some((known, known_op, is)) = compared(known) else { return false };
    if let Expr::InList(InList { expr, list, negated: false }) = wanted {
        let is_it = |item: &Expr| matches!(item, Expr::Literal(item, _) if item == is);
        return known_op == Operator::Eq && expr.as_ref() == known && list.iter().any(is_it);
    }
    let Some((target, wanted_op, bound)) = compared(wanted) else { return false };
    if known != target {
        return false;
    }
    let Some(order) = is.partial_cmp(bound).filter(|_| is.data_type() == bound.data_type()) else { return false };
    match wanted_op {
        Operator::Eq => known_op == Operator::Eq && order == Ordering::Equal,
        Operator::NotEq => match known_op {
            Operator::Eq => order != Ordering::Equal,
            Operator::NotEq => order == Ordering::Equal,
            Operator::Gt => order != Ordering::Less,
            Operator::GtEq => order == Ordering::Greater,
            Operator::Lt => order != Ordering::Greater,
            Operator::LtEq => order == Ordering::Less,
            _ => false,
        },
        Operator::Gt => match known_op {
            Operator::Eq | Operator::GtEq => order == Ordering::Greater,
            Operator::Gt => order != Ordering::Less,
            _ => false,
        },
        Operator::GtEq => matches!(known_op, Operator::Eq | Operator::GtEq | Operator::Gt) && order != Ordering::Less,
        Operator::Lt => match known_op {
            Operator::Eq | Operator::LtEq => order == Ordering::Less,
            Operator::Lt => order != Ordering::Greater,
            _ => false,
        },
        Operator::LtEq => {
            matches!(known_op, Operator::Eq | Operator::LtEq | Operator::Lt) && order != Ordering::Greater
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
