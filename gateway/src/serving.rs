//! From a bound socket to the router and back: HTTP/1.1 with a limit on everything that a client can keep us waiting for.
//!
//! - A head that does not arrive in time, or a connection that is idle for too long: closed.
//! - A body that does not end in time: its reader meets [`BodyTooSlow`], for the API to answer with a 4xx.
//! - A client that does not take its answer, or goes away: closed, and its handler is dropped where it waits.
//! - Connections beyond the limit: answered 503 at once, a bounded number at a time; beyond that closed unanswered.
//! - What is turned away never reaches the router, so it is counted here.
//! - A handler that panics ends its connection and no other.
//! - On the stop signal the socket closes, what was accepted is answered, idle connections close; a deadline ends the rest.

mod bounds;
mod deadline_body;
mod head_timeout;
mod write_timeout;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Uri};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tower::Service as _;

pub use bounds::{Bounds, Origins};
pub use deadline_body::BodyTooSlow;
use deadline_body::DeadlineBody;
use head_timeout::{HeadTimeout, Turns};
use write_timeout::WriteTimeout;

/// Heads above this are answered 431.
const LONGEST_HEAD_BYTES: usize = 64 << 10;
/// Refusals under way at once, and how long one may take.
const REFUSALS: usize = 256;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// When accepting fails for want of descriptors, trying again at once only burns a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between the stop signal and the closing of the socket: what clients take for connected already is accepted, so that
/// closing resets none of it.
const LAST_ACCEPTS: Duration = Duration::from_millis(20);
/// Between the closing of the socket and that of idle connections: requests that have reached this machine are read.
const LAST_READS: Duration = Duration::from_millis(50);

/// What one client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the connection, or from the first byte of a further request, to the end of a request's head.
    pub header_read_timeout: Duration,
    /// From an answer to the first byte of the next request.
    pub keep_alive_timeout: Duration,
    /// From the end of the head to the end of the body.
    pub body_read_timeout: Duration,
    /// For the client to take the next bytes of an answer.
    pub write_timeout: Duration,
    pub max_connections: usize,
    /// From the stop signal to the end of every connection.
    pub drain_timeout: Duration,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that the drain deadline cut off.
    pub aborted: usize,
}

/// The 503 with `Retry-After` for a request that is not served.
pub type Refusal = fn(&Uri) -> Response;

/// What is served within which limits, and what is told and counted of the rest. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Service {
    pub router: Router,
    pub too_many_connections: Refusal,
    pub limits: Limits,
    /// May be shared between servers.
    pub turned_away: Arc<TurnedAway>,
}

/// Totals of what did not get the router's answer.
#[derive(Debug, Default)]
pub struct TurnedAway {
    connections_refused: AtomicU64,
}

struct Server {
    service: Service,
    connections: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    graceful: GracefulShutdown,
    tasks: JoinSet<()>,
}

impl Limits {
    /// The limits that the gateway ships with.
    pub const fn standard() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(5),
            keep_alive_timeout: Duration::from_secs(60),
            body_read_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            max_connections: 4096,
            drain_timeout: Duration::from_secs(20),
        }
    }
}

impl TurnedAway {
    /// Connections beyond the limit, answered or not.
    pub fn connections_refused(&self) -> u64 {
        self.connections_refused.load(Ordering::Relaxed)
    }
}

/// Serves until `stop` is ready and the connections have drained.
pub async fn serve(listener: TcpListener, service: Service, stop: impl Future<Output = ()>) -> Drained {
    let mut server = Server {
        connections: Arc::new(Semaphore::new(service.limits.max_connections)),
        service,
        refusals: Arc::new(Semaphore::new(REFUSALS)),
        graceful: GracefulShutdown::new(),
        tasks: JoinSet::new(),
    };
    tokio::select! {
        biased;
        () = stop => {}
        never = server.accept(&listener) => match never {},
    }
    let _ = timeout(LAST_ACCEPTS, server.accept(&listener)).await;
    drop(listener);
    sleep(LAST_READS).await;
    server.drain().await
}

/// Ready once this process is asked to end, by SIGTERM or SIGINT. From the call on, neither ends it unasked.
///
/// # Errors
/// Where the handlers cannot be installed.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
            _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
        }
    })
}

impl Server {
    async fn accept(&mut self, listener: &TcpListener) -> Infallible {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => log_panic(ended),
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream),
                    Err(error) => {
                        tracing::warn!(%error, "a connection cannot be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        // Answers are small and written at once: waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        match Arc::clone(&self.connections).try_acquire_owned() {
            Ok(place) => self.spawn_connection(stream, place),
            Err(_) => self.refuse(stream),
        }
    }

    fn spawn_connection(&mut self, stream: TcpStream, place: OwnedSemaphorePermit) {
        let (service, limits) = (self.service.clone(), self.service.limits);
        let turns = Turns::default();
        let stream = WriteTimeout::new(stream, limits.write_timeout);
        let io = TokioIo::new(HeadTimeout::new(stream, limits.header_read_timeout, turns.clone()));
        let service = service_fn(move |request| answer(service.clone(), turns.clone(), request));
        // hyper has one limit for the wait for a head and for its arrival; the stream has the other.
        let longest = limits.keep_alive_timeout.saturating_add(limits.header_read_timeout);
        let connection = http(longest).serve_connection(io, service);
        let connection = self.graceful.watch(connection);
        self.tasks.spawn(async move {
            // How a client breaks off is its own business.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke off");
            }
            drop(place);
        });
    }

    fn refuse(&mut self, stream: TcpStream) {
        self.service.turned_away.connections_refused.fetch_add(1, Ordering::Relaxed);
        let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let too_many_connections = self.service.too_many_connections;
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = too_many_connections(request.uri());
            async { Ok::<_, Infallible>(answer) }
        });
        let connection = http(REFUSAL_TIMEOUT).keep_alive(false).serve_connection(TokioIo::new(stream), service);
        self.tasks.spawn(async move {
            let _ = timeout(REFUSAL_TIMEOUT, connection).await;
            drop(place);
        });
    }

    async fn drain(mut self) -> Drained {
        let _ = timeout(self.service.limits.drain_timeout, self.graceful.shutdown()).await;
        self.tasks.abort_all();
        let mut aborted: usize = 0;
        while let Some(ended) = self.tasks.join_next().await {
            aborted = aborted.saturating_add(usize::from(ended.as_ref().is_err_and(JoinError::is_cancelled)));
            log_panic(ended);
        }
        Drained { aborted }
    }
}

fn http(header_read_timeout: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_read_timeout).max_header_size(LONGEST_HEAD_BYTES);
    builder
}

async fn answer(mut service: Service, turns: Turns, request: Request<Incoming>) -> Result<Response, Infallible> {
    turns.pass();
    let body_read_timeout = service.limits.body_read_timeout;
    let request = request.map(|body| Body::new(DeadlineBody::new(body, body_read_timeout)));
    let answer = service.router.call(request).await;
    turns.pass();
    answer
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a handler panicked; its connection was closed");
    }
}
