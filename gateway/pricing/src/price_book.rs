//! Price books: versioned list prices, and which row prices a request.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rust_decimal::Decimal;

use crate::currency::Currency;

/// How capacity is sold; `guaranteed` is never pre-empted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Market {
    Guaranteed,
    OnDemand,
    Spot,
}

impl Market {
    pub const ALL: [Self; 3] = [Self::Guaranteed, Self::OnDemand, Self::Spot];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::OnDemand => "on_demand",
            Self::Spot => "spot",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|market| market.as_str() == text)
    }
}

/// One list price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRow {
    pub gpu_model: String,
    pub region: String,
    pub market: Market,
    /// Applies from this many GPUs on; the largest ≤ the asked count wins.
    pub min_gpus: u32,
    /// Per GPU-hour, at full precision: never rounded to the currency.
    pub unit_price: Decimal,
    pub memory_gib: Option<Decimal>,
    pub network_gbps: Option<Decimal>,
    /// The newest ≤ the priced instant wins.
    pub effective_from: Timestamp,
}

/// A version of a price book. Rows are indexed by model, region and market.
#[derive(Clone, Debug)]
pub struct PriceBook {
    pub name: String,
    pub version: u32,
    pub currency: Currency,
    rows: BTreeMap<(String, String, Market), Vec<PriceRow>>,
}

/// What a price is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PriceQuery<'a> {
    pub gpu_model: &'a str,
    pub region: &'a str,
    pub market: Market,
    pub gpu_count: u32,
    pub at: Timestamp,
}

/// Two rows for one key and instant: which of them holds would be chance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {second} repeats row {first}: same model, region, market, `min_gpus` and `effective_from`")]
pub struct DuplicateRow {
    /// Positions in the given rows, from 0.
    pub first: usize,
    pub second: usize,
}

/// Why no row prices a request, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPrice {
    #[error("price book `{book}` has no GPU model `{gpu_model}`; it has {}", list(known))]
    Model { book: String, gpu_model: String, known: Vec<String> },
    #[error("price book `{book}` has no price for `{gpu_model}` in region `{region}`; it has {}", list(known))]
    Region { book: String, gpu_model: String, region: String, known: Vec<String> },
    #[error("price book `{book}` does not sell `{gpu_model}` in `{region}` as `{market}`; it sells {}", list(known))]
    Market { book: String, gpu_model: String, region: String, market: &'static str, known: Vec<String> },
    #[error("price book `{book}` sells `{gpu_model}` in `{region}` from {smallest} GPUs on, not {gpu_count}")]
    TooFewGpus { book: String, gpu_model: String, region: String, gpu_count: u32, smallest: u32 },
    #[error("price book `{book}` prices `{gpu_model}` in `{region}` only from {first} on")]
    NotYetEffective { book: String, gpu_model: String, region: String, first: Timestamp },
}

impl PriceBook {
    pub fn new(name: String, version: u32, currency: Currency, rows: Vec<PriceRow>) -> Result<Self, DuplicateRow> {
        let mut seen: BTreeMap<(String, String, Market, u32, Timestamp), usize> = BTreeMap::new();
        let mut index: BTreeMap<(String, String, Market), Vec<PriceRow>> = BTreeMap::new();
        for (second, row) in rows.into_iter().enumerate() {
            let key = (row.gpu_model.clone(), row.region.clone(), row.market, row.min_gpus, row.effective_from);
            if let Some(first) = seen.insert(key, second) {
                return Err(DuplicateRow { first, second });
            }
            index.entry((row.gpu_model.clone(), row.region.clone(), row.market)).or_default().push(row);
        }
        Ok(Self { name, version, currency, rows: index })
    }

    /// `cn-2026@1`
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    pub fn rows(&self) -> impl Iterator<Item = &PriceRow> {
        self.rows.values().flatten()
    }

    /// The row that prices a request: of those with enough GPUs and already effective, the largest `min_gpus`, and of
    /// those the newest `effective_from`. The two together are a total order, since duplicates were refused.
    pub fn resolve(&self, query: PriceQuery<'_>) -> Result<&PriceRow, UnknownPrice> {
        let key = (query.gpu_model.to_owned(), query.region.to_owned(), query.market);
        let rows = self.rows.get(&key).ok_or_else(|| self.nearest_miss(query))?;
        rows.iter()
            .filter(|row| row.min_gpus <= query.gpu_count && row.effective_from <= query.at)
            .max_by_key(|row| (row.min_gpus, row.effective_from))
            .ok_or_else(|| self.out_of_reach(query, rows))
    }

    fn nearest_miss(&self, query: PriceQuery<'_>) -> UnknownPrice {
        let book = self.name.clone();
        let gpu_model = query.gpu_model.to_owned();
        let models: BTreeSet<&String> = self.rows.keys().map(|(model, _, _)| model).collect();
        let of_model = self.rows.keys().filter(|(model, _, _)| *model == gpu_model);
        let regions: BTreeSet<&String> = of_model.clone().map(|(_, region, _)| region).collect();
        if !models.contains(&gpu_model) {
            return UnknownPrice::Model { book, gpu_model, known: models.into_iter().cloned().collect() };
        }
        let region = query.region.to_owned();
        if !regions.contains(&region) {
            return UnknownPrice::Region { book, gpu_model, region, known: regions.into_iter().cloned().collect() };
        }
        let known = of_model.filter(|key| key.1 == region).map(|key| key.2.as_str().to_owned()).collect();
        UnknownPrice::Market { book, gpu_model, region, market: query.market.as_str(), known }
    }

    fn out_of_reach(&self, query: PriceQuery<'_>, rows: &[PriceRow]) -> UnknownPrice {
        let book = self.name.clone();
        let gpu_model = query.gpu_model.to_owned();
        let region = query.region.to_owned();
        let effective = rows.iter().filter(|row| row.effective_from <= query.at);
        if let Some(smallest) = effective.map(|row| row.min_gpus).min() {
            return UnknownPrice::TooFewGpus { book, gpu_model, region, gpu_count: query.gpu_count, smallest };
        }
        let first = rows.iter().map(|row| row.effective_from).min().unwrap_or(Timestamp::MAX);
        UnknownPrice::NotYetEffective { book, gpu_model, region, first }
    }
}

/// `A100, V100 and 3 more`
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
