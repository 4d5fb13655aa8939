//! The calls: jobs, health, metrics.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::problem::{Problem, answer as text_answer, json_answer};
use super::{Answer, Desk, Port};
use crate::agent::jobs::wire::{self, named_job};
use crate::agent::jobs::{JobBook, NotDone, Started};
use crate::agent::metrics::CONTENT_TYPE;
use crate::agent::seen::Health;
use crate::tick::Library;

const MOST_BODY_BYTES: usize = 64 << 10;
/// For a body to arrive whole.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn answer(request: Request<Incoming>, port: Port, desk: &Desk) -> Answer {
    let path = request.uri().path().to_owned();
    if let Err(problem) = admitted(&request, port, &path, desk) {
        return problem.answer(&path);
    }
    let answered = match (port, path.split('/').skip(1).collect::<Vec<_>>().as_slice()) {
        (_, ["metrics"]) => get(&request, || text_answer(StatusCode::OK, CONTENT_TYPE, desk.metrics.encode())),
        (_, ["healthz"]) => get(&request, || health(desk)),
        (Port::Control, ["jobs"]) => get(&request, || list(desk)),
        (Port::Control, ["jobs", tenant, job]) => match (decoded(tenant), decoded(job)) {
            (Some(tenant), Some(job)) => one_job(request, desk, tenant, job).await,
            _ => Err(Problem::bad_query("the path is not UTF-8 with `%` and two hex digits for other bytes")),
        },
        _ => Err(Problem::not_found("there is `/jobs`, `/jobs/{tenant}/{job}`, `/healthz` and `/metrics`")),
    };
    answered.unwrap_or_else(|problem| problem.answer(&path))
}

/// Callers of the control port are programs on this host: what a web page can make a browser send comes with an `Origin`, or with
/// the name by which it found a loopback address. Job calls need the token, where there is one.
fn admitted(request: &Request<Incoming>, port: Port, path: &str, desk: &Desk) -> Result<(), Problem> {
    if port != Port::Control {
        return Ok(());
    }
    let headers = request.headers();
    if headers.contains_key(ORIGIN) {
        return Err(Problem::forbidden("web pages may not call: leave out `Origin`"));
    }
    let hosts = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    if !hosts.chain(authority).all(is_loopback) {
        return Err(Problem::forbidden("`Host` must be `localhost` or a loopback address"));
    }
    let is_job_call = path == "/jobs" || path.starts_with("/jobs/");
    let sent = headers.get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    match &desk.token {
        Some(token) if is_job_call && !token.is_in(sent) => Err(Problem::unauthenticated()),
        _ => Ok(()),
    }
}

/// `localhost` or a loopback address, with or without a port.
fn is_loopback(authority: &[u8]) -> bool {
    let Ok(authority) = str::from_utf8(authority) else { return false };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = authority.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(authority, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn get(request: &Request<Incoming>, answer: impl FnOnce() -> Answer) -> Result<Answer, Problem> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(answer()),
        _ => Err(Problem::not_allowed("GET")),
    }
}

async fn one_job(request: Request<Incoming>, desk: &Desk, tenant: String, job: String) -> Result<Answer, Problem> {
    match *request.method() {
        Method::PUT => start(request, desk, tenant, job).await,
        Method::DELETE => end(request.uri().query(), desk, tenant, job).await,
        _ => Err(Problem::not_allowed("PUT, DELETE")),
    }
}

async fn start(request: Request<Incoming>, desk: &Desk, tenant: String, job: String) -> Result<Answer, Problem> {
    let body = match timeout(BODY_TIMEOUT, Limited::new(request.into_body(), MOST_BODY_BYTES).collect()).await {
        Err(_) => return Err(Problem::too_slow()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Problem::too_large(MOST_BODY_BYTES)),
        Ok(Err(_)) => return Err(Problem::malformed_json("the body broke off")),
        Ok(Ok(body)) => body.to_bytes(),
    };
    let body: Value = serde_json::from_slice(&body).map_err(|error| Problem::malformed_json(error.to_string()))?;
    let job = wire::read_job(&tenant, &job, &body)
        .map_err(|violations| Problem::invalid("the job has values that cannot be", violations))?;
    let shown = named_job(&job);
    let started = with_book(desk, move |book| book.start(job)).await?;
    let status = match started {
        Started::New => StatusCode::CREATED,
        Started::Same => StatusCode::OK,
    };
    Ok(json_answer(status, &shown))
}

async fn end(query: Option<&str>, desk: &Desk, tenant: String, job: String) -> Result<Answer, Problem> {
    let why = query.unwrap_or("reason=ended").strip_prefix("reason=").and_then(wire::read_end);
    let why =
        why.ok_or_else(|| Problem::bad_query("the query must be `reason=ended`, `reason=preempted` or absent"))?;
    let shown = json!({ "tenant": tenant, "job": job, "reason": why.as_str() });
    match with_book(desk, move |book| book.end(&tenant, &job, why)).await? {
        true => Ok(json_answer(StatusCode::OK, &shown)),
        false => Err(Problem::not_found("no such job is running")),
    }
}

/// On the thread that may wait, for the disk and for the meter, one after the other. Once begun it is done to its end, though the
/// caller goes away; if he has gone before, it is not begun: he may have asked for something else meanwhile.
pub(super) async fn with_book<T: Send + 'static>(
    desk: &Desk,
    work: impl FnOnce(&mut JobBook) -> Result<T, NotDone> + Send + 'static,
) -> Result<T, Problem> {
    let book = Arc::clone(&desk.book);
    let (answer, answered) = oneshot::channel();
    spawn_blocking(move || {
        if !answer.is_closed() {
            let _ = answer.send(work(&mut book.lock().unwrap_or_else(PoisonError::into_inner)));
        }
    });
    answered.await.map_err(|_| Problem::unavailable("the call failed"))?.map_err(|error| Problem::of_job(&error))
}

fn list(desk: &Desk) -> Answer {
    let jobs: Vec<_> = match desk.book.try_lock() {
        Ok(book) => book.jobs().iter().map(named_job).collect(),
        Err(_) => return Problem::unavailable("another call is under way; try again").answer("/jobs"),
    };
    let assignments: Vec<_> = desk.assignments.iter().map(named_job).collect();
    json_answer(StatusCode::OK, &json!({ "jobs": jobs, "assignments": assignments }))
}

fn health(desk: &Desk) -> Answer {
    let (seen, now_us) = (desk.published.get(), desk.clock.now().mono_us);
    let health = seen.health(now_us, desk.tick);
    let status = if health == Health::Ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let age_ms = seen.age(now_us).map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let library = seen.tick.as_ref().map(|tick| match tick.library {
        Library::Present => "present",
        Library::Gone => "gone",
    });
    let delivery = desk.delivery.as_ref().map(|delivery| delivery.counters());
    let delivery = delivery.map(|found| json!({ "away": found.away, "waiting": found.waiting }));
    let body = json!({
        "status": health.word(),
        "node": desk.node,
        "last_tick_age_ms": age_ms,
        "library": library,
        "devices": seen.tick.as_ref().map_or(0, |tick| tick.devices.len()),
        "delivery": delivery,
    });
    json_answer(status, &body)
}

/// A segment of a path without its `%`. `None`: no UTF-8, or a `%` that stands for nothing.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
