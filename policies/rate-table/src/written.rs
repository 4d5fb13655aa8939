//! The parameters as an analyst writes them, and their schema. README.md is the reference.

use farebox_sdk::prelude::*;
use farebox_sdk::schemars::JsonSchema;
use farebox_sdk::serde::{Deserialize, Serialize};

use crate::clock::{Day, TimeOfDay, Weekday};
use crate::wanted::Wanted;

parameters! {
    /// Rules that price a line by what it is, how its GPUs are used and when it is priced.
    pub(crate) struct RateTable {
        /// `first`: of the rules that match a line only the first counts. `all`: every one of them counts.
        pub(crate) matching: Matching,
        /// In order.
        #[schemars(length(min = 1, max = 100))]
        pub(crate) rules: Vec<Rule>,
    }

    /// Conditions that must all hold (`when`, `usage`, `time`; none: every line), and what then happens: one of `rate`,
    /// `amount`, `unit_price`, `graduated`, `volume`, `minimum`, `ramp`, `refuse`, or a `note` alone.
    pub(crate) struct Rule {
        /// Names the row on a quote, or the refusal: lower-case letters, digits, `.`, `_` and `-`.
        #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]*(\\.[a-z0-9_-]+)*$"), length(max = 64))]
        pub(crate) code: String,
        /// What customers read. Wanted wherever a price is moved.
        #[schemars(length(min = 1, max = 200))]
        pub(crate) label: Option<String>,
        /// By default: of `rate`, `ramp` and `amount` by their sign (`surcharge`, `discount`, at 0 `standard`); `usage`
        /// of prices by quantity; `fee` of a `minimum`.
        pub(crate) kind: Option<Kind>,
        /// Why, for customers; `{workload.image}` stands for the value that matched. By default the conditions.
        #[schemars(length(min = 1, max = 200))]
        pub(crate) reason: Option<String>,
        /// What the line's facts must be, by quoted key: `{ "workload.image" = "v2.6" }`.
        #[schemars(extend("propertyNames" = { "pattern": "^[a-z0-9_-]+(\\.[a-z0-9_-]+)+$" }))]
        pub(crate) when: Option<BTreeMap<String, Wanted>>,
        /// What must have been observed. A rule with it that would raise a price is silent where only a discount is fair.
        pub(crate) usage: Option<Usage>,
        /// When, by the priced instant in the plan's time zone.
        pub(crate) time: Option<Time>,
        /// On the amount that enters the step: 0.15 is 15 % more. -1 to 10.
        pub(crate) rate: Option<Rate>,
        /// Added to the line; less where it is negative.
        pub(crate) amount: Option<Price>,
        /// A new price for the whole line: of a GPU-hour for GPU time, else of a unit.
        pub(crate) unit_price: Option<Price>,
        /// A new price for each part of the quantity: what lies in a tier has that tier's price.
        #[schemars(length(max = 50))]
        pub(crate) graduated: Option<Vec<Tier>>,
        /// A new price for the whole line: that of the tier in which its quantity lies.
        #[schemars(length(max = 50))]
        pub(crate) volume: Option<Vec<Tier>>,
        /// What is missing to this amount is added.
        pub(crate) minimum: Option<Price>,
        /// A rate on straight lines between these points, by the statistic of `usage`; constant outside.
        #[schemars(length(min = 2, max = 50))]
        pub(crate) ramp: Option<Vec<Point>>,
        /// A message on the quote, without money; beside a price or alone.
        pub(crate) note: Option<Note>,
        /// The request is refused (422).
        pub(crate) refuse: Option<Refuse>,
    }

    /// A band of one observed statistic. Without bounds: it is there at all.
    #[derive(PartialEq)]
    pub(crate) struct Usage {
        #[schemars(regex(pattern = "^[a-z0-9_]{1,64}$"))]
        pub(crate) metric: String = "gpu_util".to_owned(),
        pub(crate) statistic: Statistic = Statistic::Mean,
        pub(crate) window: Window = Window::D7,
        /// More than.
        pub(crate) above: Option<Quantity> = None,
        /// This or more.
        pub(crate) at_least: Option<Quantity> = None,
        /// Less than.
        pub(crate) below: Option<Quantity> = None,
        /// This or less.
        pub(crate) at_most: Option<Quantity> = None,
    }

    /// All that is given must hold.
    #[derive(PartialEq)]
    pub(crate) struct Time {
        /// Days on which the window begins.
        #[schemars(length(min = 1, max = 7))]
        pub(crate) weekdays: Option<Vec<Weekday>> = None,
        /// The first minute of the window, `22:00`.
        pub(crate) from: Option<TimeOfDay> = None,
        /// The first minute after it, up to `24:00`; before `from` it is on the next day.
        pub(crate) to: Option<TimeOfDay> = None,
        /// The first day on which the window begins, `2026-11-27`.
        pub(crate) first_day: Option<Day> = None,
        /// The last day on which it begins.
        pub(crate) last_day: Option<Day> = None,
    }

    /// A part of the quantities: above the tier before and up to this bound.
    pub(crate) struct Tier {
        /// Inclusive; in GPU-hours for GPU time. The last tier has none.
        pub(crate) up_to: Option<Quantity>,
        /// Of a GPU-hour for GPU time, else of a unit.
        pub(crate) unit_price: Price,
        /// Once, where the quantity reaches the tier; that of the first tier also at quantity 0.
        pub(crate) flat_fee: Option<Price>,
    }

    pub(crate) struct Point {
        pub(crate) at: Quantity,
        /// On the amount that enters the step.
        pub(crate) rate: Rate,
    }

    pub(crate) struct Note {
        /// By default `info`.
        pub(crate) level: Option<Level>,
        /// `{workload.framework}` stands for the value that matched.
        #[schemars(length(min = 1, max = 200))]
        pub(crate) text: String,
        /// By default the rule's; beside a price a code of its own.
        #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]*(\\.[a-z0-9_-]+)*$"), length(max = 64))]
        pub(crate) code: Option<String>,
    }

    pub(crate) struct Refuse {
        /// Why; `{workload.image}` stands for the value that matched.
        #[schemars(length(min = 1, max = 1000))]
        pub(crate) detail: String,
        /// Which fact of `when` is at fault: its field of the request is pointed at. By default the only one.
        pub(crate) at: Option<String>,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "farebox_sdk::serde", rename_all = "snake_case")]
