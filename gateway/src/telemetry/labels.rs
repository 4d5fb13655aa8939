//! Labels, and the bound on how many values one may take.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use farebox_pricing::policy::Fault as PolicyFault;
use hyper::Method;
use prometheus_client::encoding::EncodeLabelSet;

use super::Shed;

/// Names of plans and policies come and go with deployments; their series would stay. Further names count as `other`.
const MOST_NAMES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Build {
    pub(super) version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Request {
    pub(super) route: String,
    pub(super) method: &'static str,
    pub(super) status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Route {
    pub(super) route: String,
    pub(super) method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Quote {
    pub(super) plan: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Policy {
    pub(super) policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Evaluations {
    pub(super) policy: String,
    /// `sandbox` or `memo`
    pub(super) source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HostFault {
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Fault {
    pub(super) policy: String,
    pub(super) kind: &'static str,
}

/// The names that one label has had so far.
#[derive(Debug, Default)]
pub(super) struct Names(RwLock<HashSet<String>>);

impl Names {
    pub(super) fn admit(&self, name: &str) -> String {
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(name) {
            return name.to_owned();
        }
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() < MOST_NAMES {
            names.insert(name.to_owned());
        }
        if names.contains(name) { name } else { "other" }.to_owned()
    }
}

/// Clients may invent methods.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

pub(super) fn shed(shed: Shed) -> &'static str {
    match shed {
        Shed::Busy => "busy",
        Shed::TimedOut => "timed_out",
    }
}

pub(super) fn fault_kind(fault: &PolicyFault) -> &'static str {
    match fault {
        PolicyFault::Trapped(_) => "trapped",
        PolicyFault::OutOfFuel => "out_of_fuel",
        PolicyFault::OutOfMemory => "out_of_memory",
        PolicyFault::StackOverflow => "stack_overflow",
        PolicyFault::ContractViolation(_) => "contract_violation",
        PolicyFault::Deadline => "deadline",
        PolicyFault::PoolExhausted => "pool_exhausted",
        PolicyFault::HostMemory => "host_memory",
    }
}
