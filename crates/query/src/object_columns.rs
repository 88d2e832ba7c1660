//! Finds the columns of a result that are `oid` or `oid[]`, and the parameters that are `oid[]`, because drivers that
//! read the catalog decode values by these types.
//!
//! Called when a statement is planned, and when its parameters are described. Inside the server object numbers are
//! bigints. This module looks at the parse tree alone, and follows columns of the system tables to the output if
//! nothing is computed from them. What it cannot follow, or what is computed, stays a bigint.

use std::sync::Arc;

use ashlar_base::{ScalarType, SqlType};
use pg_query::protobuf::{self, SubLinkType};
use pg_query::{Node, NodeEnum};

use crate::columns::Column;
use crate::grammar::{self, ParsedStatement};
use crate::sql_types::string_of;
use crate::system_tables;

/// PostgreSQL's number of the type `oid`.
const OID: u32 = 26;
/// That of `oid[]`.
const OIDS: u32 = 1028;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Numbers,
    Other,
}

/// A column of a query or a table.
#[derive(Clone)]
struct Output {
    name: String,
    kind: Kind,
}

/// An item of FROM, or a query of WITH; `None` where its columns are not known.
#[derive(Clone)]
struct Named {
    name: String,
    columns: Option<Vec<Output>>,
}

/// The columns of a statement, with those that are object numbers announced as such.
pub(crate) fn announced(columns: Arc<[Column]>, parsed: &ParsedStatement) -> Arc<[Column]> {
    let NodeEnum::SelectStmt(select) = &parsed.node else { return columns };
    let is_number = |column: &Column| column.sql_type.scalar() == ScalarType::Int8;
    let is_asked = parsed.text.contains("pg_") || parsed.text.contains("PG_");
    if !is_asked || !columns.iter().any(is_number) {
        return columns;
    }
    let Some(outputs) = outputs(select, &[]).filter(|outputs| outputs.len() == columns.len()) else { return columns };
    let announced = columns.iter().zip(outputs).map(|(column, output)| match (column.sql_type, output.kind) {
        (SqlType::Scalar(ScalarType::Int8), Kind::Number) => Column { oid: OID, typlen: 4, ..column.clone() },
        (SqlType::Array(ScalarType::Int8), Kind::Numbers) => Column { oid: OIDS, ..column.clone() },
        _ => column.clone(),
    });
    announced.collect()
}

/// Announces the parameters of a text that it casts to `oid[]`, and of which the client has not said what they are.
pub fn announce_parameters(sql: &str, types: &[SqlType], announced: &mut [u32]) {
    let int8s = SqlType::Array(ScalarType::Int8);
    if !types.contains(&int8s) || !sql.to_ascii_lowercase().contains("oid") {
        return;
    }
    let Ok(statements) = grammar::parse(sql) else { return };
    for statement in statements {
        for (node, ..) in statement.node.nodes() {
            let pg_query::NodeRef::TypeCast(cast) = node else { continue };
            let Some(NodeEnum::ParamRef(parameter)) = cast.arg.as_ref().and_then(|arg| arg.node.as_ref()) else {
                continue;
            };
            let Some(name) = &cast.type_name else { continue };
            let is_oid = name.names.last().and_then(string_of) == Some("oid") && name.array_bounds.len() == 1;
            let Some(place) = usize::try_from(parameter.number).ok().and_then(|number| number.checked_sub(1)) else {
                continue;
            };
            if is_oid
                && types.get(place) == Some(&int8s)
                && let Some(oid) = announced.get_mut(place)
            {
                *oid = OIDS;
            }
        }
    }
}

