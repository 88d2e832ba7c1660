//! What is known of the fleet, kept on disk: servers, user mappings, sharded tables and the rules behind them.
//!
//! One file under the data directory, which its owner alone can read, since passwords are in it. A change is on disk
//! when it returns. Read once, at start; afterwards from memory.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use ashlar_base::{Error, ErrorCode, Result};
use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::server::{Mapping, Secret, Server};

const SERVERS: TableDefinition<'_, &str, (&str, u16, &str)> = TableDefinition::new("servers");
/// By server and role; the role of PUBLIC is empty.
const MAPPINGS: TableDefinition<'_, (&str, &str), (&str, &str)> = TableDefinition::new("mappings");
/// By name: the statement that made the table.
const TABLES: TableDefinition<'_, &str, &str> = TableDefinition::new("tables");

/// By name of a replica: the server that it is one of.
const REPLICAS: TableDefinition<'_, &str, &str> = TableDefinition::new("replicas");
/// What this installation is called in names of prepared transactions.
const INSTANCE: TableDefinition<'_, (), u64> = TableDefinition::new("instance");

/// The file under the data directory.
const FILE: &str = "shards.redb";

/// Bytes that the file may hold in memory.
const CACHE_BYTES: usize = 4 << 20;

/// Servers, mappings and tables that there may be, each.
const ENTRIES_MAX: usize = 10_000;

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// By name.
    pub servers: BTreeMap<String, Arc<Server>>,
    /// By server and role; the role of PUBLIC is empty.
    pub mappings: BTreeMap<(String, String), Arc<Mapping>>,
    /// By name: the statement that made the table.
    pub tables: BTreeMap<String, String>,
}

/// Server and role, wherever the texts lie: a mapping is looked for by every statement.
trait Pair {
    fn pair(&self) -> (&str, &str);
}

impl Pair for (String, String) {
    fn pair(&self) -> (&str, &str) {
        (&self.0, &self.1)
    }
}

impl Pair for (&str, &str) {
    fn pair(&self) -> (&str, &str) {
        *self
    }
}

impl<'p> Borrow<dyn Pair + 'p> for (String, String) {
    fn borrow(&self) -> &(dyn Pair + 'p) {
        self
    }
}

impl PartialEq for dyn Pair + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.pair() == other.pair()
    }
}

impl Eq for dyn Pair + '_ {}

impl PartialOrd for dyn Pair + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Pair + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.pair().cmp(&other.pair())
    }
}

impl Known {
    /// The server of this name.
    ///
    /// # Errors
    /// 42704
    pub fn server(&self, name: &str) -> Result<&Arc<Server>> {
        self.servers.get(name).ok_or_else(|| no_server(name))
    }

    /// Who logs in to a server for a user: the mapping of his own, or else that of all.
    ///
    /// # Errors
    /// 42704
    pub fn mapping(&self, server: &str, role: &str) -> Result<&Arc<Mapping>> {
        let of = |role: &str| self.mappings.get(&(server, role) as &dyn Pair);
        of(role).or_else(|| of("")).ok_or_else(|| {
            let message = format!("user mapping not found for user \"{role}\", server \"{server}\"");
            Error::new(ErrorCode::UndefinedObject, message)
                .with_hint("CREATE USER MAPPING FOR CURRENT_USER SERVER ... OPTIONS (user '...', password '...')")
        })
    }
}

impl Known {
    /// The replicas of a server.
    pub fn replicas_of<'k>(&'k self, server: &'k str) -> impl Iterator<Item = &'k Arc<Server>> {
        self.servers.values().filter(move |other| other.primary.as_deref() == Some(server))
    }

    /// Whether a server has replicas.
    pub fn has_replicas(&self, server: &str) -> bool {
        self.replicas_of(server).next().is_some()
    }

    /// Who logs in to a member of a group: as on the shard's own server, where nothing else is said of the member.
    ///
    /// # Errors
    /// 42704
    pub fn mapping_of_member(&self, member: &Server, role: &str) -> Result<&Arc<Mapping>> {
        self.mapping(&member.name, role).or_else(|error| match &member.primary {
            Some(primary) => self.mapping(primary, role),
            None => Err(error),
        })
    }

    /// Anybody who logs in to a server.
    pub(crate) fn any_mapping(&self, server: &Server) -> Option<&Arc<Mapping>> {
        let of = |name: &str| self.mappings.values().find(|mapping| mapping.server == name);
        of(&server.name).or_else(|| of(server.primary.as_deref()?))
    }
}

/// 42704
pub fn no_server(name: &str) -> Error {
    Error::new(ErrorCode::UndefinedObject, format!("server \"{name}\" does not exist"))
}

