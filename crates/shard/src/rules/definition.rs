//! From what `CREATE TABLE ... USING sharded` says to a rule, with every bad combination refused.

use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, Error, ErrorCode, Result, ScalarType, SqlType, Value};
use pg_query::NodeEnum;
use pg_query::protobuf::{PartitionSpec, PartitionStrategy};

use super::options::{self, Options, invalid};
use super::{
    Body, Distribution, Function, Generator, Key, KeyClass, Placement, Ranges, Rule, SHARDS_MAX, Shard, ShardId,
};

/// Columns of a sharding key: more have no use, and combinations of their values would be many.
const KEY_COLUMNS_MAX: usize = 8;

/// PARTITION BY
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// HASH
    Hash,
    /// LIST
    List,
    /// RANGE
    Range,
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Self::Hash => "HASH",
            Self::List => "LIST",
            Self::Range => "RANGE",
        }
    }
}

/// What a rule is made of.
#[derive(Clone, Debug)]
pub struct Definition<'a> {
    /// The table's schema.
    pub schema: &'a str,
    /// The table's name.
    pub name: &'a str,
    /// Its columns.
    pub columns: &'a [ColumnDef],
    /// Its primary key and unique constraints, each by positions in the columns.
    pub unique: &'a [Vec<usize>],
    /// PARTITION BY, with names of columns.
    pub partition_by: Option<(Strategy, Vec<String>)>,
    /// WITH: names and values as written.
    pub options: &'a [(String, String)],
}

/// What a rule may refer to.
pub trait Neighbours {
    /// Whether there is such a server.
    fn has_server(&self, name: &str) -> bool;
    /// The rule of a sharded table.
    fn rule_of(&self, table: &str) -> Option<Rule>;
}

/// PARTITION BY as the grammar has it.
///
/// # Errors
/// 0A000 for expressions, collations and operator classes.
pub fn partition_by(spec: &PartitionSpec) -> Result<(Strategy, Vec<String>)> {
    let strategy = match PartitionStrategy::try_from(spec.strategy) {
        Ok(PartitionStrategy::Hash) => Strategy::Hash,
        Ok(PartitionStrategy::List) => Strategy::List,
        Ok(PartitionStrategy::Range) => Strategy::Range,
        // The grammar takes no others.
        _ => return Err(Error::internal("a partitioning strategy that is none")),
    };
    let columns = spec.part_params.iter().map(|element| match &element.node {
        Some(NodeEnum::PartitionElem(element))
            if element.expr.is_none() && element.collation.is_empty() && element.opclass.is_empty() =>
        {
            Ok(element.name.clone())
        }
        _ => Err(Error::unsupported("a sharding key is made of columns only")
            .with_hint("Name columns of the table, without expressions, collations and operator classes.")),
    });
    Ok((strategy, columns.collect::<Result<_>>()?))
}

pub(super) fn check(definition: &Definition<'_>, neighbours: &dyn Neighbours) -> Result<Body> {
    let given = Options::new(definition.options)?;
    let placement = match (given.flag("broadcast")?, given.flag("single")?) {
        (true, true) => {
            return Err(invalid("a table cannot be both broadcast and single").with_hint("Leave one of them out."));
        }
        (true, false) => Placement::Broadcast,
        (false, true) => Placement::Single,
        (false, false) => Placement::Sharded,
    };
    check_columns(definition, placement)?;
    let (key, distribution) = match placement {
        Placement::Sharded => sharded(definition, &given, neighbours)?,
        Placement::Broadcast | Placement::Single => undivided(definition, &given, neighbours, placement)?,
    };
    if !key.is_empty()
        && let Some(unique) = definition.unique.iter().find(|unique| !key.iter().all(|at| unique.contains(at)))
    {
        let names: Vec<&str> =
            unique.iter().filter_map(|at| Some(definition.columns.get(*at)?.name.as_str())).collect();
        return Err(Error::unsupported(
            "a unique constraint of a sharded table must include all columns of its sharding key",
        )
        .with_detail(format!(
            "The constraint on ({}) would hold on each server for itself, and not on all of them.",
            names.join(", ")
        ))
        .with_hint("Add the sharding key's columns to the constraint, or shard by its columns."));
    }
    let shards = shards(definition, &given, &distribution)?;
    let generated = generator(definition, &given)?;
    Ok(Body { placement, key, distribution, shards, generated, options: definition.options.to_vec() })
}

