//! The values of a document that no schema can judge, and what was found wrong with them so far.

use farebox_pricing::currency::Currency;
use farebox_pricing::exact;
use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use super::document::Document;
use super::problem::CatalogProblem;
use super::shelf::Missing;
use super::wire::WireDuration;
use crate::schema::WireDecimal;

/// Reads values of one document; a wrong one is noted and `None`, so that the next ones are judged too.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    pub(super) document: &'a Document,
    pub(super) problems: Vec<CatalogProblem>,
}

/// What a decimal must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    AboveZero,
    NotNegative,
    /// 0 to 1.
    Share,
}

impl Bound {
    fn holds(self, value: Decimal) -> bool {
        match self {
            Self::AboveZero => value > Decimal::ZERO,
            Self::NotNegative => value >= Decimal::ZERO,
            Self::Share => value >= Decimal::ZERO && value <= Decimal::ONE,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::AboveZero => "must be above 0",
            Self::NotNegative => "must not be negative",
            Self::Share => "must be within 0 and 1",
        }
    }
}

impl<'a> Findings<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        Self { document, problems: Vec::new() }
    }

    pub(super) fn wrong(&mut self, pointer: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(pointer, message));
    }

    /// What is wrong because something else is not there.
    pub(super) fn missing(&mut self, pointer: &str, missing: Missing) {
        let problem = self.document.problem(pointer, missing.sentence);
        self.problems.push(problem.following(missing.because));
    }

    pub(super) fn decimal(&mut self, pointer: &str, sent: &WireDecimal, bound: Bound) -> Option<Decimal> {
        match exact::parse(&sent.0) {
            Ok(value) if bound.holds(value) => return Some(value),
            Ok(value) => self.wrong(pointer, format!("`{}` {}", exact::print(value), bound.sentence())),
            Err(error) => self.wrong(pointer, error.to_string()),
        }
        None
    }

    pub(super) fn optional_decimal(
        &mut self,
        pointer: &str,
        sent: Option<&WireDecimal>,
        bound: Bound,
    ) -> Option<Decimal> {
        sent.and_then(|sent| self.decimal(pointer, sent, bound))
    }

    /// Whole seconds; `default` where nothing is said.
    pub(super) fn seconds(&mut self, pointer: &str, sent: Option<&WireDuration>, default: u64) -> u64 {
        let Some(WireDuration(text)) = sent else { return default };
        let read = || {
            let unit = text.chars().next_back()?;
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            let seconds = match unit {
                's' => 1,
                'm' => 60,
                'h' => 3600,
                _ => return None,
            };
            count.checked_mul(seconds)
        };
        read().unwrap_or_else(|| {
            self.wrong(pointer, format!("`{text}` is not a duration such as `30s`, `15m` or `24h`"));
            default
        })
    }

    pub(super) fn currency(&mut self, pointer: &str, code: &str) -> Option<Currency> {
        Currency::parse(code).map_err(|error| self.wrong(pointer, error.to_string())).ok()
    }

    pub(super) fn time_zone(&mut self, pointer: &str, name: &str) -> Option<TimeZone> {
        let zone = TimeZone::get(name);
        zone.map_err(|_| self.wrong(pointer, format!("`{name}` is not an IANA time zone such as `Asia/Shanghai`"))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(reading: impl Fn(&mut Findings<'_>) -> T) -> (T, Vec<String>) {
        let (document, _) = Document::read("plans/a.toml", "a = 1");
        let mut findings = Findings::of(&document);
        let value = reading(&mut findings);
        (value, findings.problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn durations_are_whole_units_within_64_bits() {
        let seconds = |text: &str| read(|findings| findings.seconds("/a", Some(&WireDuration(text.to_owned())), 7));
        assert_eq!(seconds("30s").0, 30);
        assert_eq!(seconds("10m").0, 600);
        assert_eq!(seconds("999999999h").0, 3_599_999_996_400);
        for text in ["", "m", "1", "-1s", "1.5h", "99999999999999999999h", "9999999999999999999h", "1d"] {
            let (value, problems) = seconds(text);
            assert_eq!((value, problems.len()), (7, 1), "{text}");
        }
    }

    #[test]
    fn decimals_are_bounded_and_exact() {
        let decimal = |text: &str, bound| {
            read(|findings| findings.decimal("/a", &WireDecimal(text.to_owned()), bound).map(|value| value.to_string()))
        };
        assert_eq!(decimal("0.60", Bound::Share).0.as_deref(), Some("0.60"));
        assert_eq!(decimal("1", Bound::Share).0.as_deref(), Some("1"));
        assert_eq!(decimal("1.01", Bound::Share).1, ["`1.01` must be within 0 and 1"]);
        assert_eq!(decimal("-0.01", Bound::NotNegative).1, ["`-0.01` must not be negative"]);
        assert_eq!(decimal("0.00", Bound::AboveZero).1, ["`0` must be above 0"]);
        assert_eq!(decimal("1e3", Bound::AboveZero).0, None);
        assert_eq!(decimal("12345678901234567890123456789", Bound::AboveZero).0, None);
    }
}
