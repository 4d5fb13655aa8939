//! The table as a configuration: rules one after another, defaults filled in, and nothing left of what a rule does not say.
//!
//! Decoding is what an evaluation costs, so it borrows its words from the configuration, and only rules up to the first that
//! matches are decoded where that is the one that counts.

use farebox_sdk::prelude::*;
use farebox_sdk::serde::{Deserialize, Serialize};

use crate::clock::{Day, TimeOfDay, Weekday};
use crate::wanted::{Test, Wanted};
use crate::written::{self, Kind, Level, Matching, RateTable};

/// GPU time is counted in seconds and bounded in hours.
pub(crate) const HOUR_SECONDS: u32 = 3600;

macro_rules! configuration {
    ($($(#[$meta:meta])* $keyword:ident $name:ident $(<$life:lifetime>)? { $($fields:tt)* })+) => {
        $($(#[$meta])*
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(crate = "farebox_sdk::serde")]
        pub(crate) $keyword $name $(<$life>)? { $($fields)* })+
    };
}

configuration! {
    /// What decides whether a rule matches; the rest of it is decoded if it does.
    struct Conditions<'a> {
        #[serde(borrow)]
        pub(crate) facts: Vec<FactCondition<'a>>,
        #[serde(borrow)]
        pub(crate) usage: Option<Box<UsageCondition<'a>>>,
        pub(crate) time: Option<Box<TimeCondition>>,
        /// True of prices by quantity, which a task has only once it is measured.
        pub(crate) of_quantity: bool,
    }

    struct Action<'a> {
        pub(crate) code: &'a str,
        pub(crate) label: &'a str,
        pub(crate) kind: Option<Kind>,
        #[serde(borrow)]
        pub(crate) reason: Option<&'a str>,
        #[serde(borrow)]
        pub(crate) effect: Effect<'a>,
        #[serde(borrow)]
        pub(crate) note: Option<Note<'a>>,
    }

    struct FactCondition<'a> {
        pub(crate) key: &'a str,
        #[serde(borrow)]
        pub(crate) test: FactTest<'a>,
    }

    enum FactTest<'a> {
        OneOf(#[serde(borrow)] Vec<&'a str>),
        OtherThan(#[serde(borrow)] Vec<&'a str>),
        Present,
        Absent,
        Within(Box<Band>),
    }

    struct Band {
        pub(crate) above: Option<Quantity>,
        pub(crate) at_least: Option<Quantity>,
        pub(crate) below: Option<Quantity>,
        pub(crate) at_most: Option<Quantity>,
    }

    struct UsageCondition<'a> {
        pub(crate) metric: &'a str,
        pub(crate) statistic: Statistic,
        pub(crate) window: Window,
        pub(crate) band: Band,
    }

    struct TimeCondition {
        pub(crate) weekdays: Option<Vec<Weekday>>,
        /// Seconds since midnight.
        pub(crate) hours: Option<(u32, u32)>,
        pub(crate) first_day: Option<i64>,
        pub(crate) last_day: Option<i64>,
    }

    enum Effect<'a> {
        /// A note alone.
        Nothing,
        Rate(Rate),
        Amount(Price),
        UnitPrice(Price),
        Graduated(Vec<Tier>),
        Volume(Vec<Tier>),
        Minimum(Price),
        Ramp(Vec<Point>),
        /// `at`: the key of the fact at fault.
        Refuse { detail: &'a str, #[serde(borrow)] at: Option<&'a str> },
    }

    struct Tier {
        pub(crate) up_to: Option<Quantity>,
        pub(crate) unit_price: Price,
        pub(crate) flat_fee: Option<Price>,
    }

    struct Point {
        pub(crate) at: Quantity,
        pub(crate) rate: Rate,
    }

    struct Note<'a> {
        pub(crate) level: Level,
        pub(crate) code: &'a str,
        pub(crate) text: &'a str,
    }
}

/// A rule on its way to an outcome.
#[derive(Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) conditions: &'a Conditions<'a>,
    pub(crate) action: Action<'a>,
}

/// The rules of a configuration: the conditions of each, and its action, not decoded yet.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) matching: Matching,
    rest: &'a [u8],
}

impl<'a> Rules<'a> {
    pub(crate) fn of(configuration: &'a [u8]) -> Self {
        let (matching, rest) = taken(configuration);
        Self { matching, rest }
    }
}

impl<'a> Iterator for Rules<'a> {
    type Item = (Conditions<'a>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (conditions, rest) = taken(self.rest);
        let (action, rest) = taken(rest);
        self.rest = rest;
        Some((conditions, action))
    }
}

impl<'a> Action<'a> {
    pub(crate) fn decoded(bytes: &'a [u8]) -> Self {
        taken(bytes).0
    }
}

