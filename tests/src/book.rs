//! The generated book: quote requests as storefronts of one cloud would send them, the same for the same seed.
//!
//! Quantities, references and carts are all different; what they are *about* (frameworks, features, images) is not,
//! as in life. The memo's hit rate and the throughput are measured on it.

use serde_json::{Map, Value, json};

/// An endless book of requests.
#[derive(Clone, Debug)]
pub struct Book {
    state: u64,
    written: u64,
}

/// Value and how often it is drawn, of 100.
type Weighted<'a> = &'a [(&'a str, u64)];

const TENANTS: Weighted<'_> = &[("acme", 50), ("initech", 30), ("globex", 20)];
const MODELS: Weighted<'_> = &[("A100", 70), ("V100", 30)];
const REGIONS: Weighted<'_> = &[("cn-east-1", 75), ("cn-north-1", 25)];
const FRAMEWORKS: Weighted<'_> = &[("pytorch", 82), ("tensorflow", 12), ("jax", 6)];
const EXECUTIONS: Weighted<'_> = &[("eager", 55), ("compiled", 35), ("torchscript", 10)];
const IMAGES: Weighted<'_> = &[("v2.6", 70), ("v2.4", 20), ("v2.8-nightly", 10)];
const SESSIONS: Weighted<'_> = &[("batch", 60), ("interactive", 40)];
const ISOLATIONS: Weighted<'_> = &[("shared", 80), ("hardened", 12), ("dedicated", 8)];
const PRECISIONS: Weighted<'_> = &[("fp32", 40), ("bf16", 40), ("fp16", 20)];
const FEATURES: Weighted<'_> = &[("", 50), ("fsdp", 20), ("cuda_graphs", 15), ("fsdp cuda_graphs", 15)];
const LINES: Weighted<'_> = &[("1", 70), ("2", 15), ("3", 8), ("5", 5), ("12", 2)];

impl Book {
    pub fn new(seed: u64) -> Self {
        Self { state: seed, written: 0 }
    }

    /// A body of `POST /v1/quotes` in CNY.
    pub fn request(&mut self) -> Value {
        self.written += 1;
        let lines = self.draw(LINES).parse().unwrap_or(1);
        let items: Vec<Value> = (0..lines).map(|index| self.item(index)).collect();
        json!({
            "tenant_id": self.draw(TENANTS),
            "currency": "CNY",
            "client_reference": format!("cart-{}", self.written),
            "items": items,
        })
    }

    fn item(&mut self, index: u64) -> Value {
        let features: Vec<&str> = self.draw(FEATURES).split_whitespace().collect();
        let framework = self.draw(FRAMEWORKS);
        let mut workload = Map::new();
        workload.insert("framework".to_owned(), framework.into());
        if framework == "pytorch" {
            workload.insert("execution".to_owned(), self.draw(EXECUTIONS).into());
        }
        workload.insert("features".to_owned(), features.into());
        for (name, choices) in
            [("image", IMAGES), ("session", SESSIONS), ("isolation", ISOLATIONS), ("precision", PRECISIONS)]
        {
            workload.insert(name.to_owned(), self.draw(choices).into());
        }
        json!({
            "ref": format!("{}-{index}", self.written),
            "gpu_model": self.draw(MODELS),
            "region": self.draw(REGIONS),
            "gpu_count": 1 + self.below(64),
            "seconds": 60 + self.below(30 * 86_400),
            "workload": workload,
        })
    }

    fn draw<'a>(&mut self, choices: Weighted<'a>) -> &'a str {
        let mut left = self.below(choices.iter().map(|(_, weight)| weight).sum());
        for (value, weight) in choices {
            if left < *weight {
                return value;
            }
            left -= weight;
        }
        ""
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Book;

    #[test]
    fn the_same_seed_writes_the_same_book() {
        let [mut one, mut same, mut other] = [1, 1, 2].map(Book::new);
        for _ in 0..100 {
            assert_eq!(one.request(), same.request());
        }
        assert_ne!(one.request(), other.request());
    }
}
