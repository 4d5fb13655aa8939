//! HTTP: job calls on a loopback port, metrics and health there and, where one is set, on a port of their own.
//!
//! One thread, and a limit on everything: connections at once, one request on each, its size, and the time for all of it. What
//! may wait (a disk, the meter) waits on a thread of its own, so that health and metrics are answered meanwhile.

mod calls;
mod problem;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::jobs::JobBook;
use super::metrics::Metrics;
use super::seen::Published;
use super::token::Token;
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::meter::Job;

/// On one port; those beyond are closed at once.
const MOST_CONNECTIONS: usize = 32;
/// From the connection to the end of its answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_HEAD_BYTES: usize = 16 << 10;
/// When accepting fails for want of descriptors, trying again at once only burns a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) type Answer = Response<Full<Bytes>>;

/// What calls are answered from.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) book: Arc<Mutex<JobBook>>,
    /// Of the configuration: shown, never changed.
    pub(crate) assignments: Vec<Job>,
    pub(crate) published: Arc<Published>,
    pub(crate) delivery: Option<Arc<Delivery>>,
    pub(crate) metrics: Metrics,
    /// Of job calls, if they need one.
    pub(crate) token: Option<Token>,
    pub(crate) clock: Clock,
    pub(crate) node: String,
    pub(crate) tick: Duration,
}

/// Bound sockets.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) control: TcpListener,
    pub(crate) metrics: Option<TcpListener>,
}

/// What a port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Control,
    Metrics,
}

/// Serves on a thread of its own for as long as the process lives, and tells `stop` of SIGTERM and SIGINT.
///
/// # Errors
/// Where no thread, runtime or signal handler can be had.
pub(crate) fn serve(ports: Ports, desk: Arc<Desk>, stop: Sender<()>) -> io::Result<()> {
    // One thread for what waits: calls keep their order.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
    for listener in [Some(&ports.control), ports.metrics.as_ref()].into_iter().flatten() {
        listener.set_nonblocking(true)?;
    }
    let (started, answer) = crossbeam_channel::bounded(1);
    thread::Builder::new().name("http".to_owned()).spawn(move || run(&runtime, ports, &desk, &stop, &started))?;
    answer.recv().unwrap_or_else(|_| Err(io::Error::other("the HTTP thread ended")))
}

fn run(runtime: &Runtime, ports: Ports, desk: &Arc<Desk>, stop: &Sender<()>, started: &Sender<io::Result<()>>) {
    runtime.block_on(async {
        let prepared = (|| {
            let control = tokio::net::TcpListener::from_std(ports.control)?;
            let metrics = ports.metrics.map(tokio::net::TcpListener::from_std).transpose()?;
            Ok((
                control,
                metrics,
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ))
        })();
        let (control, metrics, mut terminate, mut interrupt, mut hangup) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return drop(started.send(Err(error))),
        };
        let _ = started.send(Ok(()));
        tokio::spawn(accept(control, Port::Control, Arc::clone(desk)));
        if let Some(metrics) = metrics {
            tokio::spawn(accept(metrics, Port::Metrics, Arc::clone(desk)));
        }
        loop {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
                _ = hangup.recv() => tracing::info!("SIGHUP: stopping"),
            }
            let _ = stop.try_send(());
        }
    });
}

async fn accept(listener: tokio::net::TcpListener, port: Port, desk: Arc<Desk>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let desk = Arc::clone(&desk);
                tokio::spawn(async move {
                    let _ = timeout(CONNECTION_TIMEOUT, converse(stream, port, desk)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, port: Port, desk: Arc<Desk>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(calls::answer(request, port, &desk).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(CONNECTION_TIMEOUT).max_header_size(LONGEST_HEAD_BYTES);
    // How a client breaks off is its own business.
    let _ = http.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}
