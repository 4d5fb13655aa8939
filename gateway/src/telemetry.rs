//! What the gateway tells about itself: a log on stderr, and numbers in OpenMetrics text.
//!
//! Metrics are a value, not a global: whoever counts is handed them. Names begin with `farebox_` and end in their unit;
//! a label takes its values from code or from what was deployed, and from only so many of those.

mod feed;
mod labels;
mod log;
mod observed;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use farebox_metering::redis::feed::FeedWatch;
use farebox_pricing::pipeline::StepCost;
use farebox_pricing::policy::Fault;
use hyper::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use labels::{Build, Evaluations, Fault as FaultLabels, HostFault, Names, Policy, Quote, Reason, Request, Route};
pub use log::{LogFormat, LogSettings, log_subscriber};
pub(crate) use observed::{LatestShare, Observed, WhatIfs as ObservedWhatIfs};

/// The media type of [`Metrics::encode`].
pub(crate) const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A quote takes well under a millisecond, and no request longer than its timeout.
const REQUEST_SECONDS: [f64; 15] =
    [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];

/// Problems are some hundred bytes, a quote of one line 2.5 kB, one of a hundred lines a quarter of a megabyte.
const RESPONSE_BYTES: [f64; 8] = [256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// An answered request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    /// The pattern that matched, such as `/v1/quotes/{id}`, never the path itself.
    pub route: Option<&'a str>,
    pub method: &'a Method,
    pub status: StatusCode,
    /// To the head of the answer.
    pub took: Duration,
    /// Of the body, as it is sent.
    pub bytes: u64,
}

/// Why a request was turned away before, or in, its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shed {
    /// As many as may be were being worked on.
    Busy,
    TimedOut,
}

/// How a quote request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteOutcome {
    Issued,
    /// Malformed or impossible.
    Invalid,
    UnknownPrice,
    /// A policy's business answer.
    Refused,
    /// A policy or the sandbox failed: 503.
    Faulted,
    /// No worker was free: 503.
    Overloaded,
}

/// All metrics of a gateway.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    request_seconds: Family<Route, Histogram, fn() -> Histogram>,
    response_bytes: Family<Route, Histogram, fn() -> Histogram>,
    requests_in_flight: Gauge,
    streams_open: Gauge,
    requests_abandoned: Counter,
    requests_shed: Family<Reason, Counter>,
    quotes: Family<Quote, Counter>,
    evaluations: Family<Evaluations, Counter>,
    step_fuel: Family<Policy, Histogram, fn() -> Histogram>,
    step_seconds: Family<Policy, Histogram, fn() -> Histogram>,
    faults: Family<FaultLabels, Counter>,
    host_faults: Family<HostFault, Counter>,
    plans: Names,
    policies: Names,
}

