//! From the wire to the domain: the bounds that a schema cannot state.

use std::collections::HashSet;

use farebox_pricing::currency::Currency;
use farebox_pricing::exact;
use farebox_pricing::pipeline::MAX_LINES;
use farebox_pricing::price_book::Market;
use farebox_pricing::request::{MAX_SECONDS, QuoteRequest, RequestedItem, Task, Work, Workload};
use rust_decimal::Decimal;

use super::body::{
    BillingBody, ExecutionBody, IsolationBody, ItemBody, MarketBody, PriorityBody, QuoteBody, SessionBody, TaskBody,
    WorkloadBody,
};
use crate::schema::{Violation, WireDecimal};

/// Most GiB or Gbit/s that anyone asks for.
const MAX_SIZE: Decimal = Decimal::from_parts(1_000_000_000, 0, 0, false, 0);

/// The request, or `None` with at least one violation added.
pub(super) fn request(quote: QuoteBody, violations: &mut Vec<Violation>) -> Option<QuoteRequest> {
    let currency = Currency::parse(&quote.currency)
        .map_err(|error| violations.push(Violation::new("/currency", "unknown_currency", error.to_string())))
        .ok();
    let mut references = HashSet::new();
    let mut items = Vec::with_capacity(quote.items.len());
    // More items than are allowed is the schema's violation; telling what is wrong with each of them helps nobody.
    for (index, body) in quote.items.into_iter().take(MAX_LINES).enumerate() {
        let mut place = Place { pointer: format!("/items/{index}"), violations };
        if !references.insert(body.reference.clone()) {
            place.violates("/ref", "not_unique", "each item needs a `ref` of its own");
        }
        items.push(item(body, &mut place));
    }
    Some(QuoteRequest {
        tenant_id: quote.tenant_id,
        currency: currency?,
        plan: quote.plan,
        client_reference: quote.client_reference,
        items: items.into_iter().collect::<Option<Vec<_>>>()?,
    })
}

/// Where in the request a violation is found.
struct Place<'a> {
    pointer: String,
    violations: &'a mut Vec<Violation>,
}

impl Place<'_> {
    fn violates(&mut self, member: &str, code: &str, detail: &str) {
        self.violations.push(Violation::new(format!("{}{member}", self.pointer), code, detail));
    }

    /// A decimal of at least 0. An absent one is absent, a bad one is a violation and absent.
    fn decimal(&mut self, member: &str, value: Option<&WireDecimal>) -> Option<Decimal> {
        match exact::parse(&value?.0) {
            Ok(value) if value.is_sign_negative() => {
                self.violates(member, "negative", "must not be negative");
                None
            }
            Ok(value) => Some(value),
            Err(error) => {
                self.violates(member, "not_a_plain_decimal", &error.to_string());
                None
            }
        }
    }

    fn size(&mut self, member: &str, value: Option<&WireDecimal>) -> Option<Decimal> {
        let size = self.decimal(member, value)?;
        if size > MAX_SIZE {
            self.violates(member, "maximum", "must be at most 1,000,000,000");
        }
        Some(size)
    }
}

fn item(body: ItemBody, place: &mut Place<'_>) -> Option<RequestedItem> {
    let memory_gib = place.size("/memory_gib", body.memory_gib.as_ref());
    let network_gbps = place.size("/network_gbps", body.network_gbps.as_ref());
    let storage_gib = place.size("/storage_gib", body.storage_gib.as_ref());
    let work = work(&body, place);
    let workload = workload(body.workload.unwrap_or_default(), place);
    Some(RequestedItem {
        reference: body.reference,
        gpu_model: body.gpu_model,
        region: body.region,
        market: market(body.market.unwrap_or(MarketBody::OnDemand)),
        priority: priority(body.priority.unwrap_or(PriorityBody::Normal)).to_owned(),
        gpu_count: body.gpu_count,
        work: work?,
        memory_gib,
        network_gbps,
        storage_gib,
        workload,
    })
}

