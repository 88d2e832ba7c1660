//! What is asked for over HTTP: `/debug/profile/cpu?seconds=10&format=flamegraph`.

use std::fmt::Write;
use std::time::Duration;

use super::{Format, Kind, ProfileError, SECONDS_MAX, take};

/// Where the profiles of a process are.
pub const PATH: &str = "/debug/profile";

/// Seconds of a profile that was asked for without.
const SECONDS: u32 = 10;

/// A profile that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    kind: Kind,
    seconds: u32,
    format: Option<Format>,
}

/// What is answered: a status of HTTP, a media type, a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200, or which error.
    pub status: u16,
    /// What the body is.
    pub media_type: &'static str,
    /// A profile, or a line that says why there is none.
    pub body: Vec<u8>,
}

impl Answer {
    fn refusal(status: u16, reason: &str) -> Self {
        Self { status, media_type: "text/plain; charset=utf-8", body: format!("{reason}\n").into_bytes() }
    }
}

/// The page that says what there is.
pub fn list() -> String {
    let mut page = String::from("Profiles of this process, which goes on working meanwhile:\n\n");
    for kind in Kind::ALL {
        let _ = writeln!(page, "  {PATH}/{:<12} {}", kind.name(), kind.title());
    }
    let _ = write!(
        page,
        "\n?seconds=N      how long, up to {SECONDS_MAX} (without: {SECONDS})\n\
         &format=...     flamegraph (without: for browsers), pprof (without: for others), or folded\n"
    );
    page
}

/// Takes the profile that is named by the rest of the path and the query of an address. `accept` is what the client would like
/// best, as HTTP says it: a browser gets a page.
pub async fn answer(kind: &str, query: &str, accept: &str) -> Answer {
    let kind = match kind.parse::<Kind>() {
        Ok(kind) => kind,
        Err(reason) => return Answer::refusal(404, &reason),
    };
    let request = match Request::parse(kind, query) {
        Ok(request) => request,
        Err(reason) => return Answer::refusal(400, &reason),
    };
    let is_browser = accept.contains("text/html");
    let format = request.format.unwrap_or(if is_browser { Format::FlameGraph } else { Format::Pprof });
    let profile = match take(request.kind, Duration::from_secs(request.seconds.into())).await {
        Ok(profile) => profile,
        Err(error @ ProfileError::Busy) => return Answer::refusal(409, &error.to_string()),
        Err(error @ ProfileError::Unavailable(_)) => return Answer::refusal(501, &error.to_string()),
    };
    // Other pages are answered meanwhile.
    match tokio::task::spawn_blocking(move || profile.write(format)).await {
        Ok(Ok(body)) => Answer { status: 200, media_type: format.media_type(), body },
        Ok(Err(error)) => Answer::refusal(500, &error.to_string()),
        Err(error) => Answer::refusal(500, &error.to_string()),
    }
}

impl Request {
    fn parse(kind: Kind, query: &str) -> Result<Self, String> {
        let mut request = Self { kind, seconds: SECONDS, format: None };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("seconds", value)) => {
                    let seconds = value.parse().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
                    request.seconds =
                        seconds.ok_or_else(|| format!("seconds={value:?} is no number from 1 to {SECONDS_MAX}"))?;
                }
                Some(("format", value)) => request.format = Some(value.parse()?),
                _ => return Err(format!("there is no parameter {parameter:?}; there are seconds and format")),
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_long_and_in_which_form() {
        let parse = |query| Request::parse(Kind::Cpu, query).map(|request| (request.seconds, request.format));
        assert_eq!(parse(""), Ok((SECONDS, None)));
        assert_eq!(parse("seconds=3&format=folded"), Ok((3, Some(Format::Folded))));
        for wrong in ["seconds=0", "seconds=601", "seconds=x", "format=svg", "secs=1", "seconds"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
