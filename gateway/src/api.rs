//! The HTTP API: routes, wire shapes and problems. The only room, with `serving`, that knows HTTP.

mod body;
mod openapi;
mod probes;
mod problem;
mod quotes;
mod trace;
mod usage_snapshots;
mod usage_view;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::clock::Clock;
use crate::quoting::Road;
use crate::schema::Schema;
use crate::telemetry::Metrics;
use crate::workers::Workers;

pub(crate) use problem::Problem;
pub(crate) use usage_snapshots::read as read_snapshot;
pub(crate) use wire::QuoteView;

/// What the handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub road: Arc<Road>,
    pub workers: Workers,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub snapshot_schema: Arc<Schema>,
    pub body_limit_bytes: usize,
    pub draining: Draining,
}

/// Set when the process has been told to stop: `/readyz` fails from then on, so that no new work is sent here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining(Arc<AtomicBool>);

impl Draining {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Every route. `/metrics` is left out where it has a port of its own.
pub(crate) fn router(gateway: Gateway, with_metrics: bool) -> Router {
    let mut router = Router::new()
        .route("/v1/quotes", post(quotes::create))
        .route("/v1/quotes/{id}", get(quotes::read))
        .route("/v1/usage-snapshots", post(usage_snapshots::apply))
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/openapi.json", get(openapi::document));
    if with_metrics {
        router = router.route("/metrics", get(probes::metrics));
    }
    router
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(gateway.clone(), trace::trace))
        .with_state(gateway)
}

/// `/metrics` alone, for a port of its own.
pub(crate) fn metrics_router(gateway: Gateway) -> Router {
    Router::new()
        .route("/metrics", get(probes::metrics))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(gateway.clone(), trace::trace))
        .with_state(gateway)
}

/// The answer to a connection that is one too many.
pub(crate) fn too_many_connections(uri: &Uri) -> Response {
    outside_the_router(uri, &Problem::overloaded("too many connections; try again in a second"))
}

/// The answer to a request that was not answered in time.
pub(crate) fn took_too_long(uri: &Uri) -> Response {
    outside_the_router(uri, &Problem::overloaded("the request took too long; try again in a second"))
}

fn outside_the_router(uri: &Uri, problem: &Problem) -> Response {
    let mut response = problem.clone().into_response();
    problem.render(uri.path(), &trace::new_trace_id(), &mut response);
    response
}

async fn no_such_route(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::not_found(format!("there is nothing at `{path}`; /openapi.json lists what there is"))
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    let detail = format!("`{path}` does not take {method}; the `Allow` header says what it takes");
    Problem::invalid_as(StatusCode::METHOD_NOT_ALLOWED, detail)
}