/// The catalog.
#[derive(Debug)]
pub struct ShardCatalog {
    /// `None` where the server has no data directory: then nothing can be made.
    file: Option<Database>,
    known: RwLock<Arc<Known>>,
    /// Counted up when that has changed.
    version: AtomicU64,
    /// One change at a time.
    changing: Mutex<()>,
    instance: u64,
}

impl ShardCatalog {
    /// A catalog without a file: it is empty, and stays so.
    pub fn absent() -> Self {
        let (version, changing) = (AtomicU64::new(0), Mutex::new(()));
        Self { file: None, known: RwLock::default(), version, changing, instance: any() }
    }

    /// Opens the catalog of a data directory, which is made if it is not there.
    ///
    /// # Errors
    /// 58030 where the file cannot be opened or is none of ours.
    pub fn open(data_dir: &Path) -> Result<Self> {
        fs::create_dir_all(data_dir).map_err(|error| failed("create the data directory", &error))?;
        let path = data_dir.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
            options.mode(0o600);
            // Of a file that somebody has copied or changed too.
            let file = options.open(&path).map_err(|error| failed("open the catalog of shards", &error))?;
            file.set_permissions(fs::Permissions::from_mode(0o600))
                .map_err(|error| failed("protect the catalog of shards", &error))?;
        }
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let file = builder.create(&path).map_err(|error| failed("open the catalog of shards", &error))?;
        let (known, instance) = read(&file).map_err(|error| failed("read the catalog of shards", &error))?;
        let (known, version, changing) = (RwLock::new(Arc::new(known)), AtomicU64::new(0), Mutex::new(()));
        Ok(Self { file: Some(file), known, version, changing, instance })
    }

    /// What is known now.
    pub fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read())
    }

    /// The number of changes: where it is still the same, so is what is known since it was read.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(atomic::Ordering::Acquire)
    }

    fn file(&self) -> Result<&Database> {
        self.file.as_ref().ok_or_else(|| {
            Error::new(ErrorCode::ObjectNotInPrerequisiteState, "this server has no data directory to keep servers in")
                .with_hint("Set data_dir in the section [shard] of the configuration, or ASHLAR_SHARD__DATA_DIR.")
        })
    }

    /// What this installation is called in names of prepared transactions.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// Changes what is known: on disk, then for everybody.
    ///
    /// # Errors
    /// What `change` finds; 58030 where it cannot be written, 55000 without a data directory. Then nothing has changed.
    pub fn change<T>(&self, change: impl FnOnce(&mut Known) -> Result<T>) -> Result<T> {
        let file = self.file()?;
        let _changing = self.changing.lock();
        let mut next = Known::clone(&self.known());
        let done = change(&mut next)?;
        if [next.servers.len(), next.mappings.len(), next.tables.len()].into_iter().any(|count| count > ENTRIES_MAX) {
            let message = format!("there can be at most {ENTRIES_MAX} servers, user mappings and sharded tables each");
            return Err(Error::new(ErrorCode::ProgramLimitExceeded, message));
        }
        write(file, &next).map_err(|error| failed("write the catalog of shards", &error))?;
        *self.known.write() = Arc::new(next);
        self.version.fetch_add(1, atomic::Ordering::Release);
        Ok(done)
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::IoError, format!("could not {what}: {error}"))
}

/// Two installations over the same servers must not take each other's transactions for their own.
fn any() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn read(file: &Database) -> Result<(Known, u64), redb::Error> {
    // They are made once, so that they can be read.
    let transaction = file.begin_write()?;
    transaction.open_table(SERVERS)?;
    transaction.open_table(MAPPINGS)?;
    transaction.open_table(TABLES)?;
    transaction.open_table(REPLICAS)?;
    let instance = {
        let mut table = transaction.open_table(INSTANCE)?;
        let kept = table.get(())?.map(|kept| kept.value());
        match kept {
            Some(instance) => instance,
            None => {
                let instance = any();
                table.insert((), instance)?;
                instance
            }
        }
    };
    transaction.commit()?;
    let transaction = file.begin_read()?;
    let mut known = Known::default();
    let replicas = transaction.open_table(REPLICAS)?;
    for entry in transaction.open_table(SERVERS)?.iter()? {
        let (key, value) = entry?;
        let (name, (host, port, dbname)) = (key.value().to_owned(), value.value());
        let primary = replicas.get(name.as_str())?.map(|primary| primary.value().to_owned());
        let server = Server { name: name.clone(), host: host.to_owned(), port, dbname: dbname.to_owned(), primary };
        known.servers.insert(name, Arc::new(server));
    }
    for entry in transaction.open_table(MAPPINGS)?.iter()? {
        let (key, value) = entry?;
        let ((server, role), (user, password)) = (key.value(), value.value());
        let (server, role) = (server.to_owned(), role.to_owned());
        let mapping = Mapping {
            server: server.clone(),
            role: Some(role.clone()).filter(|role| !role.is_empty()),
            user: user.to_owned(),
            password: Secret::new(password),
        };
        known.mappings.insert((server, role), Arc::new(mapping));
    }
    for entry in transaction.open_table(TABLES)?.iter()? {
        let (key, value) = entry?;
        known.tables.insert(key.value().to_owned(), value.value().to_owned());
    }
    Ok((known, instance))
}

