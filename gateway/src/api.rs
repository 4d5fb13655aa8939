//! The HTTP API: routes, wire shapes and problems. The only room, with `serving`, that knows HTTP.

mod accept;
mod body;
mod catalog;
mod docs;
mod edge;
mod effective_utilisation;
mod etag;
mod gzip;
mod openapi;
mod probes;
mod problem;
mod quotes;
mod representation;
mod tenant_usage;
mod trace;
mod trace_context;
mod usage_snapshots;
mod usage_view;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use farebox_metering::redis::feed::FeedWatch;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::quoting::Road;
use crate::schema::Schema;
use crate::serving::{Bounds, Origins};
use crate::telemetry::Metrics;
use crate::workers::Workers;

pub(crate) use problem::Problem;
pub(crate) use tenant_usage::Streams;
pub(crate) use usage_snapshots::read as read_snapshot;
pub(crate) use wire::{QuoteView, line_id};

/// What the handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub road: Arc<Road>,
    pub workers: Workers,
    pub clock: Clock,
    /// `None`: usage snapshots come over HTTP only.
    pub feed: Option<FeedWatch>,
    pub metrics: Arc<Metrics>,
    pub snapshot_schema: Arc<Schema>,
    pub body_limit_bytes: usize,
    pub bounds: Bounds,
    pub origins: Arc<Origins>,
    pub draining: Draining,
    pub streams: Streams,
}

/// Set when the process has been told to stop: `/readyz` fails from then on, so that no new work is sent here, and streams end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining(Arc<watch::Sender<bool>>);

impl Draining {
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Ready once it has begun.
    async fn begun(&self) {
        // INVARIANT: the sender lives as long as `self`, so that waiting does not fail.
        let _ = self.0.subscribe().wait_for(|has_begun| *has_begun).await;
    }
}

/// Every route. `/metrics` is left out where it has a port of its own.
pub(crate) fn router(gateway: Gateway, with_metrics: bool) -> Router {
    let bounded = Router::new()
        .route("/v1/quotes", taking(quotes::create))
        .route("/v1/quotes/{id}", reading(quotes::read))
        .route("/v1/catalog", reading(catalog::read))
        .route("/v1/tenants/{id}/usage", reading(tenant_usage::read))
        .route("/v1/usage-snapshots", taking(usage_snapshots::apply));
    // Whoever watches an overloaded gateway has to reach it: these wait for nothing and are not bounded.
    let mut routes = edge::bounded(bounded, gateway.bounds, &gateway.metrics)
        .route("/healthz", reading(probes::healthz))
        .route("/readyz", reading(probes::readyz))
        .route("/openapi.json", reading(openapi::document))
        .merge(docs::routes());
    if with_metrics {
        routes = routes.route("/metrics", reading(probes::metrics));
    }
    whole(routes, gateway)
}

/// `/metrics` alone, for a port of its own.
pub(crate) fn metrics_router(gateway: Gateway) -> Router {
    whole(Router::new().route("/metrics", reading(probes::metrics)), gateway)
}

/// Routes with what surrounds them all.
fn whole(routes: Router<Gateway>, gateway: Gateway) -> Router {
    let routes = routes.fallback(no_such_route).method_not_allowed_fallback(no_such_method).with_state(gateway.clone());
    edge::shared_with(routes, &gateway.origins).layer(from_fn_with_state(gateway, trace::trace))
}

/// The answer to a connection that is one too many.
pub(crate) fn too_many_connections(uri: &Uri) -> Response {
    trace::untraced(&Problem::overloaded("too many connections; try again in a second"), uri.path())
}

async fn no_such_route(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::not_found(format!("there is nothing at `{path}`; /openapi.json lists what there is"))
}

/// The router adds `Allow`.
async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    let detail = format!("`{path}` does not take {method}; the `Allow` header says what it takes");
    Problem::invalid_as(StatusCode::METHOD_NOT_ALLOWED, detail)
}

/// What is read: `GET` and `HEAD`.
fn reading<H: Handler<T, Gateway>, T: 'static>(handler: H) -> MethodRouter<Gateway> {
    get(handler).options(async || allowing("GET,HEAD,OPTIONS"))
}

/// What takes a `POST`.
fn taking<H: Handler<T, Gateway>, T: 'static>(handler: H) -> MethodRouter<Gateway> {
    post(handler).options(async || allowing("POST,OPTIONS"))
}

fn allowing(methods: &'static str) -> Response {
    (StatusCode::NO_CONTENT, [(header::ALLOW, methods)]).into_response()
}
