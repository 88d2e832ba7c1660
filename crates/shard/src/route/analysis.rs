//! One walk over a statement's tree: which sharded tables occur in it, which of their columns must be equal, and what
//! conditions hold for the rows of each.
//!
//! The result rests on one idea. An occurrence of a table may be *restricted* to some of its rows if the statement's
//! result stays the same without the others. A condition at the top of WHERE restricts what is in FROM; one of an outer
//! join's ON restricts the side that may be missing; an equality hands a restriction on, in the directions in which it
//! is valid. Then a statement whose occurrences are all restricted to rows of one shard can be answered there; and one whose
//! occurrences all follow a first one, the *anchor*, falls into parts that the shards answer each for itself.

use std::collections::HashMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use ashlar_base::{ColumnDef, Error, ErrorCode, Result};
use pg_query::NodeEnum;
use pg_query::protobuf::{AExpr, AExprKind, BoolExprType, Node, RangeVar, SubLink, SubLinkType, a_const};

use super::condition::Condition;
use super::functions::{self, Class};
use super::nodes;
use super::operand::{self, Operand};
use super::scope::{Named, OCCURRENCES_MAX, Occurrences, Output, Scope, Variable};
use super::{Found, ShardedTable, Tables};
use crate::rewrite::scan;
use crate::rules::{Key, KeyClass, Placement};

/// Columns that every table has, and that mean something else on every server.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"];

/// A place in a statement where a sharded table is named.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    pub(super) table: Arc<ShardedTable>,
    /// Where its name begins in the text, in bytes.
    pub(super) at: usize,
    /// Whether a schema is written before the name.
    pub(super) has_schema: bool,
    /// Whether it has an alias.
    pub(super) has_alias: bool,
    /// The name that it has in the statement.
    pub(super) alias: String,
}

/// A condition with the occurrences that it restricts.
#[derive(Debug)]
pub(super) struct Conjunct {
    pub(super) condition: Written,
    pub(super) restricts: Occurrences,
}

/// A condition on variables, before it is known which key it is asked about.
#[derive(Clone, Debug)]
pub(super) enum Written {
    Any,
    Never,
    OneOf(Variable, Vec<Operand>),
    InArray(Variable, u16),
    Between(Variable, Bound<Operand>, Bound<Operand>),
    And(Vec<Written>),
    Or(Vec<Written>),
}

/// `k IN (...)` with constants only, where `k` is the whole key of an occurrence: a shard needs only its own ones.
#[derive(Debug)]
pub(super) struct List {
    pub(super) occurrence: usize,
    /// Between the parentheses.
    pub(super) place: Range<usize>,
    /// Each constant, and where it stands.
    pub(super) items: Vec<(Range<usize>, Key)>,
}

/// The sharding key of a row that is inserted, as the statement says it; `None` where that is read somewhere.
#[derive(Debug)]
pub(super) struct Fed {
    pub(super) occurrence: usize,
    /// In the order of the key.
    pub(super) operands: Vec<Option<Operand>>,
}

/// A CTE in force.
#[derive(Clone, Debug)]
pub(super) struct Cte {
    pub(super) name: String,
    pub(super) columns: Vec<Output>,
    pub(super) is_complete: bool,
    pub(super) anchors: Vec<usize>,
    /// Those within that its reader may restrict.
    pub(super) occurrences: Occurrences,
}

