//! Plans: an immutable version of an ordered list of steps, with everything that decides a price beside them.

use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use crate::amount::Rounding;
use crate::currency::Currency;
use crate::granule::Granule;
use crate::policy::Scope;
use crate::reads::Reads;
use crate::usage::{StatKey, UsageRules, Window};

/// One version of a plan. Built by the catalogue, which has checked every step against its policy.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub version: u32,
    /// SHA-256 over the canonical document and the digests of its policies, lower-case hex.
    pub digest: String,
    pub currency: Currency,
    pub price_book: String,
    pub time_zone: TimeZone,
    pub granule: Granule,
    pub rounding: Rounding,
    pub quote_lifetime_s: u32,
    pub utilisation_basis: UtilisationBasis,
    pub guards: Guards,
    pub usage: UsageRules,
    pub steps: Vec<Step>,
}

/// Which utilisation a charge uses: the quote's, or the charged period's mean (then the price is not locked).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtilisationBasis {
    Quote,
    Period,
}

/// Bounds of a GPU line, measured against its list amount. `None`: unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// Largest total discount as a share of list, 0 to 1.
    pub max_discount: Option<Decimal>,
    /// Largest total surcharge as a share of list, ≥ 0.
    pub max_surcharge: Option<Decimal>,
    /// Lowest price per GPU-hour; wins over the caps.
    pub floor_unit_price: Option<Decimal>,
}

#[derive(Clone, Debug)]
pub struct Step {
    /// Unique in its plan. `base` marks the base step, whose percentages do not bar a later reprice.
    pub id: String,
    pub policy: PolicyRef,
    pub scope: Scope,
    pub reads: Reads,
    /// Codes that the policy may emit with this plan's parameters; `*` for any.
    pub produces: Vec<String>,
    pub on_fault: OnFault,
}

/// The id of the base step.
pub const BASE_STEP: &str = "base";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRef {
    pub name: String,
    pub version: String,
    /// SHA-256 of the artefact, lower-case hex.
    pub digest: String,
}

impl PolicyRef {
    /// `framework-premium@1.0.0`
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// What a faulting policy does to the quote (SPEC §4.7). A faulting policy never yields a zero or partial price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// 503 `policy-fault`.
    Refuse,
    /// The whole quote under the previous plan version; one hop.
    PreviousVersion,
    /// The step is optional; a message says that it was left out.
    Skip,
}

impl Step {
    pub fn is_base(&self) -> bool {
        self.id == BASE_STEP
    }

    pub fn may_produce(&self, code: &str) -> bool {
        self.produces.iter().any(|produced| match produced.strip_suffix('*') {
            Some(prefix) => code.starts_with(prefix),
            None => produced == code,
        })
    }
}

impl Plan {
    /// The statistics that the plan's steps read, each once, in plan order.
    pub fn stats_read(&self) -> impl Iterator<Item = &StatKey> {
        let all = || self.steps.iter().flat_map(|step| &step.reads.stats);
        let is_first = move |place: usize, stat: &StatKey| !all().take(place).any(|earlier| earlier == stat);
        all().enumerate().filter(move |(place, stat)| is_first(*place, stat)).map(|(_, stat)| stat)
    }

    /// The statistic that a quote shows as its snapshot: the first that a step reads, else the default of SPEC §6.
    pub fn shown_stat(&self) -> StatKey {
        self.stats_read().next().cloned().unwrap_or_else(|| StatKey {
            metric: "gpu_util".to_owned(),
            statistic: "mean".to_owned(),
            window: Window::D7,
        })
    }

    pub fn price_is_locked(&self) -> bool {
        self.utilisation_basis == UtilisationBasis::Quote
    }
}
