//! What the gateway tells about itself: a log on stderr, and numbers in OpenMetrics text.
//!
//! Metrics are a value, not a global: whoever counts is handed them. Names begin with `farebox_` and end in their unit;
//! a label takes its values from code or from what was deployed, and from only so many of those.

mod labels;
mod log;
mod observed;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use farebox_pricing::pipeline::StepCost;
use farebox_pricing::policy::Fault;
use hyper::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use labels::{Build, Fault as FaultLabels, Names, Policy, Quote, Request, Route};
pub(crate) use log::{LogFormat, LogSettings, log_subscriber};
pub(crate) use observed::Observed;

/// The media type of [`Metrics::encode`].
pub(crate) const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A quote takes well under a millisecond, and no request longer than its timeout.
const REQUEST_SECONDS: [f64; 15] =
    [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];

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
    quotes: Family<Quote, Counter>,
    step_fuel: Family<Policy, Histogram, fn() -> Histogram>,
    step_seconds: Family<Policy, Histogram, fn() -> Histogram>,
    faults: Family<FaultLabels, Counter>,
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
            quotes: Family::default(),
            step_fuel: Family::new_with_constructor(|| Histogram::new(exponential_buckets(1_000.0, 2.0, 12))),
            step_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(4e-6, 4.0, 9))),
            faults: Family::default(),
            plans: Names::default(),
            policies: Names::default(),
        };
        metrics.register();
        metrics.registry.register_collector(Box::new(observed::Collector::new(observe)));
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let build = Build { version: env!("CARGO_PKG_VERSION").to_owned() };
        registry.register("build", "The running version", Info::new(build));
        registry.register("http_requests", "Answered HTTP requests", self.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time from the head of a request to the head of its answer",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        registry.register("quotes", "Quote requests by plan and outcome", self.quotes.clone());
        registry.register(
            "policy_step_fuel",
            "Fuel of one step of a quote over all its lines, about one unit an instruction",
            self.step_fuel.clone(),
        );
        registry.register_with_unit(
            "policy_step_duration",
            "Wall time of one step of a quote in the sandbox, over all its lines that were not answered from the memo",
            Unit::Seconds,
            self.step_seconds.clone(),
        );
        registry.register("policy_faults", "Evaluations that gave no answer, by policy and kind", self.faults.clone());
    }

    /// `route` is the pattern that matched, such as `/v1/quotes/{id}`, never the path itself.
    pub(crate) fn http_answered(&self, route: Option<&str>, method: &Method, status: StatusCode, took: Duration) {
        let route = Route { route: route.unwrap_or("unmatched").to_owned(), method: labels::method(method) };
        self.request_seconds.get_or_create(&route).observe(took.as_secs_f64());
        let Route { route, method } = route;
        self.requests.get_or_create(&Request { route, method, status: status.as_u16() }).inc();
    }

    /// `plan` is the name of a plan that exists; `None` where the request did not get so far.
    pub(crate) fn quoted(&self, plan: Option<&str>, outcome: QuoteOutcome) {
        let plan = self.plans.admit(plan.unwrap_or("none"));
        self.quotes.get_or_create(&Quote { plan, outcome: outcome.name() }).inc();
    }

    /// `policy` is its name with or without the version.
    pub(crate) fn step_evaluated(&self, policy: &str, cost: &StepCost) {
        let policy = Policy { policy: self.policies.admit(policy) };
        // Lossless to 2⁵³, which no fuel limit comes near.
        self.step_fuel.get_or_create(&policy).observe(cost.fuel as f64);
        // What was reused took no time, and would only hide what the sandbox takes.
        if cost.reused == cost.evaluations {
            return;
        }
        let took = Duration::from_nanos(cost.nanoseconds);
        self.step_seconds.get_or_create(&policy).observe(took.as_secs_f64());
    }

    pub(crate) fn policy_faulted(&self, policy: &str, fault: &Fault) {
        let labels = FaultLabels { policy: self.policies.admit(policy), kind: labels::fault_kind(fault) };
        self.faults.get_or_create(&labels).inc();
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