#[schemars(crate = "farebox_sdk::schemars")]
pub(crate) enum Matching {
    First,
    All,
}

/// Kinds of adjustments, as in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "farebox_sdk::serde", rename_all = "snake_case")]
#[schemars(crate = "farebox_sdk::schemars")]
pub(crate) enum Kind {
    Premium,
    Surcharge,
    Discount,
    Standard,
    Commitment,
    Prepaid,
    Usage,
    Fee,
    Credit,
}

/// Levels of a note, as in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "farebox_sdk::serde", rename_all = "snake_case")]
#[schemars(crate = "farebox_sdk::schemars")]
pub(crate) enum Level {
    Info,
    Advice,
    Warning,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Premium => "premium",
            Self::Surcharge => "surcharge",
            Self::Discount => "discount",
            Self::Standard => "standard",
            Self::Commitment => "commitment",
            Self::Prepaid => "prepaid",
            Self::Usage => "usage",
            Self::Fee => "fee",
            Self::Credit => "credit",
        }
    }
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Advice => "advice",
            Self::Warning => "warning",
        }
    }
}

impl Rule {
    /// The names of what it does, apart from a note.
    pub(crate) fn effects(&self) -> Vec<&'static str> {
        let given = [
            (self.rate.is_some(), "rate"),
            (self.amount.is_some(), "amount"),
            (self.unit_price.is_some(), "unit_price"),
            (self.graduated.is_some(), "graduated"),
            (self.volume.is_some(), "volume"),
            (self.minimum.is_some(), "minimum"),
            (self.ramp.is_some(), "ramp"),
            (self.refuse.is_some(), "refuse"),
        ];
        given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect()
    }

    pub(crate) fn reprices(&self) -> bool {
        self.unit_price.is_some() || self.graduated.is_some() || self.volume.is_some()
    }

    /// The tiers of whichever way, and the name of it.
    pub(crate) fn tiers(&self) -> Option<(&'static str, &[Tier])> {
        let graduated = self.graduated.as_deref().map(|tiers| ("graduated", tiers));
        graduated.or_else(|| self.volume.as_deref().map(|tiers| ("volume", tiers)))
    }

    /// The codes of all rows and messages that it can give a line.
    pub(crate) fn codes(&self) -> Vec<String> {
        let has_fee = self.tiers().is_some_and(|(_, tiers)| tiers.iter().any(|tier| tier.flat_fee.is_some()));
        let has_row = !self.effects().is_empty() && self.refuse.is_none();
        let note = self.note.as_ref().map(|note| note.code.clone().unwrap_or_else(|| self.code.clone()));
        has_row
            .then(|| self.code.clone())
            .into_iter()
            .chain(has_fee.then(|| fee_code(&self.code)))
            .chain(note)
            .collect()
    }
}

/// The code of the flat fee that goes with a rule's tiers.
pub(crate) fn fee_code(code: &str) -> String {
    format!("{code}_fee")
}