#[expect(
    clippy::panic,
    reason = "only a broken host passes other bytes: a trap is a fault, never a price or a refusal"
)]
fn taken<'a, Value: Deserialize<'a>>(bytes: &'a [u8]) -> (Value, &'a [u8]) {
    match postcard::take_from_bytes(bytes) {
        Ok(taken) => taken,
        Err(_) => panic!("the configuration is not one that `configure` made"),
    }
}

/// What [`Rules`] decodes.
pub(crate) fn encoded(written: &RateTable) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = postcard::to_allocvec(&written.matching)?;
    for rule in &written.rules {
        bytes.extend(postcard::to_allocvec(&conditions(rule))?);
        bytes.extend(postcard::to_allocvec(&postcard::to_allocvec(&action(rule))?)?);
    }
    Ok(bytes)
}

impl Band {
    pub(crate) fn holds(&self, value: Decimal) -> bool {
        self.above.is_none_or(|bound| value > bound.value())
            && self.at_least.is_none_or(|bound| value >= bound.value())
            && self.below.is_none_or(|bound| value < bound.value())
            && self.at_most.is_none_or(|bound| value <= bound.value())
    }
}

pub(crate) fn conditions(written: &written::Rule) -> Conditions<'_> {
    Conditions {
        facts: written.when.iter().flatten().map(|(key, wanted)| fact(key, wanted)).collect(),
        usage: written.usage.as_ref().map(|usage| Box::new(usage_condition(usage))),
        time: written.time.as_ref().map(|time| Box::new(time_condition(time))),
        of_quantity: written.reprices(),
    }
}

fn action(written: &written::Rule) -> Action<'_> {
    let note = written.note.as_ref().map(|note| Note {
        level: note.level.unwrap_or(Level::Info),
        code: note.code.as_ref().unwrap_or(&written.code),
        text: &note.text,
    });
    Action {
        code: &written.code,
        label: written.label.as_deref().unwrap_or_default(),
        kind: written.kind,
        reason: written.reason.as_deref(),
        effect: effect(written),
        note,
    }
}

fn fact<'a>(key: &'a str, wanted: &'a Wanted) -> FactCondition<'a> {
    let borrowed = |values: &'a [String]| values.iter().map(String::as_str).collect();
    let test = match wanted {
        Wanted::OneOf(values) => FactTest::OneOf(borrowed(values)),
        Wanted::Test(Test { other_than: Some(values), .. }) => FactTest::OtherThan(borrowed(values)),
        Wanted::Test(Test { present: Some(false), .. }) => FactTest::Absent,
        Wanted::Test(Test { present: Some(true), .. }) => FactTest::Present,
        Wanted::Test(Test { above, at_least, below, at_most, .. }) => {
            FactTest::Within(Box::new(Band { above: *above, at_least: *at_least, below: *below, at_most: *at_most }))
        }
    };
    FactCondition { key, test }
}

fn usage_condition(usage: &written::Usage) -> UsageCondition<'_> {
    let written::Usage { metric, statistic, window, above, at_least, below, at_most } = usage;
    let band = Band { above: *above, at_least: *at_least, below: *below, at_most: *at_most };
    UsageCondition { metric, statistic: *statistic, window: *window, band }
}

fn time_condition(time: &written::Time) -> TimeCondition {
    let seconds = |time: Option<TimeOfDay>| time.map(|TimeOfDay(seconds)| seconds);
    let day = |day: Option<Day>| day.map(|Day(day)| day);
    TimeCondition {
        weekdays: time.weekdays.clone(),
        hours: seconds(time.from).zip(seconds(time.to)),
        first_day: day(time.first_day),
        last_day: day(time.last_day),
    }
}

fn effect(written: &written::Rule) -> Effect<'_> {
    let tiers = |tiers: &[written::Tier]| {
        let tiers =
            tiers.iter().map(|tier| Tier { up_to: tier.up_to, unit_price: tier.unit_price, flat_fee: tier.flat_fee });
        tiers.collect()
    };
    if let Some(rate) = written.rate {
        Effect::Rate(rate)
    } else if let Some(amount) = written.amount {
        Effect::Amount(amount)
    } else if let Some(price) = written.unit_price {
        Effect::UnitPrice(price)
    } else if let Some(graduated) = &written.graduated {
        Effect::Graduated(tiers(graduated))
    } else if let Some(volume) = &written.volume {
        Effect::Volume(tiers(volume))
    } else if let Some(minimum) = written.minimum {
        Effect::Minimum(minimum)
    } else if let Some(points) = &written.ramp {
        Effect::Ramp(points.iter().map(|point| Point { at: point.at, rate: point.rate }).collect())
    } else if let Some(refuse) = &written.refuse {
        let mut keys = written.when.iter().flatten().map(|(key, _)| key.as_str());
        let only = keys.next().filter(|_| keys.next().is_none());
        Effect::Refuse { detail: &refuse.detail, at: refuse.at.as_deref().or(only) }
    } else {
        Effect::Nothing
    }
}