/// Columns whose values every server would make for itself.
fn check_columns(definition: &Definition<'_>, placement: Placement) -> Result<()> {
    let is_divided = placement != Placement::Single;
    match definition.columns.iter().find(|column| matches!(column.default, Some(ColumnDefault::Sequence(_)))) {
        Some(column) if is_divided => {
            Err(Error::unsupported(format!("column \"{}\" would be numbered by each server for itself", column.name))
                .with_hint(
                    "Declare it bigint and use key_generator = 'snowflake', or uuid and key_generator = 'uuidv7'.",
                ))
        }
        _ => Ok(()),
    }
}

fn servers(given: &Options<'_>, neighbours: &dyn Neighbours) -> Result<Vec<Arc<str>>> {
    let mut servers: Vec<Arc<str>> = Vec::new();
    for name in options::split(given.required("servers", "a sharded table")?, ',') {
        if name.is_empty() {
            return Err(invalid("the parameter \"servers\" has an empty name").with_hint("servers = 's0,s1'."));
        }
        if !neighbours.has_server(name) {
            return Err(Error::new(ErrorCode::UndefinedObject, format!("server \"{name}\" does not exist")).with_hint(
                "CREATE SERVER ... FOREIGN DATA WRAPPER postgres OPTIONS (host '...', port '...', dbname '...').",
            ));
        }
        if servers.iter().any(|server| &**server == name) {
            return Err(invalid(format!("server \"{name}\" is named twice"))
                .with_hint("Name each server once; shards = ... makes several tables on each."));
        }
        servers.push(name.into());
    }
    Ok(servers)
}

/// A broadcast or a single table.
fn undivided(
    definition: &Definition<'_>,
    given: &Options<'_>,
    neighbours: &dyn Neighbours,
    placement: Placement,
) -> Result<(Vec<usize>, Distribution)> {
    let (here, flag) = match placement {
        Placement::Broadcast => ("a broadcast table", "broadcast"),
        Placement::Single | Placement::Sharded => ("a single table", "single"),
    };
    let names = ["servers", flag, "broadcast", "single", "schema", "table_suffix", "key_generator", "generated_column"];
    given.only(&names, here)?;
    if definition.partition_by.is_some() {
        return Err(Error::new(ErrorCode::InvalidTableDefinition, format!("{here} is not partitioned"))
            .with_hint("Leave PARTITION BY out."));
    }
    let servers = servers(given, neighbours)?;
    if placement == Placement::Single && servers.len() > 1 {
        return Err(invalid("a single table is on one server").with_hint("Name one server, or write broadcast."));
    }
    Ok((Vec::new(), Distribution { classes: Vec::new(), function: Function::Only, servers }))
}

