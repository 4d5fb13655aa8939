//! Hostile policies under a real server: it starts with what is good, says what it left out, and an honest quote between
//! two hostile ones is the same to the last byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farebox::catalog::Catalog;
use farebox::clock::Clock;
use farebox_pricing::policy::{Fault, Halt, RunPolicy};
use farebox_sandbox::{Limits, Sandbox, Session};
use serde_json::{Value, json};

use super::modules::{self, Expected, Hostile};
use super::rig::nothing;
use crate::harness::{Answer, Folder, TestGateway, fixture, lasting, policies, root};

/// One of each way to end in `evaluate`.
const FAULTING: [&str; 7] = [
    "endless-evaluate",
    "recursion",
    "memory-grow",
    "trap-divide-by-zero",
    "lists-aliasing",
    "text-not-utf8",
    "canary-fills",
];
/// None of them is ever a policy.
const REFUSED: [&str; 6] =
    ["file-elf", "file-cut-off", "bomb-empty-loops", "import-clock", "endless-describe", "exports-newer"];

/// A data directory with good and bad policies.
struct Data {
    directory: Folder,
}

impl Data {
    /// Every policy of the fixtures, those named, and for each a plan that runs it behind the steps of `gpu-standard`.
    fn with(name: &str, hostile: &[&Hostile]) -> Self {
        let data = Self { directory: Folder::new(&format!("hostile-{name}")) };
        for folder in ["price-books", "plans", "tenants"] {
            copy(&root().join("fixtures").join(folder), &data.directory.join(folder));
        }
        copy(policies(), &data.policies());
        for hostile in hostile {
            std::fs::write(data.policies().join(format!("{}.wasm", hostile.name)), &hostile.bytes).unwrap();
            for on_fault in ["refuse", "skip"] {
                data.add_plan(&hostile.name, on_fault);
            }
        }
        data
    }

    fn policies(&self) -> PathBuf {
        self.directory.join("policies")
    }

    fn add_plan(&self, policy: &str, on_fault: &str) {
        let name = plan(policy, on_fault);
        let standard = std::fs::read_to_string(root().join("fixtures/plans/gpu-standard.toml")).unwrap();
        let (old, new) = ("name = \"gpu-standard\"", format!("name = \"{name}\""));
        assert!(standard.contains(old));
        let step = format!("\n[[steps]]\nid = \"hostile\"\npolicy = \"{policy}@1.0.0\"\non_fault = \"{on_fault}\"\n");
        let text = standard.replace(old, &new) + &step;
        std::fs::write(self.directory.join(format!("plans/{name}.toml")), text).unwrap();
    }

