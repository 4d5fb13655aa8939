//! Which plans a tenant may ask for by name, over the fixtures' plans and tenants of the test's own.

use std::fs;
use std::sync::OnceLock;

use farebox_pricing::currency::Currency;
use farebox_pricing::price_book::Market;
use farebox_pricing::request::{QuoteRequest, RequestedItem, Work, Workload};
use farebox_sandbox::{Limits, Sandbox};

use super::{policies, root};
use crate::catalog::{Catalog, OfferError, Selection};
use crate::schema::Violation;

/// `own` has its plan and no other, `wide` one more, `any` all that there are. Loaded once.
fn catalog() -> &'static Catalog {
    static LOADED: OnceLock<Catalog> = OnceLock::new();
    LOADED.get_or_init(load)
}

fn load() -> Catalog {
    let directory = std::env::temp_dir().join(format!("farebox-plan-choice-{}", std::process::id()));
    for folder in ["price-books", "plans"] {
        fs::create_dir_all(directory.join(folder)).unwrap();
        for entry in fs::read_dir(root().join("fixtures").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, directory.join(folder).join(path.file_name().unwrap())).unwrap();
        }
    }
    fs::write(directory.join("plans/half.toml"), "name = \"half\"\ncurrency = \"CNY\"\n").unwrap();
    fs::create_dir_all(directory.join("tenants")).unwrap();
    for (id, offered) in [("own", ""), ("wide", "offered = [\"gpu-volume\"]"), ("any", "offered = [\"*\"]")] {
        let text = format!("id = \"{id}\"\nname = \"{id}\"\nplans = {{ CNY = \"gpu-standard\" }}\n{offered}\n");
        fs::write(directory.join(format!("tenants/{id}.toml")), text).unwrap();
    }
    let catalog = Catalog::load(&directory, policies(), &Sandbox::new(Limits::standard()).unwrap());
    fs::remove_dir_all(&directory).unwrap();
    let wrong: Vec<_> = catalog.problems.iter().filter(|problem| problem.path != "plans/half.toml").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    catalog
}

/// The name of the plan that prices one A100-hour for the tenant, or pointer, code and sentence of why none does.
fn asked(catalog: &Catalog, tenant: &str, (currency, plan): (&str, Option<&str>)) -> Result<String, [String; 3]> {
    let item = RequestedItem {
        reference: "a".to_owned(),
        gpu_model: "A100".to_owned(),
        region: "cn-east-1".to_owned(),
        market: Market::OnDemand,
        priority: "normal".to_owned(),
        gpu_count: 1,
        work: Work::Seconds(3600),
        memory_gib: None,
        network_gbps: None,
        storage_gib: None,
        workload: Workload::default(),
    };
    let request = QuoteRequest {
        tenant_id: tenant.to_owned(),
        currency: Currency::parse(currency).unwrap(),
        plan: plan.map(str::to_owned),
        client_reference: None,
        items: vec![item],
    };
    match catalog.resolve(&request, "2026-12-01T00:00:00Z".parse().unwrap()) {
        Ok(resolved) => Ok(resolved.version.plan.name.clone()),
        Err(OfferError::Invalid(violations)) => {
            let [Violation { pointer, code, detail }] = violations.try_into().unwrap();
            Err([pointer, code, detail])
        }
        Err(other) => Err(["", "", ""].map(|_| other.to_string())),
    }
}

#[test]
fn a_tenant_asks_for_its_own_plans_and_for_those_it_is_offered() {
    let catalog = catalog();
    for tenant in ["own", "wide", "any"] {
        assert_eq!(asked(catalog, tenant, ("CNY", None)).unwrap(), "gpu-standard");
        assert_eq!(asked(catalog, tenant, ("CNY", Some("gpu-standard"))).unwrap(), "gpu-standard");
    }
    for tenant in ["wide", "any"] {
        assert_eq!(asked(catalog, tenant, ("CNY", Some("gpu-volume"))).unwrap(), "gpu-volume");
    }
    assert_eq!(asked(catalog, "any", ("CNY", Some("research"))).unwrap(), "research");
    let mismatch = asked(catalog, "any", ("JPY", Some("research"))).unwrap_err();
    assert_eq!(mismatch, ["/currency", "currency_mismatch", "plan `research` is in `CNY`; ask for that currency"]);
}