/// The columns of a query that sees these of WITH; `None` where they are not known.
fn outputs(select: &protobuf::SelectStmt, around: &[Named]) -> Option<Vec<Output>> {
    let mut with = around.to_vec();
    for node in select.with_clause.iter().flat_map(|clause| &clause.ctes) {
        let Some(NodeEnum::CommonTableExpr(cte)) = &node.node else { continue };
        let columns = cte.ctequery.as_ref().and_then(|query| of_query(query, &with));
        let columns = columns.map(|columns| renamed(columns, &cte.aliascolnames));
        with.push(Named { name: cte.ctename.clone(), columns });
    }
    if let (Some(left), Some(right)) = (&select.larg, &select.rarg) {
        let (left, right) = (outputs(left, &with)?, outputs(right, &with)?);
        let both = left.into_iter().zip(&right).map(|(left, right)| {
            let kind = if left.kind == right.kind { left.kind } else { Kind::Other };
            Output { kind, ..left }
        });
        let both: Vec<Output> = both.collect();
        return (both.len() == right.len()).then_some(both);
    }
    if !select.values_lists.is_empty() {
        return None;
    }
    let mut tables = Vec::new();
    for item in &select.from_clause {
        add_tables(item, &with, &mut tables);
    }
    let mut found = Vec::new();
    for target in &select.target_list {
        let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
        let value = target.val.as_ref()?;
        match star(value) {
            Some(table) => {
                let mut named = tables.iter().filter(|known| table.is_none_or(|name| name == known.name)).peekable();
                // Of a table whose name is not known there are columns all the same.
                named.peek()?;
                for known in named {
                    found.extend(known.columns.clone()?);
                }
            }
            None => {
                let name = if target.name.is_empty() { label(value) } else { target.name.as_str() };
                let kind = kind(value, &tables, &with).unwrap_or(Kind::Other);
                found.push(Output { name: name.to_owned(), kind });
            }
        }
    }
    Some(found)
}

fn of_query(node: &Node, with: &[Named]) -> Option<Vec<Output>> {
    match &node.node {
        Some(NodeEnum::SelectStmt(select)) => outputs(select, with),
        _ => None,
    }
}

/// The first columns take these names.
fn renamed(mut columns: Vec<Output>, names: &[Node]) -> Vec<Output> {
    for (column, name) in columns.iter_mut().zip(names) {
        if let Some(name) = string_of(name) {
            name.clone_into(&mut column.name);
        }
    }
    columns
}

/// Adds what an item of FROM has.
fn add_tables(item: &Node, with: &[Named], tables: &mut Vec<Named>) {
    let unknown = || Named { name: String::new(), columns: None };
    match &item.node {
        Some(NodeEnum::RangeVar(table)) => {
            let of_with = with.iter().rev().find(|known| table.schemaname.is_empty() && known.name == table.relname);
            let columns = match of_with {
                Some(known) => known.columns.clone(),
                None if matches!(table.schemaname.as_str(), "" | "pg_catalog") => of_system_table(&table.relname),
                None => None,
            };
            tables.push(aliased(&table.relname, table.alias.as_ref(), columns));
        }
        Some(NodeEnum::RangeSubselect(inner)) => {
            let columns = inner.subquery.as_ref().and_then(|query| of_query(query, with));
            tables.push(aliased("", inner.alias.as_ref(), columns));
        }
        Some(NodeEnum::JoinExpr(join)) => {
            for side in [&join.larg, &join.rarg].into_iter().flatten() {
                add_tables(side, with, tables);
            }
            // Its columns are not those of both sides, one after the other.
            if join.is_natural || !join.using_clause.is_empty() || join.alias.is_some() {
                tables.push(unknown());
            }
        }
        _ => tables.push(unknown()),
    }
}

fn aliased(name: &str, alias: Option<&protobuf::Alias>, columns: Option<Vec<Output>>) -> Named {
    match alias {
        Some(alias) => {
            let columns = columns.map(|columns| renamed(columns, &alias.colnames));
            Named { name: alias.aliasname.clone(), columns }
        }
        None => Named { name: name.to_owned(), columns },
    }
}

