//! One table of error codes for every door: the SQLSTATE and the RESP prefix of each.
//!
//! Every error that a client can see is an [`Error`] with an [`ErrorCode`]; the matches below have no wildcard,
//! so that a new code does not compile before each door knows it.

use std::fmt;

/// What went wrong, as far as a client can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// 00000: of notices
    SuccessfulCompletion,
    /// 01000: of warnings
    Warning,
    /// 54001
    StatementTooComplex,
    /// 42601
    SyntaxError,
    /// 42P01
    UndefinedTable,
    /// 42703
    UndefinedColumn,
    /// 42883
    UndefinedFunction,
    /// 42725
    AmbiguousFunction,
    /// 42704
    UndefinedObject,
    /// 42P02
    UndefinedParameter,
    /// 42P07
    DuplicateTable,
    /// 42710
    DuplicateObject,
    /// 42701
    DuplicateColumn,
    /// 42712
    DuplicateAlias,
    /// 42P05
    DuplicatePreparedStatement,
    /// 42P03
    DuplicateCursor,
    /// 42702
    AmbiguousColumn,
    /// 42803
    GroupingError,
    /// 42P20
    WindowingError,
    /// 42804
    DatatypeMismatch,
    /// 42846
    CannotCoerce,
    /// 42809
    WrongObjectType,
    /// 42P16
    InvalidTableDefinition,
    /// 42P17
    InvalidObjectDefinition,
    /// 42P10
    InvalidColumnReference,
    /// 42P19
    InvalidRecursion,
    /// 42P18
    IndeterminateDatatype,
    /// 42501
    InsufficientPrivilege,
    /// 3F000
    InvalidSchemaName,
    /// 42602
    InvalidName,
    /// 3D000
    InvalidCatalogName,
    /// 26000
    InvalidStatementName,
    /// 34000
    InvalidCursorName,
    /// 3B001
    InvalidSavepoint,
    /// 25001
    ActiveTransaction,
    /// 25P01
    NoActiveTransaction,
    /// 25P02
    FailedTransaction,
    /// 25006
    ReadOnlyTransaction,
    /// 21000
    CardinalityViolation,
    /// 23505
    UniqueViolation,
    /// 23502
    NotNullViolation,
    /// 23514
    CheckViolation,
    /// 22000
    DataException,
    /// 22001
    StringTooLong,
    /// 22003
    NumericOutOfRange,
    /// 22007
    InvalidDatetimeFormat,
    /// 22008
    DatetimeOverflow,
    /// 22009
    InvalidTimeZoneDisplacement,
    /// 22012
    DivisionByZero,
    /// 2201E
    InvalidLogarithm,
    /// 2201F
    InvalidPower,
    /// 2201G
    InvalidWidthBucket,
    /// 2201B
    InvalidRegularExpression,
    /// 2201W
    InvalidLimit,
    /// 2201X
    InvalidOffset,
    /// 22011
    SubstringError,
    /// 22013
    InvalidFrameOffset,
    /// 22014
    InvalidNtileArgument,
    /// 22016
    InvalidNthValueArgument,
    /// 22025
    InvalidEscapeSequence,
    /// 2202E
    ArraySubscriptError,
    /// 22004
    NullValueNotAllowed,
    /// 22015
    IntervalFieldOverflow,
    /// 22021
    CharacterNotInRepertoire,
    /// 2200H
    SequenceLimitExceeded,
    /// 428C9
    GeneratedAlways,
    /// 22023
    InvalidParameterValue,
    /// 22P02
    InvalidTextRepresentation,
    /// 22P03
    InvalidBinaryRepresentation,
    /// 22P04
    BadCopyFormat,
    /// 22P05
    UntranslatableCharacter,
    /// 40001
    SerializationFailure,
    /// 40P01
    DeadlockDetected,
    /// 53100
    DiskFull,
    /// 53200
    OutOfMemory,
    /// 53300
    TooManyConnections,
    /// 54000
    ProgramLimitExceeded,
    /// 54011
    TooManyColumns,
    /// 2BP01
    DependentObjects,
    /// 55000
    ObjectNotInPrerequisiteState,
    /// 55006
    ObjectInUse,
    /// 55P02
    CantChangeRuntimeParam,
    /// 55P03
    LockNotAvailable,
    /// 57014
    QueryCanceled,
    /// 57P01
    AdminShutdown,
    /// 57P03
    CannotConnectNow,
    /// 57P05
    IdleSessionTimeout,
    /// 25P03
    IdleInTransactionSessionTimeout,
    /// 58030
    IoError,
    /// 58P01
    UndefinedFile,
    /// 08P01
    ProtocolViolation,
    /// 08001
    UnableToConnect,
    /// 08006
    ConnectionFailure,
    /// 08007
    TransactionResolutionUnknown,
    /// HV000: what another PostgreSQL server has answered; the error says which SQLSTATE that had
    Shard,
    /// 28000
    InvalidAuthorization,
    /// 0A000
    FeatureNotSupported,
    /// XX000
    InternalError,
}

