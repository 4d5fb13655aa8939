//! How quotes end, into the metrics and, where it is ours to mend, into the log: once, here.

use std::sync::Arc;

use farebox_pricing::pipeline::PricingError;

use crate::catalog::OfferError;
use crate::ledger::Quote;
use crate::quoting::QuotingError;
use crate::telemetry::{Metrics, QuoteOutcome};
use crate::workers::WorkError;

pub(super) fn record(metrics: &Metrics, quoted: &Result<Result<Arc<Quote>, QuotingError>, WorkError>) {
    match quoted {
        Ok(Ok(quote)) => issued(metrics, quote),
        Ok(Err(error)) => failed(metrics, error),
        Err(WorkError::Overloaded) => metrics.quoted(None, QuoteOutcome::Overloaded),
        Err(WorkError::Panicked) => metrics.quoted(None, QuoteOutcome::Faulted),
    }
}

fn issued(metrics: &Metrics, quote: &Quote) {
    let plan = quote.input.plan();
    metrics.quoted(Some(&plan.name), QuoteOutcome::Issued);
    for (step, cost) in plan.steps.iter().zip(&quote.settled.costs) {
        metrics.step_evaluated(&step.policy.id(), cost);
    }
    for skipped in &quote.settled.skipped {
        let Some(step) = plan.steps.get(skipped.step_index) else { continue };
        let (policy, tenant) = (step.policy.id(), &quote.issued.tenant_id);
        tracing::error!(plan = plan.name, step = step.id, policy, tenant, fault = %skipped.fault, "a policy faulted and was skipped");
        metrics.evaluation_faulted(&policy, &skipped.fault);
    }
}

fn failed(metrics: &Metrics, error: &QuotingError) {
    match error {
        QuotingError::Intake(_) | QuotingError::Offer(OfferError::Invalid(_)) => {
            metrics.quoted(None, QuoteOutcome::Invalid);
        }
        QuotingError::Offer(OfferError::UnknownPrice(_)) => metrics.quoted(None, QuoteOutcome::UnknownPrice),
        QuotingError::Offer(OfferError::Unavailable(_)) => metrics.quoted(None, QuoteOutcome::Faulted),
        QuotingError::Pricing { plan, tenant, source } => {
            metrics.quoted(Some(plan), outcome(source));
            match &**source {
                PricingError::Faulted { step, policy, fault, .. } => {
                    let whose = if fault.is_host() { "the sandbox failed a policy" } else { "a policy faulted" };
                    tracing::error!(plan, step, policy, tenant, %fault, "{whose}");
                    metrics.evaluation_faulted(policy, fault);
                }
                PricingError::SumsDiffer(_) => tracing::error!(plan, tenant, "the rows of a quote do not sum"),
                PricingError::Refused { .. }
                | PricingError::NotMeasured { .. }
                | PricingError::TooManyLines { .. }
                | PricingError::TooLarge(_) => {}
            }
        }
        QuotingError::Issuing(error) => {
            tracing::error!(error = crate::causes::with_causes(error), "a settled quote could not be issued");
            metrics.quoted(None, QuoteOutcome::Faulted);
        }
    }
}

fn outcome(error: &PricingError) -> QuoteOutcome {
    match error {
        PricingError::Refused { .. } => QuoteOutcome::Refused,
        PricingError::NotMeasured { .. } | PricingError::TooManyLines { .. } | PricingError::TooLarge(_) => {
            QuoteOutcome::Invalid
        }
        PricingError::Faulted { .. } | PricingError::SumsDiffer(_) => QuoteOutcome::Faulted,
    }
}