    fn catalog(&self, limits: Limits) -> Catalog {
        Catalog::load(&self.directory, &self.policies(), &Sandbox::new(limits).unwrap())
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn plan(policy: &str, on_fault: &str) -> String {
    format!("with-{policy}-{on_fault}")
}

/// W1 under a plan; `None`: under its tenant's own.
fn request(plan: Option<&str>) -> Value {
    let mut request = fixture("requests/w1.json");
    if let Some(plan) = plan {
        request["plan"] = plan.into();
    }
    request
}

/// A quote without what differs from one quote to the next.
fn quoted(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.body);
    lasting(answer.json()).to_string()
}

#[test]
fn a_server_over_hostile_policies_starts_says_what_it_left_out_and_quotes_as_ever() {
    let all = modules::all();
    let named = |names: &[&str]| -> Vec<&Hostile> {
        names.iter().map(|name| all.iter().find(|hostile| hostile.name == *name).unwrap()).collect()
    };
    let data = Data::with("server", &[named(&FAULTING), named(&REFUSED)].concat());
    let gateway = TestGateway::over(data.catalog(Limits::standard()), Clock::system(), |_| {});

    let ready = gateway.get("/readyz");
    assert_eq!(ready.status, 200);
    let problems = ready.json()["problems"].to_string();
    for name in REFUSED {
        assert!(problems.contains(&format!("policies/{name}.wasm: ")), "no {name} in {problems}");
        let unavailable = gateway.post("/v1/quotes", &request(Some(&plan(name, "refuse"))));
        assert_eq!((unavailable.status, unavailable.problem().as_str()), (503, "unavailable"), "{name}");
    }
    for name in FAULTING {
        let left_out = [format!("policies/{name}.wasm: "), format!("plans/with-{name}")];
        assert!(!left_out.iter().any(|it| problems.contains(it)), "{name} in {problems}");
    }

    let honest = quoted(&gateway.post("/v1/quotes", &request(None)));
    assert!(honest.contains("10333.44"));
    for name in FAULTING {
        let refused = gateway.post("/v1/quotes", &request(Some(&plan(name, "refuse"))));
        assert_eq!((refused.status, refused.problem().as_str()), (503, "policy-fault"), "{name}: {}", refused.body);
        assert_eq!(quoted(&gateway.post("/v1/quotes", &request(None))), honest, "after {name}");

        let skipped = gateway.post("/v1/quotes", &request(Some(&plan(name, "skip"))));
        assert_eq!((skipped.status, skipped.total().as_str()), (201, "10333.44"), "{name}: {}", skipped.body);
        let messages = skipped.json()["messages"].to_string();
        assert!(messages.contains("step_skipped") && messages.contains("`hostile`"), "{name}: {messages}");
        assert_eq!(quoted(&gateway.post("/v1/quotes", &request(None))), honest, "after {name} was skipped");
    }
    assert_eq!(gateway.get("/healthz").json(), json!({"status":"ok"}));
}

/// A full pool is nobody's fault: 503 and a hint when to come back, whatever the plan says of faults.
#[test]
fn a_full_pool_is_overload_and_no_policys_fault() {
    let well_behaved = Hostile {
        case: 17,
        name: "well-behaved".to_owned(),
        does: "means no harm".to_owned(),
        expected: Expected::Priced("10436.77".to_owned()),
        bytes: modules::well_behaved("well-behaved"),
    };
    let data = Data::with("pool", &[&well_behaved]);
    let catalog = data.catalog(Limits { sessions: 1, ..Limits::standard() });
    assert_eq!(catalog.problems, []);
    let steps = Arc::clone(&catalog.plans["gpu-standard"].policies);
    let gateway = TestGateway::over(catalog, Clock::system(), |_| {});

    // Takes every slot, one evaluation each, until there is none for another session.
    let mut holder = Session::new(&steps);
    let is_full = || {
        let refused = Session::new(&steps).evaluate(0, &nothing());
        matches!(refused, Err(Halt::Faulted(Fault::PoolExhausted)))
    };
    while !is_full() {
        holder.evaluate(0, &nothing()).unwrap();
    }
    for plan in [None, Some(plan("well-behaved", "skip")), Some(plan("well-behaved", "refuse"))] {
        let overloaded = gateway.post("/v1/quotes", &request(plan.as_deref()));
        assert_eq!((overloaded.status, overloaded.problem().as_str()), (503, "overloaded"), "{}", overloaded.body);
        assert!(overloaded.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    }
    drop(holder);
    assert_eq!(gateway.post("/v1/quotes", &request(None)).total(), "10333.44");
    let with_it = gateway.post("/v1/quotes", &request(Some(&plan("well-behaved", "skip"))));
    assert_eq!(with_it.total(), "10436.77");
}

/// Quotes are answered, and are the same, while another thread has bombs and other files refused.
#[test]
fn quotes_are_as_ever_while_bombs_are_refused() {
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    let catalog = Catalog::load(&root().join("fixtures"), policies(), &sandbox);
    let gateway = TestGateway::over(catalog, Clock::system(), |_| {});
    let honest = quoted(&gateway.post("/v1/quotes", &request(None)));
    let bombs: Vec<Hostile> = modules::all().into_iter().filter(|hostile| hostile.case == 6).collect();
    assert!(bombs.len() >= 20);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for bomb in &bombs {
                sandbox.load(&bomb.bytes).unwrap_err();
            }
            is_done.store(true, Ordering::Release);
        });
        loop {
            let was_done = is_done.load(Ordering::Acquire);
            assert_eq!(quoted(&gateway.post("/v1/quotes", &request(None))), honest);
            if was_done {
                break;
            }
        }
    });
}
