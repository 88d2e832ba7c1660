//! CREATE, ALTER and DROP of servers, user mappings and sharded tables: on every shard, or on none.
//!
//! A table is noted on disk before its first shard hears of it, and forgotten there after its last shard has dropped it: what a
//! crash leaves behind can be dropped again. One that was there before (`attach = true`) is only noted and forgotten.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ashlar_base::{ColumnDefault, Error, ErrorCode, Result, TableSchema};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::catalog::{ShardCatalog, no_server};
use ashlar_shard::fleet::Fleet;
use ashlar_shard::route;
use ashlar_shard::rules::{self, Definition, Neighbours, Rule};
use ashlar_shard::server::{GivenOption, Mapping, Secret, Server};
use pg_query::NodeEnum;
use pg_query::protobuf::{self, CreateForeignServerStmt, CreateStmt, DefElemAction, RangeVar, RoleSpec, RoleSpecType};

use super::ShardedTable;
use super::alter::altering;
use super::checks::{name_checks, without_checks};
use super::comments::TableComments;
use super::maintain::named_on_shard;
use super::rule_constraints::leaving;
use super::sizes::Sizes;
use super::stored_definition::{StoredKey, StoredTable, keys_of, rename_keys};
use crate::catalog::{CatalogState, Table};
use crate::ddl::{self, Done, relation_name};
use crate::engine::Engine;
use crate::resources::StatementResources;
use crate::sql_types;
use crate::statement::statement_text;

/// The way to store tables that this module is about.
pub(crate) const ACCESS_METHOD: &str = "sharded";

/// The wrapper of servers.
const WRAPPER: &str = "postgres";

/// How long it is tried to drop a table again that was made in vain: who waits for that is told of an error either way.
const UNDO_MAX: Duration = Duration::from_secs(10);

/// The server of files, which is always there.
const FILES: &str = "files";

/// Runs a statement about servers and user mappings.
///
/// # Errors
/// 42710, 42704, 2BP01 and 0A000; 58030 where the change cannot be kept.
pub(crate) fn server(
    engine: &Engine,
    statement: &NodeEnum,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    if in_block {
        return Err(Error::unsupported("servers and user mappings cannot be changed in a transaction block"));
    }
    let fleet = engine.catalog().fleet()?;
    let catalog = fleet.catalog();
    let role = |user: Option<&RoleSpec>| role_of(user, &resources.role);
    let key = |server: &str, role: &Option<String>| (server.to_owned(), role.clone().unwrap_or_default());
    match statement {
        NodeEnum::CreateForeignServerStmt(statement) => create_server(catalog, statement),
        NodeEnum::AlterForeignServerStmt(statement) => {
            let name = &statement.servername;
            catalog.change(|known| {
                let server = known.server(name)?.altered(&options(&statement.options)?)?;
                known.servers.insert(name.clone(), Arc::new(server));
                Ok(())
            })?;
            fleet.forget(name);
            // Its database may be another one.
            for (_, table) in engine.catalog().current().tables() {
                if let Table::Sharded(table) = table {
                    table.is_in_bytes.store(false, Ordering::Relaxed);
                }
            }
            Ok(Done::tag("ALTER SERVER"))
        }
        NodeEnum::CreateUserMappingStmt(statement) => {
            let (name, role) = (&statement.servername, role(statement.user.as_ref())?);
            let mapping = Mapping::new(name, role.as_deref(), &resources.role, &options(&statement.options)?)?;
            let exists = || {
                let message = format!(
                    "user mapping for \"{}\" already exists for server \"{name}\"",
                    role.as_deref().unwrap_or("public")
                );
                Error::new(ErrorCode::DuplicateObject, message)
            };
            if statement.if_not_exists && catalog.known().mappings.contains_key(&key(name, &role)) {
                let message = format!("{}, skipping", exists().message());
                return Ok(Done::notice("CREATE USER MAPPING", ErrorCode::DuplicateObject, message));
            }
            catalog.change(|known| {
                known.server(name)?;
                match known.mappings.insert(key(name, &role), Arc::new(mapping)) {
                    Some(_) => Err(exists()),
                    None => Ok(()),
                }
            })?;
            fleet.forget(name);
            Ok(Done::tag("CREATE USER MAPPING"))
        }
        NodeEnum::AlterUserMappingStmt(statement) => {
            let (name, role) = (&statement.servername, role(statement.user.as_ref())?);
            catalog.change(|known| {
                known.server(name)?;
                let key = key(name, &role);
                let mapping = known.mappings.get(&key).ok_or_else(|| no_mapping(name, &role))?;
                let mapping = mapping.altered(&options(&statement.options)?)?;
                known.mappings.insert(key, Arc::new(mapping));
                Ok(())
            })?;
            fleet.forget(name);
            Ok(Done::tag("ALTER USER MAPPING"))
        }
        NodeEnum::DropUserMappingStmt(statement) => {
            let (name, role) = (&statement.servername, role(statement.user.as_ref())?);
            let known = catalog.known();
            if statement.missing_ok && !known.mappings.contains_key(&key(name, &role)) {
                let message = format!("{}, skipping", no_mapping(name, &role).message());
                return Ok(Done::notice("DROP USER MAPPING", ErrorCode::SuccessfulCompletion, message));
            }
            catalog.change(|known| {
                known.server(name)?;
                known.mappings.remove(&key(name, &role)).ok_or_else(|| no_mapping(name, &role)).map(drop)
            })?;
            fleet.forget(name);
            Ok(Done::tag("DROP USER MAPPING"))
        }
        _ => Err(Error::internal("this is no statement about servers")),
    }
}

