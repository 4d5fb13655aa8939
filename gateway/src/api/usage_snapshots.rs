//! `POST /v1/usage-snapshots`: what an agent observed, into the mirror.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use farebox_metering::mirror::Applied;
use farebox_metering::snapshot::{Snapshot, WireSnapshot};
use serde::Serialize;
use utoipa::ToSchema;

use super::Gateway;
use super::body::json_bytes;
use super::problem::{Problem, ProblemBody};
use crate::intake::json;
use crate::schema::{Schema, Violation};

/// What became of a snapshot.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotReceipt {
    /// True if the snapshot is now the newest of its node, tenant, job and model.
    applied: bool,
    /// Why not, or in which part only: `not_newer`, `from_the_future`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Takes a snapshot of a tenant's GPUs. An older one than is known changes nothing and is not an error. It is known to this
/// replica only: several get theirs through Redis.
#[utoipa::path(post, path = "/v1/usage-snapshots", operation_id = "apply_usage_snapshot", tag = "meter", request_body = WireSnapshot, responses(
    (status = 202, description = "taken", body = SnapshotReceipt),
    (status = 400, description = "`malformed-json`", body = ProblemBody, content_type = "application/problem+json"),
    (status = 408, description = "`invalid-request`: the body took too long", body = ProblemBody, content_type = "application/problem+json"),
    (status = 413, description = "`invalid-request`: the body is too large", body = ProblemBody, content_type = "application/problem+json"),
    (status = 415, description = "`invalid-request`: the body is not JSON", body = ProblemBody, content_type = "application/problem+json"),
    (status = 422, description = "`invalid-request`: every violation at once", body = ProblemBody, content_type = "application/problem+json"),
    (status = 503, description = "`overloaded`: the mirror is full", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(super) async fn apply(State(gateway): State<Gateway>, request: Request) -> Result<Response, Problem> {
    let bytes = json_bytes(request, gateway.body_limit_bytes).await?;
    let snapshot = read(&gateway.snapshot_schema, &bytes)?;
    let applied = gateway.road.mirror.apply(snapshot, gateway.clock.now());
    let receipt = match applied.map_err(|error| Problem::overloaded(error.to_string()))? {
        Applied::Stored => SnapshotReceipt { applied: true, reason: None },
        Applied::NotNewer => SnapshotReceipt { applied: false, reason: Some("not_newer") },
        Applied::Quarantined(_) => SnapshotReceipt { applied: true, reason: Some("from_the_future") },
    };
    Ok((StatusCode::ACCEPTED, Json(receipt)).into_response())
}

/// Schema first, then the bounds that no schema states; all violations of a kind at once.
pub(crate) fn read(schema: &Schema, bytes: &[u8]) -> Result<Snapshot, Problem> {
    let document = json::read(bytes).map_err(|error| Problem::malformed_json(error.to_string()))?;
    let mut violations = document.violations;
    violations.extend(schema.violations(&document.value));
    if !violations.is_empty() {
        return Err(Problem::invalid("the snapshot does not fit its schema", violations));
    }
    let wire: WireSnapshot = serde_json::from_value(document.value).map_err(|error| {
        Problem::invalid("the snapshot does not fit its schema", vec![Violation::new("", "invalid", error.to_string())])
    })?;
    Snapshot::try_from(wire).map_err(|invalid| {
        let errors = invalid.violations.into_iter();
        let errors = errors.map(|found| Violation::new(found.pointer, found.code.as_str(), found.detail)).collect();
        Problem::invalid("the snapshot has values that cannot be", errors)
    })
}