/// Exactly one of `hours`, `seconds` and `task`, as `billing` says.
fn work(body: &ItemBody, place: &mut Place<'_>) -> Option<Work> {
    let by_task = body.billing == Some(BillingBody::Task);
    match (by_task, &body.hours, body.seconds, &body.task) {
        (true, None, None, Some(inputs)) => task(inputs, place).map(Work::Task),
        (true, _, _, None) => {
            place.violates("/task", "required", "`task` is missing: `billing` is `task`");
            None
        }
        (true, _, _, Some(_)) => {
            place.violates("/billing", "ambiguous", "with `billing` `task` there are neither `hours` nor `seconds`");
            None
        }
        // A task beside hours is what a comparison prices; a quote by the hour does not look at it.
        (false, Some(hours), None, _) => hours_in_seconds(hours, place).map(Work::Seconds),
        (false, None, Some(seconds), _) => Some(Work::Seconds(seconds)),
        (false, Some(_), Some(_), _) => {
            place.violates("/seconds", "ambiguous", "give exactly one of `hours` and `seconds`");
            None
        }
        (false, None, None, _) => {
            place.violates("/hours", "required", "give exactly one of `hours` and `seconds`");
            None
        }
    }
}

fn hours_in_seconds(hours: &WireDecimal, place: &mut Place<'_>) -> Option<u64> {
    let hours = place.decimal("/hours", Some(hours))?;
    // Hours beyond the limit are refused before they are multiplied, so the product is exact.
    let limit = Decimal::from(MAX_SECONDS / 3600);
    if hours.is_zero() || hours > limit {
        place.violates("/hours", "out_of_range", "must be more than 0 and at most 87600");
        return None;
    }
    let seconds = hours.normalize().checked_mul(Decimal::from(3600)).filter(|seconds| seconds.fract().is_zero());
    let whole = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    if whole.is_none() {
        place.violates("/hours", "not_whole_seconds", "must be whole seconds; give `seconds` instead");
    }
    whole
}

fn task(body: &TaskBody, place: &mut Place<'_>) -> Option<Task> {
    let iterations = place.decimal("/task/iterations", body.iterations.as_ref());
    if body.iterations.is_some() && iterations.is_none() {
        return None;
    }
    Some(Task {
        template: body.template.clone(),
        parameters: body.parameters,
        samples: body.samples,
        sample_bytes: body.sample_bytes,
        iterations,
        precision: body.precision.clone(),
        gradient_accumulation: body.gradient_accumulation,
    })
}

fn workload(body: WorkloadBody, place: &mut Place<'_>) -> Workload {
    let mut seen = HashSet::new();
    for (index, feature) in body.features.iter().enumerate() {
        if feature.is_empty() || feature.len() > 64 {
            place.violates(&format!("/workload/features/{index}"), "length", "must have 1 to 64 characters");
        }
        if !seen.insert(feature) {
            place.violates(&format!("/workload/features/{index}"), "not_unique", "a feature counts once");
        }
    }
    Workload {
        // `PyTorch` and `pytorch` are one framework, at one price.
        framework: body.framework.map(|name| name.to_ascii_lowercase()),
        execution: body.execution.map(|execution| match execution {
            ExecutionBody::Eager => "eager".to_owned(),
            ExecutionBody::Compiled => "compiled".to_owned(),
            ExecutionBody::Torchscript => "torchscript".to_owned(),
        }),
        features: body.features,
        image: body.image,
        session: body.session.map(|session| match session {
            SessionBody::Interactive => "interactive".to_owned(),
            SessionBody::Batch => "batch".to_owned(),
        }),
        isolation: body.isolation.map(|isolation| match isolation {
            IsolationBody::Shared => "shared".to_owned(),
            IsolationBody::Hardened => "hardened".to_owned(),
            IsolationBody::Dedicated => "dedicated".to_owned(),
        }),
        precision: body.precision,
    }
}

fn market(body: MarketBody) -> Market {
    match body {
        MarketBody::Guaranteed => Market::Guaranteed,
        MarketBody::OnDemand => Market::OnDemand,
        MarketBody::Spot => Market::Spot,
    }
}

fn priority(body: PriorityBody) -> &'static str {
    match body {
        PriorityBody::Low => "low",
        PriorityBody::Normal => "normal",
        PriorityBody::High => "high",
    }
}