/// CREATE SERVER
fn create_server(catalog: &ShardCatalog, statement: &CreateForeignServerStmt) -> Result<Done> {
    let name = &statement.servername;
    if statement.fdwname != WRAPPER {
        let message = format!("foreign-data wrapper \"{}\" does not exist", statement.fdwname);
        return Err(Error::new(ErrorCode::UndefinedObject, message)
            .with_hint("Servers are made with FOREIGN DATA WRAPPER postgres."));
    }
    let server = Server::new(name, &options(&statement.options)?)?;
    let is_known = name == FILES || catalog.known().servers.contains_key(name);
    if is_known && statement.if_not_exists {
        let message = format!("server \"{name}\" already exists, skipping");
        return Ok(Done::notice("CREATE SERVER", ErrorCode::DuplicateObject, message));
    }
    catalog.change(|known| {
        if name == FILES || known.servers.contains_key(name) {
            let message = format!("server \"{name}\" already exists");
            return Err(Error::new(ErrorCode::DuplicateObject, message));
        }
        if let Some(primary) = &server.primary
            && known.server(primary)?.primary.is_some()
        {
            let message = format!("server \"{primary}\" is a replica itself");
            return Err(Error::new(ErrorCode::InvalidParameterValue, message));
        }
        known.servers.insert(name.clone(), Arc::new(server));
        Ok(())
    })?;
    Ok(Done::tag("CREATE SERVER"))
}

/// DROP SERVER
///
/// # Errors
/// 42704; 2BP01 where a table is on it, or, without CASCADE, where somebody logs in there; 55000 while a sharded table is made, altered or dropped.
pub(crate) fn drop_servers(engine: &Engine, statement: &protobuf::DropStmt, in_block: bool) -> Result<Done> {
    if in_block {
        return Err(Error::unsupported("servers and user mappings cannot be changed in a transaction block"));
    }
    let fleet = engine.catalog().fleet()?;
    let cascades = statement.behavior == protobuf::DropBehavior::DropCascade as i32;
    let names: Vec<&str> = statement.objects.iter().filter_map(sql_types::string_of).collect();
    let mut done = Done::tag("DROP SERVER");
    // A table that is being altered may have shards there before the picture says so.
    let _altering = fleet.altering().try_lock().map_err(|_| {
        let message = "a sharded table is being altered or dropped, which may be on the server";
        Error::new(ErrorCode::ObjectNotInPrerequisiteState, message).with_hint("Try again.")
    })?;
    let picture = engine.catalog().current();
    fleet.catalog().change(|known| {
        if let Some(name) = known.tables.keys().find(|name| picture.table(name).is_none()) {
            let message = format!("table \"{name}\" is being made or dropped");
            return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message).with_hint("Try again."));
        }
        for name in &names {
            if !known.servers.contains_key(*name) {
                if !statement.missing_ok {
                    return Err(no_server(name));
                }
                let message = format!("server \"{name}\" does not exist, skipping");
                done.notices.push(Error::new(ErrorCode::SuccessfulCompletion, message));
                continue;
            }
            let is_on = |table: &&ShardedTable| table.routed.rule.shards().iter().any(|shard| &*shard.server == *name);
            let mut tables = picture.tables().filter_map(|(_, table)| match table {
                Table::Sharded(table) => Some(table.as_ref()),
                Table::Grid(_) | Table::File(_) => None,
            });
            let depends = |what: String| {
                let message = format!("cannot drop server {name} because other objects depend on it");
                Error::new(ErrorCode::DependentObjects, message).with_detail(what)
            };
            if let Some(table) = tables.find(is_on) {
                return Err(depends(format!("table {} depends on server {name}", table.schema.name)));
            }
            if let Some(replica) = known.replicas_of(name).find(|replica| !names.contains(&replica.name.as_str())) {
                return Err(depends(format!("server {} is a replica of server {name}", replica.name)));
            }
            if !cascades && let Some(((_, role), _)) = known.mappings.iter().find(|((server, _), _)| server == name) {
                let role = if role.is_empty() { "public" } else { role };
                let what = format!("user mapping for {role} on server {name} depends on server {name}");
                return Err(depends(what).with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            known.servers.remove(*name);
            known.mappings.retain(|(server, _), _| server != name);
        }
        Ok(())
    })?;
    names.into_iter().for_each(|name| fleet.forget(name));
    Ok(done)
}

