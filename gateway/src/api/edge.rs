//! What stands before the routes: how many requests at once, for how long, and from which web pages.

use std::sync::Arc;
use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::{BoxError, Router};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::error::Overloaded;
use tower::{ServiceBuilder, ServiceExt as _};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::problem::Problem;
use super::trace::TRACE_ID;
use super::trace_context::TRACEPARENT;
use crate::serving::{Bounds, Origins};
use crate::telemetry::{Metrics, Shed};

/// How long a browser may keep the answer to a preflight; Chromium keeps none longer than two hours.
const PREFLIGHT_KEPT: Duration = Duration::from_secs(3600);

/// The routes within their bounds. What is over them is answered at once: nothing waits for a place.
pub(super) fn bounded<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    bounds: Bounds,
    metrics: &Arc<Metrics>,
) -> Router<S> {
    let metrics = Arc::clone(metrics);
    let turned_away = move |error: BoxError| {
        let (shed, sentence) = match error.is::<Overloaded>() {
            true => (Shed::Busy, "too many requests at once; try again in a second"),
            false => (Shed::TimedOut, "the request took too long; try again in a second"),
        };
        metrics.http_shed(shed);
        async move { Problem::overloaded(sentence) }
    };
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(turned_away))
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::new(bounds.requests))
        .timeout(bounds.request_timeout);
    routes.layer(layers)
}

/// The routes, callable from the web pages of `origins`. Credentials are not among what a browser may send by itself:
/// whoever calls brings its own, in a header.
pub(super) fn shared_with(routes: Router, origins: &Origins) -> Router {
    let allowed = match origins {
        Origins::None => return routes,
        Origins::Any => AllowOrigin::from(Any),
        Origins::These(origins) => AllowOrigin::list(origins.iter().cloned()),
    };
    let sent = [
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        HeaderName::from_static("idempotency-key"),
        TRACEPARENT,
    ];
    let shown = [
        header::ALLOW,
        header::ETAG,
        header::LOCATION,
        header::RETRY_AFTER,
        HeaderName::from_static("idempotent-replayed"),
        TRACEPARENT,
        TRACE_ID,
    ];
    let cors = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(sent)
        .expose_headers(shown)
        .max_age(PREFLIGHT_KEPT);
    routes.clone().layer(cors).layer(from_fn_with_state(routes, past_cors))
}

/// The CORS layer takes every `OPTIONS` for a preflight; those that are none are the routes' own to answer.
async fn past_cors(State(routes): State<Router>, request: Request, next: Next) -> Response {
    let is_preflight = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() != Method::OPTIONS || is_preflight {
        return next.run(request).await;
    }
    routes.oneshot(request).await.unwrap_or_else(|never| match never {}).into_response()
}

#[cfg(test)]
mod tests;
