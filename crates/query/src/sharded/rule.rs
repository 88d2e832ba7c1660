//! ALTER TABLE ... SET (...) and RESET (...) of sharded tables: a new rule, as long as no row has to move for it.
//!
//! Added shards get the table, with its keys and indexes. Shards that lose keys get a constraint: creating it fails if
//! they have rows that the new rule places elsewhere, and it keeps out rows that anyone still sends by the old rule.
//! All of it is one transaction, on all shards or on none. For changing the servers of a table with a full copy on
//! each, see `copies`.

use std::sync::Arc;

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::rules::{Copies, Extension, Kept, Key, KeyClass, Shard};
use pg_query::NodeEnum;
use pg_query::protobuf::{AlterTableCmd, AlterTableStmt, AlterTableType, CreateStmt, DefElem, ObjectType};

use super::alter::{make_known, redefined};
use super::copies::CopyChange;
use super::ddl::{at_shard, creating_at, done_but, everywhere, of_server, physical, taken_flag};
use super::maintain::{Work, in_block_refused, on_shard};
use super::stored_definition::{BETWEEN, StoredTable, kept_of};
use super::{ShardedTable, attach};
use crate::catalog::{CatalogState, Table};
use crate::ddl::{self, Done};
use crate::engine::Engine;
use crate::grammar;
use crate::resources::StatementResources;
use crate::statement::statement_text;

/// What a shard's table is held to where its keys have become fewer.
pub(super) const CONSTRAINT: &str = "ashlar_rule";

/// What a shard says where it has rows that are not to be there.
const CHECK_VIOLATION: &str = "23514";

/// Options that say something of a statement, and not of the table.
const OF_STATEMENT: [&str; 2] = ["attach", "attach_check"];

/// Whether an ALTER TABLE is about options, and nothing else.
pub(crate) fn changes_rule(statement: &AlterTableStmt) -> bool {
    let is_about_options = |command: &pg_query::Node| match &command.node {
        Some(NodeEnum::AlterTableCmd(command)) => options_of(command).is_some(),
        _ => false,
    };
    statement.objtype == ObjectType::ObjectTable as i32
        && !statement.cmds.is_empty()
        && statement.cmds.iter().all(is_about_options)
}

/// The options that a command sets, or takes away.
pub(super) fn options_of(command: &AlterTableCmd) -> Option<(bool, &[pg_query::Node])> {
    let sets = match AlterTableType::try_from(command.subtype) {
        Ok(AlterTableType::AtSetRelOptions) => true,
        Ok(AlterTableType::AtResetRelOptions) => false,
        _ => return None,
    };
    match command.def.as_ref().and_then(|def| def.node.as_ref()) {
        Some(NodeEnum::List(list)) => Some((sets, list.items.as_slice())),
        _ => Some((sets, &[])),
    }
}

/// Gives a table's statement other options, or takes some away.
pub(super) fn set_options(made: &mut CreateStmt, sets: bool, options: &[pg_query::Node]) {
    for option in options {
        let Some(name) = name_of(option) else { continue };
        let place = made.options.iter().position(|known| name_of(known) == Some(name));
        match (sets, place) {
            (true, Some(place)) => made.options[place] = option.clone(),
            (true, None) => made.options.push(option.clone()),
            (false, Some(place)) => drop(made.options.remove(place)),
            (false, None) => {}
        }
    }
}

fn element_of(option: &pg_query::Node) -> Option<&DefElem> {
    match &option.node {
        Some(NodeEnum::DefElem(element)) => Some(element.as_ref()),
        _ => None,
    }
}

fn name_of(option: &pg_query::Node) -> Option<&str> {
    element_of(option).map(|element| element.defname.as_str())
}

/// What is wanted of a rule.
#[derive(Default)]
struct Wish {
    set: Vec<(String, String)>,
    reset: Vec<String>,
    /// The tables of added shards are there.
    attaches: bool,
    /// Whether the rows of all shards are read then.
    checks_rows: bool,
}

