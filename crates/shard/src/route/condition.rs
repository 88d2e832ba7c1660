//! What a statement's conditions say about the sharding key of one table, and the shards that follow from it.
//!
//! A condition is a promise: every row of the table that matters to the statement satisfies it. What cannot be
//! expressed is left out, which only makes the promise weaker. Computed once per statement text; evaluated by every
//! execution.

use std::ops::Bound;

use super::Request;
use super::operand::{Known, Operand, elements};
use crate::rules::{Domain, Key, KeyClass, Rule, ShardId, ShardSet};

/// Branches of ORs within each other that are looked at, for one table.
const DEPTH_MAX: usize = 16;

/// Parts that a new one is compared with: long conditions are not compared part by part with each other.
const LOOKED_BACK: usize = 16;

/// Values of lists that are compared with each other; of longer lists, the shorter one is taken alone.
const COMPARED_MAX: usize = 65_536;

/// A condition on the columns of a key, which are counted from 0 in the key's order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// Says nothing.
    Any,
    /// No row satisfies it.
    Never,
    /// The column is equal to one of these.
    OneOf(usize, Vec<Operand>),
    /// The column is equal to an element of the parameter of this number.
    InArray(usize, u16),
    /// The column lies between these.
    Between(usize, Bound<Operand>, Bound<Operand>),
    /// All hold.
    And(Vec<Condition>),
    /// One holds.
    Or(Vec<Condition>),
}

/// Where the rows that satisfy a condition can be, for a statement that is to be carried out by one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Only {
    /// On no shard.
    Nowhere,
    /// On this one and no other.
    At(ShardId),
    /// On several.
    Several,
}

