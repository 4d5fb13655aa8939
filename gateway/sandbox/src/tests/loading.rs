//! What is refused before it ever runs.

use farebox_pricing::policy::Fault;

use super::guest::Guest;
use super::{configured, evaluate, sandbox};
use crate::{LoadError, Sandbox, componentize};

fn refusal(sandbox: &Sandbox, bytes: &[u8]) -> LoadError {
    sandbox.load(bytes).unwrap_err()
}

fn text(component: &str) -> Vec<u8> {
    wat::parse_str(component).unwrap()
}

#[test]
fn what_is_not_webassembly_is_named() {
    let sandbox = sandbox();
    let native = sandbox.host.engine.precompile_component(&Guest::good().component()).unwrap();
    assert!(matches!(refusal(&sandbox, &native), LoadError::NativeCode));
    assert!(matches!(refusal(&sandbox, b"\x7fELF\x02\x01\x01"), LoadError::NativeCode));
    assert!(matches!(refusal(&sandbox, b"  (component)"), LoadError::Text));
    assert!(matches!(refusal(&sandbox, b";; a comment\n(module)"), LoadError::Text));
    assert!(matches!(refusal(&sandbox, b""), LoadError::Empty));
    assert!(matches!(refusal(&sandbox, b"\0as"), LoadError::Malformed(_)));
    assert!(matches!(refusal(&sandbox, b"\0asm\x09\0\0\0"), LoadError::Malformed(_)));
    assert!(matches!(refusal(&sandbox, b"PK\x03\x04"), LoadError::NotWasm));
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let sandbox = sandbox();
    let (module, component) = (Guest::good().module(), Guest::good().component());
    for whole in [&module, &component] {
        for length in (0..whole.len()).step_by(97) {
            refusal(&sandbox, &whole[..length]);
        }
    }
}

