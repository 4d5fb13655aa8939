//! Times of day, days and weekdays, as they are written and as numbers; and the local clock of a priced instant.

use std::borrow::Cow;

use farebox_sdk::contract::Instant;
use farebox_sdk::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use farebox_sdk::serde::{Deserialize, Serialize};

const DAY_SECONDS: i64 = 86_400;

/// Seconds since midnight, 0 to 86,400 (`24:00`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(crate = "farebox_sdk::serde", try_from = "String")]
pub(crate) struct TimeOfDay(pub(crate) u32);

impl TimeOfDay {
    pub(crate) const END: Self = Self(86_400);
}

impl TryFrom<String> for TimeOfDay {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read = || {
            let (hours, minutes) = text.split_once(':')?;
            let seconds = two_digits(hours)? * 3600 + two_digits(minutes).filter(|minutes| *minutes < 60)? * 60;
            (seconds <= Self::END.0).then_some(Self(seconds))
        };
        read().ok_or_else(|| format!("`{text}` is not a time of day such as `22:00`"))
    }
}

impl JsonSchema for TimeOfDay {
    fn schema_name() -> Cow<'static, str> {
        "TimeOfDay".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Hours and minutes, `00:00` to `24:00`.",
            "type": "string",
            "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$",
        })
    }
}

/// Days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(crate = "farebox_sdk::serde", try_from = "String")]
pub(crate) struct Day(pub(crate) i64);

impl TryFrom<String> for Day {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read = || {
            let mut parts = text.split('-');
            let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
            let century = two_digits(year.get(..2)?)?;
            let year = century * 100 + two_digits(year.get(2..)?)?;
            let (month, day) = (two_digits(month)?, two_digits(day)?);
            let is_a_day = (1970..=9999).contains(&year) && (1..=12).contains(&month);
            let is_a_day = is_a_day && (1..=month_days(year, month)).contains(&day);
            (is_a_day && parts.next().is_none()).then(|| Self(days_before(year, month) + i64::from(day) - 1))
        };
        read().ok_or_else(|| format!("`{text}` is not a day such as `2026-11-27`"))
    }
}

impl JsonSchema for Day {
    fn schema_name() -> Cow<'static, str> {
        "Day".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Year, month and day, from 1970.",
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        })
    }
}

fn two_digits(text: &str) -> Option<u32> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn month_days(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first of a month.
fn days_before(year: u32, month: u32) -> i64 {
    let past = i64::from(year) - 1;
    let leap_days = past / 4 - past / 100 + past / 400;
    const LEAP_DAYS_BEFORE_1970: i64 = 1969 / 4 - 1969 / 100 + 1969 / 400;
    let whole_years = (i64::from(year) - 1970) * 365 + leap_days - LEAP_DAYS_BEFORE_1970;
    whole_years + (1..month).map(|earlier| i64::from(month_days(year, earlier))).sum::<i64>()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "farebox_sdk::serde", rename_all = "lowercase")]
#[schemars(crate = "farebox_sdk::schemars")]
pub(crate) enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Weekday {
    /// 1970-01-01 was a Thursday.
    pub(crate) fn of(day: Day) -> Self {
        match day.0.rem_euclid(7) {
            0 => Self::Thu,
            1 => Self::Fri,
            2 => Self::Sat,
            3 => Self::Sun,
            4 => Self::Mon,
            5 => Self::Tue,
            _ => Self::Wed,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mon => "Monday",
            Self::Tue => "Tuesday",
            Self::Wed => "Wednesday",
            Self::Thu => "Thursday",
            Self::Fri => "Friday",
            Self::Sat => "Saturday",
            Self::Sun => "Sunday",
        }
    }
}

/// What a clock in the plan's time zone shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalTime {
    pub(crate) day: Day,
    /// Since midnight.
    pub(crate) seconds: u32,
}