impl Condition {
    /// All of these.
    pub(super) fn all(parts: Vec<Self>) -> Self {
        let mut flat: Vec<Self> = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Any => {}
                Self::Never => return Self::Never,
                Self::And(inner) => inner.into_iter().for_each(|part| push_new(&mut flat, part)),
                other => push_new(&mut flat, other),
            }
        }
        match flat.len() {
            0 => Self::Any,
            1 => flat.remove(0),
            _ => Self::And(flat),
        }
    }

    /// One of these.
    pub(super) fn any(parts: Vec<Self>) -> Self {
        let mut flat: Vec<Self> = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Any => return Self::Any,
                Self::Never => {}
                Self::Or(inner) => inner.into_iter().for_each(|part| push_option(&mut flat, part)),
                other => push_option(&mut flat, other),
            }
        }
        match flat.len() {
            0 => Self::Never,
            1 => flat.remove(0),
            _ => Self::Or(flat),
        }
    }

    /// The shards on which rows that satisfy it can be.
    pub(super) fn shards(&self, rule: &Rule, request: &Request<'_>) -> ShardSet {
        match self.one_key(rule, request) {
            Some(Only::Nowhere) => ShardSet::EMPTY,
            Some(Only::At(shard)) => ShardSet::of(shard),
            Some(Only::Several) => rule.all(),
            None => self.evaluate(rule, request, vec![Domain::Any; rule.classes().len()], 0),
        }
    }

    /// The same as far as one shard is asked for. Of what most statements are no set is made.
    pub(super) fn only(&self, rule: &Rule, request: &Request<'_>) -> Only {
        match self.one_key(rule, request) {
            Some(known @ (Only::Nowhere | Only::At(_))) => known,
            Some(Only::Several) | None => {
                let shards = self.shards(rule, request);
                match shards.only() {
                    Some(shard) => Only::At(shard),
                    None if shards.is_empty() => Only::Nowhere,
                    None => Only::Several,
                }
            }
        }
    }

    /// What most statements are: one key, and nothing allocated. `None`: it is something else. `Several` stands for all shards, of which
    /// there may be one.
    fn one_key(&self, rule: &Rule, request: &Request<'_>) -> Option<Only> {
        let (Self::OneOf(_, operands), [class]) = (self, rule.classes()) else { return None };
        let [operand] = &operands[..] else { return None };
        Some(match operand.key(*class, request) {
            Known::Key(key) => rule.shard_of_keys(&[Some(key)]).map_or(Only::Nowhere, Only::At),
            Known::Null => Only::Nowhere,
            Known::Unknown => Only::Several,
        })
    }

    fn evaluate(&self, rule: &Rule, request: &Request<'_>, mut known: Vec<Domain>, depth: usize) -> ShardSet {
        if depth > DEPTH_MAX {
            return rule.shards_of(&known);
        }
        let parts = match self {
            Self::And(parts) => parts.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut branches = Vec::new();
        for part in parts {
            match part {
                Self::Any => {}
                Self::Never => return ShardSet::EMPTY,
                Self::And(_) | Self::Or(_) => branches.push(part),
                Self::OneOf(column, _) | Self::InArray(column, _) | Self::Between(column, ..) => {
                    let class = rule.classes()[*column];
                    let domain = part.domain(class, request);
                    known[*column] = both(std::mem::replace(&mut known[*column], Domain::Any), domain, class);
                }
            }
        }
        let mut shards = rule.shards_of(&known);
        for branch in branches {
            let those = match branch {
                Self::Or(options) => options.iter().fold(ShardSet::EMPTY, |sum, option| {
                    sum.or(&option.evaluate(rule, request, known.clone(), depth + 1))
                }),
                other => other.evaluate(rule, request, known.clone(), depth + 1),
            };
            shards = shards.and(&those);
        }
        shards
    }

    fn domain(&self, class: KeyClass, request: &Request<'_>) -> Domain {
        match self {
            Self::OneOf(_, operands) => {
                let mut keys = Vec::with_capacity(operands.len());
                for operand in operands {
                    match operand.key(class, request) {
                        Known::Key(key) => keys.push(key),
                        Known::Null => {}
                        Known::Unknown => return Domain::Any,
                    }
                }
                Domain::Values(keys)
            }
            Self::InArray(_, number) => elements(class, *number, request).map_or(Domain::Any, Domain::Values),
            Self::Between(_, low, high) => {
                let (Some(low), Some(high)) = (end(low, class, request), end(high, class, request)) else {
                    return Domain::Values(Vec::new());
                };
                Domain::Range { low, high }
            }
            Self::Any | Self::Never | Self::And(_) | Self::Or(_) => Domain::Any,
        }
    }

    /// Whether it gives values of all columns of the key, for whichever rows satisfy it.
    pub(super) fn gives_keys(&self, rule: &Rule, request: &Request<'_>) -> bool {
        let parts = match self {
            Self::Any | Self::Between(..) => return false,
            Self::Never => return true,
            Self::Or(options) => return options.iter().all(|option| option.gives_keys(rule, request)),
            Self::And(parts) => parts.as_slice(),
            single @ (Self::OneOf(..) | Self::InArray(..)) => std::slice::from_ref(single),
        };
        let is_given = |(column, class): (usize, &KeyClass)| {
            parts.iter().any(|part| {
                matches!(part, Self::OneOf(own, _) | Self::InArray(own, _) if *own == column)
                    && matches!(part.domain(*class, request), Domain::Values(_))
            })
        };
        rule.classes().iter().enumerate().all(is_given)
            || parts.iter().any(|part| matches!(part, Self::Or(_)) && part.gives_keys(rule, request))
    }

    /// In words, for whoever asks why a statement goes where it goes.
    pub(super) fn explain(&self, names: &[&str]) -> String {
        let name = |column: &usize| names.get(*column).copied().unwrap_or("?");
        let end = |bound: &Bound<Operand>, open: &str, closed: &str| match bound {
            Bound::Included(operand) => Some(format!("{closed} {}", operand.explain())),
            Bound::Excluded(operand) => Some(format!("{open} {}", operand.explain())),
            Bound::Unbounded => None,
        };
        let joined = |parts: &[Self], word: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.explain(names)).collect();
            format!("({})", parts.join(word))
        };
        match self {
            Self::Any => "none".to_owned(),
            Self::Never => "never true".to_owned(),
            Self::OneOf(column, operands) => match &operands[..] {
                [single] => format!("{} = {}", name(column), single.explain()),
                several => {
                    let all: Vec<String> = several.iter().map(Operand::explain).collect();
                    format!("{} in ({})", name(column), all.join(", "))
                }
            },
            Self::InArray(column, number) => format!("{} = any (${})", name(column), number + 1),
            Self::Between(column, low, high) => {
                let ends: Vec<String> = end(low, ">", ">=").into_iter().chain(end(high, "<", "<=")).collect();
                let ends: Vec<String> = ends.iter().map(|end| format!("{} {end}", name(column))).collect();
                if ends.is_empty() { "none".to_owned() } else { ends.join(" and ") }
            }
            Self::And(parts) => joined(parts, " and "),
            Self::Or(parts) => joined(parts, " or "),
        }
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        let of_bound = |bound: &Bound<Operand>| match bound {
            Bound::Included(operand) | Bound::Excluded(operand) => operand.bytes(),
            Bound::Unbounded => 0,
        };
        size_of::<Self>()
            + match self {
                Self::Any | Self::Never | Self::InArray(..) => 0,
                Self::OneOf(_, operands) => operands.iter().map(Operand::bytes).sum(),
                Self::Between(_, low, high) => of_bound(low) + of_bound(high),
                Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::bytes).sum(),
            }
    }
}

