//! What a step reads: the words of a configuration's `reads`, parsed. The host passes exactly this and nothing else.

use crate::usage::{StatKey, Window};

/// Kinds of balances.
const BALANCE_KINDS: [&str; 3] = ["commitment", "prepaid_block", "wallet"];

/// Parsed `reads` (the grammar is in `sdk-wasm/wit/policy.wit`, at `manifest`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub amounts: bool,
    pub segments: bool,
    pub portions: bool,
    pub time: bool,
    pub usage_age: bool,
    pub stats: Vec<StatKey>,
    /// `usage/*`: any statistic. Only a manifest may say so; a configuration names its statistics.
    pub any_stat: bool,
    pub balance_kinds: Vec<String>,
    fact_keys: Vec<String>,
    /// With the dot at the end: `workload.` for `workload.*`.
    fact_prefixes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not something a policy can read")]
pub struct UnknownRead(pub String);

impl Reads {
    pub fn parse<Word: AsRef<str>>(words: &[Word]) -> Result<Self, UnknownRead> {
        let mut reads = Self::default();
        for word in words {
            reads.admit(word.as_ref())?;
        }
        Ok(reads)
    }

    fn admit(&mut self, word: &str) -> Result<(), UnknownRead> {
        let unknown = || UnknownRead(word.chars().take(80).collect());
        match word {
            "amounts" => self.amounts = true,
            "segments" => self.segments = true,
            "portions" => self.portions = true,
            "time" => self.time = true,
            "usage.age" => self.usage_age = true,
            "usage/*" => self.any_stat = true,
            _ => {
                if let Some(stat) = word.strip_prefix("usage/") {
                    self.stats.push(StatKey::parse(stat).ok_or_else(unknown)?);
                } else if let Some(kind) = word.strip_prefix("balance.") {
                    if kind != "*" && !BALANCE_KINDS.contains(&kind) {
                        return Err(unknown());
                    }
                    self.balance_kinds.push(kind.to_owned());
                } else if let Some(prefix) = word.strip_suffix('*') {
                    if !prefix.strip_suffix('.').is_some_and(is_key) {
                        return Err(unknown());
                    }
                    self.fact_prefixes.push(prefix.to_owned());
                } else if is_key(word) && word.contains('.') {
                    self.fact_keys.push(word.to_owned());
                } else {
                    return Err(unknown());
                }
            }
        }
        Ok(())
    }

    /// True if there is any fact that it could name.
    pub fn names_facts(&self) -> bool {
        !self.fact_keys.is_empty() || !self.fact_prefixes.is_empty()
    }

    pub fn names_fact(&self, key: &str) -> bool {
        self.fact_keys.iter().any(|named| named == key)
            || self.fact_prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }

    pub fn names_usage(&self) -> bool {
        self.any_stat || !self.stats.is_empty()
    }

    pub fn names_stat(&self, metric: &str, statistic: &str, window_s: u32) -> bool {
        self.any_stat
            || self
                .stats
                .iter()
                .any(|stat| stat.metric == metric && stat.statistic == statistic && stat.window.seconds() == window_s)
    }

    pub fn names_balance(&self, kind: &str) -> bool {
        self.balance_kinds.iter().any(|named| named == kind || named == "*")
    }

    /// True if everything that `narrower` reads is also read by this.
    pub fn covers(&self, narrower: &Self) -> bool {
        let flags = [
            (self.amounts, narrower.amounts),
            (self.segments, narrower.segments),
            (self.portions, narrower.portions),
            (self.time, narrower.time),
            (self.usage_age, narrower.usage_age),
            (self.any_stat, narrower.any_stat),
        ];
        flags.iter().all(|(wide, narrow)| *wide || !narrow)
            && narrower.stats.iter().all(|stat| self.any_stat || self.stats.contains(stat))
            && narrower.balance_kinds.iter().all(|kind| self.names_balance(kind))
            && narrower.fact_keys.iter().all(|key| self.names_fact(key))
            && narrower
                .fact_prefixes
                .iter()
                .all(|prefix| self.fact_prefixes.iter().any(|wide| prefix.starts_with(wide.as_str())))
    }
}

impl StatKey {
    /// Reads `gpu_util/mean/7d`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (metric, statistic, window) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || !is_key_word(metric) || !is_key_word(statistic) {
            return None;
        }
        Some(Self { metric: metric.to_owned(), statistic: statistic.to_owned(), window: Window::parse(window)? })
    }
}

/// Lower-case words of letters, digits, `_` and `-`, joined by dots.
fn is_key(text: &str) -> bool {
    text.split('.').all(is_key_word)
}

fn is_key_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::Reads;

    #[test]
    fn a_read_covers_what_is_narrower_and_nothing_else() {
        let wide = Reads::parse(&["workload.*", "amounts", "usage/*"]).unwrap();
        let narrow = Reads::parse(&["workload.framework", "usage/gpu_util/mean/7d"]).unwrap();
        assert!(wide.covers(&narrow) && !narrow.covers(&wide));
        assert!(!wide.covers(&Reads::parse(&["line.region"]).unwrap()));
        assert!(!wide.covers(&Reads::parse(&["time"]).unwrap()));
        assert!(narrow.names_fact("workload.framework") && !narrow.names_fact("workload.execution"));
        let covers =
            |wide: &str, narrow: &str| Reads::parse(&[wide]).unwrap().covers(&Reads::parse(&[narrow]).unwrap());
        for (wide, narrow) in [
            ("workload.*", "workload.*"),
            ("step.*", "step.base.*"),
            ("balance.*", "balance.wallet"),
            ("balance.*", "balance.*"),
            ("time", "time"),
        ] {
            assert!(covers(wide, narrow), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("workload.*", "workloads.feature"),
            ("workload.feature", "workload.*"),
            ("usage/*", "usage.age"),
            ("usage/gpu_util/mean/7d", "usage/*"),
            ("balance.wallet", "balance.*"),
            ("balance.wallet", "balance.commitment"),
        ] {
            assert!(!covers(wide, narrow), "{wide} {narrow}");
        }
    }

    #[test]
    fn words_of_the_grammar_are_read() {
        for word in [
            "amounts",
            "segments",
            "portions",
            "time",
            "usage.age",
            "usage/*",
            "usage/gpu_util/mean/7d",
            "balance.commitment",
            "balance.prepaid_block",
            "balance.wallet",
            "balance.*",
            "workload.feature",
            "workload.*",
            "step.framework-2.rate",
            "step.base.*",
        ] {
            assert!(Reads::parse(&[word]).is_ok(), "{word}");
        }
    }

    #[test]
    fn words_outside_the_grammar_are_refused() {
        for word in [
            "",
            "*",
            "workload*",
            "workload.",
            "workload..*",
            "workload.*.x",
            "*.image",
            ".image",
            "usage/gpu_util",
            "usage/gpu_util/mean",
            "usage/gpu_util/mean/8d",
            "usage/gpu_util/mean/7d/x",
            "usage/gpu_util/*/7d",
            "usage/gpu.util/mean/7d",
            "balance.purse",
            "balance.",
            "Line.Model",
            "clock",
            ".",
            "a..b",
            "a b.c",
            "a.b\n",
        ] {
            assert!(Reads::parse(&[word]).is_err(), "{word}");
        }
    }
}
