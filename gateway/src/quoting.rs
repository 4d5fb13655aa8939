//! The road: every quote goes down it, top to bottom, once.
//!
//! ```text
//! JSON ─intake→ QuoteRequest ─catalog→ Offer ─usage→ PricedInput ─price──────────────────────→ Settled ─ledger→ Quote
//!       400/422         plan, price book    mirror, no I/O      memo, else a fresh    guards,         id, token,
//!                                                               sandbox a step        one rounding    expiry
//! ```
//!
//! Each arrow is a type that proves the step before it happened. What a quote expects and advises comes after its price and
//! moves nothing of it: [`advising`], [`expectation`].

mod advice;
mod advising;
mod error;
mod expectation;
mod identifiers;
mod issuing;
mod messages;
mod token_claims;
mod watching;
mod what_if;

use std::sync::Arc;

use farebox_metering::mirror::{Mirror, UsageQuery};
use farebox_pricing::offer::{LineUsage, OfferedItem, PricedInput};
use farebox_pricing::pipeline::PricingError;
use farebox_pricing::plan::Plan;
use farebox_pricing::price::price;
use farebox_pricing::settle::Settled;
use farebox_pricing::usage::{StatKey, judge};
use farebox_sandbox::{ConfiguredPolicy, Memo, Memoized, Session};
use jiff::Timestamp;

use crate::catalog::{Catalog, Resolved};
use crate::intake::{Accepted, Intake};
use crate::ledger::{Quote, RecentQuotes};
use crate::token::TokenKeys;
use advising::Advised;
use messages::Said;
use watching::{Unwatched, Watched};
use what_if::Quoted;

pub(crate) use error::QuotingError;
pub(crate) use watching::Watch;
pub(crate) use what_if::{WhatIfCounters, WhatIfCounts};

/// What the road leads through.
#[derive(Debug)]
pub(crate) struct Road {
    pub intake: Intake,
    pub catalog: Catalog,
    /// Outcomes of this catalogue's policies.
    pub memo: Option<Memo>,
    pub mirror: Arc<Mirror>,
    pub quotes: RecentQuotes,
    /// How what-ifs ended.
    pub what_ifs: WhatIfCounters,
    /// `None`: what is priced is a preview, which nobody can accept.
    pub issuer: Option<Issuer>,
}

/// Who issues quotes, as their tokens say.
#[derive(Debug)]
pub(crate) struct Issuer {
    /// `iss`
    pub name: String,
    pub keys: TokenKeys,
    /// Hash of the sandbox engine and its settings: the same inputs cost the same fuel only under the same one.
    pub engine: String,
}

impl Road {
    /// Prices the request in `body` as of `now` and issues the quote.
    pub(crate) fn quote(&self, body: &[u8], now: Timestamp) -> Result<Arc<Quote>, QuotingError> {
        self.quote_watched(body, now, &mut Unwatched)
    }

    /// The same, seen by `watch`.
    pub(crate) fn quote_watched(
        &self,
        body: &[u8],
        now: Timestamp,
        watch: &mut dyn Watch,
    ) -> Result<Arc<Quote>, QuotingError> {
        let Accepted { request, body } = self.intake.read(body)?;

        // The version is taken here, once, and kept to the end.
        let Resolved { version, offer, notes } = self.catalog.resolve(&request, now)?;
        watch.offered(&request, &version, now);
        let input = offer.with_usage(|item| self.usage_of(&request.tenant_id, item, &version.plan, now));

        let settled = self.price(&input, &version.policies, watch).map_err(|source| QuotingError::Pricing {
            plan: version.plan.name.clone(),
            tenant: request.tenant_id.clone(),
            source: Box::new(source),
        })?;

        // From here on nothing moves the price.
        let quoted = Quoted { body: &body, version: &version, input: &input, settled: &settled };
        let Advised { of_notes, own } = advising::advise(self, &request, quoted);
        let said = Said { offer: &notes, input: &input, settled: &settled, saves: &of_notes, advice: own };
        let messages = messages::of(said);
        let effective_utilisation = expectation::of(&self.mirror, &request, &version.plan.usage, now);
        let priced = issuing::Priced { request, body, input, settled, effective_utilisation, messages };
        let quote = Arc::new(issuing::issue(priced, self.issuer.as_ref())?);
        self.quotes.keep(Arc::clone(&quote));
        Ok(quote)
    }

    /// Reuses what the memo knows; the rest runs in the sandbox. The price is the same, byte for byte.
    fn price(
        &self,
        input: &PricedInput,
        policies: &[ConfiguredPolicy],
        watch: &mut dyn Watch,
    ) -> Result<Settled, PricingError> {
        let session = Session::new(policies);
        match &self.memo {
            Some(memo) => price(input, &mut Watched { policies: Memoized::new(policies, memo, session), watch }),
            None => price(input, &mut Watched { policies: session, watch }),
        }
    }

    /// What the mirror knows of the GPUs behind an item, and how much of it the plan lets count. No I/O.
    fn usage_of(&self, tenant: &str, item: &OfferedItem, plan: &Plan, now: Timestamp) -> LineUsage {
        let mut keys: Vec<StatKey> = plan.stats_read().cloned().collect();
        if keys.is_empty() {
            keys.push(plan.shown_stat());
        }
        let hard_stale_ms = plan.usage.hard_stale_ms;
        let query = UsageQuery { tenant, gpu_model: &item.gpu_model, keys: &keys, hard_stale_ms, now };
        let observation = self.mirror.observe(&query);
        let judged = judge(observation.as_ref(), &plan.usage);
        LineUsage { observation, judged }
    }
}
