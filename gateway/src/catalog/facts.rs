//! What policies may know of an item: facts by key, in a fixed order. What is not known is absent.

use farebox_pricing::exact;
use farebox_pricing::offer::OfferedQuantity;
use farebox_pricing::policy::Fact;
use farebox_pricing::price_book::PriceRow;
use farebox_pricing::request::{RequestedItem, Task, Work};
use rust_decimal::Decimal;

/// The facts of an item that `row` prices. Where the item does not ask for memory or bandwidth, the row's are meant.
pub(super) fn of_item(item: &RequestedItem, quantity: OfferedQuantity, row: &PriceRow) -> Vec<Fact> {
    let mut facts = Facts(Vec::with_capacity(20));
    let billing = match item.work {
        Work::Seconds(_) => "hourly",
        Work::Task(_) => "task",
    };
    facts.push("line.gpu_model", &item.gpu_model);
    facts.push("line.region", &item.region);
    facts.push("line.market", item.market.as_str());
    facts.push("line.billing", billing);
    facts.push("line.priority", &item.priority);
    facts.push("line.gpu_count", item.gpu_count.to_string());
    facts.count("line.seconds", wall_seconds(item, quantity));
    facts.decimal("line.memory_gib", item.memory_gib.or(row.memory_gib));
    facts.decimal("line.network_gbps", item.network_gbps.or(row.network_gbps));
    facts.decimal("line.storage_gib", item.storage_gib);
    facts.decimal("book.memory_gib", row.memory_gib);
    facts.decimal("book.network_gbps", row.network_gbps);
    let workload = &item.workload;
    facts.optional("workload.framework", workload.framework.as_deref());
    facts.optional("workload.execution", workload.execution.as_deref());
    for feature in &workload.features {
        facts.push("workload.feature", feature);
    }
    facts.optional("workload.image", workload.image.as_deref());
    facts.optional("workload.session", workload.session.as_deref());
    facts.optional("workload.isolation", workload.isolation.as_deref());
    facts.optional("workload.precision", workload.precision.as_deref());
    if let Work::Task(task) = &item.work {
        facts.task(task);
    }
    facts.0
}

/// Wall time at the plan's granule; a task has none. GPU time is a whole multiple of it.
fn wall_seconds(item: &RequestedItem, quantity: OfferedQuantity) -> Option<u64> {
    match quantity {
        OfferedQuantity::GpuSeconds(gpu_seconds) => gpu_seconds.checked_div(u64::from(item.gpu_count)),
        OfferedQuantity::Task => None,
    }
}

struct Facts(Vec<Fact>);

impl Facts {
    fn push(&mut self, key: &str, value: impl Into<String>) {
        self.0.push(Fact::new(key, value));
    }

    fn optional(&mut self, key: &str, value: Option<impl Into<String>>) {
        self.0.extend(value.map(|value| Fact::new(key, value)));
    }

    fn decimal(&mut self, key: &str, value: Option<Decimal>) {
        self.optional(key, value.map(exact::print));
    }

    fn count(&mut self, key: &str, value: Option<u64>) {
        self.optional(key, value.map(|count| count.to_string()));
    }

    fn task(&mut self, task: &Task) {
        self.optional("task.template", task.template.as_deref());
        self.count("task.parameters", task.parameters);
        self.count("task.samples", task.samples);
        self.count("task.sample_bytes", task.sample_bytes);
        self.decimal("task.iterations", task.iterations);
        self.optional("task.precision", task.precision.as_deref());
        self.count("task.gradient_accumulation", task.gradient_accumulation);
    }
}