impl LocalTime {
    pub(crate) fn of(at: Instant) -> Self {
        let local = at.unix_s.saturating_add(at.utc_offset_s.into());
        let seconds = u32::try_from(local.rem_euclid(DAY_SECONDS)).unwrap_or_default();
        Self { day: Day(local.div_euclid(DAY_SECONDS)), seconds }
    }

    /// The day on which a window from `from` to `to` began that holds this time; `None` outside.
    pub(crate) fn window_day(self, from: TimeOfDay, to: TimeOfDay) -> Option<Day> {
        let (is_after, is_before) = (self.seconds >= from.0, self.seconds < to.0);
        if from < to {
            return (is_after && is_before).then_some(self.day);
        }
        // Across midnight: this evening's window, or the one of the evening before.
        if is_after { Some(self.day) } else { is_before.then_some(Day(self.day.0.saturating_sub(1))) }
    }
}

impl std::fmt::Display for LocalTime {
    /// `Tuesday 23:10`
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let minutes = self.seconds / 60;
        write!(formatter, "{} {:02}:{:02}", Weekday::of(self.day).name(), minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        Day::try_from(text.to_owned()).unwrap()
    }

    fn time(text: &str) -> TimeOfDay {
        TimeOfDay::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn days_are_counted_and_have_weekdays() {
        for (text, number, weekday) in [
            ("1970-01-01", 0, Weekday::Thu),
            ("1972-02-29", 789, Weekday::Tue),
            ("2000-03-01", 11_017, Weekday::Wed),
            ("2026-12-01", 20_788, Weekday::Tue),
            ("2100-03-01", 47_541, Weekday::Mon),
        ] {
            assert_eq!((day(text).0, Weekday::of(day(text))), (number, weekday), "{text}");
        }
    }

    #[test]
    fn what_is_no_day_and_no_time_is_refused() {
        for text in ["2026-02-29", "2100-02-29", "2026-13-01", "2026-00-01", "2026-04-31", "2026-1-1", "1969-12-31"] {
            assert!(Day::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["", "2026", "2026-01-01-01", "２０２６-01-01", "+026-01-01", "2026-01-1é"] {
            assert!(Day::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["", "7:00", "24:01", "25:00", "12:60", "12:00:00", "1a:00", "+1:00"] {
            assert!(TimeOfDay::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert_eq!((time("00:00"), time("24:00")), (TimeOfDay(0), TimeOfDay::END));
    }

    #[test]
    fn the_local_clock_is_the_zone_s_at_that_instant() {
        // 2026-12-01T16:30:00Z is half past midnight of the 2nd in Shanghai, half past eleven of the 1st in New York.
        let at = |utc_offset_s| LocalTime::of(Instant { unix_s: 1_796_142_600, utc_offset_s });
        assert_eq!(at(8 * 3600), LocalTime { day: day("2026-12-02"), seconds: 1800 });
        assert_eq!(at(-5 * 3600).to_string(), "Tuesday 11:30");
        let before = LocalTime::of(Instant { unix_s: -1, utc_offset_s: 0 });
        assert_eq!(before, LocalTime { day: Day(-1), seconds: 86_399 });
    }

    #[test]
    fn windows_are_half_open_and_belong_to_the_day_they_begin_on() {
        let monday = day("2026-11-30");
        let sunday = day("2026-11-29");
        let at = |text: &str| LocalTime { day: monday, seconds: time(text).0 };
        for (now, from, to, began) in [
            ("08:59", "09:00", "17:00", None),
            ("09:00", "09:00", "17:00", Some(monday)),
            ("16:59", "09:00", "17:00", Some(monday)),
            ("17:00", "09:00", "17:00", None),
            ("22:00", "22:00", "06:00", Some(monday)),
            ("05:59", "22:00", "06:00", Some(sunday)),
            ("06:00", "22:00", "06:00", None),
            ("23:59", "18:00", "24:00", Some(monday)),
            ("00:00", "18:00", "24:00", None),
            ("00:00", "00:00", "24:00", Some(monday)),
        ] {
            assert_eq!(at(now).window_day(time(from), time(to)), began, "{now} in {from} to {to}");
        }
    }
}