impl ErrorCode {
    /// The five characters that PostgreSQL clients look at.
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::SuccessfulCompletion => "00000",
            Self::Warning => "01000",
            Self::StatementTooComplex => "54001",
            Self::SyntaxError => "42601",
            Self::UndefinedTable => "42P01",
            Self::UndefinedColumn => "42703",
            Self::UndefinedFunction => "42883",
            Self::AmbiguousFunction => "42725",
            Self::UndefinedObject => "42704",
            Self::UndefinedParameter => "42P02",
            Self::DuplicateTable => "42P07",
            Self::DuplicateObject => "42710",
            Self::DuplicateColumn => "42701",
            Self::DuplicateAlias => "42712",
            Self::DuplicatePreparedStatement => "42P05",
            Self::DuplicateCursor => "42P03",
            Self::AmbiguousColumn => "42702",
            Self::GroupingError => "42803",
            Self::WindowingError => "42P20",
            Self::DatatypeMismatch => "42804",
            Self::CannotCoerce => "42846",
            Self::WrongObjectType => "42809",
            Self::InvalidTableDefinition => "42P16",
            Self::InvalidObjectDefinition => "42P17",
            Self::InvalidColumnReference => "42P10",
            Self::InvalidRecursion => "42P19",
            Self::IndeterminateDatatype => "42P18",
            Self::InsufficientPrivilege => "42501",
            Self::InvalidSchemaName => "3F000",
            Self::InvalidName => "42602",
            Self::InvalidCatalogName => "3D000",
            Self::InvalidStatementName => "26000",
            Self::InvalidCursorName => "34000",
            Self::InvalidSavepoint => "3B001",
            Self::ActiveTransaction => "25001",
            Self::NoActiveTransaction => "25P01",
            Self::FailedTransaction => "25P02",
            Self::ReadOnlyTransaction => "25006",
            Self::CardinalityViolation => "21000",
            Self::UniqueViolation => "23505",
            Self::NotNullViolation => "23502",
            Self::CheckViolation => "23514",
            Self::DataException => "22000",
            Self::StringTooLong => "22001",
            Self::NumericOutOfRange => "22003",
            Self::InvalidDatetimeFormat => "22007",
            Self::DatetimeOverflow => "22008",
            Self::InvalidTimeZoneDisplacement => "22009",
            Self::DivisionByZero => "22012",
            Self::InvalidLogarithm => "2201E",
            Self::InvalidPower => "2201F",
            Self::InvalidWidthBucket => "2201G",
            Self::InvalidRegularExpression => "2201B",
            Self::InvalidLimit => "2201W",
            Self::InvalidOffset => "2201X",
            Self::SubstringError => "22011",
            Self::InvalidFrameOffset => "22013",
            Self::InvalidNtileArgument => "22014",
            Self::InvalidNthValueArgument => "22016",
            Self::InvalidEscapeSequence => "22025",
            Self::ArraySubscriptError => "2202E",
            Self::NullValueNotAllowed => "22004",
            Self::IntervalFieldOverflow => "22015",
            Self::CharacterNotInRepertoire => "22021",
            Self::SequenceLimitExceeded => "2200H",
            Self::GeneratedAlways => "428C9",
            Self::InvalidParameterValue => "22023",
            Self::InvalidTextRepresentation => "22P02",
            Self::InvalidBinaryRepresentation => "22P03",
            Self::BadCopyFormat => "22P04",
            Self::UntranslatableCharacter => "22P05",
            Self::SerializationFailure => "40001",
            Self::DeadlockDetected => "40P01",
            Self::DiskFull => "53100",
            Self::OutOfMemory => "53200",
            Self::TooManyConnections => "53300",
            Self::ProgramLimitExceeded => "54000",
            Self::TooManyColumns => "54011",
            Self::DependentObjects => "2BP01",
            Self::ObjectNotInPrerequisiteState => "55000",
            Self::ObjectInUse => "55006",
            Self::CantChangeRuntimeParam => "55P02",
            Self::LockNotAvailable => "55P03",
            Self::QueryCanceled => "57014",
            Self::AdminShutdown => "57P01",
            Self::CannotConnectNow => "57P03",
            Self::IdleSessionTimeout => "57P05",
            Self::IdleInTransactionSessionTimeout => "25P03",
            Self::IoError => "58030",
            Self::UndefinedFile => "58P01",
            Self::ProtocolViolation => "08P01",
            Self::UnableToConnect => "08001",
            Self::ConnectionFailure => "08006",
            Self::TransactionResolutionUnknown => "08007",
            Self::Shard => "HV000",
            Self::InvalidAuthorization => "28000",
            Self::FeatureNotSupported => "0A000",
            Self::InternalError => "XX000",
        }
    }

    /// The first word of a RESP error.
    pub fn resp_prefix(self) -> &'static str {
        match self {
            Self::OutOfMemory => "OOM",
            Self::SerializationFailure | Self::DeadlockDetected | Self::LockNotAvailable => "TRYAGAIN",
            Self::WrongObjectType => "WRONGTYPE",
            Self::InsufficientPrivilege => "NOPERM",
            Self::InvalidAuthorization => "NOAUTH",
            Self::CannotConnectNow => "LOADING",
            Self::SuccessfulCompletion
            | Self::Warning
            | Self::StatementTooComplex
            | Self::SyntaxError
            | Self::UndefinedTable
            | Self::UndefinedColumn
            | Self::UndefinedFunction
            | Self::AmbiguousFunction
            | Self::UndefinedObject
            | Self::UndefinedParameter
            | Self::DuplicateTable
            | Self::DuplicateObject
            | Self::DuplicateColumn
            | Self::DuplicateAlias
            | Self::DuplicatePreparedStatement
            | Self::DuplicateCursor
            | Self::AmbiguousColumn
            | Self::GroupingError
            | Self::WindowingError
            | Self::DatatypeMismatch
            | Self::CannotCoerce
            | Self::InvalidTableDefinition
            | Self::InvalidObjectDefinition
            | Self::InvalidColumnReference
            | Self::InvalidRecursion
            | Self::IndeterminateDatatype
            | Self::InvalidSchemaName
            | Self::InvalidName
            | Self::InvalidCatalogName
            | Self::InvalidStatementName
            | Self::InvalidCursorName
            | Self::InvalidSavepoint
            | Self::ActiveTransaction
            | Self::NoActiveTransaction
            | Self::FailedTransaction
            | Self::ReadOnlyTransaction
            | Self::CardinalityViolation
            | Self::UniqueViolation
            | Self::NotNullViolation
            | Self::CheckViolation
            | Self::DataException
            | Self::StringTooLong
            | Self::NumericOutOfRange
            | Self::InvalidDatetimeFormat
            | Self::DatetimeOverflow
            | Self::InvalidTimeZoneDisplacement
            | Self::DivisionByZero
            | Self::InvalidLogarithm
            | Self::InvalidPower
            | Self::InvalidWidthBucket
            | Self::InvalidRegularExpression
            | Self::InvalidLimit
            | Self::InvalidOffset
            | Self::SubstringError
            | Self::InvalidFrameOffset
            | Self::InvalidNtileArgument
            | Self::InvalidNthValueArgument
            | Self::InvalidEscapeSequence
            | Self::ArraySubscriptError
            | Self::NullValueNotAllowed
            | Self::IntervalFieldOverflow
            | Self::CharacterNotInRepertoire
            | Self::SequenceLimitExceeded
            | Self::GeneratedAlways
            | Self::InvalidParameterValue
            | Self::InvalidTextRepresentation
            | Self::InvalidBinaryRepresentation
            | Self::BadCopyFormat
            | Self::UntranslatableCharacter
            | Self::DiskFull
            | Self::TooManyConnections
            | Self::ProgramLimitExceeded
            | Self::TooManyColumns
            | Self::DependentObjects
            | Self::ObjectNotInPrerequisiteState
            | Self::ObjectInUse
            | Self::CantChangeRuntimeParam
            | Self::QueryCanceled
            | Self::AdminShutdown
            | Self::IdleSessionTimeout
            | Self::IdleInTransactionSessionTimeout
            | Self::IoError
            | Self::UndefinedFile
            | Self::ProtocolViolation
            | Self::UnableToConnect
            | Self::ConnectionFailure
            | Self::TransactionResolutionUnknown
            | Self::Shard
            | Self::FeatureNotSupported
            | Self::InternalError => "ERR",
        }
    }
}