impl Wish {
    /// # Errors
    /// 42601 for values of RESET, 22023 for what cannot be taken away.
    fn of(statement: &AlterTableStmt) -> Result<Self> {
        let mut wish = Self { checks_rows: true, ..Self::default() };
        for command in &statement.cmds {
            let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
            match options_of(command) {
                Some((true, options)) => wish.set.extend(ddl::given_options(options)),
                Some((false, options)) => {
                    for element in options.iter().filter_map(element_of) {
                        if element.arg.is_some() {
                            let message = "RESET must not include values for parameters";
                            return Err(Error::new(ErrorCode::SyntaxError, message));
                        }
                        if OF_STATEMENT.contains(&element.defname.as_str()) {
                            let message = format!("parameter \"{}\" cannot be reset", element.defname);
                            return Err(Error::new(ErrorCode::InvalidParameterValue, message));
                        }
                        wish.reset.push(element.defname.clone());
                    }
                }
                None => {}
            }
        }
        if let Some(attaches) = taken_flag(&mut wish.set, "attach")? {
            wish.attaches = attaches;
        }
        if let Some(checks_rows) = taken_flag(&mut wish.set, "attach_check")? {
            wish.checks_rows = checks_rows;
        }
        Ok(wish)
    }

    /// As it is kept with the table.
    fn text(&self, table: &str) -> String {
        let table = quote_ident(table);
        let set = |(name, value): &(String, String)| format!("{} = {}", quote_ident(name), quoted(value));
        let set: Vec<String> = self.set.iter().map(set).collect();
        let reset: Vec<String> = self.reset.iter().map(|name| quote_ident(name)).collect();
        let mut parts = Vec::new();
        if !set.is_empty() {
            parts.push(format!("SET ({})", set.join(", ")));
        }
        if !reset.is_empty() {
            parts.push(format!("RESET ({})", reset.join(", ")));
        }
        format!("ALTER TABLE {table} {}", parts.join(", "))
    }
}

/// ALTER TABLE ... SET (...) and RESET (...) of a sharded table.
///
/// # Errors
/// 22023 and the like for what no rule says; 0A000 where rows might have to move, and 55000 where some would; what a shard says. Then the
/// rule is as before.
pub(crate) async fn change(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &AlterTableStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    if in_block {
        return Err(in_block_refused("ALTER TABLE"));
    }
    let wish = Wish::of(statement)?;
    let fleet = &table.fleet;
    let _altering = fleet.altering().lock().await;
    let name = table.schema.name.clone();
    let kept = kept_of(fleet, &name)?;
    let is_same = wish.set.is_empty() && wish.reset.is_empty();
    let text = if is_same { kept.clone() } else { format!("{kept}{BETWEEN}{}", wish.text(&name)) };
    let altered = redefined(engine, table, &text)?;
    if let Some(copies) = table.routed.rule.copied(&altered.routed.rule)? {
        let now = StoredTable::read(&name, &text)?;
        let change = CopyChange { table, altered: &altered, now: &now, copies: &copies };
        let left = if wish.attaches {
            // Names are others' to choose, and to keep apart.
            change.look(wish.checks_rows, resources).await?;
            Vec::new()
        } else {
            check_new_suffix(&kept, &altered, &copies)?;
            change.carry_out(resources).await?
        };
        make_known(engine, altered, &kept, &text)?;
        return Ok(done_but(Done::tag("ALTER TABLE"), &left));
    }
    let extension = table.routed.rule.extended(&altered.routed.rule)?;
    if wish.attaches && extension.added.is_empty() {
        let message = "parameter \"attach\" has no meaning where no shard is added";
        return Err(Error::new(ErrorCode::InvalidParameterValue, message).with_hint("Leave it out."));
    }
    let mut left = Vec::new();
    if !extension.is_empty() {
        check_alone(&engine.catalog().current(), &name)?;
        let now = StoredTable::read(&name, &text)?;
        if wish.attaches {
            attach::check(&altered, &now.made, resources, wish.checks_rows, &extension).await?;
        }
        let work = work(&altered, &now, &extension, !wish.attaches)?;
        left = everywhere(fleet, resources, &work).await.map_err(|error| told(error, &name))?;
    }
    make_known(engine, altered, &kept, &text)?;
    Ok(done_but(Done::tag("ALTER TABLE"), &left))
}