/// What the walk has found so far.
pub(super) struct Analysis<'a> {
    pub(super) tables: &'a dyn Tables,
    pub(super) text: &'a str,
    pub(super) offset: usize,
    pub(super) occurrences: Vec<Occurrence>,
    variables: Vec<(usize, usize)>,
    by_column: HashMap<(usize, usize), Variable>,
    /// From a variable to one that may be restricted to the same values.
    edges: Vec<(Variable, Variable)>,
    pub(super) conjuncts: Vec<Conjunct>,
    pub(super) ctes: Vec<Cte>,
    /// How often each table name without a schema stands in the statement.
    pub(super) references: HashMap<String, usize>,
    pub(super) lists: Vec<List>,
    /// Where columns are counted and not named, and their names: a shard's table may have them in another order. Where a constraint is named,
    /// and its columns: it may have another name there.
    pub(super) named: Vec<(Range<usize>, String)>,
    /// The stars of the query that makes the rows of the result: where they stand, and the columns that they are, where these are certain.
    pub(super) stars: Vec<Option<(Range<usize>, String)>>,
    /// Whether the columns of a star are counted.
    pub(super) names_stars: bool,
    /// Why no shard can be given the statement's text.
    pub(super) objection: Option<String>,
    /// Whether a table of another home is named.
    pub(super) is_elsewhere: bool,
    /// Rows of a table of another home are changed in WITH. What is read there is not looked at.
    pub(super) changes_elsewhere: bool,
    /// Whether some query takes rows by their number.
    pub(super) has_limits: bool,
    /// Whether an UPDATE has rows to choose from.
    pub(super) has_sources: bool,
    /// Whether a column is named with its table's schema.
    pub(super) has_schema_columns: bool,
    /// Whether rows are locked.
    pub(super) locks: bool,
    /// Whether rows of a table that is on all servers are, and whether those that others have locked are left out then.
    pub(super) locks_copies: bool,
    pub(super) skips_locked: bool,
    /// Whether WITH changes rows.
    pub(super) changes: bool,
    /// Occurrences of what WITH changes: that is changed whatever its readers want of it.
    pub(super) sealed: Occurrences,
    /// Keys of rows that are inserted, as far as the statement itself says them.
    pub(super) fed: Vec<Fed>,
    /// Whether a query may make NULL of a column that has none.
    pub(super) makes_nulls: bool,
    /// Whether a column is named that a server makes for its rows.
    pub(super) names_system: bool,
    /// Whether a function is called that one server answers or nobody, and whether one that locks a number there.
    pub(super) needs_one_server: bool,
    pub(super) takes_advisory_locks: bool,
    /// Aggregates and window functions of the query that is being walked.
    pub(super) aggregates: usize,
    pub(super) windows: usize,
    /// Whether an expression has one value in a statement, and another on each server.
    pub(super) differs: bool,
    /// How many queries are around what is being walked, and how many of these make the rows of the result.
    pub(super) depth: usize,
    pub(super) own_depth: usize,
    /// Whether every expression says the same on every server.
    pub(super) is_same_everywhere: bool,
}

impl<'a> Analysis<'a> {
    pub(super) fn new(tables: &'a dyn Tables, text: &'a str, offset: usize) -> Self {
        Self {
            tables,
            text,
            offset,
            occurrences: Vec::new(),
            variables: Vec::new(),
            by_column: HashMap::new(),
            edges: Vec::new(),
            conjuncts: Vec::new(),
            ctes: Vec::new(),
            references: HashMap::new(),
            lists: Vec::new(),
            named: Vec::new(),
            stars: Vec::new(),
            names_stars: false,
            objection: None,
            is_elsewhere: false,
            changes_elsewhere: false,
            has_limits: false,
            has_sources: false,
            has_schema_columns: false,
            locks: false,
            locks_copies: false,
            skips_locked: false,
            changes: false,
            sealed: Occurrences::default(),
            fed: Vec::new(),
            makes_nulls: false,
            names_system: false,
            needs_one_server: false,
            takes_advisory_locks: false,
            aggregates: 0,
            windows: 0,
            differs: false,
            depth: 0,
            own_depth: 0,
            is_same_everywhere: true,
        }
    }

    /// Notes why the statement cannot be given to a shard as it is.
    pub(super) fn object(&mut self, reason: impl Into<String>) {
        self.objection.get_or_insert(reason.into());
    }

    /// A byte of the text, from a place in the tree.
    pub(super) fn place(&self, location: i32) -> Result<usize> {
        let at = nodes::offset(location).and_then(|at| at.checked_sub(self.offset));
        at.filter(|at| *at < self.text.len()).ok_or_else(|| Error::internal("a place outside of the statement's text"))
    }

