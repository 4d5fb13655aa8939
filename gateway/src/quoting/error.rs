//! Why a request got no quote.

use farebox_pricing::pipeline::PricingError;

use super::issuing::IssuingError;
use crate::catalog::OfferError;
use crate::intake::IntakeError;

/// Where the road ends without a quote.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuotingError {
    #[error(transparent)]
    Intake(#[from] IntakeError),
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error("tenant `{tenant}` gets no price under plan `{plan}`")]
    Pricing { plan: String, tenant: String, source: Box<PricingError> },
    #[error("the quote cannot be issued")]
    Issuing(#[from] IssuingError),
}
