//! Usage as server-sent events: the document of `GET /v1/tenants/{id}/usage`, once a second.
//!
//! A tenant's document is made once a second for all who watch it, and only while somebody does. Each has the newest one,
//! not all of them: whoever reads slowly misses some and holds up nobody.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::super::{Draining, Gateway, Problem};
use super::document;
use crate::telemetry::Metrics;

const MEDIA_TYPE: &str = "text/event-stream";
const PERIOD: Duration = Duration::from_secs(1);
/// For how long a client waits before it connects again, ms.
const RETRY: &[u8] = b"retry: 2000\n\n";
/// Tells a proxy like nginx that it may not hold events back.
const NO_BUFFERING: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Who watches which tenant. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    places: Arc<Semaphore>,
    /// By tenant, the newest event. What is in here has a task that makes the next ones.
    watched: Arc<Mutex<HashMap<String, watch::Sender<Bytes>>>>,
}

/// One of the places there are, taken until it is dropped.
struct Place {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

struct Watcher {
    events: watch::Receiver<Bytes>,
    has_begun: bool,
    draining: Draining,
    _place: Place,
}

/// The next event, and who waits for the one after it.
type Next = dyn Future<Output = Option<(Bytes, Watcher)>> + Send;

/// A body that ends when the process is told to stop, or nothing is known of the tenant any more.
struct Events(Pin<Box<Next>>);

impl Streams {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(most)), watched: Arc::default() }
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Bytes>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self, tenant_id: &str) -> Option<watch::Receiver<Bytes>> {
        self.watched().get(tenant_id).map(watch::Sender::subscribe)
    }

    /// Gives up the tenant if nobody watches it; true where somebody does.
    fn is_watched(&self, tenant_id: &str) -> bool {
        let mut watched = self.watched();
        let is_watched = watched.get(tenant_id).is_some_and(|events| events.receiver_count() > 0);
        if !is_watched {
            watched.remove(tenant_id);
        }
        is_watched
    }
}

impl Place {
    fn take(gateway: &Gateway) -> Option<Self> {
        let permit = Arc::clone(&gateway.streams.places).try_acquire_owned().ok()?;
        let metrics = Arc::clone(&gateway.metrics);
        metrics.stream_began();
        Some(Self { metrics, _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.metrics.stream_ended();
    }
}

/// The answer that goes on.
pub(super) async fn open(gateway: Gateway, tenant_id: String) -> Result<Response, Problem> {
    let Some(place) = Place::take(&gateway) else {
        return Err(Problem::overloaded("too many streams at once; try again later, or ask for `application/json`"));
    };
    let mut events = match gateway.streams.subscribe(&tenant_id) {
        Some(events) => events,
        None => {
            let first = event(&gateway, &tenant_id).await?;
            begin(&gateway, tenant_id, first)
        }
    };
    // The newest there is, at once.
    events.mark_changed();
    let watcher = Watcher { events, has_begun: false, draining: gateway.draining.clone(), _place: place };
    let headers = [
        (header::CONTENT_TYPE, MEDIA_TYPE),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "accept"),
        NO_BUFFERING,
    ];
    Ok((headers, Body::new(Events(Box::pin(watcher.next())))).into_response())
}

async fn event(gateway: &Gateway, tenant_id: &str) -> Result<Bytes, Problem> {
    let document = document(gateway, tenant_id.to_owned()).await?;
    // JSON has no line breaks of its own: it is one line of `data`.
    Ok([b"event: usage\ndata: ", &*document, b"\n\n"].concat().into())
}

/// Makes events for a tenant, unless somebody does by now.
fn begin(gateway: &Gateway, tenant_id: String, first: Bytes) -> watch::Receiver<Bytes> {
    let mut watched = gateway.streams.watched();
    if let Some(events) = watched.get(&tenant_id) {
        return events.subscribe();
    }
    let (sender, events) = watch::channel(first);
    watched.insert(tenant_id.clone(), sender);
    tokio::spawn(go_on(gateway.clone(), tenant_id));
    events
}

async fn go_on(gateway: Gateway, tenant_id: String) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            () = gateway.draining.begun() => return,
            _ = ticks.tick() => {}
        }
        if !gateway.streams.is_watched(&tenant_id) {
            return;
        }
        match event(&gateway, &tenant_id).await {
            Ok(event) => {
                let watched = gateway.streams.watched();
                watched.get(&tenant_id).map(|events| events.send_replace(event));
            }
            // Nothing is known of it any more. Whoever connects again is told so.
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                gateway.streams.watched().remove(&tenant_id);
                return;
            }
            // An overload passes; the ages in the event after it say how long it was.
            Err(_) => {}
        }
    }
}

impl Watcher {
    /// What is new, as soon as it is.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        tokio::select! {
            biased;
            changed = self.events.changed() => changed.ok()?,
            () = self.draining.begun() => return None,
        }
        let event = self.events.borrow_and_update().clone();
        if std::mem::replace(&mut self.has_begun, true) {
            return Some((event, self));
        }
        Some(([RETRY, &*event].concat().into(), self))
    }
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.as_mut().poll(context).map(|next| {
            let (event, watcher) = next?;
            self.0 = Box::pin(watcher.next());
            Some(Ok(Frame::data(event)))
        })
    }
}
