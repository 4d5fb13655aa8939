//! Pricing in this process: the road of the gateway, over a mirror of its own and without an issuer.

use std::sync::Arc;

use farebox_metering::mirror::{Applied, Mirror, MirrorLimits};
use farebox_metering::snapshot::WireSnapshot;
use jiff::Timestamp;

use super::super::exit::Exit;
use super::super::local_sandbox::local_sandbox;
use super::super::refusal::Refusal;
use super::super::{Places, warn};
use super::{Answer, Failure, JsonFile, Recorder};
use crate::api::{Problem, QuoteView, read_snapshot};
use crate::catalog::{Catalog, OfferError};
use crate::causes::with_causes;
use crate::intake::Intake;
use crate::ledger::RecentQuotes;
use crate::quoting::{QuotingError, Road, WhatIfCounters};
use crate::schema::Schema;
use crate::suggestion::did_you_mean;

pub(super) fn quote(
    places: &Places,
    request: &JsonFile,
    snapshots: &[JsonFile],
    now: Timestamp,
) -> Result<Answer, Failure> {
    let (data, policies) = places.existing()?;
    // What is wrong with what was given is told before the policies are compiled, which takes seconds.
    let mirror = Arc::new(Mirror::new(MirrorLimits::default()));
    observe(&mirror, snapshots, now)?;
    let intake = Intake::new().map_err(Failure::new)?;
    intake
        .read(&request.bytes)
        .map_err(|error| Refusal::of_road(QuotingError::from(error).into()).failure(Exit::Refused))?;
    let sandbox = local_sandbox()?;
    let catalog = Catalog::load(&data, &policies, &sandbox);
    let road = Road {
        intake,
        catalog,
        memo: None,
        mirror,
        quotes: RecentQuotes::new(1),
        what_ifs: WhatIfCounters::default(),
        issuer: None,
    };
    let mut recorder = Recorder::new(sandbox.limits().evaluate_fuel);
    let quote = road.quote_watched(&request.bytes, now, &mut recorder).map_err(|error| {
        let check = format!("farebox check {} --policies {}", data.display(), policies.display());
        failure(error, request, &road.catalog, &check)
    })?;
    let problems = road.catalog.problems.len();
    if problems > 0 {
        warn(&format!("the data directory has problems ({problems}); see `farebox check {}`", data.display()));
    }
    let view = QuoteView::of(&quote, now).map_err(Failure::new)?;
    let body = serde_json::to_string(&view).map_err(Failure::new)?;
    Ok(Answer { body, recorder: Some(recorder) })
}

fn observe(mirror: &Mirror, snapshots: &[JsonFile], now: Timestamp) -> Result<(), Failure> {
    let schema = Schema::of::<WireSnapshot>().map_err(Failure::new)?;
    for file in snapshots {
        let refused = |problem| Refusal::of_road(problem).failure(Exit::Refused).about(&file.name);
        let snapshot = read_snapshot(&schema, &file.bytes).map_err(refused)?;
        let name = &file.name;
        match mirror.apply(snapshot, now).map_err(Failure::new)? {
            Applied::Stored => {}
            Applied::NotNewer => warn(&format!("{name} is not newer than the one before it, so it counts for nothing")),
            Applied::Quarantined(_) => {
                warn(&format!("{name} was observed after the priced instant {now}; compare its `observed_at`"));
            }
        }
    }
    Ok(())
}

/// What the server would answer; and beyond that the names that the directory has, and the fault of a policy, since who
/// prices offline may read both.
fn failure(error: QuotingError, request: &JsonFile, catalog: &Catalog, check: &str) -> Failure {
    if let QuotingError::Offer(OfferError::Unavailable(sentence)) = &error {
        let problems = catalog.problems.len();
        return Failure::saying(format!("{sentence}: the data directory has problems ({problems}); see `{check}`"));
    }
    let causes = with_causes(&error);
    let problem = Problem::from(error);
    let exit = Exit::of_status(problem.status.as_u16());
    let mut refusal = Refusal::of_road(problem);
    if exit == Exit::Unavailable {
        refusal.detail = causes;
    }
    if let [[_, code, _]] = refusal.faults.as_slice() {
        let (written, known): (_, Vec<&str>) = match code.as_str() {
            "unknown_plan" => (request.text("plan"), catalog.plans.keys().map(String::as_str).collect()),
            "unknown_tenant" => (request.text("tenant_id"), catalog.tenants.keys().map(String::as_str).collect()),
            _ => (None, Vec::new()),
        };
        let mut remedy = did_you_mean(written.unwrap_or_default(), known.iter().copied());
        if remedy.is_empty() && !known.is_empty() {
            remedy =
                format!("; there are {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "));
        }
        refusal.detail = format!("{}{remedy}", refusal.detail);
    }
    refusal.failure(exit)
}
