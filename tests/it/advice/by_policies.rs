//! What-ifs that policies ask: priced like the engine's own, and of no harm to the quote whatever comes of them.

use farebox::catalog::Catalog;
use farebox::clock::Clock;
use farebox_sandbox::{Limits, Sandbox};
use serde_json::{Value, json};

use super::{difference, messages, pico, quoted};
use crate::harness::{Folder, TestGateway, fixture, policies, root, text};
use crate::hostile::of_fragment;

/// A note: its level, its code, and what it asks.
type Note<'a> = (&'a str, &'a str, (&'a str, &'a str));

/// Where the texts of notes lie in the guest, and the notes themselves.
const TEXTS: usize = 4_096;
const NOTES: usize = 8_192;
/// 32-bit words of an adjustment.
const WORDS: usize = 23;

/// Lays texts behind one another.
#[derive(Default)]
struct Texts {
    laid: String,
}

impl Texts {
    /// Place and length.
    fn lay(&mut self, text: &str) -> [usize; 2] {
        let place = TEXTS + self.laid.len();
        self.laid.push_str(text);
        [place, text.len()]
    }
}

/// A guest that makes these notes of each line, after `before`.
fn guest(notes: &[Note<'_>], before: &str) -> String {
    let mut texts = Texts::default();
    let any_code = texts.lay("*");
    let kind = texts.lay("note");
    let mut words: Vec<usize> = Vec::new();
    let mut facts: Vec<usize> = Vec::new();
    let facts_at = NOTES + 4 * WORDS * notes.len();
    for (index, (level, code, (key, value))) in notes.iter().enumerate() {
        facts.extend([texts.lay(key), texts.lay(value)].as_flattened());
        let (level, code) = (texts.lay(level), texts.lay(code));
        // Line 0, kind, code, label, reason; the method: a note of a level that asks one fact; padding; no facts.
        words.extend([1, 0].iter().chain([kind, code, code, code].as_flattened()));
        words.push(5);
        words.extend(level.iter().chain(&[facts_at + 16 * index, 1]));
        words.resize(WORDS * (index + 1), 0);
    }
    words.extend(facts);
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    format!(
        "(func $evaluate (param i32) (result i32)\n{before}\ni32.const 1408)\n(data (i32.const {TEXTS}) \"{}\")\n(data (i32.const \
         {NOTES}) (i32 {}))\n(data (i32.const 1208) (i32 {} {}))\n(data (i32.const 1408) (i32 0 {NOTES} {} 0 0 0 0))",
        texts.laid,
        words.join(" "),
        any_code[0],
        any_code[1],
        notes.len()
    )
}

/// The fixtures, and a plan `asking` that is `gpu-standard` with this guest behind its steps.
fn gateway(name: &str, guest: &str, on_fault: &str) -> TestGateway {
    let data = Folder::with(name, &["policies"]);
    for folder in ["price-books", "plans", "tenants"] {
        copy(&root().join("fixtures").join(folder), &data.join(folder));
    }
    copy(policies(), &data.join("policies"));
    std::fs::write(data.join("policies/asking.wasm"), of_fragment("asking", guest)).unwrap();
    let standard = std::fs::read_to_string(root().join("fixtures/plans/gpu-standard.toml")).unwrap();
    let step = format!("\n[[steps]]\nid = \"asking\"\npolicy = \"asking@1.0.0\"\non_fault = \"{on_fault}\"\n");
    let plan = standard.replace("name = \"gpu-standard\"", "name = \"asking\"") + &step;
    std::fs::write(data.join("plans/asking.toml"), plan).unwrap();
    let catalog = Catalog::load(&data, &data.join("policies"), &Sandbox::new(Limits::standard()).unwrap());
    assert_eq!(catalog.problems, []);
    TestGateway::over(catalog, Clock::system(), |_| {})
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn w1() -> Value {
    let mut request = fixture("requests/w1.json");
    request["plan"] = "asking".into();
    request
}

fn said(quote: &Value) -> Vec<Value> {
    messages(quote).iter().map(|message| json!([message["level"], message["code"], message.get("saves")])).collect()
}

fn counted(gateway: &TestGateway) -> Vec<String> {
    let body = gateway.get("/metrics").body;
    let lines =
        body.lines().filter(|line| line.starts_with("farebox_what_ifs") || line.starts_with("farebox_policy_faults"));
    lines.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
}

#[test]
fn notes_that_ask_are_answered_in_their_order_and_within_three() {
    let notes: [Note<'_>; 3] = [
        ("info", "tensorflow", ("/workload/framework", "tensorflow")),
        ("advice", "as_it_is", ("/workload/framework", "pytorch")),
        ("warning", "nonsense", ("/workload/colour", "red")),
    ];
    let gateway = gateway("asking", &guest(&notes, ""), "refuse");
    let quote = quoted(&gateway, &w1());
    let mut tensorflow = w1();
    tensorflow["items"][0]["workload"]["framework"] = "tensorflow".into();
    let saves = difference(&quote, &quoted(&gateway, &tensorflow));
    // The engine's own advice is a fourth what-if, and so is not given.
    let usage = json!(["info", "no_snapshot", null]);
    let shown = &messages(&quote)[1]["saves"];
    assert_eq!(said(&quote), [usage, json!(["info", "tensorflow", shown]), json!(["warning", "nonsense", null])]);
    assert_eq!(pico(shown.as_str().unwrap()), saves);
    assert_eq!(messages(&quote)[1]["line"], "l1");
}

/// The guest traps wherever the framework is not a word of seven letters.
#[test]
fn a_what_if_that_faults_is_counted_and_the_quote_stands() {
    let trap = "(if (i32.ne (i32.load offset=12 (i32.load offset=4 (i32.load offset=56 (local.get 0)))) (i32.const 7)) \
                (then unreachable))";
    let asked = ("/workload/framework", "jax");
    let notes: [Note<'_>; 2] = [("info", "faults", asked), ("info", "faults_as_well", asked)];
    for on_fault in ["refuse", "skip"] {
        let gateway = gateway(&format!("faulting-{on_fault}"), &guest(&notes, trap), on_fault);
        let quote = quoted(&gateway, &w1());
        assert_eq!(text(&quote, "/totals/total"), "10333.44");
        let expected = [
            json!(["info", "no_snapshot", null]),
            json!(["info", "faults", null]),
            json!(["info", "faults_as_well", null]),
        ];
        assert_eq!(said(&quote), expected, "{on_fault}");
        assert_eq!(counted(&gateway), ["farebox_what_ifs_faulted_total 1"], "no second try, and no fault of a quote");
        // Who asks for it is refused, or priced without it.
        let mut jax = w1();
        jax["items"][0]["workload"]["framework"] = "jax".into();
        assert_eq!(gateway.post("/v1/quotes", &jax).status, if on_fault == "refuse" { 503 } else { 201 });
    }
}