/// Among these files is one on which what wraps modules panics (wit-component 0.254).
#[test]
fn a_file_with_a_flipped_bit_is_loaded_or_refused() {
    let sandbox = sandbox();
    let good = evaluate(&configured(&sandbox, &Guest::good())).unwrap();
    let (mut loaded, mut refused) = (0, 0);
    for whole in [Guest::good().module(), Guest::good().component()] {
        for at in (8..whole.len()).step_by(15) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            match sandbox.load(&bytes) {
                Ok(_) => loaded += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(loaded > 10 && refused > 100, "{loaded} {refused}");
    assert_eq!(evaluate(&configured(&sandbox, &Guest::good())).unwrap().outcome, good.outcome);
}

#[test]
fn imports_that_can_be_called_are_refused() {
    let sandbox = sandbox();
    let wasi_module = Guest {
        head: r#"(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))"#.into(),
        ..Guest::good()
    };
    assert!(matches!(refusal(&sandbox, &wasi_module.module()), LoadError::NotWrappable(_)));
    for name in ["wasi:clocks/monotonic-clock@0.2.0", "wasi:sockets/tcp@0.2.0", "farebox:policy/host@1.0.0"] {
        let component =
            text(&format!(r#"(component (import "{name}" (instance (export "now" (func (result u64))))))"#));
        let LoadError::Import { name: refused } = refusal(&sandbox, &component) else { panic!("{name}") };
        assert_eq!(refused, name);
    }
    let bare = text(r#"(component (import "now" (func (result u64))))"#);
    assert!(matches!(refusal(&sandbox, &bare), LoadError::Import { .. }));
    let types_of_others =
        text(r#"(component (import "wasi:io/poll@0.2.0" (instance (export "pollable" (type (sub resource))))))"#);
    assert!(matches!(refusal(&sandbox, &types_of_others), LoadError::Import { .. }));
}

#[test]
fn an_import_of_our_own_types_is_no_door() {
    let sandbox = sandbox();
    let record = "record fact { key: string, value: string }";
    let mut guest = Guest::good();
    guest.wit = guest
        .wit
        .replace(record, "use shared.{fact};")
        .replace("interface pricing {", &format!("interface shared {{ {record} }}\ninterface pricing {{"));
    let component = guest.component();
    assert!(
        wasmparser::Parser::new(0)
            .parse_all(&component)
            .any(|payload| { matches!(payload, Ok(wasmparser::Payload::ComponentImportSection(_))) })
    );
    evaluate(&sandbox.load(&component).unwrap().configure("{}").unwrap()).unwrap();
}

#[test]
fn other_contract_versions_are_refused_in_both_directions() {
    let sandbox = sandbox();
    for version in ["1.2.0", "1.0.1", "0.9.0", "2.0.0"] {
        let component = Guest { version, ..Guest::good() }.component();
        let LoadError::OtherVersion { found, .. } = refusal(&sandbox, &component) else { panic!("{version}") };
        assert_eq!(found, format!("farebox:policy/pricing@{version}"));
    }
    assert!(matches!(refusal(&sandbox, &text("(component)")), LoadError::NoContract { .. }));
    let hollow = text(r#"(component (instance $i) (export "farebox:policy/pricing@1.0.0" (instance $i)))"#);
    assert!(matches!(refusal(&sandbox, &hollow), LoadError::NoContract { .. }));
}

#[test]
fn functions_of_other_types_are_refused() {
    let sandbox = sandbox();
    let guest = Guest::good();
    let wit = guest.wit.replace(
        "record segment { state: string, quantity: decimal }",
        "record segment { state: string, amount: decimal }",
    );
    assert_ne!(wit, guest.wit);
    let component = Guest { wit, ..guest }.component();
    assert!(matches!(refusal(&sandbox, &component), LoadError::OtherTypes { .. }));
}

#[test]
fn memories_and_tables_over_the_limit_are_refused() {
    let sandbox = sandbox();
    let over = |guest: Guest| match refusal(&sandbox, &guest.component()) {
        LoadError::OverLimit { what, .. } => what,
        other => panic!("{other:?}"),
    };
    let memory = |memory: &str| Guest { memory: memory.into(), ..Guest::good() };
    let head = |head: &str| Guest { head: head.into(), ..Guest::good() };
    assert_eq!(over(memory("(memory (export \"memory\") 65)")), "bytes of initial memory");
    assert_eq!(over(memory("(memory (export \"memory\") 1) (memory 1)")), "memories");
    assert_eq!(over(head("(table 10001 funcref)")), "table elements");
    assert_eq!(over(head(&"(table 1 funcref)".repeat(5))), "tables");
    evaluate(&configured(&sandbox, &memory("(memory (export \"memory\") 64)"))).unwrap();
}

#[test]
fn compile_bombs_are_refused_by_their_counts() {
    let sandbox = sandbox();
    let started = std::time::Instant::now();
    let bombs = [
        ("functions", "(func)".repeat(10_001)),
        ("types", "(type (func (param i32)))".repeat(1_001)),
        ("bytes in a function", format!("(func {})", "nop ".repeat(70_000))),
        ("locals of a function", format!("(func (local {}))", "i64 ".repeat(50_001))),
        ("loops of a function", format!("(func {})", "loop end ".repeat(257))),
        ("loops", format!("(func {})", "loop end ".repeat(200)).repeat(51)),
        ("levels of nesting", format!("(func {} {})", "block ".repeat(300), "end ".repeat(300))),
        ("targets of a branch", format!("(func (block i32.const 0 br_table {}))", "0 ".repeat(4_002))),
        ("elements", format!("(func $f) (table 1 funcref) (elem func {})", "$f ".repeat(10_001))),
        ("bytes in a custom section", format!("(@custom \"x\" \"{}\")", "x".repeat(65_537))),
    ];
    for (what, head) in bombs {
        // Straight into a component: wrapping would drop what nobody calls.
        let component = text(&format!("(component (core module {head}))"));
        let LoadError::OverLimit { what: refused, .. } = refusal(&sandbox, &component) else { panic!("{what}") };
        assert_eq!(refused, what);
    }
    // A module is counted before it is wrapped: it is too large even where wrapping would drop what nobody calls.
    let module = text(&format!("(module {})", "(func)".repeat(10_001)));
    assert!(matches!(refusal(&sandbox, &module), LoadError::OverLimit { what: "functions", .. }));
    let large = vec![0; 5 << 20];
    assert!(matches!(refusal(&sandbox, &large), LoadError::OverLimit { what: "bytes in the file", .. }));
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn inner_components_do_no_harm() {
    let sandbox = sandbox();
    let (mut outer, inner) = (Guest::good().component(), text("(component (core module (memory 1)))"));
    // Section 4 of a component holds a component.
    outer.extend([4, u8::try_from(inner.len()).unwrap()]);
    outer.extend(inner);
    // The inner memory counts, although nothing instantiates it.
    assert!(matches!(refusal(&sandbox, &outer), LoadError::OverLimit { what: "memories", .. }));
    let (mut outer, inner) = (Guest::good().component(), text("(component (core module))"));
    outer.extend([4, u8::try_from(inner.len()).unwrap()]);
    outer.extend(inner);
    evaluate(&sandbox.load(&outer).unwrap().configure("{}").unwrap()).unwrap();
}

#[test]
fn names_and_versions_have_their_forms() {
    let sandbox = sandbox();
    for (name, version) in [
        ("", "1.0.0"),
        ("Framework", "1.0.0"),
        ("1st", "1.0.0"),
        ("frame_work", "1.0.0"),
        ("framework", ""),
        ("framework", "1.0"),
        ("framework", "01.0.0"),
        ("framework", "1.0.0-"),
        ("framework", "1.0.0-a..b"),
        ("framework", "1.0.0-01"),
        ("framework", "v1.0.0"),
    ] {
        let error = refusal(&sandbox, &Guest::describing(name, version).component());
        assert!(matches!(error, LoadError::Manifest(_)), "{name} {version}: {error:?}");
    }
    for (name, version) in [("f", "0.0.0"), ("base-factors2", "10.20.30-rc.1+build.07")] {
        assert_eq!(sandbox.load(&Guest::describing(name, version).component()).unwrap().manifest().version, version);
    }
}

#[test]
fn a_policy_that_cannot_describe_itself_is_refused() {
    let sandbox = sandbox();
    let guest = Guest { describe: "unreachable".into(), ..Guest::good() };
    let error = refusal(&sandbox, &guest.component());
    assert!(matches!(error, LoadError::Describe(Fault::Trapped("unreachable"))), "{error:?}");
}

#[test]
fn wrapping_is_reproducible_and_leaves_components_alone() {
    let (module, component) = (Guest::good().module(), Guest::good().component());
    assert_eq!(componentize(&module).unwrap(), component);
    assert_eq!(componentize(&component).unwrap(), component);
    assert!(matches!(componentize(&text("(module (import \"env\" \"f\" (func)))")), Err(LoadError::NotWrappable(_))));
}