/// Writes all of it: changes are rare, and it is small.
fn write(file: &Database, known: &Known) -> Result<(), redb::Error> {
    let transaction = file.begin_write()?;
    {
        let mut servers = transaction.open_table(SERVERS)?;
        servers.retain(|name, _| known.servers.contains_key(name))?;
        for (name, server) in &known.servers {
            servers.insert(name.as_str(), (server.host.as_str(), server.port, server.dbname.as_str()))?;
        }
        let mut replicas = transaction.open_table(REPLICAS)?;
        replicas.retain(|name, _| known.servers.get(name).is_some_and(|server| server.primary.is_some()))?;
        for (name, server) in &known.servers {
            if let Some(primary) = &server.primary {
                replicas.insert(name.as_str(), primary.as_str())?;
            }
        }
        let mut mappings = transaction.open_table(MAPPINGS)?;
        mappings.retain(|(server, role), _| known.mappings.contains_key(&(server.to_owned(), role.to_owned())))?;
        for ((server, role), mapping) in &known.mappings {
            let value = (mapping.user.as_str(), mapping.password.reveal());
            mappings.insert((server.as_str(), role.as_str()), value)?;
        }
        let mut tables = transaction.open_table(TABLES)?;
        tables.retain(|name, _| known.tables.contains_key(name))?;
        for (name, statement) in &known.tables {
            tables.insert(name.as_str(), statement.as_str())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_there_after_a_restart_and_readable_by_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let (host, dbname) = ("h".to_owned(), "d".to_owned());
        let server = Server { name: "s0".to_owned(), host, port: 1, dbname, primary: None };
        let replica = Server { name: "r0".to_owned(), primary: Some("s0".to_owned()), ..server.clone() };
        let mapping =
            Mapping { server: "s0".to_owned(), role: None, user: "u".to_owned(), password: Secret::new("sesame") };
        {
            let catalog = ShardCatalog::open(&data).unwrap();
            catalog
                .change(|known| {
                    known.servers.insert("s0".to_owned(), Arc::new(server.clone()));
                    known.servers.insert("r0".to_owned(), Arc::new(replica.clone()));
                    known.mappings.insert(("s0".to_owned(), String::new()), Arc::new(mapping.clone()));
                    known.tables.insert("t".to_owned(), "CREATE TABLE t ()".to_owned());
                    known.tables.insert("u".to_owned(), "CREATE TABLE u ()".to_owned());
                    Ok(())
                })
                .unwrap();
            catalog.change(|known| Ok(known.tables.remove("u"))).unwrap();
            // What fails changes nothing.
            let failed = catalog.change(|known| {
                known.servers.clear();
                Err::<(), _>(Error::internal("no"))
            });
            assert!(failed.is_err());
        }
        let catalog = ShardCatalog::open(&data).unwrap();
        let known = catalog.known();
        assert_eq!(**known.server("s0").unwrap(), server);
        assert_eq!(**known.server("r0").unwrap(), replica);
        assert!(known.has_replicas("s0") && !known.has_replicas("r0"));
        assert_eq!(known.mapping_of_member(&replica, "anybody").unwrap().user, "u");
        assert_eq!(**known.mapping("s0", "anybody").unwrap(), mapping);
        assert_eq!(known.tables.keys().collect::<Vec<_>>(), ["t"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(data.join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn an_installation_has_a_name_that_a_restart_keeps() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let instance = ShardCatalog::open(one.path()).unwrap().instance();
        assert_eq!(ShardCatalog::open(one.path()).unwrap().instance(), instance);
        assert_ne!(ShardCatalog::open(other.path()).unwrap().instance(), instance);
        assert_ne!(ShardCatalog::absent().instance(), ShardCatalog::absent().instance());
    }

    #[test]
    fn without_a_directory_nothing_can_be_made() {
        let error = ShardCatalog::absent().change(|_| Ok(())).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ObjectNotInPrerequisiteState);
    }
}
