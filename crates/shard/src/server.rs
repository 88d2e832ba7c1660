//! What a shard is: where a PostgreSQL server listens, and who logs in there for whom.
//!
//! Made from CREATE SERVER and CREATE USER MAPPING, kept by `catalog`, read by `backend`. A password is never printed:
//! its type does not know how.

use std::fmt;
use std::net::IpAddr;

use ashlar_base::{Error, ErrorCode, Result};

/// The longest name of a server or a user, as PostgreSQL has it.
const NAME_BYTES_MAX: usize = 63;

/// The longest value of an option.
const VALUE_BYTES_MAX: usize = 4096;

/// What else than options that begin with `ssl` has a client of PostgreSQL encrypt its connections.
const OF_ENCRYPTION: [&str; 3] = ["requiressl", "gssencmode", "channel_binding"];

/// A PostgreSQL server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// As PostgreSQL folds it.
    pub name: String,
    /// A name, an address, or the directory of a Unix socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The database.
    pub dbname: String,
    /// The server that it is a replica of.
    pub primary: Option<String>,
}

/// A text that nobody prints.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the login that sends it to the server.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

/// The login on a server, for one user of Ashlar or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The server.
    pub server: String,
    /// Whom it is for; `None` for PUBLIC.
    pub role: Option<String>,
    /// The name there.
    pub user: String,
    /// The password there; empty where none is needed.
    pub password: Secret,
}

/// One option of OPTIONS (...), as a statement gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOption {
    /// Its name.
    pub name: String,
    /// Its value; `None` for DROP.
    pub value: Option<Secret>,
}

impl Server {
    /// The server that CREATE SERVER describes.
    ///
    /// # Errors
    /// 42602, 42704 for an option that there is not, 0A000 for one that would encrypt connections, 22023 for a value that is none, or
    /// where one is missing.
    pub fn new(name: &str, options: &[GivenOption]) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::new(ErrorCode::InvalidName, format!("server name \"{name}\" is too long or empty")));
        }
        let (primary, others): (Vec<GivenOption>, Vec<GivenOption>) =
            options.iter().cloned().partition(|option| option.name == "primary");
        unique(&primary)?;
        let primary = primary.first().and_then(|option| option.value.as_ref()).map(|value| value.reveal().to_owned());
        if primary.as_deref() == Some(name) {
            let message = format!("server \"{name}\" cannot be a replica of itself");
            return Err(Error::new(ErrorCode::InvalidParameterValue, message));
        }
        let empty = Self { name: name.to_owned(), host: String::new(), port: 5432, dbname: String::new(), primary };
        empty.altered(&others)
    }

    /// The same with other options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn altered(&self, options: &[GivenOption]) -> Result<Self> {
        let mut server = self.clone();
        for option in unique(options)? {
            let value = option.value.as_ref().map(Secret::reveal);
            match (option.name.as_str(), value) {
                ("host", Some(host)) => server.host = host.to_owned(),
                ("dbname", Some(dbname)) => server.dbname = dbname.to_owned(),
                ("port", Some(port)) => {
                    server.port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                        let message = format!("invalid value for option \"port\": \"{port}\"");
                        Error::new(ErrorCode::InvalidParameterValue, message)
                    })?;
                }
                ("port", None) => server.port = 5432,
                ("host" | "dbname", None) => {
                    let message = format!("option \"{}\" of a server cannot be dropped", option.name);
                    return Err(Error::new(ErrorCode::InvalidParameterValue, message));
                }
                ("primary", _) => {
                    let message = "option \"primary\" of a server cannot be changed";
                    return Err(Error::new(ErrorCode::InvalidParameterValue, message)
                        .with_hint("DROP SERVER, and make it again."));
                }
                _ => return Err(invalid_option(&option.name, "host, port, dbname, primary")),
            }
        }
        for (name, value) in [("host", &server.host), ("dbname", &server.dbname)] {
            if value.is_empty() {
                let message = format!("option \"{name}\" of server \"{}\" is required", server.name);
                return Err(Error::new(ErrorCode::InvalidParameterValue, message)
                    .with_hint("OPTIONS (host '...', port '...', dbname '...')"));
            }
        }
        Ok(server)
    }

    /// The shard that it is a server of: its own name, or that of the server that it is a replica of.
    pub fn shard(&self) -> &str {
        self.primary.as_deref().unwrap_or(&self.name)
    }

    /// Whether it is reached over a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// Whether nobody between here and there can listen.
    pub fn is_local(&self) -> bool {
        self.is_socket() || self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl Mapping {
    /// The mapping that CREATE USER MAPPING describes. Without a user the name is the one here.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn new(server: &str, role: Option<&str>, current_user: &str, options: &[GivenOption]) -> Result<Self> {
        let user = role.unwrap_or(current_user).to_owned();
        let (server, role) = (server.to_owned(), role.map(str::to_owned));
        Self { server, role, user, password: Secret::default() }.altered(options)
    }

    /// The same with other options.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn altered(&self, options: &[GivenOption]) -> Result<Self> {
        let mut mapping = self.clone();
        for option in unique(options)? {
            match (option.name.as_str(), &option.value) {
                ("user", Some(user)) => mapping.user = user.reveal().to_owned(),
                ("password", Some(password)) => mapping.password = password.clone(),
                ("password", None) => mapping.password = Secret::default(),
                ("user", None) => {
                    let message = "option \"user\" of a user mapping cannot be dropped";
                    return Err(Error::new(ErrorCode::InvalidParameterValue, message));
                }
                _ => return Err(invalid_option(&option.name, "user, password")),
            }
        }
        if mapping.user.is_empty() || mapping.user.len() > NAME_BYTES_MAX {
            return Err(Error::new(ErrorCode::InvalidParameterValue, "option \"user\" is too long or empty"));
        }
        Ok(mapping)
    }
}