    /// Notes an occurrence of a sharded table; its columns under an alias.
    pub(super) fn occurrence(&mut self, relation: &RangeVar, table: Arc<ShardedTable>) -> Result<Named> {
        if self.occurrences.len() >= OCCURRENCES_MAX {
            return Err(Error::new(
                ErrorCode::StatementTooComplex,
                format!("a statement can name at most {OCCURRENCES_MAX} sharded tables"),
            ));
        }
        if !relation.catalogname.is_empty() {
            return Err(Error::unsupported("a table's name with a database is not supported"));
        }
        let number = self.occurrences.len();
        let columns = (0..table.columns.len()).map(|column| Output {
            name: Some(table.columns[column].name.clone()),
            variable: Some(self.variable(number, column)),
        });
        let columns = columns.collect();
        let named = Named {
            alias: relation.alias.as_ref().map_or_else(|| table.name.to_string(), |alias| alias.aliasname.clone()),
            schema: relation.alias.is_none().then(|| table.schema.to_string()),
            columns,
            is_complete: true,
        };
        let at = self.place(relation.location)?;
        if scan::name(self.text, at).is_some_and(|place| !ends_in(&self.text[place], &relation.relname)) {
            return Err(Error::internal("the statement's text is not that of its tree"));
        }
        self.occurrences.push(Occurrence {
            table,
            at,
            has_schema: !relation.schemaname.is_empty(),
            has_alias: relation.alias.is_some(),
            alias: named.alias.clone(),
        });
        Ok(named)
    }

    fn variable(&mut self, occurrence: usize, column: usize) -> Variable {
        let variables = &mut self.variables;
        *self.by_column.entry((occurrence, column)).or_insert_with(|| {
            variables.push((occurrence, column));
            Variable(variables.len() - 1)
        })
    }

    /// The occurrence that a variable is of.
    pub(super) fn occurrence_of(&self, variable: Variable) -> usize {
        self.variables[variable.0].0
    }

    /// The column that a variable is.
    pub(super) fn column_of(&self, variable: Variable) -> &ColumnDef {
        let (occurrence, column) = self.variables[variable.0];
        &self.occurrences[occurrence].table.columns[column]
    }

    /// The variables of an occurrence's sharding key.
    pub(super) fn key_of(&self, occurrence: usize) -> Vec<Variable> {
        let key = self.occurrences[occurrence].table.rule.key();
        key.iter().filter_map(|column| self.by_column.get(&(occurrence, *column)).copied()).collect()
    }

    pub(super) fn class_of(&self, variable: Variable) -> Option<KeyClass> {
        let (occurrence, column) = self.variables[variable.0];
        KeyClass::of(self.occurrences[occurrence].table.columns[column].sql_type)
    }