fn no_mapping(server: &str, role: &Option<String>) -> Error {
    let role = role.as_deref().unwrap_or("public");
    let message = format!("user mapping for \"{role}\" does not exist for server \"{server}\"");
    Error::new(ErrorCode::UndefinedObject, message)
}

/// The user that a mapping is for; `None` for PUBLIC.
fn role_of(user: Option<&RoleSpec>, current: &str) -> Result<Option<String>> {
    let user = user.ok_or_else(|| Error::internal("a user mapping without a user"))?;
    Ok(match RoleSpecType::try_from(user.roletype) {
        Ok(RoleSpecType::RolespecPublic) => None,
        Ok(RoleSpecType::RolespecCstring) => Some(user.rolename.clone()),
        _ => Some(current.to_owned()),
    })
}

pub(super) fn options(options: &[pg_query::Node]) -> Result<Vec<GivenOption>> {
    let option = |node: &pg_query::Node| {
        let Some(NodeEnum::DefElem(element)) = &node.node else {
            return Err(Error::internal("an option that is none"));
        };
        let is_dropped = element.defaction == DefElemAction::DefelemDrop as i32;
        let value = if is_dropped { None } else { Some(Secret::new(ddl::option_text(element).unwrap_or_default())) };
        Ok(GivenOption { name: element.defname.clone(), value })
    };
    options.iter().map(option).collect()
}

/// What a rule may refer to.
struct Around<'a> {
    fleet: &'a Fleet,
    state: &'a CatalogState,
}

impl Neighbours for Around<'_> {
    fn has_server(&self, name: &str) -> bool {
        // Rows are on the server that a replica is one of.
        self.fleet.catalog().known().servers.get(name).is_some_and(|server| server.primary.is_none())
    }

    fn rule_of(&self, table: &str) -> Option<Rule> {
        match self.state.table(table)? {
            Table::Sharded(table) => Some(table.routed.rule.clone()),
            Table::Grid(_) | Table::File(_) => None,
        }
    }
}

/// The table that a statement describes.
fn define(
    engine: &Engine,
    fleet: &Arc<Fleet>,
    name: &str,
    statement: &CreateStmt,
    keys: Vec<StoredKey>,
) -> Result<ShardedTable> {
    define_in(engine, fleet, &engine.catalog().current(), name, statement, keys)
}

/// The same beside the tables of a picture.
pub(super) fn define_in(
    engine: &Engine,
    fleet: &Arc<Fleet>,
    state: &Arc<CatalogState>,
    name: &str,
    statement: &CreateStmt,
    keys: Vec<StoredKey>,
) -> Result<ShardedTable> {
    let mut plain = plain_statement(statement);
    without_checks(&mut plain);
    let (schema, unique) = ddl::described(engine, state, name, &plain)?;
    let mut given = ddl::given_options(&statement.options);
    let attached = taken_flag(&mut given, "attach")?.unwrap_or(false);
    if taken_flag(&mut given, "attach_check")?.is_some() && !attached {
        let message = "parameter \"attach_check\" has no meaning for a table that is made";
        return Err(Error::new(ErrorCode::InvalidParameterValue, message).with_hint("Write attach = true as well."));
    }
    let definition = Definition {
        schema: "public",
        name,
        columns: &schema.columns,
        unique: &unique,
        partition_by: statement.partspec.as_ref().map(rules::partition_by).transpose()?,
        options: &given,
    };
    let rule = Rule::new(&definition, &Around { fleet, state })?;
    check_defaults(&schema)?;
    let named = |key: StoredKey| route::NamedKey { name: key.name.into(), columns: key.columns };
    let (columns, keys) = (schema.columns.clone(), keys.into_iter().map(named).collect());
    let routed = route::ShardedTable { schema: "public".into(), name: name.into(), columns, keys, rule };
    let (fleet, sizes, comments) = (Arc::clone(fleet), Sizes::default(), TableComments::default());
    let is_in_bytes = AtomicBool::new(false);
    Ok(ShardedTable {
        schema: Arc::new(schema),
        routed: Arc::new(routed),
        attached,
        fleet,
        sizes,
        is_in_bytes,
        comments,
    })
}