/// Adds a part that is not there yet, as far as that is soon seen.
fn push_new(parts: &mut Vec<Condition>, part: Condition) {
    if !parts.iter().rev().take(LOOKED_BACK).any(|other| *other == part) {
        parts.push(part);
    }
}

/// The same of an OR, where values of one column become one list.
fn push_option(parts: &mut Vec<Condition>, part: Condition) {
    if let Condition::OneOf(column, operands) = part {
        for other in parts.iter_mut().take(LOOKED_BACK) {
            if let Condition::OneOf(other_column, others) = other
                && *other_column == column
            {
                others.extend(operands);
                return;
            }
        }
        parts.push(Condition::OneOf(column, operands));
    } else {
        push_new(parts, part);
    }
}

/// An end of a range; `None` where it is NULL, which no value lies above or below.
fn end(bound: &Bound<Operand>, class: KeyClass, request: &Request<'_>) -> Option<Bound<Key>> {
    let known = |operand: &Operand| operand.key(class, request);
    Some(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(operand) => match known(operand) {
            Known::Key(key) => Bound::Included(key),
            Known::Null => return None,
            Known::Unknown => Bound::Unbounded,
        },
        Bound::Excluded(operand) => match known(operand) {
            Known::Key(key) => Bound::Excluded(key),
            Known::Null => return None,
            Known::Unknown => Bound::Unbounded,
        },
    })
}

/// What is known when both are.
fn both(a: Domain, b: Domain, class: KeyClass) -> Domain {
    use std::ops::RangeBounds;
    match (a, b) {
        (Domain::Any, other) | (other, Domain::Any) => other,
        (Domain::Values(a), Domain::Values(b)) => {
            let (mut shorter, longer) = if a.len() <= b.len() { (a, b) } else { (b, a) };
            if shorter.len().saturating_mul(longer.len()) <= COMPARED_MAX {
                shorter.retain(|key| longer.contains(key));
            }
            Domain::Values(shorter)
        }
        (Domain::Values(mut values), Domain::Range { low, high })
        | (Domain::Range { low, high }, Domain::Values(mut values)) => {
            // Text is between others by its server's collation, which nobody knows here.
            if class.is_ordered() {
                values.retain(|key| (low.as_ref(), high.as_ref()).contains(key));
            }
            Domain::Values(values)
        }
        (Domain::Range { low, high }, Domain::Range { low: other_low, high: other_high }) => {
            Domain::Range { low: tighter(low, other_low, true), high: tighter(high, other_high, false) }
        }
    }
}

fn tighter(a: Bound<Key>, b: Bound<Key>, is_low: bool) -> Bound<Key> {
    let key = |bound: &Bound<Key>| match bound {
        Bound::Included(key) => Some((key.clone(), false)),
        Bound::Excluded(key) => Some((key.clone(), true)),
        Bound::Unbounded => None,
    };
    match (key(&a), key(&b)) {
        (None, _) => b,
        (_, None) => a,
        (Some((x, x_open)), Some((y, y_open))) => {
            let a_wins = match x.cmp(&y) {
                std::cmp::Ordering::Equal => x_open || !y_open,
                std::cmp::Ordering::Less => !is_low,
                std::cmp::Ordering::Greater => is_low,
            };
            if a_wins { a } else { b }
        }
    }
}
