//! S7: which kinds of sessions a plan sells, what comes with them, and snapshot storage as a line of its own.

use farebox_sdk::is_code;
use farebox_sdk::prelude::*;
use farebox_sdk::schemars::{Schema, SchemaGenerator, json_schema};

parameters! {
    /// The kinds of sessions that the plan sells: at least one. An item that asks for another is refused.
    pub struct SessionPlan {
        /// Research: interactive sessions (Jupyter).
        pub interactive: Option<Kind> = None,
        /// Production: batch sessions (SSH).
        pub batch: Option<Kind> = None,
    }

    pub struct Kind {
        /// What the price holds already, by code: `{ logs = "Logs" }`. Shown at 0.
        #[schemars(schema_with = "labels")]
        pub included: BTreeMap<String, String> = BTreeMap::new(),
        /// Of snapshot storage, for one GiB and second of the item's time. Left out: none is sold. A price of a GiB for 30
        /// days is 2,592,000 times as much.
        pub storage_per_gib_second: Option<Price> = None,
    }
}

policy! {
    name: "session-plan",
    scope: line,
    reads: ["added.code", "workload.session", "line.storage_gib", "line.seconds"],
    produces: ["*"],
    parameters: SessionPlan,
    evaluate: session_plan,
    validate: validate,
    narrow_reads: reads,
    narrow_produces: produces,
}

const STORAGE: &str = "storage";
/// Characters of a label, as in the contract.
const MAX_LABEL: usize = 200;
/// Things that a session holds. Each is a row, and a line has 64 at most, those of other steps included.
const MAX_INCLUDED: usize = 60;
/// Decimals of a GiB: beyond them a quantity may not be exact, and a millionth is a kibibyte.
const MAX_DECIMALS: u32 = 6;

/// A kind of session that is sold.
#[derive(Clone, Copy)]
struct Sold<'a> {
    session: &'static str,
    label: &'static str,
    kind: &'a Kind,
}

impl SessionPlan {
    fn sold(&self) -> Vec<Sold<'_>> {
        let interactive = self.interactive.as_ref().map(|kind| Sold {
            session: "interactive",
            label: "Research: interactive session (Jupyter)",
            kind,
        });
        let batch =
            self.batch.as_ref().map(|kind| Sold { session: "batch", label: "Production: batch session (SSH)", kind });
        Vec::from_iter(interactive.into_iter().chain(batch))
    }

    /// What a line is: the kind it asks for, or without asking the only one that is sold.
    fn kind_of(&self, line: Line<'_>) -> Result<Sold<'_>, Refusal> {
        let sold = self.sold();
        let found = match (line.fact("workload.session"), &sold[..]) {
            (Some(asked), kinds) => kinds.iter().find(|kind| kind.session == asked).copied().ok_or_else(|| {
                let known: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.session)).collect();
                let detail = format!("this plan sells {} sessions, not `{asked}` ones", known.join(" and "));
                Refusal::new("session_not_sold", detail)
            }),
            (None, [only]) => Ok(*only),
            (None, _) => Err(Refusal::new("session_not_stated", "say whether the session is `interactive` or `batch`")),
        };
        found.map_err(|refusal| refusal.at("/workload/session"))
    }
}

/// The schema of `included`.
fn labels(_: &mut SchemaGenerator) -> Schema {
    let label = json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX_LABEL });
    json_schema!({ "type": "object", "additionalProperties": label, "maxProperties": MAX_INCLUDED })
}

fn reads(parameters: &SessionPlan) -> Vec<String> {
    let sells_storage = parameters.sold().iter().any(|sold| sold.kind.storage_per_gib_second.is_some());
    let time = sells_storage.then_some("line.seconds");
    ["added.code", "workload.session", "line.storage_gib"].into_iter().chain(time).map(str::to_owned).collect()
}

fn produces(parameters: &SessionPlan) -> Vec<String> {
    let mut codes = Vec::new();
    for Sold { session, kind, .. } in parameters.sold() {
        codes.push(session.to_owned());
        codes.extend(kind.included.keys().cloned());
        codes.extend(kind.storage_per_gib_second.map(|_| STORAGE.to_owned()));
    }
    codes.sort();
    codes.dedup();
    codes
}

