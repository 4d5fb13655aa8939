//! The table as a configuration: defaults filled in, and nothing left of what a rule does not say. Every evaluation decodes
//! it, so it is what an evaluation costs.

use farebox_sdk::prelude::*;
use farebox_sdk::serde::{Deserialize, Serialize};

use crate::clock::{Day, TimeOfDay, Weekday};
use crate::wanted::{Test, Wanted};
use crate::written::{self, Kind, Level, Matching, RateTable};

/// GPU time is counted in seconds and bounded in hours.
pub(crate) const HOUR_SECONDS: u32 = 3600;

macro_rules! configuration {
    ($($(#[$meta:meta])* $keyword:ident $name:ident { $($fields:tt)* })+) => {
        $($(#[$meta])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(crate = "farebox_sdk::serde")]
        pub(crate) $keyword $name { $($fields)* })+
    };
}

configuration! {
    struct Table {
        pub(crate) matching: Matching,
        pub(crate) rules: Vec<Rule>,
    }

    struct Rule {
        pub(crate) code: String,
        pub(crate) label: String,
        pub(crate) kind: Option<Kind>,
        pub(crate) reason: Option<String>,
        pub(crate) facts: Vec<FactCondition>,
        pub(crate) usage: Option<Box<UsageCondition>>,
        pub(crate) time: Option<Box<TimeCondition>>,
        pub(crate) effect: Effect,
        pub(crate) note: Option<Box<Note>>,
    }

    struct FactCondition {
        pub(crate) key: String,
        pub(crate) test: FactTest,
    }

    enum FactTest {
        OneOf(Vec<String>),
        OtherThan(Vec<String>),
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

    struct UsageCondition {
        pub(crate) metric: String,
        pub(crate) statistic: Statistic,
        pub(crate) window: Window,
        pub(crate) band: Band,
    }

    struct TimeCondition {
        pub(crate) weekdays: Option<Vec<Weekday>>,
        pub(crate) hours: Option<(TimeOfDaySeconds, TimeOfDaySeconds)>,
        pub(crate) first_day: Option<i64>,
        pub(crate) last_day: Option<i64>,
    }

    enum Effect {
        /// A note alone.
        Nothing,
        Rate(Rate),
        Amount(Price),
        UnitPrice(Price),
        Graduated(Vec<Tier>),
        Volume(Vec<Tier>),
        Minimum(Price),
        Ramp(Vec<Point>),
        Refuse(Box<Refuse>),
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

    struct Note {
        pub(crate) level: Level,
        pub(crate) code: String,
        pub(crate) text: String,
    }

    struct Refuse {
        pub(crate) detail: String,
        /// The key of the fact at fault.
        pub(crate) at: Option<String>,
    }
}

/// Since midnight.
pub(crate) type TimeOfDaySeconds = u32;

impl Band {
    pub(crate) fn holds(&self, value: Decimal) -> bool {
        self.above.is_none_or(|bound| value > bound.value())
            && self.at_least.is_none_or(|bound| value >= bound.value())
            && self.below.is_none_or(|bound| value < bound.value())
            && self.at_most.is_none_or(|bound| value <= bound.value())
    }
}

impl Effect {
    pub(crate) fn reprices(&self) -> bool {
        matches!(self, Self::UnitPrice(_) | Self::Graduated(_) | Self::Volume(_))
    }
}

impl Table {
    pub(crate) fn of(written: &RateTable) -> Self {
        Self { matching: written.matching, rules: written.rules.iter().map(rule).collect() }
    }
}

fn rule(written: &written::Rule) -> Rule {
    let code = written.code.clone();
    let note = written.note.as_ref().map(|note| {
        let level = note.level.unwrap_or(Level::Info);
        Box::new(Note { level, code: note.code.clone().unwrap_or_else(|| code.clone()), text: note.text.clone() })
    });
    Rule {
        label: written.label.clone().unwrap_or_default(),
        kind: written.kind,
        reason: written.reason.clone(),
        facts: written.when.iter().flatten().map(|(key, wanted)| fact(key, wanted)).collect(),
        usage: written.usage.as_ref().map(|usage| Box::new(usage_condition(usage))),
        time: written.time.as_ref().map(|time| Box::new(time_condition(time))),
        effect: effect(written),
        note,
        code,
    }
}

fn fact(key: &str, wanted: &Wanted) -> FactCondition {
    let test = match wanted {
        Wanted::OneOf(values) => FactTest::OneOf(values.clone()),
        Wanted::Test(Test { other_than: Some(values), .. }) => FactTest::OtherThan(values.clone()),
        Wanted::Test(Test { present: Some(false), .. }) => FactTest::Absent,
        Wanted::Test(Test { present: Some(true), .. }) => FactTest::Present,
        Wanted::Test(Test { above, at_least, below, at_most, .. }) => {
            FactTest::Within(Box::new(Band { above: *above, at_least: *at_least, below: *below, at_most: *at_most }))
        }
    };
    FactCondition { key: key.to_owned(), test }
}

fn usage_condition(usage: &written::Usage) -> UsageCondition {
    let written::Usage { metric, statistic, window, above, at_least, below, at_most } = usage;
    let band = Band { above: *above, at_least: *at_least, below: *below, at_most: *at_most };
    UsageCondition { metric: metric.clone(), statistic: *statistic, window: *window, band }
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

fn effect(written: &written::Rule) -> Effect {
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
        let only = written.when.iter().flatten().map(|(key, _)| key);
        let at = refuse.at.clone().or_else(|| only.clone().next().filter(|_| only.count() == 1).cloned());
        Effect::Refuse(Box::new(Refuse { detail: refuse.detail.clone(), at }))
    } else {
        Effect::Nothing
    }
}