/// Takes a yes or no out of the options, which the rule knows nothing of.
pub(super) fn taken_flag(given: &mut Vec<(String, String)>, name: &str) -> Result<Option<bool>> {
    let Some(at) = given.iter().position(|(option, _)| option == name) else { return Ok(None) };
    let (_, value) = given.remove(at);
    if given.iter().any(|(option, _)| option == name) {
        let message = format!("parameter \"{name}\" specified more than once");
        return Err(Error::new(ErrorCode::SyntaxError, message));
    }
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(Some(true)),
        "false" | "off" | "no" | "0" => Ok(Some(false)),
        other => {
            let message = format!("invalid value for boolean parameter \"{name}\": {other}");
            Err(Error::new(ErrorCode::InvalidParameterValue, message).with_hint("Write true or false."))
        }
    }
}

/// 0A000 for what each shard would number by itself.
fn check_defaults(schema: &TableSchema) -> Result<()> {
    match schema.columns.iter().find(|column| matches!(column.default, Some(ColumnDefault::Sequence(_)))) {
        None => Ok(()),
        Some(column) => {
            let message = format!("column \"{}\" of a sharded table cannot be serial or an identity", column.name);
            Err(Error::unsupported(message).with_hint("Use key_generator = 'snowflake' or 'uuidv7'."))
        }
    }
}

/// The statement as an ordinary PostgreSQL server reads it.
pub(super) fn plain_statement(statement: &CreateStmt) -> CreateStmt {
    let mut plain = statement.clone();
    plain.partspec = None;
    plain.access_method = String::new();
    plain.options = Vec::new();
    // A table that is there already may be another one.
    plain.if_not_exists = false;
    plain
}

/// What each server is sent, for all the shards that it has.
pub(super) fn for_each_server(
    table: &ShardedTable,
    text: impl Fn(&rules::Shard) -> Result<String>,
) -> Result<Vec<(String, String)>> {
    let mut work: Vec<(String, String)> = Vec::new();
    for shard in table.routed.rule.shards() {
        let text = text(shard)?;
        of_server(&mut work, &shard.server).push_str(&text);
    }
    Ok(work)
}

/// What a list has for a server, where it may have nothing yet. Servers stay in the order in which they came.
pub(super) fn of_server<'w, T: Default>(work: &'w mut Vec<(String, T)>, server: &str) -> &'w mut T {
    let known = work.iter().position(|(known, _)| known == server);
    let place = known.unwrap_or_else(|| {
        work.push((server.to_owned(), T::default()));
        work.len() - 1
    });
    &mut work[place].1
}

/// Has a statement name a shard's own table.
pub(super) fn at_shard(relation: &mut Option<RangeVar>, shard: &rules::Shard) {
    if let Some(relation) = relation {
        (relation.schemaname, relation.relname) = (shard.schema.to_string(), shard.table.to_string());
    }
}

/// What a shard's own table is called in a statement.
pub(crate) fn physical(shard: &rules::Shard) -> String {
    format!("{}.{}", quote_ident(&shard.schema), quote_ident(&shard.table))
}

fn creating(table: &ShardedTable, statement: &CreateStmt) -> Result<Vec<(String, String)>> {
    for_each_server(table, |shard| creating_at(statement, shard))
}

