//! Profiles of this process over HTTP: see [`ashlar_telemetry::profile::request`].

use ashlar_telemetry::profile::request;
use axum::extract::{ConnectInfo, Path, RawQuery};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;

use super::doorway::Lease;

/// What there is.
pub(super) async fn list() -> String {
    request::list()
}

/// Takes one.
pub(super) async fn take(
    Path(kind): Path<String>,
    RawQuery(query): RawQuery,
    ConnectInfo(lease): ConnectInfo<Lease>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let _busy = lease.busy();
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let answer = request::answer(&kind, query.as_deref().unwrap_or_default(), accept).await;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, answer.media_type)], answer.body)
}
