//! The query of the catalogue: read strictly, every violation at once, up to a thousand.

use std::collections::HashSet;

use farebox_pricing::price_book::Market;
use utoipa::IntoParams;

use crate::catalog::{OfferingId, Selection};
use crate::intake::body::MarketBody;
use crate::schema::{MAX_VIOLATIONS, Violation, child};

const DEFAULT_LIMIT: usize = 100;
const LARGEST_LIMIT: usize = 500;
/// Characters of a value.
const LONGEST_VALUE: usize = 256;

/// As it is documented; read by [`Query::parse`].
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its shape is used")]
pub(crate) struct CatalogQuery {
    /// Only the plans that this tenant gets without asking for one, and what they price. Absent: every plan of everybody.
    #[param(min_length = 1, max_length = 256, nullable = false, example = "acme")]
    tenant_id: Option<String>,
    /// Only what this plan prices; with `tenant_id`, one that the tenant may ask for.
    #[param(min_length = 1, max_length = 256, nullable = false, example = "gpu-standard")]
    plan: Option<String>,
    /// ISO 4217.
    #[param(pattern = "^[A-Z]{3}$", nullable = false, example = "CNY")]
    currency: Option<String>,
    #[param(min_length = 1, max_length = 256, nullable = false, example = "A100")]
    gpu_model: Option<String>,
    #[param(min_length = 1, max_length = 256, nullable = false, example = "cn-east-1")]
    region: Option<String>,
    #[param(inline, nullable = false)]
    market: Option<MarketBody>,
    /// Most items of a page. Default 100.
    #[param(minimum = 1, maximum = 500, nullable = false)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[param(
        pattern = "^[^:]+:[^:]+:[^:]+:(guaranteed|on_demand|spot)$",
        max_length = 256,
        nullable = false,
        example = "cn-2026:A100:cn-east-1:on_demand"
    )]
    after: Option<String>,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) selection: Selection,
    pub(super) limit: usize,
}

impl Query {
    /// Reads the part of a URL after its `?`.
    pub(super) fn parse(raw: &str) -> Result<Self, Vec<Violation>> {
        let mut query = Self { selection: Selection::default(), limit: DEFAULT_LIMIT };
        let mut violations = Vec::new();
        let mut seen = HashSet::new();
        for (name, value) in form_urlencoded::parse(raw.as_bytes()) {
            if violations.len() >= MAX_VIOLATIONS {
                break;
            }
            let outcome = if value.is_empty() || value.chars().count() > LONGEST_VALUE {
                Err(("length", format!("`{}` has 1 to {LONGEST_VALUE} characters", shown(&name))))
            } else if !seen.insert(name.clone().into_owned()) {
                Err(("repeated", format!("give `{}` once", shown(&name))))
            } else {
                query.take(&name, value.into_owned())
            };
            if let Err((code, detail)) = outcome {
                violations.push(Violation::new(child("", &name), code, detail));
            }
        }
        if violations.is_empty() { Ok(query) } else { Err(violations) }
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), (&'static str, String)> {
        let selection = &mut self.selection;
        match name {
            "tenant_id" => selection.tenant = Some(value),
            "plan" => selection.plan = Some(value),
            "gpu_model" => selection.gpu_model = Some(value),
            "region" => selection.region = Some(value),
            "currency" if value.len() == 3 && value.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                selection.currency = Some(value);
            }
            "currency" => return Err(("pattern", format!("`{}` is no ISO 4217 code", shown(&value)))),
            "market" => {
                let known = "`guaranteed`, `on_demand` or `spot`";
                let market = Market::parse(&value);
                let market = market.ok_or_else(|| ("enum", format!("`{}` is not {known}", shown(&value))))?;
                selection.market = Some(market);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
                let limit = limit.filter(|limit| (1..=LARGEST_LIMIT).contains(limit));
                let detail = || ("range", format!("`limit` is a whole number from 1 to {LARGEST_LIMIT}"));
                self.limit = limit.ok_or_else(detail)?;
            }
            "after" => {
                let after = OfferingId::parse(&value);
                let detail = || ("pattern", "`after` is the `next` of the page before".to_owned());
                selection.after = Some(after.ok_or_else(detail)?);
            }
            _ => return Err(("unknown_field", format!("`{}` is not a known parameter", shown(name)))),
        }
        Ok(())
    }
}

/// A caller's own text, but not without end.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_is_told_with_the_name_of_its_parameter() {
        let raw = "colour=1&currency=yuan&market=grey&limit=0&limit=2&region=&after=x&gpu_model=A100";
        let violations = Query::parse(raw).unwrap_err();
        let told: Vec<_> = violations.iter().map(|found| (found.pointer.as_str(), found.code.as_str())).collect();
        let expected = [
            ("/colour", "unknown_field"),
            ("/currency", "pattern"),
            ("/market", "enum"),
            ("/limit", "range"),
            ("/limit", "repeated"),
            ("/region", "length"),
            ("/after", "pattern"),
        ];
        assert_eq!(told, expected);
        for limit in ["0", "501", "-1", "+1", "1.0", "1e2", "%31x", "18446744073709551616"] {
            assert!(Query::parse(&format!("limit={limit}")).is_err(), "{limit}");
        }
        assert!(Query::parse(&format!("region={}", "x".repeat(257))).is_err());
        // A query of 64 KiB has room for 30,000 of them.
        assert_eq!(Query::parse(&"a&".repeat(30_000)).unwrap_err().len(), 1_000);
    }

    #[test]
    fn a_query_is_read_as_forms_are_written() {
        assert_eq!(Query::parse("").unwrap().limit, 100);
        let query = Query::parse("gpu_model=A100%2B+x&limit=500&market=spot&currency=CNY").unwrap();
        assert_eq!(query.limit, 500);
        let selection = query.selection;
        assert_eq!(selection.gpu_model.as_deref(), Some("A100+ x"));
        assert_eq!((selection.market, selection.currency.as_deref()), (Some(Market::Spot), Some("CNY")));
        let after = Query::parse("after=a:B:c:spot").unwrap().selection.after.unwrap();
        assert_eq!(after.to_string(), "a:B:c:spot");
        for after in ["a:B:c:grey", "a:B:c", "a:B:c:spot:d", ":B:c:spot", ""] {
            assert!(Query::parse(&format!("after={after}")).is_err(), "{after}");
        }
    }
}
