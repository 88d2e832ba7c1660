//! Functions of text whose result can be far longer than what they are given: bounded before anything is allocated.

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};

use super::catalog::{Body, Call, Function, R, T, function, of};
use super::strings::{text, text_of};

const TEXT: R = R::Is(T::Text);

/// The longest value that PostgreSQL has.
pub const VALUE_BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes that one call gives for a batch of rows. A call cannot ask the pool that running queries share, and rows of a
/// batch are at most some thousand.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("repeat", &[of(&[T::Text, T::Int4], TEXT, Body::Strict(repeat))]),
    function(
        "lpad",
        &[
            of(&[T::Text, T::Int4], TEXT, Body::Strict(pad_left)),
            of(&[T::Text, T::Int4, T::Text], TEXT, Body::Strict(pad_left)),
        ],
    ),
    function(
        "rpad",
        &[
            of(&[T::Text, T::Int4], TEXT, Body::Strict(pad_right)),
            of(&[T::Text, T::Int4, T::Text], TEXT, Body::Strict(pad_right)),
        ],
    ),
    function("replace", &[of(&[T::Text, T::Text, T::Text], TEXT, Body::Strict(replace))]),
];

/// Refuses a result of so many bytes; `None` is more than can be counted.
///
/// # Errors
/// 54000 beyond what PostgreSQL gives, 53200 beyond what is given here.
pub fn check(bytes: Option<usize>) -> Result<()> {
    match bytes {
        Some(bytes) if bytes <= BATCH_BYTES_MAX => Ok(()),
        Some(bytes) if bytes < VALUE_BYTES_MAX => {
            Err(Error::new(ErrorCode::OutOfMemory, format!("a value of {bytes} bytes is more than a call may give"))
                .with_detail(format!(
                    "The results of one call for a batch of rows hold at most {BATCH_BYTES_MAX} bytes."
                )))
        }
        _ => Err(Error::new(ErrorCode::ProgramLimitExceeded, "requested length too large")),
    }
}

/// Refuses an array of so many items, which are values until it is a column's, and of so many bytes beside them.
///
/// # Errors
/// As [`check`].
pub fn check_items(items: usize, bytes: usize) -> Result<()> {
    check(items.checked_mul(size_of::<Value>()).and_then(|own| own.checked_add(bytes)))
}

fn count_of(datum: &Datum<'_>) -> usize {
    match datum {
        Datum::Int4(value) => usize::try_from(*value).unwrap_or(0),
        _ => 0,
    }
}

fn repeat(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (piece, count) = (text_of(&args[0]), count_of(&args[1]));
    check(piece.len().checked_mul(count))?;
    text(piece.repeat(count))
}

/// The text cut to a number of characters, and what is to stand beside it.
fn padded<'a>(args: &'a [Datum<'_>]) -> Result<(&'a str, String)> {
    let (whole, wanted) = (text_of(&args[0]), count_of(&args[1]));
    let fill = args.get(2).map_or(" ", text_of);
    let end = whole.char_indices().nth(wanted).map_or(whole.len(), |(offset, _)| offset);
    let kept = &whole[..end];
    let missing = wanted - kept.chars().count();
    if missing == 0 || fill.is_empty() {
        return Ok((kept, String::new()));
    }
    // PostgreSQL counts four bytes for each character.
    if wanted.saturating_mul(4) >= VALUE_BYTES_MAX {
        check(None)?;
    }
    let length = fill.chars().count();
    let rest = fill.char_indices().nth(missing % length).map_or(0, |(offset, _)| offset);
    let bytes = (missing / length).checked_mul(fill.len()).and_then(|bytes| bytes.checked_add(rest + kept.len()));
    check(bytes)?;
    let mut beside = fill.repeat(missing / length);
    beside.push_str(&fill[..rest]);
    Ok((kept, beside))
}

fn pad_left(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (kept, beside) = padded(args)?;
    text(beside + kept)
}

fn pad_right(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (kept, beside) = padded(args)?;
    text(kept.to_owned() + &beside)
}

fn replace(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (whole, from, to) = (text_of(&args[0]), text_of(&args[1]), text_of(&args[2]));
    if from.is_empty() {
        return text(whole);
    }
    if to.len() > from.len() {
        let found = whole.matches(from).count();
        check(found.checked_mul(to.len() - from.len()).and_then(|grown| grown.checked_add(whole.len())))?;
    }
    text(whole.replace(from, to))
}