    /// What an operator at the top of a condition that restricts these occurrences makes equal.
    pub(super) fn equate(&mut self, a: Variable, b: Variable, restricts: Occurrences) {
        if self.class_of(a).is_none() || self.class_of(a) != self.class_of(b) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            if restricts.contains(self.occurrence_of(to)) {
                self.edge(from, to);
            }
        }
    }

    /// Hands restrictions on, but to nothing that WITH changes: that is done by now whoever reads it.
    fn edge(&mut self, from: Variable, to: Variable) {
        if !self.sealed.contains(self.occurrence_of(to)) {
            self.edges.push((from, to));
        }
    }

    /// What restricts the one restricts the other.
    pub(super) fn hand_on(&mut self, from: Variable, to: Variable) {
        if self.class_of(from).is_some() && self.class_of(from) == self.class_of(to) {
            self.edge(from, to);
        }
    }

    /// A condition at the top of WHERE or ON; walks all that is in it.
    pub(super) fn restrict(&mut self, node: &Node, scope: &Scope<'_>, restricts: Occurrences) -> Result<()> {
        let condition = self.condition(node, scope, restricts, true)?;
        self.conjuncts.push(Conjunct { condition, restricts });
        Ok(())
    }

    /// What a condition says. `is_conjunct`: it must hold, not only one of several.
    fn condition(
        &mut self,
        node: &Node,
        scope: &Scope<'_>,
        restricts: Occurrences,
        is_conjunct: bool,
    ) -> Result<Written> {
        let Some(inner) = &node.node else { return Ok(Written::Any) };
        match inner {
            NodeEnum::BoolExpr(expr) => match BoolExprType::try_from(expr.boolop) {
                Ok(BoolExprType::AndExpr) => {
                    let parts = expr.args.iter().map(|arg| self.condition(arg, scope, restricts, is_conjunct));
                    return Ok(Written::And(parts.collect::<Result<_>>()?));
                }
                Ok(BoolExprType::OrExpr) => {
                    let parts = expr.args.iter().map(|arg| self.condition(arg, scope, restricts, false));
                    return Ok(Written::Or(parts.collect::<Result<_>>()?));
                }
                _ => {}
            },
            NodeEnum::AExpr(expr) => {
                self.walk(node, scope)?;
                return Ok(self.comparison(expr, scope, restricts, is_conjunct));
            }
            NodeEnum::SubLink(link) => {
                let query = self.sub_link(link, scope)?;
                self.membership(link, &query, scope, restricts, is_conjunct);
                return Ok(Written::Any);
            }
            NodeEnum::AConst(constant) => {
                let is_never =
                    constant.isnull || matches!(&constant.val, Some(a_const::Val::Boolval(truth)) if !truth.boolval);
                return Ok(if is_never { Written::Never } else { Written::Any });
            }
            _ => {}
        }
        self.walk(node, scope)?;
        Ok(Written::Any)
    }

    /// `x IN (SELECT y ...)`: rows with another y do not matter to the row of x, where the condition is one that must
    /// not be false.
    fn membership(
        &mut self,
        link: &SubLink,
        query: &[Output],
        scope: &Scope<'_>,
        restricts: Occurrences,
        is_conjunct: bool,
    ) {
        let is_equal =
            link.oper_name.is_empty() || matches!(&link.oper_name[..], [name] if nodes::string(name) == Some("="));
        if SubLinkType::try_from(link.sub_link_type) != Ok(SubLinkType::AnySublink) || !is_equal {
            return;
        }
        let Some(test) = nodes::inner(&link.testexpr) else { return };
        let tests: Vec<&NodeEnum> = match test {
            NodeEnum::RowExpr(row) => row.args.iter().filter_map(|arg| arg.node.as_ref()).collect(),
            single => vec![single],
        };
        if tests.len() != query.len() {
            return;
        }
        for (test, output) in tests.into_iter().zip(query) {
            let outside = nodes::column_name(test).and_then(|fields| scope.variable(&fields));
            if let (Some(outside), Some(inside)) = (outside, output.variable)
                && self.class_of(outside).is_some()
                && self.class_of(outside) == self.class_of(inside)
            {
                self.edge(outside, inside);
                if is_conjunct && restricts.contains(self.occurrence_of(outside)) {
                    self.edge(inside, outside);
                }
            }
        }
    }

    fn comparison(&mut self, expr: &AExpr, scope: &Scope<'_>, restricts: Occurrences, is_conjunct: bool) -> Written {
        let (Some(left), Some(right)) = (nodes::inner(&expr.lexpr), nodes::inner(&expr.rexpr)) else {
            return Written::Any;
        };
        let Some(operator) = nodes::operator(expr) else { return Written::Any };
        match (nodes::kind(expr), operator) {
            (AExprKind::AexprOp, "=") => self.equality(left, right, scope, restricts, is_conjunct),
            (AExprKind::AexprNotDistinct, _) => match self.variable_of(left, scope) {
                // Two NULLs are not distinct.
                Some((variable, class)) => match Operand::new(right, class) {
                    Some(operand @ (Operand::Constant(_) | Operand::Text(_))) => {
                        Written::OneOf(variable, vec![operand])
                    }
                    _ => Written::Any,
                },
                None => Written::Any,
            },
            (AExprKind::AexprIn, "=") => {
                let Some(items) = operand::items(right) else { return Written::Any };
                if let Some((variable, class)) = self.variable_of(left, scope) {
                    let operands = items.iter().map(|item| Operand::new(item.node.as_ref()?, class));
                    return match operands.collect::<Option<Vec<_>>>() {
                        Some(operands) => Written::OneOf(variable, operands),
                        None => Written::Any,
                    };
                }
                let options = items.iter().filter_map(|item| item.node.as_ref());
                Written::Or(options.map(|item| self.equality(left, item, scope, restricts, false)).collect())
            }
            (AExprKind::AexprOpAny, "=") => {
                let Some((variable, class)) = self.variable_of(left, scope) else { return Written::Any };
                match right {
                    NodeEnum::AArrayExpr(array) => {
                        let operands = array.elements.iter().map(|item| Operand::new(item.node.as_ref()?, class));
                        operands.collect::<Option<Vec<_>>>().map_or(Written::Any, |all| Written::OneOf(variable, all))
                    }
                    NodeEnum::ParamRef(parameter) => match u16::try_from(parameter.number - 1) {
                        Ok(number) => Written::InArray(variable, number),
                        Err(_) => Written::Any,
                    },
                    // A cast parameter has the type that is written, which the request tells.
                    NodeEnum::TypeCast(cast) => match nodes::inner(&cast.arg) {
                        Some(NodeEnum::ParamRef(parameter)) => match u16::try_from(parameter.number - 1) {
                            Ok(number) => Written::InArray(variable, number),
                            Err(_) => Written::Any,
                        },
                        _ => Written::Any,
                    },
                    _ => Written::Any,
                }
            }
            (AExprKind::AexprBetween, _) => {
                let (Some((variable, class)), Some([low, high])) =
                    (self.variable_of(left, scope), operand::items(right))
                else {
                    return Written::Any;
                };
                let end = |node: &Node| node.node.as_ref().and_then(|node| Operand::new(node, class));
                let bound = |operand: Option<Operand>| operand.map_or(Bound::Unbounded, Bound::Included);
                Written::Between(variable, bound(end(low)), bound(end(high)))
            }
            (AExprKind::AexprOp, "<" | "<=" | ">" | ">=") => {
                let (found, other, operator) = match self.variable_of(left, scope) {
                    Some(found) => (found, right, operator),
                    None => match self.variable_of(right, scope) {
                        Some(found) => (found, left, turned(operator)),
                        None => return Written::Any,
                    },
                };
                let (variable, class) = found;
                let Some(operand) = Operand::new(other, class) else { return Written::Any };
                match operator {
                    "<" => Written::Between(variable, Bound::Unbounded, Bound::Excluded(operand)),
                    "<=" => Written::Between(variable, Bound::Unbounded, Bound::Included(operand)),
                    ">" => Written::Between(variable, Bound::Excluded(operand), Bound::Unbounded),
                    _ => Written::Between(variable, Bound::Included(operand), Bound::Unbounded),
                }
            }
            _ => Written::Any,
        }
    }

    fn equality(
        &mut self,
        left: &NodeEnum,
        right: &NodeEnum,
        scope: &Scope<'_>,
        restricts: Occurrences,
        is_conjunct: bool,
    ) -> Written {
        if let (NodeEnum::RowExpr(left), NodeEnum::RowExpr(right)) = (left, right) {
            if left.args.len() != right.args.len() {
                return Written::Any;
            }
            let pairs = left.args.iter().zip(&right.args);
            let parts = pairs.filter_map(|(a, b)| Some((a.node.as_ref()?, b.node.as_ref()?)));
            return Written::And(parts.map(|(a, b)| self.equality(a, b, scope, restricts, is_conjunct)).collect());
        }
        match (self.variable_of(left, scope), self.variable_of(right, scope)) {
            (Some((a, _)), Some((b, _))) => {
                if is_conjunct {
                    self.equate(a, b, restricts);
                }
                Written::Any
            }
            (Some((variable, class)), None) => {
                Operand::new(right, class).map_or(Written::Any, |operand| Written::OneOf(variable, vec![operand]))
            }
            (None, Some((variable, class))) => {
                Operand::new(left, class).map_or(Written::Any, |operand| Written::OneOf(variable, vec![operand]))
            }
            (None, None) => Written::Any,
        }
    }

    fn variable_of(&self, node: &NodeEnum, scope: &Scope<'_>) -> Option<(Variable, KeyClass)> {
        let variable = scope.variable(&nodes::column_name(node)?)?;
        Some((variable, self.class_of(variable)?))
    }

    /// Walks an expression for sub-queries, functions, and what nobody knows.
    pub(super) fn walk(&mut self, node: &Node, scope: &Scope<'_>) -> Result<()> {
        let Some(inner) = &node.node else { return Ok(()) };
        match inner {
            NodeEnum::SubLink(link) => return self.sub_link(link, scope).map(|_| ()),
            NodeEnum::FuncCall(call) => match functions::class(call) {
                None => {
                    self.takes_advisory_locks |= functions::is_advisory_lock(call);
                    let name: Vec<&str> = call.funcname.iter().filter_map(nodes::string).collect();
                    self.object(format!("function {} is not known to be safe on a shard", name.join(".")));
                }
                Some(_) if call.over.is_some() => self.windows += 1,
                Some(Class::Aggregate) => {
                    self.aggregates += 1;
                    if scope.outer.is_some() && is_of_outer_query(&call.args, scope) {
                        self.object("an aggregate in a sub-query may be of the query around it");
                    }
                }
                Some(Class::Moment) => {
                    self.differs = true;
                    self.needs_one_server |= functions::is_of_one_server(call);
                }
                // Each row of the result may have its own; rows that each shard makes for itself must be the same.
                Some(Class::Chance) => self.differs |= self.depth > self.own_depth,
                Some(_) => {}
            },
            NodeEnum::SqlvalueFunction(_) => self.differs = true,
            NodeEnum::AExpr(expr) if nodes::kind(expr) == AExprKind::AexprIn => {
                let list = self.list(expr, scope);
                self.lists.extend(list);
            }
            NodeEnum::ColumnRef(column) => {
                self.has_schema_columns |= column.fields.len() > 2;
                let name = column.fields.last().and_then(nodes::string).unwrap_or("");
                if SYSTEM_COLUMNS.contains(&name) {
                    self.names_system = true;
                    self.differs = true;
                    self.is_same_everywhere = false;
                }
            }
            NodeEnum::TypeCast(cast) => {
                let name = cast.type_name.as_ref().and_then(|name| name.names.last()).and_then(nodes::string);
                if name.is_some_and(|name| name.starts_with("reg") || name == "oid") {
                    self.object("numbers of a server's own objects differ from server to server");
                }
            }
            _ => {}
        }
        self.is_same_everywhere &= functions::is_same_everywhere(inner);
        match nodes::children(inner) {
            Some(children) => children.into_iter().try_for_each(|child| self.walk(child, scope)),
            None => {
                self.object("the statement holds an expression whose meaning for a shard is not known");
                Ok(())
            }
        }
    }

    /// The list of constants that a key is looked up in.
    fn list(&self, expr: &AExpr, scope: &Scope<'_>) -> Option<List> {
        let (variable, class) = self.variable_of(nodes::inner(&expr.lexpr)?, scope)?;
        let occurrence = self.occurrence_of(variable);
        if self.key_of(occurrence) != [variable] {
            return None;
        }
        let nodes = operand::items(nodes::inner(&expr.rexpr)?)?;
        let start = self.place(expr.rexpr_list_start).ok()? + 1;
        let place = start..self.place(expr.rexpr_list_end).ok()?;
        let places = scan::items(self.text, &place)?;
        if places.len() != nodes.len() {
            return None;
        }
        let keys = nodes.iter().map(|node| match Operand::new(node.node.as_ref()?, class)? {
            Operand::Constant(key) => Some(key),
            Operand::Null | Operand::Text(_) | Operand::Parameter(_) => None,
        });
        let items = places.into_iter().zip(keys).map(|(place, key)| Some((place, key?)));
        Some(List { occurrence, place, items: items.collect::<Option<_>>()? })
    }

    fn sub_link(&mut self, link: &SubLink, scope: &Scope<'_>) -> Result<Vec<Output>> {
        if let Some(test) = link.testexpr.as_deref() {
            self.walk(test, scope)?;
        }
        let Some(NodeEnum::SelectStmt(select)) = nodes::inner(&link.subselect) else {
            self.object("the statement holds a sub-query of an unknown kind");
            return Ok(Vec::new());
        };
        let (aggregates, windows) = (self.aggregates, self.windows);
        let query = self.query(select, Some(scope))?;
        (self.aggregates, self.windows) = (aggregates, windows);
        Ok(if query.is_restrictable { query.outputs } else { Vec::new() })
    }

    /// What is known of a table's name that is no CTE's.
    pub(super) fn find(&mut self, relation: &RangeVar) -> Option<Arc<ShardedTable>> {
        let schema = Some(relation.schemaname.as_str()).filter(|schema| !schema.is_empty());
        match self.tables.find(schema, &relation.relname) {
            Found::Sharded(table) => Some(table),
            Found::Elsewhere | Found::Unknown => {
                self.is_elsewhere = true;
                None
            }
        }
    }

    /// The variables that hand their restrictions on to this one, itself among them.
    fn reaching(&self, variable: Variable) -> Vec<Variable> {
        let mut found = vec![variable];
        let mut at = 0;
        while let Some(to) = found.get(at).copied() {
            for (from, _) in self.edges.iter().filter(|edge| edge.1 == to) {
                if !found.contains(from) {
                    found.push(*from);
                }
            }
            at += 1;
        }
        found
    }

    /// All conditions that restrict an occurrence, as conditions on its key. A condition restricts those that it was
    /// written for; where they hand their restriction on, it restricts others through them.
    pub(super) fn condition_of(&self, occurrence: usize) -> Condition {
        let reaching: Vec<Vec<Variable>> =
            self.key_of(occurrence).into_iter().map(|variable| self.reaching(variable)).collect();
        let about = |conjunct: &Conjunct| {
            if conjunct.restricts.contains(occurrence) {
                let column = |variable: &Variable| reaching.iter().position(|all| all.contains(variable));
                return conjunct.condition.about(&column);
            }
            let through: Vec<Vec<Variable>> = reaching
                .iter()
                .map(|all| {
                    let restricted =
                        all.iter().filter(|variable| conjunct.restricts.contains(self.occurrence_of(**variable)));
                    restricted.flat_map(|variable| self.reaching(*variable)).collect()
                })
                .collect();
            // That a sub-query has no rows says nothing of rows that it does not hand a key on to.
            if through.iter().all(Vec::is_empty) {
                return Condition::Any;
            }
            conjunct.condition.about(&|variable: &Variable| through.iter().position(|all| all.contains(variable)))
        };
        Condition::all(self.conjuncts.iter().map(about).collect())
    }

    /// Whether the rows of an anchor that are on a shard restrict those of all tables that are divided to the same shard.
    pub(super) fn divides(&self, anchor: usize) -> bool {
        let is_divided = |at: &usize| self.occurrences[*at].table.rule.placement() == Placement::Sharded;
        (0..self.occurrences.len()).filter(is_divided).all(|other| self.follows(anchor, other))
    }

    /// Whether restricting the anchor to rows of a shard restricts the other occurrence to rows of the same shard.
    pub(super) fn follows(&self, anchor: usize, other: usize) -> bool {
        let (a, b) = (&self.occurrences[anchor].table.rule, &self.occurrences[other].table.rule);
        if anchor == other {
            return true;
        }
        let (a_key, b_key) = (self.key_of(anchor), self.key_of(other));
        a.is_colocated_with(b)
            && a_key.len() == a.key().len()
            && a_key.len() == b_key.len()
            && a_key.iter().zip(&b_key).all(|(a, b)| self.reaching(*b).contains(a))
    }
}

