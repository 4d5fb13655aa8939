//! What the contract calls the facts of an item, and what they are (docs/contract.md).

/// A fact that comes from a request or the price book.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) key: &'static str,
    pub(crate) is_number: bool,
    /// The field of the item; empty where there is none.
    pub(crate) pointer: &'static str,
}

const fn text(key: &'static str, pointer: &'static str) -> Known {
    Known { key, is_number: false, pointer }
}

const fn number(key: &'static str, pointer: &'static str) -> Known {
    Known { key, is_number: true, pointer }
}

const KNOWN: [Known; 27] = [
    text("line.gpu_model", "/gpu_model"),
    text("line.region", "/region"),
    text("line.market", "/market"),
    text("line.billing", "/billing"),
    text("line.priority", "/priority"),
    number("line.gpu_count", "/gpu_count"),
    // Wall time at the plan's granule: a request may give hours.
    number("line.seconds", ""),
    number("line.memory_gib", "/memory_gib"),
    number("line.network_gbps", "/network_gbps"),
    number("line.storage_gib", "/storage_gib"),
    number("book.memory_gib", ""),
    number("book.network_gbps", ""),
    text("workload.framework", "/workload/framework"),
    text("workload.execution", "/workload/execution"),
    text(FEATURE, "/workload/features"),
    text("workload.image", "/workload/image"),
    text("workload.session", "/workload/session"),
    text("workload.isolation", "/workload/isolation"),
    text("workload.precision", "/workload/precision"),
    text("task.template", "/task/template"),
    number("task.parameters", "/task/parameters"),
    number("task.samples", "/task/samples"),
    number("task.sample_bytes", "/task/sample_bytes"),
    number("task.iterations", "/task/iterations"),
    text("task.precision", "/task/precision"),
    number("task.gradient_accumulation", "/task/gradient_accumulation"),
    text("added.code", ""),
];

/// The one key that an item can have several values of.
const FEATURE: &str = "workload.feature";
/// Families whose keys are made by tenants and by other policies.
const OPEN: [&str; 2] = ["tenant.", "step."];

pub(crate) fn known(key: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.key == key)
}

/// True of keys that nobody can list: a tenant's attributes, and what steps say.
pub(crate) fn is_open(key: &str) -> bool {
    OPEN.iter().any(|family| key.starts_with(family))
}

/// Where in the item the value number `index` of a fact stands; `None` where a request has no such field.
pub(crate) fn pointer(key: &str, index: usize) -> Option<String> {
    let field = known(key)?.pointer;
    match (field, key) {
        ("", _) => None,
        (_, FEATURE) => Some(format!("{field}/{index}")),
        _ => Some(field.to_owned()),
    }
}

/// All keys of the families, for a sentence.
pub(crate) fn of_family(key: &str) -> Vec<&'static str> {
    let family = key.split('.').next().unwrap_or_default();
    let is_of = |known: &&Known| known.key.split('.').next() == Some(family);
    KNOWN.iter().filter(is_of).map(|known| known.key).collect()
}