fn sharded(
    definition: &Definition<'_>,
    given: &Options<'_>,
    neighbours: &dyn Neighbours,
) -> Result<(Vec<usize>, Distribution)> {
    let Some((strategy, names)) = &definition.partition_by else {
        return Err(Error::new(ErrorCode::InvalidTableDefinition, "a sharded table needs a sharding key").with_hint(
            "Write PARTITION BY HASH (column), LIST or RANGE before USING, or broadcast or single among the parameters.",
        ));
    };
    let (key, classes) = key_columns(definition, names)?;
    if let Some(other) = given.get("colocate_with") {
        let names = ["colocate_with", "schema", "schema_suffix", "table_suffix", "key_generator", "generated_column"];
        given.only(&names, "a table that takes over another's rule")?;
        let rule =
            neighbours.rule_of(other).filter(|rule| rule.placement() == Placement::Sharded).ok_or_else(|| {
                Error::new(ErrorCode::UndefinedTable, format!("sharded table \"{other}\" does not exist"))
                    .with_hint("colocate_with names a table that has a sharding key.")
            })?;
        if rule.classes() != classes {
            return Err(Error::new(
                ErrorCode::DatatypeMismatch,
                format!("the sharding key does not fit that of table \"{other}\""),
            )
            .with_hint("Both keys have the same number of columns, of the same types in the same order."));
        }
        let distribution = rule.0.distribution.clone();
        check_strategy(*strategy, &distribution.function)?;
        return Ok((key, distribution));
    }
    let servers = servers(given, neighbours)?;
    let function = function(given, *strategy, &classes)?;
    let shards = shard_count(given, &function, servers.len())?;
    let servers = (0..shards).map(|at| Arc::clone(&servers[at % servers.len()])).collect();
    Ok((key, Distribution { classes, function, servers }))
}

fn key_columns(definition: &Definition<'_>, names: &[String]) -> Result<(Vec<usize>, Vec<KeyClass>)> {
    let mut key = Vec::new();
    let mut classes = Vec::new();
    for name in names {
        let found = definition.columns.iter().position(|column| column.name == *name);
        let at = found.ok_or_else(|| {
            Error::new(ErrorCode::UndefinedColumn, format!("column \"{name}\" named in partition key does not exist"))
        })?;
        if key.contains(&at) {
            return Err(Error::new(
                ErrorCode::InvalidObjectDefinition,
                format!("column \"{name}\" appears more than once in partition key"),
            ));
        }
        let sql_type = definition.columns[at].sql_type;
        classes.push(KeyClass::of(sql_type).ok_or_else(|| {
            Error::unsupported(format!("column \"{name}\" of type {sql_type} cannot be a sharding key")).with_hint(
                "A sharding key is of type smallint, integer, bigint, text, varchar, uuid, date, timestamp or timestamptz.",
            )
        })?);
        key.push(at);
    }
    if key.is_empty() || key.len() > KEY_COLUMNS_MAX {
        return Err(Error::new(
            ErrorCode::InvalidObjectDefinition,
            format!("a sharding key has from one to {KEY_COLUMNS_MAX} columns"),
        ));
    }
    Ok((key, classes))
}

/// The strategy that an algorithm stands under.
fn check_strategy(strategy: Strategy, function: &Function) -> Result<()> {
    let needed = match function {
        Function::HashMod | Function::PgHash | Function::Mod | Function::Only => Strategy::Hash,
        Function::List { .. } => Strategy::List,
        Function::Ranges(_) => Strategy::Range,
    };
    if strategy == needed {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::InvalidTableDefinition,
        format!("the algorithm does not fit PARTITION BY {}", strategy.name()),
    )
    .with_hint(format!("Write PARTITION BY {} (...), or another algorithm.", needed.name())))
}

