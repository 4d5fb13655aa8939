//! A quote: settled lines, what they were priced on, and until when they hold.

use farebox_metering::mirror::Forecast;
use farebox_pricing::amount::Amount;
use farebox_pricing::offer::PricedInput;
use farebox_pricing::settle::Settled;
use jiff::Timestamp;

/// A quote as it was issued. It never changes; whether it is open or expired is a matter of the reader's clock.
#[derive(Clone, Debug)]
pub(crate) struct Quote {
    pub issued: Issued,
    pub client_reference: Option<String>,
    pub input: PricedInput,
    pub settled: Settled,
    /// What utilisation to expect; `None` where nothing is known. It moves no price.
    pub effective_utilisation: Option<Forecast>,
    pub messages: Vec<Message>,
    /// Hash of the priced content, the strong ETag without its quotes.
    pub etag: String,
    /// Lets any replica honour the quote if its row is lost. `None`: it is a preview, which nobody can accept.
    pub token: Option<String>,
}

/// What identifies a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    /// `q_…`, time-ordered.
    pub id: String,
    /// `d_…`
    pub decision_id: String,
    pub tenant_id: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Something a person should know about the quote; moves no money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// `info`, `advice` or `warning`.
    pub level: String,
    pub code: String,
    pub text: String,
    /// Index of the line it is about.
    pub line: Option<usize>,
    /// How much less the quote would be with what is advised.
    pub saves: Option<Amount>,
}

impl Quote {
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.issued.expires_at
    }
}