impl Metrics {
    /// `observe` is asked at every scrape for what is counted elsewhere.
    pub(crate) fn new(observe: impl Fn() -> Observed + Send + Sync + 'static) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("farebox"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(|| Histogram::new(REQUEST_SECONDS)),
            response_bytes: Family::new_with_constructor(|| Histogram::new(RESPONSE_BYTES)),
            requests_in_flight: Gauge::default(),
            streams_open: Gauge::default(),
            requests_abandoned: Counter::default(),
            requests_shed: Family::default(),
            quotes: Family::default(),
            evaluations: Family::default(),
            step_fuel: Family::new_with_constructor(|| Histogram::new(exponential_buckets(1_000.0, 2.0, 12))),
            step_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(4e-6, 4.0, 9))),
            faults: Family::default(),
            host_faults: Family::default(),
            plans: Names::default(),
            policies: Names::default(),
        };
        metrics.register();
        metrics.registry.register_collector(Box::new(observed::Collector::new(observe)));
        metrics
    }

    /// From now on a scrape has what the feed from Redis tells.
    pub(crate) fn watch_feed(&mut self, feed: FeedWatch) {
        self.registry.register_collector(Box::new(feed::Collector(feed)));
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let build = Build { version: env!("CARGO_PKG_VERSION").to_owned() };
        registry.register("build", "The running version", Info::new(build));
        self.register_http();
        self.register_pricing();
    }

    fn register_http(&mut self) {
        let registry = &mut self.registry;
        registry.register("http_requests", "Answered HTTP requests", self.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from the head of a request to the head of its answer",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        registry.register_with_unit(
            "http_response_size",
            "Bodies of answers as they are sent",
            Unit::Bytes,
            self.response_bytes.clone(),
        );
        registry.register("http_requests_in_flight", "Requests being answered now", self.requests_in_flight.clone());
        registry.register("http_streams_open", "Answers that go on, open now", self.streams_open.clone());
        registry.register(
            "http_requests_abandoned",
            "Requests that ended without an answer: the client went away, or the handler panicked",
            self.requests_abandoned.clone(),
        );
        registry.register(
            "http_requests_shed",
            "Requests answered 503 because too many were in work, or for their time",
            self.requests_shed.clone(),
        );
    }

    fn register_pricing(&mut self) {
        let registry = &mut self.registry;
        registry.register("quotes", "Quote requests by plan and outcome", self.quotes.clone());
        registry.register(
            "policy_evaluations",
            "Evaluations of issued quotes, by policy and where the outcome came from",
            self.evaluations.clone(),
        );
        registry.register(
            "policy_step_fuel",
            "Fuel of one step of a quote that ran in the sandbox, over all its lines, about one unit an instruction",
            self.step_fuel.clone(),
        );
        registry.register_with_unit(
            "policy_step_duration",
            "Wall time of one step of a quote in the sandbox, over all its lines that were not answered from the memo",
            Unit::Seconds,
            self.step_seconds.clone(),
        );
        registry.register("policy_faults", "Evaluations that gave no answer, by policy and kind", self.faults.clone());
        let help = "Evaluations that the sandbox could not run, by kind: the host's fault, never the policy's";
        registry.register("sandbox_faults", help, self.host_faults.clone());
    }

    /// A request has arrived; [`Metrics::http_left`] takes it back.
    pub(crate) fn http_began(&self) {
        self.requests_in_flight.inc();
    }

    pub(crate) fn http_left(&self) {
        self.requests_in_flight.dec();
    }

    /// An answer that goes on; [`Metrics::stream_ended`] takes it back.
    pub(crate) fn stream_began(&self) {
        self.streams_open.inc();
    }

    pub(crate) fn stream_ended(&self) {
        self.streams_open.dec();
    }

    pub(crate) fn http_abandoned(&self) {
        self.requests_abandoned.inc();
    }

    pub(crate) fn http_shed(&self, shed: Shed) {
        self.requests_shed.get_or_create(&Reason { reason: labels::shed(shed) }).inc();
    }

    pub(crate) fn http_answered(&self, answered: &Answered<'_>) {
        let route = answered.route.unwrap_or("unmatched").to_owned();
        let route = Route { route, method: labels::method(answered.method) };
        self.request_seconds.get_or_create(&route).observe(answered.took.as_secs_f64());
        // Lossless to 2⁵³.
        self.response_bytes.get_or_create(&route).observe(answered.bytes as f64);
        let Route { route, method } = route;
        self.requests.get_or_create(&Request { route, method, status: answered.status.as_u16() }).inc();
    }

    /// `plan` is the name of a plan that exists; `None` where the request did not get so far.
    pub(crate) fn quoted(&self, plan: Option<&str>, outcome: QuoteOutcome) {
        let plan = self.plans.admit(plan.unwrap_or("none"));
        self.quotes.get_or_create(&Quote { plan, outcome: outcome.name() }).inc();
    }

    /// `policy` is its name with or without the version.
    pub(crate) fn step_evaluated(&self, policy: &str, cost: &StepCost) {
        let policy = self.policies.admit(policy);
        for (source, count) in [("memo", cost.reused), ("sandbox", cost.evaluations.saturating_sub(cost.reused))] {
            if count > 0 {
                let labels = Evaluations { policy: policy.clone(), source };
                self.evaluations.get_or_create(&labels).inc_by(u64::from(count));
            }
        }
        // What was reused burnt nothing and took no time, and would only hide what the sandbox takes.
        if cost.reused == cost.evaluations {
            return;
        }
        let policy = Policy { policy };
        // Lossless to 2⁵³, which no fuel limit comes near.
        self.step_fuel.get_or_create(&policy).observe(cost.fuel as f64);
        let took = Duration::from_nanos(cost.nanoseconds);
        self.step_seconds.get_or_create(&policy).observe(took.as_secs_f64());
    }

    /// A fault of the host is never counted against the policy that it hit.
    pub(crate) fn evaluation_faulted(&self, policy: &str, fault: &Fault) {
        let kind = labels::fault_kind(fault);
        if fault.is_host() {
            self.host_faults.get_or_create(&HostFault { kind }).inc();
        } else {
            let labels = FaultLabels { policy: self.policies.admit(policy), kind };
            self.faults.get_or_create(&labels).inc();
        }
    }

    /// OpenMetrics text, of type [`METRICS_CONTENT_TYPE`].
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Metrics")
    }
}

impl QuoteOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Invalid => "invalid",
            Self::UnknownPrice => "unknown_price",
            Self::Refused => "refused",
            Self::Faulted => "faulted",
            Self::Overloaded => "overloaded",
        }
    }
}