fn validate(parameters: &SessionPlan) -> Vec<Refusal> {
    let sold = parameters.sold();
    if sold.is_empty() {
        return vec![Refusal::new("nothing_sold", "name `interactive`, `batch` or both").at("")];
    }
    let mut refusals = Vec::new();
    for Sold { session, kind, .. } in sold {
        let included = format!("/{session}/included");
        if kind.included.len() > MAX_INCLUDED {
            let detail = format!("a session holds at most {MAX_INCLUDED} things, not {}", kind.included.len());
            refusals.push(Refusal::new("too_many_included", detail).at(&included));
            continue;
        }
        for code in kind.included.keys().filter(|code| !is_free_code(code)) {
            let detail = format!("`{code}` is not a lower-case word of at most 64 characters, or is taken");
            refusals.push(Refusal::new("not_a_code", detail).at(&included));
        }
        for (code, _) in kind.included.iter().filter(|(_, label)| !(1..=MAX_LABEL).contains(&label.chars().count())) {
            let detail = format!("the label of `{code}` has 1 to {MAX_LABEL} characters");
            refusals.push(Refusal::new("invalid_label", detail).at(&included));
        }
        if let Some(price) = kind.storage_per_gib_second.filter(|price| *price < Price::ZERO) {
            let detail = format!("`{price}` must not be negative");
            refusals.push(Refusal::new("negative", detail).at(format!("/{session}/storage_per_gib_second")));
        }
    }
    refusals
}

/// A code that none of this policy's own rows has.
fn is_free_code(code: &str) -> bool {
    is_code(code) && !["interactive", "batch", STORAGE].contains(&code)
}

fn session_plan(parameters: &SessionPlan, line: Line) -> Result<Outcome, Refusal> {
    // A line that another step added is no session.
    if line.fact("added.code").is_some() {
        return Ok(Outcome::default());
    }
    let Sold { session, label, kind } = parameters.kind_of(line)?;
    // Amounts of 0 and not rates of 0: a percentage would bar the reprices of commitments after it.
    let nothing =
        |code: &str, label: &str| Adjustment::new("standard", code, label, Method::Amount(Decimal::ZERO.into()));
    let mut adjustments = vec![nothing(session, label).because(format!("session {session}"))];
    for (code, label) in &kind.included {
        adjustments.push(nothing(code, label).because(format!("included in {session} sessions")));
    }
    let added = Vec::from_iter(storage(kind, line)?);
    Ok(Outcome { adjustments, added, facts: Vec::new() })
}

/// The storage that the item asks for, over its own time: `gib_second` is exact at every granule.
fn storage(kind: &Kind, line: Line) -> Result<Option<AddedLine>, Refusal> {
    let asked = line.number("line.storage_gib")?.filter(|gib| !gib.is_zero());
    let Some(gib) = asked.map(|gib| gib.normalize()) else { return Ok(None) };
    let refuse = |code: &str, detail: &str| Refusal::new(code, detail).at("/storage_gib");
    let Some(price) = kind.storage_per_gib_second else {
        return Err(refuse("storage_not_sold", "this plan sells no snapshot storage; leave `storage_gib` out"));
    };
    let Some(seconds) = line.number("line.seconds")? else {
        return Err(refuse("storage_without_time", "storage is priced by time, which a task does not have"));
    };
    // A product of too many digits is rounded without a word, at the cost of its scale.
    let is_whole = |product: &Decimal| product.is_zero() || product.scale() == gib.scale() + seconds.scale();
    let exact = |product: &Decimal| gib.scale() <= MAX_DECIMALS && is_whole(product);
    let Some(quantity) = gib.checked_mul(seconds).filter(exact) else {
        return Err(refuse("storage_too_fine", "ask for less storage, or with at most 6 decimals"));
    };
    Ok(Some(AddedLine {
        parent: Some(line.key),
        code: STORAGE.to_owned(),
        label: format!("Snapshot storage, {gib} GiB"),
        unit: "gib_second".to_owned(),
        quantity: quantity.normalize().into(),
        unit_price: price.value().into(),
        facts: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn time_is_read_only_where_storage_is_sold() {
        let configure = |json: &str| POLICY.configure(json).unwrap();
        let without = configure(r#"{"batch":{"included":{"sla":"SLA"}}}"#);
        assert_eq!(without.reads, ["added.code", "workload.session", "line.storage_gib"]);
        assert_eq!(without.produces, ["batch", "sla"]);
        let with = configure(r#"{"interactive":{"storage_per_gib_second":"0.1"},"batch":{}}"#);
        assert_eq!(with.reads, ["added.code", "workload.session", "line.storage_gib", "line.seconds"]);
        assert_eq!(with.produces, ["batch", "interactive", "storage"]);
    }
}
