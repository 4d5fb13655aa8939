//! Hostile modules that are too long to be written down: compile bombs, and files that are no modules.

use wit_component::ComponentEncoder;

use super::modules::{Expected, Hostile, well_behaved};

pub fn all() -> Vec<Hostile> {
    no_modules().into_iter().chain(bombs()).chain(components()).collect()
}

fn stopped(case: u32, name: &str, does: &str, (stage, by): (&str, &str), bytes: Vec<u8>) -> Hostile {
    let (name, does, expected) = (name.to_owned(), does.to_owned(), Expected::Stopped(format!("{stage}: {by}")));
    Hostile { case, name, does, expected, bytes }
}

/// A component that wraps the well-behaved guest.
fn component() -> Vec<u8> {
    ComponentEncoder::default().module(&well_behaved("cut-off")).unwrap().encode().unwrap()
}

fn no_modules() -> Vec<Hostile> {
    const NATIVE: &str = "the file is compiled machine code; upload the WebAssembly that it was compiled from";
    const MALFORMED: &str = "the file is malformed or cut off";
    let refused = |name, does, by, bytes| stopped(6, name, does, ("file checks", by), bytes);
    let whole = component();
    let elf = [b"\x7fELF\x02\x01\x01\0".to_vec(), vec![0; 200]].concat();
    let padded = [whole.clone(), b"\x7fELF".to_vec()].concat();
    vec![
        refused("file-empty", "is empty", "the file is empty; upload a WebAssembly module or component", vec![]),
        refused("file-text", "is text", "the file is WebAssembly text; upload its binary form", b"(module)".to_vec()),
        refused("file-zip", "is a ZIP archive", "the file is not WebAssembly", b"PK\x03\x04\x14\0\0\0".to_vec()),
        refused("file-elf", "is an ELF file", NATIVE, elf),
        refused(
            "file-precompiled",
            "is the engine's own compiled code, as the code cache holds it",
            NATIVE,
            precompiled(),
        ),
        refused("file-header-only", "is the first half of a header", MALFORMED, whole[..6].to_vec()),
        refused("file-cut-off", "is the first half of a component", MALFORMED, whole[..whole.len() / 2].to_vec()),
        refused(
            "file-cut-off-by-one",
            "is a component without its last byte",
            MALFORMED,
            whole[..whole.len() - 1].to_vec(),
        ),
        refused("file-padded", "is a component with other bytes behind it", MALFORMED, padded),
        refused("file-5-mb", "is 5 MiB long", "bytes in the file: 5242880, at most 4194304 allowed", vec![0; 5 << 20]),
        refused(
            "custom-section-10-mb",
            "has a custom section of 10 MB",
            "bytes in the file: 10000015, at most 4194304 allowed",
            custom_section(10_000_000),
        ),
        refused(
            "custom-section-1-mb",
            "has a custom section of 1 MB",
            "bytes in a custom section: 1000000, at most 65536 allowed",
            custom_section(1_000_000),
        ),
    ]
}

/// The beginning of what wasmtime writes: an ELF file with an ABI of its own.
fn precompiled() -> Vec<u8> {
    [b"\x7fELF\x02\x01\x01\xc8\0\0\0\0\0\0\0\0".to_vec(), vec![0; 200]].concat()
}

fn custom_section(bytes: usize) -> Vec<u8> {
    let text = format!("(module (@custom \"x\" \"{}\"))", "x".repeat(bytes));
    wat::parse_str(text).unwrap()
}

