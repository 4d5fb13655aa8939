//! Which rules match a line. What is not known never matches: an absent fact and an absent statistic are not 0.

use farebox_sdk::fact_number;
use farebox_sdk::prelude::*;

use crate::clock::{Day, LocalTime, TimeOfDay, Weekday};
use crate::compiled::{Conditions, FactCondition, FactTest, TimeCondition, UsageCondition};

/// The value that made a condition hold, and where it stands among the values of its key. Empty for an absence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit<'a> {
    pub(crate) index: usize,
    pub(crate) value: &'a str,
}

impl Conditions<'_> {
    pub(crate) fn matches(&self, line: Line<'_>) -> Result<bool, Refusal> {
        // A task that nobody has measured has no quantity yet that could have a price.
        if self.of_quantity && line.amounts.as_ref().is_none_or(|amounts| amounts.unit == "task") {
            return Ok(false);
        }
        for condition in &self.facts {
            if condition.hit(line)?.is_none() {
                return Ok(false);
            }
        }
        Ok(self.usage.as_ref().is_none_or(|usage| usage.observed(line).is_some_and(|value| usage.band.holds(value)))
            && self.time.as_ref().is_none_or(|time| time.holds(line)))
    }
}

impl FactCondition<'_> {
    pub(crate) fn hit<'a>(&'a self, line: Line<'a>) -> Result<Option<Hit<'a>>, Refusal> {
        let mut values = values(line, self.key).enumerate().map(|(index, value)| Hit { index, value });
        Ok(match &self.test {
            FactTest::OneOf(wanted) => values.find(|hit| wanted.contains(&hit.value)),
            FactTest::OtherThan(known) => values.find(|hit| !known.contains(&hit.value)),
            FactTest::Present => values.next(),
            FactTest::Absent => values.next().is_none().then_some(Hit { index: 0, value: "" }),
            FactTest::Within(band) => match values.next() {
                // A band on text is a mistake somewhere: to go on would be to price by a guess.
                Some(hit) => band.holds(fact_number(self.key, hit.value)?).then_some(hit),
                None => None,
            },
        })
    }
}

/// The values of a key, of the line, its tenant or the whole quote: each key is a fact of one of them.
fn values<'a>(line: Line<'a>, key: &'a str) -> impl Iterator<Item = &'a str> {
    let context = line.context();
    let elsewhere = context.tenant.iter().chain(&context.facts);
    line.facts(key).chain(elsewhere.filter(move |fact| fact.key == key).map(|fact| fact.value.as_str()))
}

impl UsageCondition<'_> {
    pub(crate) fn observed(&self, line: Line<'_>) -> Option<Decimal> {
        line.stat(self.metric, self.statistic, self.window)?.value.exact()
    }
}

impl TimeCondition {
    fn holds(&self, line: Line<'_>) -> bool {
        let Some(at) = line.context().at else { return false };
        let now = LocalTime::of(at);
        let day = match self.hours {
            Some((from, to)) => now.window_day(TimeOfDay(from), TimeOfDay(to)),
            None => Some(now.day),
        };
        day.is_some_and(|Day(day)| {
            self.weekdays.as_ref().is_none_or(|days| days.contains(&Weekday::of(Day(day))))
                && self.first_day.is_none_or(|first| day >= first)
                && self.last_day.is_none_or(|last| day <= last)
        })
    }
}
