//! `GET /v1/catalog`: what can be bought, at which list prices, under which plans.

mod query;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use farebox_pricing::exact;
use farebox_pricing::price_book::PriceRow;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::Gateway;
use super::problem::{Problem, ProblemBody};
use super::representation::Representation;
use crate::catalog::{Offering, PlanVersion};
use query::{CatalogQuery, Query};

/// How long a page may be kept, unless a price changes before.
const LONGEST_KEPT_S: i64 = 60;

/// A page of the catalogue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CatalogPage<'a> {
    /// The plans that price what is listed.
    plans: Vec<CatalogPlan<'a>>,
    data: Vec<CatalogItem<'a>>,
    /// Where the next page begins: give it as `after`. `null` on the last page.
    #[schema(example = "us-2026:H100-SXM:lambda:on_demand")]
    next: Option<String>,
}

/// A plan that a quote can be asked under.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CatalogPlan<'a> {
    #[schema(example = "gpu-standard")]
    name: &'a str,
    #[schema(example = "CNY")]
    currency: &'static str,
    #[schema(example = "cn-2026@1")]
    price_book: String,
    /// How long its quotes can be accepted.
    #[schema(example = 900)]
    quote_lifetime_s: u32,
    /// False where a charge uses the charged period's own utilisation.
    price_locked: bool,
    /// What may change a list price, in this order.
    steps: Vec<CatalogStep<'a>>,
}

/// A step of a plan.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CatalogStep<'a> {
    #[schema(example = "image")]
    id: &'a str,
    /// The codes of the adjustments that it can make; one that ends in `*` stands for all that begin so.
    #[schema(example = json!(["v2.4", "v2.6", "v2.8-nightly"]))]
    codes: &'a [String],
}

/// A GPU model in one region and market.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CatalogItem<'a> {
    /// Its place in the catalogue.
    #[schema(example = "cn-2026:A100:cn-east-1:on_demand")]
    id: String,
    #[schema(example = "A100")]
    gpu_model: String,
    #[schema(example = "cn-east-1")]
    region: String,
    /// `guaranteed`, `on_demand` or `spot`.
    #[schema(example = "on_demand")]
    market: &'static str,
    #[schema(example = "CNY")]
    currency: &'static str,
    #[schema(example = "cn-2026@1")]
    price_book: String,
    /// Names of the plans that price by this book.
    #[schema(example = json!(["gpu-standard"]))]
    plans: &'a [&'a str],
    /// In force now, one for each size; the largest `min_gpus` that is not above the asked count holds. Empty where all
    /// are still to come.
    prices: Vec<CatalogPrice>,
    /// What will hold later, by instant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    upcoming: Vec<CatalogPrice>,
}

/// A list price.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CatalogPrice {
    #[schema(example = 1)]
    min_gpus: u32,
    /// Per GPU-hour.
    #[schema(example = "12.00")]
    unit_price: String,
    /// Memory of one GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "40")]
    memory_gib: Option<String>,
    /// Bandwidth of one GPU's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "100")]
    network_gbps: Option<String>,
    /// RFC 3339 UTC.
    #[schema(example = "2026-01-01T00:00:00Z")]
    effective_from: String,
}

/// Lists what can be bought, with list prices: what a quote starts from, before any adjustment.
///
/// Without `tenant_id` it lists every plan, and whoever asks may name any tenant: there is no access control yet.
#[utoipa::path(get, path = "/v1/catalog", operation_id = "read_catalog", tag = "quote", params(CatalogQuery), responses(
    (status = 200, description = "a page, perhaps empty", body = CatalogPage, headers(
        ("ETag" = String, description = "of the page"),
        ("Cache-Control" = String, description = "a minute, or less where a price changes before"))),
    (status = 304, description = "the page is still the one that `If-None-Match` names", headers(
        ("ETag" = String, description = "the one that was sent"))),
    (status = 422, description = "`invalid-request`: every violation at once; `pointer` is `/` and the parameter's name", body = ProblemBody, content_type = "application/problem+json"),
    (status = 503, description = "`unavailable`: the plan that is asked for cannot be priced under; `overloaded`; retry after `Retry-After`", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(super) async fn read(
    State(gateway): State<Gateway>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let refuse = |errors| Problem::invalid("the query cannot be answered", errors);
    let Query { selection, limit } = Query::parse(raw.as_deref().unwrap_or_default()).map_err(refuse)?;
    let now = gateway.clock.now();
    let listing = gateway.road.catalog.listing(&selection)?;
    let mut offerings = listing.offerings(&selection, now);
    let page: Vec<Offering<'_>> = offerings.by_ref().take(limit).collect();
    let next = offerings.next().and_then(|_| page.last()).map(|last| last.id.to_string());
    let kept_s = kept_s(&page, now);
    let plans = listing.plans.iter().map(|version| plan(version)).collect();
    let page = CatalogPage { plans, data: page.into_iter().map(item).collect(), next };
    let json = serde_json::to_vec(&page).map_err(|error| {
        tracing::error!(%error, "a page of the catalogue could not be rendered");
        Problem::unavailable("the catalogue could not be rendered")
    })?;
    let kept = HeaderValue::from_str(&format!("private, max-age={kept_s}"));
    let kept = kept.unwrap_or_else(|_| HeaderValue::from_static("no-cache"));
    Ok(Representation::of("application/json", json).answer(&headers, kept))
}

/// A minute, or until the first price of the page changes: no cache shows a price that does not hold any more.
fn kept_s(page: &[Offering<'_>], now: Timestamp) -> i64 {
    let changes = page.iter().flat_map(|offering| &offering.upcoming);
    let next = changes.map(|row| row.effective_from.duration_since(now).as_secs()).min();
    next.unwrap_or(LONGEST_KEPT_S).clamp(0, LONGEST_KEPT_S)
}

fn plan(version: &PlanVersion) -> CatalogPlan<'_> {
    let plan = &version.plan;
    CatalogPlan {
        name: &plan.name,
        currency: plan.currency.code(),
        price_book: version.book.id(),
        quote_lifetime_s: plan.quote_lifetime_s,
        price_locked: plan.price_is_locked(),
        steps: plan.steps.iter().map(|step| CatalogStep { id: &step.id, codes: &step.produces }).collect(),
    }
}

fn item(offering: Offering<'_>) -> CatalogItem<'_> {
    let exponent = offering.book.currency.exponent();
    let price = |row: &&PriceRow| CatalogPrice {
        min_gpus: row.min_gpus,
        unit_price: exact::print_price(row.unit_price, exponent),
        memory_gib: row.memory_gib.map(exact::print),
        network_gbps: row.network_gbps.map(exact::print),
        effective_from: row.effective_from.to_string(),
    };
    CatalogItem {
        id: offering.id.to_string(),
        gpu_model: offering.id.gpu_model().to_owned(),
        region: offering.id.region().to_owned(),
        market: offering.id.market().as_str(),
        currency: offering.book.currency.code(),
        price_book: offering.book.id(),
        plans: offering.plans,
        prices: offering.in_force.iter().map(price).collect(),
        upcoming: offering.upcoming.iter().map(price).collect(),
    }
}
