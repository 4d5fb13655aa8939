//! Overload and time, with handlers that a test holds: counted, not timed.

use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::telemetry::Observed;

const BOUNDS: Bounds = Bounds { requests: 3, request_timeout: Duration::from_secs(60), streams: 1 };

struct Held {
    gate: Arc<Semaphore>,
    started: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    routes: Router,
}

/// One route whose handler waits at the gate, within `bounds`.
fn held(bounds: Bounds) -> Held {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let metrics = Arc::new(Metrics::new(Observed::default));
    let (at, begun) = (Arc::clone(&gate), Arc::clone(&started));
    let handler = async move || {
        begun.add_permits(1);
        at.acquire().await.unwrap().forget();
        "held"
    };
    let routes = bounded(Router::new().route("/", get(handler)), bounds, &metrics);
    Held { gate, started, metrics, routes }
}

impl Held {
    fn ask(&self) -> JoinHandle<StatusCode> {
        let routes = self.routes.clone();
        tokio::spawn(async move { routes.oneshot(Request::new(Body::empty())).await.unwrap().status() })
    }

    /// Waits until so many handlers have begun.
    async fn until_started(&self, count: u32) {
        self.started.acquire_many(count).await.unwrap().forget();
    }

    fn counts(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|found| found == line)
    }
}

#[tokio::test]
async fn beyond_its_bound_a_request_is_answered_503_while_the_others_go_on() {
    let held = held(BOUNDS);
    let accepted: Vec<_> = (0..3).map(|_| held.ask()).collect();
    held.until_started(3).await;
    // While all three are held, each further one has its answer: nothing waits, so there is no queue that could grow.
    for _ in 0..100 {
        assert_eq!(held.ask().await.unwrap(), 503);
    }
    assert_eq!(held.started.available_permits(), 0, "none of the hundred reached a handler");
    assert!(held.counts("farebox_http_requests_shed_total{reason=\"busy\"} 100"));
    held.gate.add_permits(3);
    for answer in accepted {
        assert_eq!(answer.await.unwrap(), 200);
    }
    // Their places are free again.
    let next = held.ask();
    held.until_started(1).await;
    held.gate.add_permits(1);
    assert_eq!(next.await.unwrap(), 200);
}

#[tokio::test]
async fn a_client_that_goes_away_gives_its_place_back() {
    let held = held(Bounds { requests: 1, ..BOUNDS });
    let gone = held.ask();
    held.until_started(1).await;
    assert_eq!(held.ask().await.unwrap(), 503);
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let next = held.ask();
    held.until_started(1).await;
    held.gate.add_permits(1);
    assert_eq!(next.await.unwrap(), 200);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_answered_503() {
    let held = held(Bounds { request_timeout: Duration::from_millis(20), ..BOUNDS });
    let response = held.routes.clone().oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()[header::RETRY_AFTER]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    assert!(held.counts("farebox_http_requests_shed_total{reason=\"timed_out\"} 1"));
}