/// An error on its way to a client: a code, PostgreSQL's wording, and what helps.
#[derive(Clone, PartialEq)]
pub struct Error(Box<Fields>);

/// The fields of an [`Error`], as an ErrorResponse of the PostgreSQL protocol carries them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// What went wrong.
    pub code: ErrorCode,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// More of what is known.
    pub detail: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// Where in the statement: characters, counted from 1.
    pub position: Option<u32>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
    /// Where it arose, a line for each place; the shard is the last.
    pub context: Option<String>,
    /// The SQLSTATE of an error of another PostgreSQL server.
    pub foreign: Option<[u8; 5]>,
}

/// A result whose error a client may see.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a message and nothing else.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Fields {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            table: None,
            column: None,
            constraint: None,
            context: None,
            foreign: None,
        }))
    }

    /// 0A000: valid PostgreSQL that Ashlar does not offer.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::FeatureNotSupported, message)
    }

    /// XX000: a mistake of ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// Says it in other words.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the place in the statement, in characters counted from 1.
    #[must_use]
    pub fn at(mut self, position: u32) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Takes the place in the statement out: it is one in another text.
    #[must_use]
    pub fn nowhere(mut self) -> Self {
        self.0.position = None;
        self
    }

    /// Names the table.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.0.table = Some(table.into());
        self
    }

    /// Names the column.
    #[must_use]
    pub fn with_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Names the constraint.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// Says where it arose.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.0.context = Some(context.into());
        self
    }

    /// What another PostgreSQL server has answered, under the SQLSTATE that it had there.
    pub fn of_shard(sqlstate: [u8; 5], message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorCode::Shard, message);
        error.0.foreign = Some(sqlstate).filter(|state| state.iter().all(u8::is_ascii_alphanumeric));
        error
    }

    /// The five characters that PostgreSQL clients look at.
    pub fn sqlstate(&self) -> &str {
        let foreign = self.0.foreign.as_ref().and_then(|state| std::str::from_utf8(state).ok());
        foreign.unwrap_or(self.0.code.sqlstate())
    }

    /// What went wrong.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// All fields.
    pub fn fields(&self) -> &Fields {
        &self.0
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sqlstate(), self.0.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}
