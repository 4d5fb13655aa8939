//! What an outcome depends on, as bytes: the policy with its configuration, and exactly what is passed to it.
//!
//! Two evaluations have equal keys only if the guest would be handed equal values: every list and text goes in with its
//! length, every choice with a tag, every decimal with its scale. The patterns below name every field, so a field that
//! is added to the contract's types does not compile until it is part of the key.

use farebox_pricing::policy::{
    AmountsView, Balance, Context, Fact, Instant, LineView, Portion, Rate, Segment, Stat, UsageView,
};
use rust_decimal::Decimal;

/// Bytes of a policy's identity: SHA-256 over its digest and its configuration.
pub(crate) const IDENTITY_BYTES: usize = 32;

/// Writes the key of an evaluation over what `key` held before.
pub(crate) fn write(key: &mut Vec<u8>, identity: &[u8; IDENTITY_BYTES], context: &Context<'_>) {
    key.clear();
    key.extend_from_slice(identity);
    let mut writer = Writer(key);
    let Context { currency, exponent, at, tenant, lines, usages, balances, facts } = context;
    writer.text(currency);
    writer.0.push(*exponent);
    writer.option(at.as_ref(), |writer, Instant { unix_s, utc_offset_s }| {
        writer.0.extend_from_slice(&unix_s.to_le_bytes());
        writer.0.extend_from_slice(&utc_offset_s.to_le_bytes());
    });
    writer.facts(tenant.iter().copied());
    writer.list(lines.iter(), Writer::line);
    writer.list(usages.iter(), Writer::usage);
    writer.list(balances.iter(), |writer, balance| writer.balance(balance));
    writer.facts(facts.iter().copied());
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn line(&mut self, line: &LineView<'_>) {
        let LineView { key, facts, amounts, segments, portions, usage } = line;
        self.number(*key);
        self.facts(facts.iter().copied());
        self.option(amounts.as_ref(), Self::amounts);
        self.list(segments.iter(), |writer, Segment { state, quantity }| {
            writer.text(state);
            writer.decimal(*quantity);
        });
        self.list(portions.iter(), Self::portion);
        self.option(usage.as_ref(), |writer, usage| writer.number(*usage));
    }

    fn amounts(&mut self, amounts: &AmountsView<'_>) {
        let AmountsView { unit, quantity, unit_price, list_amount, amount } = amounts;
        self.text(unit);
        for value in [quantity, unit_price, list_amount, amount] {
            self.decimal(*value);
        }
    }

    fn portion(&mut self, portion: &Portion) {
        let Portion { code, label, unit, quantity, unit_price, draws } = portion;
        for text in [code, label, unit] {
            self.text(text);
        }
        self.decimal(*quantity);
        self.decimal(*unit_price);
        self.option(draws.as_ref(), |writer, balance| writer.text(balance));
    }

    fn usage(&mut self, usage: &UsageView<'_>) {
        let UsageView { scope, age_ms, quality, surcharge_allowed, stats } = usage;
        self.text(scope);
        self.option(age_ms.as_ref(), |writer, age_ms| writer.0.extend_from_slice(&age_ms.to_le_bytes()));
        self.text(quality);
        self.0.push(u8::from(*surcharge_allowed));
        self.list(stats.iter(), |writer, stat| {
            let Stat { metric, statistic, window_s, value, coverage } = *stat;
            writer.text(metric);
            writer.text(statistic);
            writer.number(*window_s);
            writer.decimal(*value);
            writer.decimal(*coverage);
        });
    }

    fn balance(&mut self, balance: &Balance) {
        let Balance { id, kind, unit, scope, rates, remaining, expires_unix_s } = balance;
        for text in [id, kind, unit] {
            self.text(text);
        }
        self.facts(scope.iter());
        self.list(rates.iter(), |writer, Rate { scope, unit_price, overage_price }| {
            writer.facts(scope.iter());
            writer.decimal(*unit_price);
            writer.option(overage_price.as_ref(), |writer, price| writer.decimal(*price));
        });
        self.decimal(*remaining);
        self.option(expires_unix_s.as_ref(), |writer, at| writer.0.extend_from_slice(&at.to_le_bytes()));
    }

    fn facts<'b>(&mut self, facts: impl ExactSizeIterator<Item = &'b Fact>) {
        self.list(facts, |writer, Fact { key, value }| {
            writer.text(key);
            writer.text(value);
        });
    }

    fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, write: impl Fn(&mut Self, T)) {
        self.length(items.len());
        for item in items {
            write(self, item);
        }
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    /// 4 bytes would do, but nothing says that a length fits them.
    fn length(&mut self, length: usize) {
        self.0.extend_from_slice(&length.to_le_bytes());
    }

    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// As the guest gets it: with its scale, and without the sign of a zero.
    fn decimal(&mut self, value: Decimal) {
        let parts = value.unpack();
        for part in [parts.lo, parts.mid, parts.hi, parts.scale, u32::from(parts.negative && !value.is_zero())] {
            self.number(part);
        }
    }
}