/// What makes a shard's own table.
pub(super) fn creating_at(statement: &CreateStmt, shard: &rules::Shard) -> Result<String> {
    let mut plain = plain_statement(statement);
    // Two shards of a server cannot have indexes of one name.
    let own = plain.relation.as_ref().map_or_else(String::new, |relation| relation.relname.clone());
    rename_keys(&mut plain, |name| named_on_shard(name, &own, shard))?;
    at_shard(&mut plain.relation, shard);
    statement_text(&NodeEnum::CreateStmt(plain)).map(|text| format!("{text};"))
}

pub(super) fn dropping(table: &ShardedTable) -> Result<Vec<(String, String)>> {
    for_each_server(table, |shard| Ok(format!("DROP TABLE IF EXISTS {};", physical(shard))))
}

/// CREATE TABLE ... USING sharded
///
/// # Errors
/// What is wrong with the definition; what the first shard that fails says, and then no shard has the table.
pub(crate) async fn create(
    engine: &Engine,
    statement: &CreateStmt,
    text: &str,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    if in_block {
        return Err(Error::unsupported("CREATE TABLE ... USING sharded in a transaction block is not supported"));
    }
    let fleet = engine.catalog().fleet()?;
    // What it takes over from another table's rule stays so until this one is seen to have taken it. Nothing else that is altered is of
    // interest here: servers are looked at once more when its name is taken.
    let takes_over = ddl::given_options(&statement.options).iter().any(|(name, _)| name == "colocate_with");
    let _altering = if takes_over { Some(fleet.altering().lock().await) } else { None };
    let name = relation_name(statement.relation.as_ref())?;
    let exists = || Error::new(ErrorCode::DuplicateTable, format!("relation \"{name}\" already exists"));
    if engine.catalog().current().is_relation(&name) {
        if statement.if_not_exists {
            let message = format!("relation \"{name}\" already exists, skipping");
            return Ok(Done::notice("CREATE TABLE", ErrorCode::DuplicateTable, message));
        }
        return Err(exists());
    }
    let mut statement = statement.clone();
    name_checks(&mut statement)?;
    let statement = &statement;
    let table = Arc::new(define(engine, fleet, &name, statement, keys_of(statement))?);
    let work = if table.attached {
        let mut given = ddl::given_options(&statement.options);
        let checks_rows = taken_flag(&mut given, "attach_check")?.unwrap_or(true);
        super::attach::check(&table, statement, resources, checks_rows, &rules::Extension::default()).await?;
        Vec::new()
    } else {
        creating(&table, statement)?
    };
    // Who is first with a name has it: nothing here gets it, whatever it is, until it is known what has become of the table.
    let key_name = Some(&table.schema.key_name).filter(|name| !name.is_empty());
    let reserved = engine.catalog().reserve([&name].into_iter().chain(key_name).cloned().collect())?;
    // From here on it ends by itself: what becomes of the name follows what becomes of the table.
    let ending = resources.ending();
    fleet.catalog().change(|known| {
        // One may have gone since they were looked at.
        let is_there = |name: &str| known.servers.get(name).is_some_and(|server| server.primary.is_none());
        if let Some(shard) = table.routed.rule.shards().iter().find(|shard| !is_there(&shard.server)) {
            return Err(no_server(&shard.server));
        }
        match known.tables.insert(name.clone(), text.to_owned()) {
            Some(_) => Err(exists()),
            None => Ok(()),
        }
    })?;
    let publish = || {
        let mut draft = engine.catalog().draft();
        engine.catalog().put(&mut draft, &name, Some(Table::Sharded(Arc::clone(&table))));
        reserved.publish(&draft)
    };
    let made = fleet.on_all(&resources.role, &work, ending.asked()).await;
    let error = match made {
        Ok(left) => match publish() {
            Ok(()) => return Ok(done_but(Done::tag("CREATE TABLE"), &left)),
            Err(error) => undo(&table, resources, error).await,
        },
        Err(error) if error.code() == ErrorCode::TransactionResolutionUnknown => {
            publish()?;
            return Err(
                error.with_hint("The table is known here whether or not the shards have it: DROP TABLE drops it.")
            );
        }
        Err(error) => error,
    };
    fleet.catalog().change(|known| Ok(known.tables.remove(&name)))?;
    Err(error)
}

/// Runs statements on several shards: on all or on none. Returns those where it is still to come. It ends by itself, and whoever calls
/// notes what has become of it before anything else is waited for: so that is known here, whoever wants the statement stopped.
pub(super) async fn everywhere(
    fleet: &Arc<Fleet>,
    resources: &StatementResources,
    work: &[(String, String)],
) -> Result<Vec<String>> {
    let ending = resources.ending();
    fleet.on_all(&resources.role, work, ending.asked()).await
}

