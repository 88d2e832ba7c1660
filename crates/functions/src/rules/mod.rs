//! Analyzer rules that give DataFusion PostgreSQL's meaning where the two differ.

mod aggregates;
mod arithmetic;
mod casts;
mod characters;
pub mod conditions;
mod distances;
mod functions;
mod intervals;
mod jsonb;
mod literals;
mod numbers;
pub mod operators;
mod placement;
mod retyped;
mod unions;

pub use aggregates::NumericAggregates;
pub use arithmetic::CheckedArithmetic;
pub use casts::TextCasts;
pub use characters::Characters;
pub use conditions::Conditions;
pub use distances::QUOTED as QUOTED_DISTANCE;
pub use functions::SettleFunctions;
pub use jsonb::JsonbOrder;
pub use literals::NarrowIntegerLiterals;
pub use operators::PgOperators;
pub use placement::Placement;
pub use unions::UnionFields;