/// A plan of somebody else, one in another currency, a broken one and none at all: the same words, but for the name.
#[test]
fn what_a_tenant_is_not_offered_is_not_there() {
    let catalog = catalog();
    for (tenant, offered) in [("own", "there is `gpu-standard`"), ("wide", "there are `gpu-standard`, `gpu-volume`")] {
        for plan in ["research", "gpu-standard-usd", "half", "nonesuch", "*", ""] {
            let said = asked(catalog, tenant, ("CNY", Some(plan))).unwrap_err();
            let sentence = format!("there is no plan `{plan}` for tenant `{tenant}`; in `CNY` {offered}");
            assert_eq!(said, ["/plan".to_owned(), "unknown_plan".to_owned(), sentence]);
        }
        let said = asked(catalog, tenant, ("USD", Some("gpu-standard-usd"))).unwrap_err();
        let sentence = format!("there is no plan `gpu-standard-usd` for tenant `{tenant}`; in `USD` there are none");
        assert_eq!(said, ["/plan".to_owned(), "unknown_plan".to_owned(), sentence]);
    }
    let broken = asked(catalog, "any", ("CNY", Some("half"))).unwrap_err();
    assert_eq!(broken[2], "plan `half` cannot be priced under at the moment");
}

/// The catalogue shows what a quote would be given, and says of the rest what a quote would be told.
#[test]
fn a_listing_for_a_tenant_is_denied_what_a_quote_is() {
    let catalog = catalog();
    let listed = |tenant: Option<&str>, plan: Option<&str>, currency: Option<&str>| {
        let own = |text: &str| text.to_owned();
        let selection = Selection {
            tenant: tenant.map(own),
            plan: plan.map(own),
            currency: currency.map(own),
            ..Selection::default()
        };
        let listing = catalog.listing(&selection)?;
        Ok::<_, OfferError>(listing.plans.iter().map(|version| version.plan.name.clone()).collect::<Vec<_>>())
    };
    let unknown = |detail: &str| Err(OfferError::Invalid(vec![Violation::new("/plan", "unknown_plan", detail)]));
    assert_eq!(listed(Some("own"), None, None).unwrap(), ["gpu-standard"]);
    for (tenant, plan) in [("own", "gpu-standard"), ("wide", "gpu-volume"), ("any", "research")] {
        assert_eq!(listed(Some(tenant), Some(plan), None).unwrap(), [plan]);
    }
    for plan in ["research", "gpu-volume", "gpu-standard-usd", "half", "nonesuch"] {
        let detail = format!("there is no plan `{plan}` for tenant `own`; in `CNY` there is `gpu-standard`");
        assert_eq!(listed(Some("own"), Some(plan), Some("CNY")), unknown(&detail));
        let quote = asked(catalog, "own", ("CNY", Some(plan))).unwrap_err();
        assert_eq!(quote[2], detail);
    }
    let wide = "there is no plan `research` for tenant `wide`; there are `gpu-standard`, `gpu-volume`";
    assert_eq!(listed(Some("wide"), Some("research"), None), unknown(wide));
    let none = "there is no plan `nonesuch`; in `XXX` there are none";
    assert_eq!(listed(None, Some("nonesuch"), Some("XXX")), unknown(none));
    // Whoever names no tenant is shown them all.
    assert_eq!(listed(None, Some("research"), None).unwrap(), ["research"]);
    assert_eq!(listed(None, None, None).unwrap().len(), catalog.plans.len());
    let broken = Err(OfferError::Unavailable("plan `half` cannot be priced under at the moment".to_owned()));
    assert_eq!([listed(None, Some("half"), None), listed(Some("any"), Some("half"), None)], [broken.clone(), broken]);
    // Of two things the mistake is told first.
    let OfferError::Invalid(wrong) = listed(Some("nobody"), Some("half"), None).unwrap_err() else { panic!() };
    assert_eq!(wrong, [Violation::new("/tenant_id", "unknown_tenant", "there is no tenant `nobody`")]);
}