/// Drops a table again that was made, as far as there is time for it; what is told then.
async fn undo(table: &ShardedTable, resources: &StatementResources, error: Error) -> Error {
    // What was there before is there afterwards.
    if table.attached {
        return error;
    }
    let work = match dropping(table) {
        Ok(work) => work,
        Err(other) => return other,
    };
    let late = async {
        tokio::time::sleep(UNDO_MAX).await;
        Error::new(ErrorCode::QueryCanceled, "they did not answer in time")
    };
    match table.fleet.on_all(&resources.role, &work, late).await {
        Ok(left) if left.is_empty() => error,
        Ok(left) => {
            let left = left.join(", ");
            error.with_detail(format!("The table is dropped again as soon as these shards can be reached: {left}."))
        }
        Err(why) => {
            let is_left = match why.code() {
                ErrorCode::TransactionResolutionUnknown => "may be left",
                _ => "is left",
            };
            let servers: Vec<&str> = work.iter().map(|(server, _)| server.as_str()).collect();
            let (servers, why) = (servers.join(", "), why.message());
            error.with_detail(format!(
                "The table {is_left} on its shards, which did not drop it again: {servers} ({why})."
            ))
        }
    }
}

/// What has been done, with the servers where it is still to come.
pub(super) fn done_but(mut done: Done, left: &[String]) -> Done {
    if !left.is_empty() {
        let message = "this is committed, and will be on some shards as soon as they can be reached";
        let notice = Error::new(ErrorCode::SuccessfulCompletion, message);
        done.notices.push(notice.with_detail(format!("These are: {}.", left.join(", "))));
    }
    done
}

/// A table that was made before the server was last started.
///
/// # Errors
/// What is wrong with what was kept.
pub(super) fn reopen(engine: &Engine, fleet: &Arc<Fleet>, name: &str, text: &str) -> Result<()> {
    let kept = StoredTable::read(name, text)?;
    let table = ShardedTable { comments: kept.comments, ..define(engine, fleet, name, &kept.made, kept.keys)? };
    let mut draft = engine.catalog().draft();
    engine.catalog().put(&mut draft, name, Some(Table::Sharded(Arc::new(table))));
    engine.catalog().publish(&draft, || Ok(())).map(drop)
}

/// 2BP01 where a table has taken over the rule of one that is dropped without it: what is kept of it names that one.
pub(super) fn check_followed(state: &CatalogState, dropped: &[Arc<ShardedTable>]) -> Result<()> {
    let is_dropped = |name: &str| dropped.iter().any(|table| table.schema.name == name);
    for (other, table) in state.tables() {
        let Table::Sharded(table) = table else { continue };
        let mut options = table.routed.rule.options().iter();
        let taken = options.find(|(option, _)| option == "colocate_with").map(|(_, name)| name.trim());
        if let Some(name) = taken.filter(|name| is_dropped(name) && !is_dropped(other)) {
            let message = format!("cannot drop table {name} because other objects depend on it");
            return Err(Error::new(ErrorCode::DependentObjects, message)
                .with_detail(format!("table {other} has taken over the rule of table {name}"))
                .with_hint("Drop both by one statement, or the one that has taken it over first."));
        }
    }
    Ok(())
}

/// DROP TABLE of a sharded table.
///
/// # Errors
/// 55000 where it is not what it was; 2BP01 where another one has taken over its rule; what a shard says; then none has dropped it. 08007 where
/// that is not known, and it can be dropped again.
pub(crate) async fn drop_table(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    resources: &StatementResources,
) -> Result<()> {
    let name = &table.schema.name;
    let fleet = &table.fleet;
    // Nobody takes over its rule, or gives it another name, until it is gone.
    let _altering = altering(engine, fleet, slice::from_ref(table)).await?;
    check_followed(&engine.catalog().current(), slice::from_ref(table))?;
    let work = leaving(table)?;
    let dropped = everywhere(fleet, resources, &work).await;
    // What they have prepared is about a table that is gone: one of the same name would be another one.
    work.iter().for_each(|(server, _)| fleet.forget(server));
    dropped?;
    fleet.catalog().change(|known| Ok(known.tables.remove(name)))?;
    let mut draft = engine.catalog().draft();
    engine.catalog().put(&mut draft, name, None);
    engine.catalog().publish(&draft, || Ok(())).map(drop)
}