fn function(given: &Options<'_>, strategy: Strategy, classes: &[KeyClass]) -> Result<Function> {
    let default = match strategy {
        Strategy::Hash => "hash_mod",
        Strategy::List => "list",
        Strategy::Range if given.get("ranges").is_some() => "range",
        Strategy::Range => "boundary",
    };
    let algorithm = given.get("algorithm").unwrap_or(default).to_ascii_lowercase();
    let algorithm = algorithm.as_str();
    let own: &[&str] = match algorithm {
        "hash_mod" | "pg_hash" | "mod" => &[],
        "list" => &["lists"],
        "range" => &["ranges"],
        "boundary" => &["boundaries"],
        "volume" => &["lower", "upper", "volume"],
        "interval" => &["lower", "upper", "interval"],
        other => {
            return Err(invalid(format!("unrecognized sharding algorithm \"{other}\""))
                .with_hint("Algorithms: hash_mod, pg_hash, mod; list; range, boundary, volume, interval."));
        }
    };
    let common = ["servers", "algorithm", "shards", "schema", "schema_suffix", "table_suffix", "key_generator"];
    let allowed: Vec<&str> =
        common.iter().chain(&["generated_column", "broadcast", "single"]).chain(own).copied().collect();
    given.only(&allowed, &format!("algorithm {algorithm}"))?;
    let one = || match classes {
        [class] => Ok(*class),
        _ => Err(Error::unsupported(format!("algorithm {algorithm} takes one column"))
            .with_hint("Several columns can be the key of hash_mod and pg_hash.")),
    };
    let by = format!("algorithm {algorithm}");
    let function = match algorithm {
        "hash_mod" => Function::HashMod,
        "pg_hash" => Function::PgHash,
        "mod" if one()? == KeyClass::Integer => Function::Mod,
        "mod" => {
            return Err(Error::new(ErrorCode::DatatypeMismatch, "algorithm mod takes an integer column")
                .with_hint("Use hash_mod for other types."));
        }
        "list" => list(one()?, given.required("lists", &by)?)?,
        "range" => Function::Ranges(range(one()?, given.required("ranges", &by)?)?),
        "boundary" => {
            let class = one()?;
            let boundaries = options::split(given.required("boundaries", &by)?, ',');
            let keys = boundaries.into_iter().map(|written| options::key(class, "boundaries", written));
            Function::Ranges(Ranges::between(keys.collect::<Result<_>>()?)?)
        }
        _ => Function::Ranges(steps(one()?, given, algorithm)?),
    };
    check_strategy(strategy, &function)?;
    Ok(function)
}

fn list(class: KeyClass, written: &str) -> Result<Function> {
    let mut values: Vec<(Key, ShardId)> = Vec::new();
    let mut others = None;
    for (at, list) in options::split(written, ';').into_iter().enumerate() {
        let shard = ShardId(u16::try_from(at).map_err(|_| invalid("too many lists"))?);
        for value in options::split(list, ',') {
            if value == "*" {
                if others.replace(shard).is_some() {
                    return Err(invalid("two lists of the sharding rule take all other values")
                        .with_hint("Write * in one list."));
                }
                continue;
            }
            let key = options::key(class, "lists", value)?;
            if values.iter().any(|(other, _)| *other == key) {
                return Err(invalid(format!("value {value} stands in the parameter \"lists\" twice"))
                    .with_hint("Each value belongs to one shard."));
            }
            values.push((key, shard));
        }
    }
    values.sort();
    Ok(Function::List { values, others })
}

fn range(class: KeyClass, written: &str) -> Result<Ranges> {
    let end = |text: &str| match text {
        "" => Ok(None),
        text => options::key(class, "ranges", text).map(Some),
    };
    let ranges = options::split(written, ';').into_iter().map(|range| {
        let (low, high) = options::split_range(range).ok_or_else(|| {
            invalid(format!("invalid range \"{range}\"")).with_hint("ranges = '0..100; 100..200; 200..'.")
        })?;
        Ok((end(low)?, end(high)?))
    });
    Ranges::new(ranges.collect::<Result<_>>()?)
}

