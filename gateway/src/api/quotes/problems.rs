//! From the road's errors to problems. What is ours to mend was logged by `outcomes`; here it is only told.

use farebox_pricing::pipeline::{MAX_LINES, PricingError};

use super::Problem;
use crate::catalog::OfferError;
use crate::intake::IntakeError;
use crate::quoting::QuotingError;
use crate::schema::Violation;
use crate::workers::WorkError;

impl From<WorkError> for Problem {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Overloaded => Self::overloaded("all pricing workers are busy; try again in a second"),
            WorkError::Panicked => Self::unavailable("the quote could not be priced"),
        }
    }
}

impl From<QuotingError> for Problem {
    fn from(error: QuotingError) -> Self {
        match error {
            QuotingError::Intake(IntakeError::Malformed(error)) => Self::malformed_json(error.to_string()),
            QuotingError::Intake(IntakeError::Invalid(violations)) => Self::invalid(summary(&violations), violations),
            QuotingError::Offer(error) => error.into(),
            QuotingError::Pricing { source, .. } => (*source).into(),
            QuotingError::Issuing(_) => Self::unavailable("the quote could not be issued"),
        }
    }
}

impl From<OfferError> for Problem {
    fn from(error: OfferError) -> Self {
        match error {
            OfferError::Invalid(violations) => Self::invalid(summary(&violations), violations),
            OfferError::UnknownPrice(violations) => Self::unknown_price(summary(&violations), violations),
            OfferError::Unavailable(sentence) => Self::unavailable(sentence),
        }
    }
}

impl From<PricingError> for Problem {
    fn from(error: PricingError) -> Self {
        match error {
            PricingError::Refused { step, item, refusal, .. } => {
                let within = refusal.pointer.unwrap_or_default();
                let pointer = item.map_or(within.clone(), |item| format!("/items/{item}{within}"));
                let detail = format!("step `{step}` refuses: {}", refusal.detail);
                Self::policy_refused(detail, Violation::new(pointer, &refusal.code, refusal.detail))
            }
            PricingError::Faulted { fault, .. } if fault.is_host() => {
                Self::overloaded("a pricing step got no sandbox in time; try again in a second")
            }
            PricingError::Faulted { step, .. } => {
                Self::policy_fault(format!("step `{step}` failed, so there is no price; nothing was charged"))
            }
            PricingError::NotMeasured { item } => {
                let pointer = format!("/items/{item}/billing");
                let detail = "the plan does not price tasks; ask with `hours`, or for another plan";
                Self::invalid(detail, vec![Violation::new(pointer, "not_measured", detail)])
            }
            PricingError::TooManyLines { step, lines } => {
                let detail = format!(
                    "with the lines that step `{step}` adds, the quote has {lines} and not at most {MAX_LINES}; ask for \
                     fewer items at a time"
                );
                Self::invalid(detail.clone(), vec![Violation::new("/items", "too_many_lines", detail)])
            }
            PricingError::TooLarge(error) => {
                Self::invalid(error.to_string(), vec![Violation::new("/items", "too_large", error.to_string())])
            }
            PricingError::SumsDiffer(_) => Self::unavailable("the quote could not be settled"),
        }
    }
}

/// The first violation in full, and how many more there are.
fn summary(violations: &[Violation]) -> String {
    match violations {
        [] => "the request cannot be priced".to_owned(),
        [only] => only.detail.clone(),
        [first, rest @ ..] => format!("{}; and {} more, see `errors`", first.detail, rest.len()),
    }
}