/// The options, each once.
fn unique(options: &[GivenOption]) -> Result<&[GivenOption]> {
    for (place, option) in options.iter().enumerate() {
        if options[..place].iter().any(|other| other.name == option.name) {
            let message = format!("option \"{}\" provided more than once", option.name);
            return Err(Error::new(ErrorCode::InvalidParameterValue, message));
        }
        let value = option.value.as_ref().map_or("", Secret::reveal);
        if value.len() > VALUE_BYTES_MAX || value.contains('\0') {
            let message = format!("the value of option \"{}\" is too long", option.name);
            return Err(Error::new(ErrorCode::InvalidParameterValue, message));
        }
    }
    Ok(options)
}

/// 0A000 for what would encrypt connections, 42704 for anything else: whoever asks for that must not believe that it is done.
fn invalid_option(name: &str, valid: &str) -> Error {
    if name.starts_with("ssl") || OF_ENCRYPTION.contains(&name) {
        let message = format!("option \"{name}\" is not supported: connections to shards are not encrypted");
        return Error::unsupported(message).with_hint(
            "Leave it out, and keep the network between here and there private, or send it through a tunnel.",
        );
    }
    Error::new(ErrorCode::UndefinedObject, format!("invalid option \"{name}\""))
        .with_hint(format!("Valid options in this context are: {valid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str) -> GivenOption {
        GivenOption { name: name.to_owned(), value: Some(Secret::new(value)) }
    }

    #[test]
    fn a_password_is_not_printed() {
        let options = [option("user", "u"), option("password", "open sesame")];
        let mapping = Mapping::new("s0", None, "me", &options).unwrap();
        assert_eq!(mapping.password.reveal(), "open sesame");
        assert!(!format!("{mapping:?} {options:?}").contains("sesame"));
    }

    #[test]
    fn options_are_checked() {
        let server = Server::new("s0", &[option("host", "127.0.0.1"), option("dbname", "d")]).unwrap();
        assert!(server.is_local() && server.port == 5432);
        assert!(!Server { host: "10.0.0.1".to_owned(), ..server.clone() }.is_local());
        for (bad, code) in [
            (option("port", "0"), ErrorCode::InvalidParameterValue),
            (option("port", "x"), ErrorCode::InvalidParameterValue),
            (option("password", "x"), ErrorCode::UndefinedObject),
            (option("sslmode", "require"), ErrorCode::FeatureNotSupported),
            (option("gssencmode", "require"), ErrorCode::FeatureNotSupported),
            (option("host", ""), ErrorCode::InvalidParameterValue),
        ] {
            assert_eq!(server.altered(&[bad]).unwrap_err().code(), code);
        }
        assert_eq!(Server::new("s0", &[]).unwrap_err().code(), ErrorCode::InvalidParameterValue);
        let error = Mapping::new("s0", None, "me", &[option("sslcert", "x")]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::FeatureNotSupported);
        assert!(error.fields().hint.as_deref().is_some_and(|hint| hint.contains("private")));
    }
}
