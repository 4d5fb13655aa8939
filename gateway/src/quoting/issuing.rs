//! Issuing: ids, expiry, ETag and token make settled lines a quote.

use farebox_metering::mirror::Forecast;
use farebox_pricing::offer::PricedInput;
use farebox_pricing::pipeline::{AdjustmentScope, AppliedAdjustment, MethodUsed};
use farebox_pricing::request::QuoteRequest;
use farebox_pricing::settle::Settled;
use jiff::SignedDuration;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Issuer;
use super::identifiers::{NoRandomness, time_ordered};
use super::token_claims::{self, Claimed};
use crate::hex::short_hex;
use crate::ledger::{Issued, Message, Quote};

#[derive(Debug, thiserror::Error)]
pub(crate) enum IssuingError {
    #[error("its expiry is beyond what a clock can show")]
    Expiry,
    #[error("it cannot be given an id")]
    Id(#[from] NoRandomness),
}

/// A request and what it came to.
pub(super) struct Priced {
    pub(super) request: QuoteRequest,
    /// The request as it was sent.
    pub(super) body: Value,
    pub(super) input: PricedInput,
    pub(super) settled: Settled,
    pub(super) effective_utilisation: Option<Forecast>,
    pub(super) messages: Vec<Message>,
}

/// Without an issuer there is no token.
pub(super) fn issue(priced: Priced, issuer: Option<&Issuer>) -> Result<Quote, IssuingError> {
    let Priced { request, body, input, settled, effective_utilisation, messages } = priced;
    let now = input.offer().priced_at;
    let lifetime = SignedDuration::from_secs(i64::from(input.plan().quote_lifetime_s));
    let issued = Issued {
        id: time_ordered("q_", now)?,
        decision_id: time_ordered("d_", now)?,
        tenant_id: request.tenant_id,
        created_at: now,
        expires_at: now.checked_add(lifetime).map_err(|_| IssuingError::Expiry)?,
    };
    let token = issuer.map(|issuer| {
        let claims = Claimed { issuer, issued: &issued, request: &body, input: &input, settled: &settled };
        issuer.keys.sign(&token_claims::of(claims))
    });
    let etag = hash_of_priced_content(&issued.tenant_id, &input, &settled);
    let client_reference = request.client_reference;
    Ok(Quote { issued, client_reference, input, settled, effective_utilisation, messages, etag, token })
}

/// Hash of what was priced and how, as 32 hex digits: the same for equal priced content, whatever the quote's status.
/// Every part is preceded by its length, so that no two contents read alike.
fn hash_of_priced_content(tenant_id: &str, input: &PricedInput, settled: &Settled) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update(text.len().to_be_bytes());
        hash.update(text.as_bytes());
    };
    part(tenant_id);
    part(settled.currency.code());
    part(&input.plan().digest);
    part(&input.offer().price_book);
    for line in &settled.lines {
        part(line.reference.as_deref().unwrap_or_default());
        part(&line.description);
        part(line.unit.as_str());
        part(&line.quantity.normalize().to_string());
        part(&line.list_unit_price.normalize().to_string());
        part(&line.list_amount.print(0));
        for adjustment in &line.adjustments {
            let AppliedAdjustment { step, scope, kind, code, method, amount, .. } = adjustment;
            part(step);
            part(if *scope == AdjustmentScope::Quote { "quote" } else { "line" });
            part(kind);
            part(code);
            match method {
                MethodUsed::Percent(rate) => part(&rate.to_string()),
                MethodUsed::Reprice(portions) => {
                    for portion in portions {
                        part(&portion.code);
                        part(&portion.quantity.normalize().to_string());
                        part(&portion.unit_price.normalize().to_string());
                        part(portion.draws.as_deref().unwrap_or_default());
                    }
                }
                MethodUsed::Amount | MethodUsed::Measure | MethodUsed::Minimum => {}
            }
            part(&amount.print(0));
        }
        part(&line.amount.print(0));
    }
    short_hex(&hash.finalize())
}