impl Written {
    /// The condition on a key whose columns the variables stand for.
    fn about(&self, column: &impl Fn(&Variable) -> Option<usize>) -> Condition {
        match self {
            Self::Any => Condition::Any,
            Self::Never => Condition::Never,
            Self::OneOf(variable, operands) => {
                column(variable).map_or(Condition::Any, |at| Condition::OneOf(at, operands.clone()))
            }
            Self::InArray(variable, number) => {
                column(variable).map_or(Condition::Any, |at| Condition::InArray(at, *number))
            }
            Self::Between(variable, low, high) => {
                column(variable).map_or(Condition::Any, |at| Condition::Between(at, low.clone(), high.clone()))
            }
            Self::And(parts) => Condition::all(parts.iter().map(|part| part.about(column)).collect()),
            Self::Or(parts) => Condition::any(parts.iter().map(|part| part.about(column)).collect()),
        }
    }
}

/// Whether an aggregate names columns, and none that is certain to be of its own query.
fn is_of_outer_query(args: &[Node], scope: &Scope<'_>) -> bool {
    let mut waiting: Vec<&Node> = args.iter().collect();
    let mut names_columns = false;
    while let Some(node) = waiting.pop() {
        let Some(inner) = &node.node else { continue };
        if let NodeEnum::ColumnRef(_) = inner {
            if nodes::column_name(inner).is_some_and(|fields| scope.is_own(&fields)) {
                return false;
            }
            names_columns = true;
        }
        waiting.extend(nodes::children(inner).unwrap_or_default());
    }
    names_columns
}

/// Whether a written name, which may have a schema, ends in this name.
fn ends_in(written: &str, name: &str) -> bool {
    match scan::Tokens::new(written, 0).last() {
        Some((scan::Token::Word, place)) => written[place].eq_ignore_ascii_case(name),
        Some((token, _)) => token == scan::Token::Quoted,
        None => false,
    }
}

/// The operator with its sides changed.
fn turned(operator: &str) -> &str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        _ => "<=",
    }
}
