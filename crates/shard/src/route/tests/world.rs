//! A small catalogue of tables of every placement, for tests of routes: here, and of who asks for routes (`crates/query`, which
//! includes this file).

use std::sync::Arc;

use ashlar_base::{ColumnDef, ColumnDefault, ColumnId, ScalarType, SqlType, Value};
use ashlar_shard::route::{Found, NamedKey, ShardedTable, Tables};
use ashlar_shard::rules::{Definition, Neighbours, Rule, Strategy};

pub(crate) struct World(pub(crate) Vec<Arc<ShardedTable>>);

impl Neighbours for World {
    fn has_server(&self, name: &str) -> bool {
        name.starts_with('s')
    }

    fn rule_of(&self, table: &str) -> Option<Rule> {
        self.0.iter().find(|other| &*other.name == table).map(|other| other.rule.clone())
    }
}

impl Tables for World {
    fn find(&self, schema: Option<&str>, name: &str) -> Found {
        let is_here = schema.is_none_or(|schema| schema == "public");
        match self.0.iter().find(|table| &*table.name == name && is_here) {
            Some(table) => Found::Sharded(Arc::clone(table)),
            None if name == "local" => Found::Elsewhere,
            None => Found::Unknown,
        }
    }
}

impl World {
    /// `a`, `b` and `c` by an integer modulo three shards; `p` by two columns; `r` by ranges; `l` by a list of texts; `h` by
    /// hash, with four tables on two servers; `all` on every server, and `stamped` with a default that each of them computes;
    /// `one` on one; `made` with generated keys; `far` on other servers.
    pub(crate) fn new() -> Self {
        use ScalarType::{Date, Int4, Int8, Text, Uuid};
        let mut world = Self(Vec::new());
        let three = ("servers", "s0,s1,s2");
        let modulo: &[(&str, &str)] = &[three, ("algorithm", "mod")];
        let hash = |key: &'static [&'static str]| Some((Strategy::Hash, key));
        let columns: &[(&str, ScalarType)] = &[("k", Int8), ("x", Int4), ("t", Text)];
        world.add("a", columns, hash(&["k"]), modulo);
        world.add("b", &[("id", Int4), ("k", Int4), ("y", Int4)], hash(&["k"]), modulo);
        world.add("c", columns, hash(&["k"]), modulo);
        world.add("p", &[("m", Int4), ("n", Text), ("x", Int4)], hash(&["m", "n"]), &[three, ("algorithm", "pg_hash")]);
        world.add("r", columns, Some((Strategy::Range, &["k"])), &[three, ("boundaries", "10,20")]);
        world.add("l", columns, Some((Strategy::List, &["t"])), &[three, ("lists", "de,at; us; *")]);
        world.add(
            "d",
            &[("day", Date), ("x", Int4)],
            Some((Strategy::Range, &["day"])),
            &[three, ("boundaries", "2026-01-01,2026-07-01")],
        );
        world.add("h", columns, hash(&["k"]), &[("servers", "s0,s1"), ("shards", "4"), ("algorithm", "mod")]);
        world.add("all", &[("id", Int4), ("name", Text)], None, &[three, ("broadcast", "true")]);
        world.add("stamped", &[("id", Int4), ("made_at", Text), ("name", Text)], None, &[three, ("broadcast", "true")]);
        world.add("one", &[("id", Int4), ("name", Text)], None, &[("servers", "s1"), ("single", "true")]);
        world.add(
            "made",
            &[("id", Int8), ("x", Int4)],
            hash(&["id"]),
            &[three, ("algorithm", "mod"), ("key_generator", "snowflake"), ("generated_column", "id")],
        );
        world.add("far", columns, hash(&["k"]), &[("servers", "s3,s4"), ("algorithm", "mod")]);
        world.add("u", &[("g", Uuid), ("x", Int4)], hash(&["g"]), &[three]);
        world
    }

    fn add(
        &mut self,
        name: &str,
        columns: &[(&str, ScalarType)],
        by: Option<(Strategy, &[&str])>,
        options: &[(&str, &str)],
    ) {
        let column = |(name, scalar): &(&str, ScalarType)| ColumnDef {
            id: ColumnId(0),
            name: (*name).to_owned(),
            sql_type: SqlType::Scalar(*scalar),
            nullable: true,
            default: None,
        };
        let mut columns: Vec<ColumnDef> = columns.iter().map(column).collect();
        if name == "c" {
            columns[0].default = Some(ColumnDefault::Constant(Value::Int8(4)));
        }
        if name == "stamped" {
            columns[1].default = Some(ColumnDefault::Expression("now()::text".to_owned()));
        }
        let options: Vec<(String, String)> =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let definition = Definition {
            schema: "public",
            name,
            columns: &columns,
            unique: &[],
            partition_by: by.map(|(strategy, key)| (strategy, key.iter().map(|key| (*key).to_owned()).collect())),
            options: &options,
        };
        let rule = Rule::new(&definition, self).unwrap();
        let mut keys = Vec::new();
        if name == "h" {
            keys.push(NamedKey { name: "h_pkey".into(), columns: vec!["k".to_owned()] });
        }
        self.0.push(Arc::new(ShardedTable { schema: "public".into(), name: name.into(), columns, keys, rule }));
    }
}