/// Equal steps from a lower end to an upper one, and what lies outside.
fn steps(class: KeyClass, given: &Options<'_>, algorithm: &str) -> Result<Ranges> {
    let by = format!("algorithm {algorithm}");
    let lower = options::key(class, "lower", given.required("lower", &by)?)?;
    let upper = options::key(class, "upper", given.required("upper", &by)?)?;
    let mismatch = |message: &str| Error::new(ErrorCode::DatatypeMismatch, message);
    let (Key::Number(lower), Key::Number(upper)) = (lower, upper) else {
        return Err(
            mismatch("steps of a sharding rule are of numbers or of times").with_hint("Use algorithm boundary.")
        );
    };
    let mut boundaries = Vec::new();
    if algorithm == "volume" {
        if class != KeyClass::Integer {
            return Err(mismatch("algorithm volume takes an integer column").with_hint("Use interval for times."));
        }
        given.required("volume", &by)?;
        let volume = i64::try_from(given.count("volume")?.unwrap_or(1)).unwrap_or(i64::MAX);
        let mut next = Some(lower);
        while let Some(at) = next.filter(|at| *at < upper && boundaries.len() < SHARDS_MAX) {
            boundaries.push(Key::Number(at));
            next = at.checked_add(volume);
        }
    } else {
        let written = given.required("interval", &by)?;
        let step = ashlar_base::value::interval::parse(written)
            .map_err(|_| invalid(format!("invalid value for parameter \"interval\": \"{written}\"")))?;
        let mut count = 0;
        loop {
            let at = advanced(class, lower, step, count).ok_or_else(|| {
                mismatch("algorithm interval takes a date or timestamp column, and whole days for a date")
                    .with_hint("Use volume for integers.")
            })?;
            if at >= upper || boundaries.len() >= SHARDS_MAX {
                break;
            }
            if boundaries.last().is_some_and(|last| *last >= Key::Number(at)) {
                return Err(invalid("the interval of a sharding rule must be positive"));
            }
            boundaries.push(Key::Number(at));
            count += 1;
        }
    }
    boundaries.push(Key::Number(upper));
    Ranges::between(boundaries)
}

/// `start + count * step`, months first, as PostgreSQL adds an interval.
fn advanced(class: KeyClass, start: i64, step: ashlar_base::Interval, count: i32) -> Option<i64> {
    const DAY: i64 = 86_400_000_000;
    let (days, micros) = match class {
        KeyClass::Date => (start, 0),
        KeyClass::Timestamp | KeyClass::Timestamptz => (start.div_euclid(DAY), start.rem_euclid(DAY)),
        KeyClass::Integer | KeyClass::Text | KeyClass::Uuid => return None,
    };
    let epoch = chrono::NaiveDate::from_ymd_opt(1970, 1, 1)?;
    let date = epoch.checked_add_signed(chrono::TimeDelta::try_days(days)?)?;
    let months = step.months.checked_mul(count)?;
    let distance = chrono::Months::new(months.unsigned_abs());
    let date = if months < 0 { date.checked_sub_months(distance)? } else { date.checked_add_months(distance)? };
    let days = (date - epoch).num_days() + i64::from(step.days.checked_mul(count)?);
    let micros = micros.checked_add(step.micros.checked_mul(i64::from(count))?)?;
    match class {
        KeyClass::Date => (step.micros == 0).then_some(days),
        _ => days.checked_mul(DAY)?.checked_add(micros),
    }
}

/// How many physical tables there are.
fn shard_count(given: &Options<'_>, function: &Function, servers: usize) -> Result<usize> {
    let asked = given.count("shards")?;
    let (count, fixed) = match function {
        Function::HashMod | Function::PgHash | Function::Mod | Function::Only => (asked.unwrap_or(servers), false),
        Function::List { values, others } => {
            let last = values.iter().map(|(_, shard)| shard.index()).chain(others.map(ShardId::index)).max();
            (last.map_or(0, |last| last + 1), true)
        }
        Function::Ranges(ranges) => (ranges.len(), true),
    };
    if fixed && asked.is_some_and(|asked| asked != count) {
        return Err(invalid(format!("the lists or ranges of the rule make {count} shards"))
            .with_hint("Leave the parameter \"shards\" out."));
    }
    if count < servers {
        return Err(invalid(format!("{servers} servers for {count} shards"))
            .with_hint("Name as many servers as there are shards, or fewer."));
    }
    if count > SHARDS_MAX {
        return Err(invalid(format!("a table can have at most {SHARDS_MAX} shards")));
    }
    Ok(count)
}