/// The ends that were given to the names of a table's copies, one after the other; nothing where none was.
fn suffixes(kept: &str) -> Result<Vec<String>> {
    let is_it = |name: &str| name == "table_suffix";
    let given = |options: Vec<(String, String)>| options.into_iter().find(|(name, _)| is_it(name)).map(|(_, end)| end);
    let mut found = Vec::new();
    for parsed in grammar::parse(kept)? {
        match &parsed.node {
            NodeEnum::CreateStmt(made) => found.push(given(ddl::given_options(&made.options)).unwrap_or_default()),
            NodeEnum::AlterTableStmt(statement) => {
                let wish = Wish::of(statement)?;
                let is_reset = wish.reset.iter().any(|name| is_it(name));
                found.extend(given(wish.set).or_else(|| is_reset.then(String::new)));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// 0A000 where a copy comes, and copies would have a name that they have had before: whoever has heard of no change since finds those that
/// there were by it, and would go on writing to them alone.
fn check_new_suffix(kept: &str, altered: &ShardedTable, copies: &Copies) -> Result<()> {
    let mut options = altered.routed.rule.options().iter();
    let suffix = options.find(|(name, _)| name == "table_suffix").map_or("", |(_, end)| end.as_str());
    if copies.added.is_empty() || !suffixes(kept)?.iter().any(|known| known == suffix) {
        return Ok(());
    }
    let what = "other servers cannot be given to a table that is on all of its servers";
    Err(Error::unsupported(format!("{what}: its copies have had the suffix '{suffix}' before"))
        .with_hint("Give them another one: SET (servers = ..., table_suffix = '_3')."))
}

/// 0A000 where other tables have taken over a table's rule, and would have another one from the next start on.
pub(super) fn check_alone(state: &CatalogState, name: &str) -> Result<()> {
    let follows = |table: &ShardedTable| {
        let mut options = table.routed.rule.options().iter();
        options.any(|(option, value)| option == "colocate_with" && value.trim() == name)
    };
    for (other, table) in state.tables() {
        if let Table::Sharded(table) = table
            && follows(table)
        {
            let message =
                format!("the rule of table \"{name}\" cannot be changed: table \"{other}\" has taken it over");
            return Err(Error::unsupported(message).with_hint("Make both anew, and INSERT their rows into them."));
        }
    }
    Ok(())
}

/// What the shards are sent; `makes`: the tables of those that are added are not there.
fn work(altered: &ShardedTable, now: &StoredTable, extension: &Extension, makes: bool) -> Result<Work> {
    let shards = altered.routed.rule.shards();
    let mut work = Work::new();
    for (shard, kept) in &extension.changed {
        let shard = &shards[shard.index()];
        let text = format!(
            "ALTER TABLE {} DROP CONSTRAINT IF EXISTS {CONSTRAINT}, ADD CONSTRAINT {CONSTRAINT} CHECK ({});",
            physical(shard),
            condition(altered, kept)
        );
        of_server(&mut work, &shard.server).push_str(&text);
    }
    if !makes {
        return Ok(work);
    }
    for shard in &shards[extension.added.clone()] {
        of_server(&mut work, &shard.server).push_str(&making(altered, now, shard)?);
    }
    Ok(work)
}

/// What makes the table of a shard that comes, with its keys and indexes.
pub(super) fn making(altered: &ShardedTable, now: &StoredTable, shard: &Shard) -> Result<String> {
    let mut text = creating_at(&now.made, shard)?;
    for index in &now.indexes {
        let mut own = index.clone();
        own.idxname = on_shard(&index.idxname, altered, shard)?;
        at_shard(&mut own.relation, shard);
        text.push_str(&statement_text(&NodeEnum::IndexStmt(Box::new(own)))?);
        text.push(';');
    }
    Ok(text)
}

/// What a row has to satisfy, in SQL.
pub(super) fn condition(table: &ShardedTable, kept: &Kept) -> String {
    let rule = &table.routed.rule;
    let ([ordinal], [class]) = (rule.key(), rule.classes()) else { return "true".to_owned() };
    let column = quote_ident(&table.schema.columns[*ordinal].name);
    let list = |keys: &[Key]| keys.iter().map(|key| literal(key, *class)).collect::<Vec<String>>().join(", ");
    match kept {
        Kept::Between(None, None) => "true".to_owned(),
        Kept::Between(low, high) => {
            // In the order of the rule, which is that of bytes.
            let ordered = if *class == KeyClass::Text { format!("{column} COLLATE \"C\"") } else { column };
            let low = low.iter().map(|key| format!("{ordered} >= {}", literal(key, *class)));
            let high = high.iter().map(|key| format!("{ordered} < {}", literal(key, *class)));
            low.chain(high).collect::<Vec<String>>().join(" AND ")
        }
        Kept::OneOf(keys) if keys.is_empty() => "false".to_owned(),
        Kept::OneOf(keys) => format!("{column} IN ({})", list(keys)),
        Kept::NoneOf(keys) if keys.is_empty() => "true".to_owned(),
        Kept::NoneOf(keys) => format!("{column} NOT IN ({})", list(keys)),
    }
}

/// A key as a constant.
fn literal(key: &Key, class: KeyClass) -> String {
    let name = match class {
        KeyClass::Integer => "int8",
        KeyClass::Text => "text",
        KeyClass::Uuid => "uuid",
        KeyClass::Date => "date",
        KeyClass::Timestamp => "timestamp",
        KeyClass::Timestamptz => "timestamptz",
    };
    let mut written = Vec::new();
    text::write(class.sql_type(), &key.as_datum(class), &TextStyle::default(), &mut written);
    format!("{}::pg_catalog.{name}", quoted(&String::from_utf8_lossy(&written)))
}

/// A text as a constant that means the same whatever `standard_conforming_strings` is there.
pub(super) fn quoted(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// What a shard has said, in words of the rule.
fn told(error: Error, name: &str) -> Error {
    if error.code() == ErrorCode::TransactionResolutionUnknown {
        return error
            .with_hint("Change the rule again; with attach = true as well, where tables of new shards are there.");
    }
    if error.sqlstate() != CHECK_VIOLATION {
        return error;
    }
    let message = format!("rows of table \"{name}\" are on a shard that is not theirs by the new rule");
    let told = Error::new(ErrorCode::ObjectNotInPrerequisiteState, message)
        .with_detail(error.message())
        .with_hint("DELETE them, change the rule, and INSERT them again.");
    match &error.fields().context {
        Some(context) => told.with_context(context.clone()),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::{BETWEEN, suffixes};

    #[test]
    fn names_that_copies_have_had_are_known() {
        let kept = [
            "CREATE TABLE c (k int) USING sharded WITH (servers = 's0', broadcast)",
            "ALTER TABLE c ADD COLUMN n int",
            "ALTER TABLE c SET (servers = 's0,s1', table_suffix = '_2')",
            "ALTER TABLE c RENAME TO d",
            "ALTER TABLE d SET (servers = 's0')",
            "ALTER TABLE d SET (servers = 's0,s2'), RESET (table_suffix)",
        ];
        assert_eq!(suffixes(&kept.join(BETWEEN)).unwrap(), ["", "_2", ""]);
    }
}