fn of_system_table(name: &str) -> Option<Vec<Output>> {
    let columns = system_tables::columns_of("pg_catalog", name)?;
    let column = |(name, type_name): (&str, &str)| {
        let kind = match type_name {
            "bigint" if is_object_number(name) => Kind::Number,
            _ => Kind::Other,
        };
        Output { name: name.to_owned(), kind }
    };
    Some(columns.into_iter().map(column).collect())
}

/// Whether a bigint of a system table is an `oid` in PostgreSQL, by its name.
fn is_object_number(name: &str) -> bool {
    const ENDS: [&str; 5] = ["oid", "relid", "typid", "owner", "namespace"];
    const NAMES: [&str; 23] = [
        "attcollation",
        "conindid",
        "conparentid",
        "datdba",
        "dattablespace",
        "ev_class",
        "fdwhandler",
        "fdwvalidator",
        "ftserver",
        "inhparent",
        "opcintype",
        "opcmethod",
        "relam",
        "relfilenode",
        "reloftype",
        "reltablespace",
        "reltype",
        "rngsubtype",
        "srvfdw",
        "typarray",
        "typbasetype",
        "typcollation",
        "typelem",
    ];
    NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end))
}

/// The strings of a reference to a column, without its star.
fn parts(column: &protobuf::ColumnRef) -> Vec<&str> {
    column.fields.iter().filter_map(string_of).collect()
}

/// Whether an output is a star, and whose.
fn star(value: &Node) -> Option<Option<&str>> {
    let Some(NodeEnum::ColumnRef(column)) = &value.node else { return None };
    let last = column.fields.last()?;
    matches!(last.node, Some(NodeEnum::AStar(_))).then(|| parts(column).last().copied())
}

/// The name that an output has without AS, as far as anybody can name it.
fn label(value: &Node) -> &str {
    let name = match &value.node {
        Some(NodeEnum::ColumnRef(column)) => column.fields.last().and_then(string_of),
        Some(NodeEnum::FuncCall(call)) => call.funcname.last().and_then(string_of),
        _ => None,
    };
    name.unwrap_or("?column?")
}

/// What an expression gives; `None` for NULL, which is of any type.
fn kind(value: &Node, tables: &[Named], with: &[Named]) -> Option<Kind> {
    let of = |node: &Node| kind(node, tables, with);
    Some(match value.node.as_ref()? {
        NodeEnum::AConst(constant) if constant.isnull => return None,
        NodeEnum::ColumnRef(column) => {
            let (table, name) = match parts(column)[..] {
                [name] => (None, name),
                [.., table, name] => (Some(table), name),
                [] => return Some(Kind::Other),
            };
            let named = tables.iter().filter(|known| table.is_none_or(|table| table == known.name));
            let mut columns = named.filter_map(|known| known.columns.as_ref()).flatten();
            columns.find(|known| known.name == name).map_or(Kind::Other, |known| known.kind)
        }
        NodeEnum::FuncCall(call) => {
            let argument = match &call.args[..] {
                [argument] => of(argument),
                _ => None,
            };
            match (call.funcname.last().and_then(string_of), argument) {
                (Some("array_agg"), Some(Kind::Number)) => Kind::Numbers,
                (Some("min" | "max"), Some(Kind::Number)) => Kind::Number,
                _ => Kind::Other,
            }
        }
        NodeEnum::CaseExpr(case) => {
            let results = case.args.iter().filter_map(|branch| match &branch.node {
                Some(NodeEnum::CaseWhen(branch)) => branch.result.as_deref(),
                _ => None,
            });
            return one_kind(results.chain(case.defresult.as_deref()).filter_map(of));
        }
        NodeEnum::CoalesceExpr(coalesce) => return one_kind(coalesce.args.iter().filter_map(of)),
        NodeEnum::SubLink(link) => {
            let columns = link.subselect.as_ref().and_then(|query| of_query(query, with));
            let first = columns.and_then(|columns| columns.first().map(|column| column.kind));
            match (SubLinkType::try_from(link.sub_link_type), first) {
                (Ok(SubLinkType::ExprSublink), Some(kind)) => kind,
                (Ok(SubLinkType::ArraySublink), Some(Kind::Number)) => Kind::Numbers,
                _ => Kind::Other,
            }
        }
        _ => Kind::Other,
    })
}

