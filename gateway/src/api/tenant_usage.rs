//! `GET /v1/tenants/{id}/usage`: what is known of a tenant's GPUs at this moment, once or as events.

mod stream;
mod wire;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;

use super::problem::{Problem, ProblemBody};
use super::{Gateway, accept};
use crate::quoting::Road;
pub(crate) use stream::Streams;
use wire::TenantUsage;

/// Reads what is known of a tenant's GPUs at this moment.
///
/// Also what is too stale for a quote, which leaves it out where there is a fresher snapshot. Whoever asks may name any tenant:
/// there is no access control yet.
///
/// With `Accept: text/event-stream` the answer goes on: an event `usage` at once and then every second, whose `data` is the
/// document that `application/json` would be. It ends when the gateway stops, or knows nothing of the tenant any more.
#[utoipa::path(get, path = "/v1/tenants/{id}/usage", operation_id = "read_tenant_usage", tag = "quote", params(("id" = String, Path, description = "the tenant")), responses(
    (status = 200, description = "by GPU model; none where no live snapshot is known", content((TenantUsage = "application/json"), (String = "text/event-stream"))),
    (status = 404, description = "`not-found`: neither a file nor a snapshot names this tenant", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(super) async fn read(
    State(gateway): State<Gateway>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(Path(tenant_id)) = id else { return Err(no_such_tenant()) };
    if accept::wants_events(&headers) {
        return stream::open(gateway, tenant_id).await;
    }
    let document = document(&gateway, tenant_id).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "private, no-store"),
        (header::VARY, "accept"),
    ];
    Ok((headers, document).into_response())
}

/// The answer as JSON. A tenant may hold thousands of GPUs: this is work, and not for the threads that serve connections.
async fn document(gateway: &Gateway, tenant_id: String) -> Result<Vec<u8>, Problem> {
    let (road, now) = (Arc::clone(&gateway.road), gateway.clock.now());
    let document = gateway.workers.run(move || {
        let usage = usage_of(&road, tenant_id, now)?;
        // Strings and numbers always serialise.
        Some(serde_json::to_vec(&usage).unwrap_or_default())
    });
    document.await?.ok_or_else(no_such_tenant)
}

fn no_such_tenant() -> Problem {
    Problem::not_found("there is no such tenant")
}

fn usage_of(road: &Road, tenant_id: String, now: Timestamp) -> Option<TenantUsage> {
    let models = road.mirror.usage(&tenant_id, now);
    let is_known = models.is_some() || road.catalog.tenants.contains_key(&tenant_id);
    let models = models.unwrap_or_default().into_iter().map(wire::model).collect();
    is_known.then_some(TenantUsage { tenant_id, models })
}