/// The physical tables, no two of them the same.
fn shards(definition: &Definition<'_>, given: &Options<'_>, distribution: &Distribution) -> Result<Vec<Shard>> {
    let schema = given.get("schema").unwrap_or(definition.schema);
    let several =
        (1..distribution.servers.len()).any(|at| distribution.servers[..at].contains(&distribution.servers[at]));
    let schema_suffix = given.get("schema_suffix").unwrap_or("");
    let default = if several && schema_suffix.is_empty() { "_{}" } else { "" };
    let table_suffix = given.get("table_suffix").unwrap_or(default);
    let mut shards: Vec<Shard> = Vec::with_capacity(distribution.servers.len());
    for (at, server) in distribution.servers.iter().enumerate() {
        let number = at.to_string();
        let shard = Shard {
            server: Arc::clone(server),
            schema: format!("{schema}{}", schema_suffix.replace("{}", &number)).into(),
            table: format!("{}{}", definition.name, table_suffix.replace("{}", &number)).into(),
        };
        if shard.schema.len() > 63 || shard.table.len() > 63 {
            return Err(Error::new(ErrorCode::InvalidName, format!("identifier \"{}\" is too long", shard.table))
                .with_hint("PostgreSQL cuts names at 63 bytes: use a shorter suffix or name."));
        }
        if shards.contains(&shard) {
            return Err(invalid("several shards would be the same table of a server")
                .with_hint("Write {} in table_suffix or schema_suffix: it stands for the shard's number."));
        }
        shards.push(shard);
    }
    Ok(shards)
}

fn generator(definition: &Definition<'_>, given: &Options<'_>) -> Result<Option<(usize, Generator)>> {
    let Some(written) = given.get("key_generator") else {
        return match given.get("generated_column") {
            None => Ok(None),
            Some(_) => Err(invalid("parameter \"generated_column\" needs key_generator")
                .with_hint("key_generator = 'snowflake' or 'uuidv7'.")),
        };
    };
    let (generator, needed) = match written.to_ascii_lowercase().as_str() {
        "snowflake" => (Generator::Snowflake, ScalarType::Int8),
        "uuidv7" => (Generator::UuidV7, ScalarType::Uuid),
        other => {
            return Err(invalid(format!("unrecognized key generator \"{other}\""))
                .with_hint("Key generators: snowflake (bigint), uuidv7 (uuid)."));
        }
    };
    let at = match given.get("generated_column") {
        Some(name) => definition
            .columns
            .iter()
            .position(|column| column.name == name)
            .ok_or_else(|| Error::new(ErrorCode::UndefinedColumn, format!("column \"{name}\" does not exist")))?,
        None => {
            let of_type =
                |at: &&usize| definition.columns.get(**at).is_some_and(|c| c.sql_type == SqlType::Scalar(needed));
            let keys: Vec<usize> = definition.unique.first().into_iter().flatten().filter(of_type).copied().collect();
            match keys[..] {
                [only] => only,
                _ => {
                    return Err(invalid("it is not clear which column key_generator is for")
                        .with_hint("Name it: generated_column = '...'."));
                }
            }
        }
    };
    let column = &definition.columns[at];
    if column.sql_type != SqlType::Scalar(needed) {
        return Err(Error::new(
            ErrorCode::DatatypeMismatch,
            format!(
                "key generator \"{written}\" needs a column of type {needed}, and \"{}\" is {}",
                column.name, column.sql_type
            ),
        ));
    }
    match column.default {
        None | Some(ColumnDefault::Constant(Value::Null)) => Ok(Some((at, generator))),
        Some(_) => Err(Error::new(
            ErrorCode::InvalidTableDefinition,
            format!("column \"{}\" has both a default and a key generator", column.name),
        )
        .with_hint("Leave the default out.")),
    }
}