/// The kind that all have.
fn one_kind(mut kinds: impl Iterator<Item = Kind>) -> Option<Kind> {
    let first = kinds.next()?;
    Some(if kinds.all(|kind| kind == first) { first } else { Kind::Other })
}

#[cfg(test)]
mod tests {
    use super::{Kind, announce_parameters, outputs};
    use crate::grammar;
    use ashlar_base::{ScalarType, SqlType};
    use pg_query::NodeEnum;

    /// One letter a column: `n` for a number, `N` for an array of them, `-` for others; `?` where nothing is known.
    fn kinds(sql: &str) -> String {
        let parsed = grammar::parse(sql).unwrap().pop().unwrap();
        let NodeEnum::SelectStmt(select) = &parsed.node else { panic!("{sql} is no query") };
        let Some(outputs) = outputs(select, &[]) else { return "?".to_owned() };
        let letter = |kind| match kind {
            Kind::Number => 'n',
            Kind::Numbers => 'N',
            Kind::Other => '-',
        };
        outputs.iter().map(|output| letter(output.kind)).collect()
    }

    #[test]
    fn object_numbers_are_followed_to_where_they_come_out() {
        for (sql, expected) in [
            ("SELECT oid, typname, typelem, typlen FROM pg_type", "n-n-"),
            ("SELECT oid + 1, oid::text, count(oid), max(oid) FROM pg_catalog.pg_class", "---n"),
            ("SELECT t.*, c.relname FROM pg_attrdef t JOIN pg_class c ON c.oid = t.adrelid", "nn---"),
            ("SELECT * FROM pg_attrdef JOIN pg_class USING (oid)", "?"),
            ("SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a", "N"),
            ("SELECT ARRAY(SELECT oid FROM pg_class), (SELECT max(oid) FROM pg_class), (SELECT 1)", "Nn-"),
            ("SELECT CASE WHEN typtype = 'c' THEN typrelid ELSE NULL END, coalesce(typelem, 0) FROM pg_type", "n-"),
            ("WITH w(a, b) AS (SELECT oid, typname FROM pg_type) SELECT b, a FROM w", "-n"),
            ("SELECT oid FROM pg_class UNION SELECT 1", "-"),
            ("SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_type", "n"),
            ("SELECT oid FROM mine", "-"),
            ("SELECT seqstart, seqrelid FROM pg_sequence", "-n"),
            (
                "WITH RECURSIVE tree(oid, of, depth) AS (SELECT ti.oid, ti.of, 0 FROM (SELECT t.oid AS oid, (CASE WHEN \
                 t.typtype = 'c' THEN (SELECT array_agg(ia.atttypid) FROM pg_attribute ia) ELSE NULL END) AS of FROM \
                 pg_type t) AS ti UNION ALL SELECT ti.oid, ti.of, tt.depth + 1 FROM (SELECT oid, ARRAY(SELECT oid FROM \
                 pg_type) AS of FROM pg_type) ti, tree tt) SELECT DISTINCT *, oid::regtype::text AS name FROM tree",
                "nN--",
            ),
        ] {
            assert_eq!(kinds(sql), expected, "{sql}");
        }
    }

    #[test]
    fn parameters_that_are_cast_to_oids_are_announced() {
        let int8s = SqlType::Array(ScalarType::Int8);
        let types = [int8s, int8s, SqlType::Scalar(ScalarType::Int8)];
        let mut announced = [1016, 1016, 20];
        let sql = "SELECT 1 FROM pg_type WHERE oid = any($1::oid[]) AND typelem = any($2::bigint[]) AND oid = $3::oid";
        announce_parameters(sql, &types, &mut announced);
        assert_eq!(announced, [1028, 1016, 20]);
    }
}