/// Modules whose compilation would take seconds to minutes.
fn bombs() -> Vec<Hostile> {
    let refused = |name, does, by, fields: String| {
        let module = wat::parse_str(format!("(module {fields})")).unwrap();
        stopped(6, name, does, ("file checks", by), module)
    };
    let function = |body: String| format!("(func {body})");
    let nested = format!("{}{}", "block ".repeat(300), "end ".repeat(300));
    let branches = format!("block i32.const 0 br_table {} end", "0 ".repeat(4_002));
    vec![
        refused(
            "bomb-empty-loops",
            "has 21,000 empty loops in one function, half a minute to compile in a debug build",
            "loops of a function: 257, at most 256 allowed",
            function("loop end ".repeat(21_000)),
        ),
        refused(
            "bomb-loops-of-many",
            "has 100 functions with 200 loops each",
            "loops: 10200, at most 10000 allowed",
            function("loop end ".repeat(200)).repeat(100),
        ),
        refused(
            "bomb-nested-blocks",
            "has 300 blocks inside each other",
            "levels of nesting: 257, at most 256 allowed",
            function(nested),
        ),
        refused(
            "bomb-long-function",
            "has a function of 70 KB",
            "bytes in a function: 70002, at most 65536 allowed",
            function("nop ".repeat(70_000)),
        ),
        refused(
            "bomb-long-functions",
            "has 40 functions of 60 KB",
            "bytes of code: 2400200, at most 2097152 allowed",
            function("nop ".repeat(60_000)).repeat(40),
        ),
        refused(
            "bomb-empty-functions",
            "has 100,000 empty functions",
            "functions: 100000, at most 10000 allowed",
            "(func)".repeat(100_000),
        ),
        refused(
            "bomb-locals",
            "has a function with 50,001 locals",
            "locals of a function: 50001, at most 1000 allowed",
            function(format!("(local {})", "i64 ".repeat(50_001))),
        ),
        refused(
            "bomb-branch-table",
            "has a branch with 4,001 targets",
            "targets of a branch: 4001, at most 4000 allowed",
            function(branches),
        ),
        refused(
            "bomb-elements",
            "has 1,000,000 elements",
            "elements: 1000000, at most 10000 allowed",
            format!("(func $f) (table 1 funcref) (elem func {})", "$f ".repeat(1_000_000)),
        ),
    ]
}

/// Components whose structure would be the host's undoing.
fn components() -> Vec<Hostile> {
    let refused = |name, does, by, bytes| stopped(6, name, does, ("file checks", by), bytes);
    let text = |text: String| wat::parse_str(text).unwrap();
    let nested_components = (0..1000).fold(Vec::new(), |inner: Vec<u8>, _| {
        let inner = if inner.is_empty() { inner } else { section(4, &inner) };
        [COMPONENT.to_vec(), inner].concat()
    });
    // One type: 100,000 times a component type with one declaration, a type; then an empty one.
    let nested_types = [&[1][..], &[0x41, 1, 1].repeat(100_000), &[0x41, 0]].concat();
    let lift = "(core module $m (func (export \"f\"))) (core instance $i (instantiate $m))";
    vec![
        refused(
            "bomb-types-in-types",
            "has 100,000 component types inside each other: reading them overflows the host's stack",
            "component types inside others: 100001, at most 200 allowed",
            [COMPONENT.to_vec(), section(7, &nested_types)].concat(),
        ),
        refused(
            "bomb-components-in-components",
            "has 1,000 components inside each other",
            "inner components: 5, at most 4 allowed",
            nested_components,
        ),
        refused(
            "bomb-instances",
            "makes 2,097,152 instances of one module out of 500 bytes: components that instantiate each other",
            "inner components: 5, at most 4 allowed",
            text(instances(8, 7)),
        ),
        refused(
            "bomb-instances-of-few",
            "makes 10,000 instances of one module out of three components",
            "instances made: 33, at most 32 allowed",
            text(instances(22, 3)),
        ),
        refused(
            "bomb-canonical-functions",
            "lifts one function 1,001 times",
            "canonical functions: 1001, at most 1000 allowed",
            text(format!("(component {lift} {})", "(func (canon lift (core func $i \"f\")))".repeat(1_001))),
        ),
    ]
}

/// Components one inside the other, each of which instantiates the one inside it so many times.
fn instances(times: usize, levels: usize) -> String {
    let innermost = "(core module $m) (core instance (instantiate $m))".to_owned();
    let content = (0..levels).fold(innermost, |inner, level| {
        format!("(component $c{level} {inner}) {}", format!("(instance (instantiate $c{level})) ").repeat(times))
    });
    format!("(component {content})")
}

/// The header of a component.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut length = content.len();
    let mut bytes = vec![id];
    while length > 0x7f {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    [bytes, content.to_vec()].concat()
}
