//! Price books as they are written become price books that price.

use std::collections::BTreeMap;

use farebox_pricing::exact;
use farebox_pricing::price_book::{Market, PriceBook, PriceRow};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::document::Document;
use super::findings::{Bound, Findings};
use super::problem::CatalogProblem;
use super::wire::{WireMarket, WirePer, WirePriceBook, WirePriceRow};

/// Until there is a ledger that counts versions, what lies in the data directory is the first.
const VERSION: u32 = 1;
const SECONDS_PER_HOUR: i128 = 3600;

/// Reads a price book, or says everything that is wrong with it.
pub(super) fn read(document: &Document, wire: WirePriceBook) -> Result<PriceBook, Vec<CatalogProblem>> {
    let mut findings = Findings::of(document);
    let currency = findings.currency("/currency", &wire.currency);
    let mut rows = Vec::with_capacity(wire.rows.len());
    let mut seen = BTreeMap::new();
    for (index, sent) in wire.rows.into_iter().enumerate() {
        let pointer = format!("/rows/{index}");
        let Some(row) = read_row(&mut findings, &pointer, sent) else { continue };
        let key = (row.gpu_model.clone(), row.region.clone(), row.market, row.min_gpus, row.effective_from);
        if let Some(first) = seen.insert(key, index) {
            let line = document.line(&format!("/rows/{first}"));
            findings.wrong(
                &pointer,
                format!(
                    "this row repeats the one in line {line}: same model, region, market, `min_gpus` and \
                     `effective_from`"
                ),
            );
        }
        rows.push(row);
    }
    let Some(currency) = currency.filter(|_| findings.problems.is_empty()) else { return Err(findings.problems) };
    PriceBook::new(wire.name, VERSION, currency, rows)
        .map_err(|duplicate| vec![document.problem(&format!("/rows/{}", duplicate.second), duplicate.to_string())])
}

fn read_row(findings: &mut Findings<'_>, pointer: &str, sent: WirePriceRow) -> Option<PriceRow> {
    let unit_price = findings.decimal(&format!("{pointer}/unit_price"), &sent.unit_price, Bound::AboveZero);
    let unit_price = unit_price.and_then(|price| match sent.per {
        WirePer::GpuHour => Some(price),
        WirePer::GpuSecond => per_hour(price).or_else(|| {
            let shown = exact::print(price);
            findings.wrong(
                &format!("{pointer}/unit_price"),
                format!("`{shown}` a second has too many digits for a price of an hour"),
            );
            None
        }),
    });
    let mut size = |field: &str, sent| findings.optional_decimal(&format!("{pointer}/{field}"), sent, Bound::AboveZero);
    let memory_gib = size("memory_gib", sent.memory_gib.as_ref());
    let network_gbps = size("network_gbps", sent.network_gbps.as_ref());
    let effective_from = sent.effective_from.parse::<Timestamp>().map_err(|_| {
        let text = &sent.effective_from;
        findings.wrong(
            &format!("{pointer}/effective_from"),
            format!("`{text}` is not an RFC 3339 time with a zone such as `2026-01-01T00:00:00Z`"),
        );
    });
    Some(PriceRow {
        gpu_model: sent.gpu_model,
        region: sent.region,
        market: market(sent.market),
        min_gpus: sent.min_gpus,
        unit_price: unit_price?,
        memory_gib,
        network_gbps,
        effective_from: effective_from.ok()?,
    })
}

/// `price × 3600`, exactly; `None` where a decimal does not hold it.
fn per_hour(price: Decimal) -> Option<Decimal> {
    let mantissa = price.mantissa().checked_mul(SECONDS_PER_HOUR)?;
    Decimal::try_from_i128_with_scale(mantissa, price.scale()).ok().map(|price| price.normalize())
}

fn market(sent: WireMarket) -> Market {
    match sent {
        WireMarket::Guaranteed => Market::Guaranteed,
        WireMarket::OnDemand => Market::OnDemand,
        WireMarket::Spot => Market::Spot,
    }
}

#[cfg(test)]
mod tests {
    use super::per_hour;
    use farebox_pricing::exact::{parse, print};

    #[test]
    fn prices_of_a_second_become_prices_of_an_hour_exactly() {
        let hourly = |text| per_hour(parse(text).unwrap()).map(print);
        assert_eq!(hourly("0.00155").as_deref(), Some("5.58"));
        assert_eq!(hourly("0.0000000000000000000000000003").as_deref(), Some("0.00000000000000000000000108"));
        assert_eq!(hourly("9999999999999999999999999999"), None);
    }
}
