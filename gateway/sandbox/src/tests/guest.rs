//! Guests in WebAssembly text, laid out by the canonical ABI.

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::componentize;

const WIT: &str = include_str!("../../../../sdk-wasm/wit/policy.wit");

/// Where the image begins in the guest's memory; arguments are put after it.
const IMAGE: u32 = 1024;
/// Where the bump allocator of every guest begins.
pub(super) const HEAP: u32 = 32 << 10;

/// A guest whose parts can be replaced one at a time. Bodies leave an i32 on the stack: where their result lies.
pub(super) struct Guest {
    pub(super) wit: String,
    pub(super) version: &'static str,
    pub(super) head: String,
    pub(super) memory: String,
    pub(super) describe: String,
    pub(super) configure: String,
    pub(super) evaluate: String,
    pub(super) realloc: String,
    pub(super) image: Image,
}

/// Static data of a guest.
#[derive(Default)]
pub(super) struct Image(Vec<u8>);

impl Image {
    /// Places bytes and tells where, aligned to 8.
    pub(super) fn place(&mut self, bytes: &[u8]) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let at = IMAGE + u32::try_from(self.0.len()).unwrap();
        self.0.extend_from_slice(bytes);
        at
    }

    pub(super) fn words(&mut self, words: &[u32]) -> u32 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.place(&bytes)
    }

    /// A string, or the bytes of a list, as pointer and length.
    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) -> [u32; 2] {
        [self.place(text.as_ref()), u32::try_from(text.as_ref().len()).unwrap()]
    }

    pub(super) fn texts(&mut self, texts: &[&str]) -> [u32; 2] {
        let items: Vec<u32> = texts.iter().flat_map(|text| self.text(text)).collect();
        [self.words(&items), u32::try_from(texts.len()).unwrap()]
    }

    /// `result<outcome, refusal>`, priced: three lists.
    pub(super) fn outcome(&mut self, adjustments: [u32; 2], added: [u32; 2], facts: [u32; 2]) -> u32 {
        self.words(&[&[0][..], &adjustments, &added, &facts].concat())
    }

    /// An outcome with one adjustment of 15 % whose decimal is given as its four words.
    pub(super) fn percent(&mut self, label: &[u8], decimal: [u32; 4]) -> u32 {
        let adjustment = self.adjustment(label, 0, &decimal);
        let adjustment = self.words(&adjustment);
        self.outcome([adjustment, 1], [0, 0], [0, 0])
    }

    /// The 23 words of an adjustment of line 0; `payload`: that of the method, up to 10 words.
    pub(super) fn adjustment(&mut self, label: &[u8], method: u32, payload: &[u32]) -> Vec<u32> {
        let (kind, code, label) = (self.text("premium"), self.text("eager"), self.text(label));
        let reason = self.text("because");
        let mut words = [&[1, 0][..], &kind, &code, &label, &reason, &[method], payload].concat();
        words.resize(23, 0);
        words
    }
}

/// 0.15 as the words of a decimal: lo, mid, hi, then scale and sign in one.
pub(super) const FIFTEEN_PERCENT: [u32; 4] = [15, 0, 0, 2];

impl Guest {
    /// Answers everything well: +15 % on line 0, whatever it is asked.
    pub(super) fn good() -> Self {
        let mut image = Image::default();
        let manifest = Self::manifest_in(&mut image, "framework-premium", "1.0.0");
        let (bytes, reads, produces) =
            (image.text("configured"), image.texts(&["workload.framework"]), image.texts(&["eager"]));
        let configuration = image.words(&[&[0][..], &bytes, &reads, &produces].concat());
        let outcome = image.percent(b"PyTorch eager", FIFTEEN_PERCENT);
        Self {
            wit: WIT.to_owned(),
            version: "1.0.0",
            head: String::new(),
            memory: "(memory (export \"memory\") 1)".to_owned(),
            describe: format!("i32.const {manifest}"),
            configure: format!("i32.const {configuration}"),
            evaluate: format!("i32.const {outcome}"),
            realloc: BUMP.to_owned(),
            image,
        }
    }

    pub(super) fn evaluating(body: &str) -> Self {
        Self { evaluate: body.to_owned(), ..Self::good() }
    }

    /// Answers with an outcome that is put into the image.
    pub(super) fn answering(outcome: impl FnOnce(&mut Image) -> u32) -> Self {
        let mut guest = Self::good();
        guest.evaluate = format!("i32.const {}", outcome(&mut guest.image));
        guest
    }

    pub(super) fn describing(name: &str, version: &str) -> Self {
        let mut guest = Self::good();
        guest.describe = format!("i32.const {}", Self::manifest_in(&mut guest.image, name, version));
        guest
    }

    fn manifest_in(image: &mut Image, name: &str, version: &str) -> u32 {
        let (name, version) = (image.text(name), image.text(version));
        let (reads, produces) = (image.texts(&["workload.*", "usage/*", "time"]), image.texts(&["eager", "compiled"]));
        let schema = image.text("{\"type\":\"object\"}");
        image.words(&[&name[..], &version, &[0], &reads, &produces, &schema, &[0, 0]].concat())
    }

    /// The core module, with the contract embedded as the SDK embeds it.
    pub(super) fn module(&self) -> Vec<u8> {
        let mut module = wat::parse_str(self.text()).unwrap();
        let mut resolve = Resolve::default();
        let wit = self.wit.replace("farebox:policy@1.0.0", &format!("farebox:policy@{}", self.version));
        let package = resolve.push_str("policy.wit", &wit).unwrap();
        let world = resolve.select_world(&[package], Some("policy")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        module
    }

    pub(super) fn component(&self) -> Vec<u8> {
        componentize(&self.module()).unwrap()
    }

    fn text(&self) -> String {
        let interface = format!("farebox:policy/pricing@{}", self.version);
        let data: String = self.image.0.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let Self { head, memory, describe, configure, evaluate, realloc, .. } = self;
        format!(
            r#"(module
              {head}
              {memory}
              (global $heap (mut i32) (i32.const {HEAP}))
              (data (i32.const {IMAGE}) "{data}")
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
              (func (export "{interface}#describe") (result i32) {describe})
              (func (export "{interface}#configure") (param i32 i32) (result i32) {configure})
              (func (export "{interface}#evaluate") (param i32) (result i32) (local $i i32) (local $out i32) {evaluate}))"#
        )
    }
}

/// Never frees; aligned to 8.
const BUMP: &str = "global.get $heap
    global.get $heap local.get 3 i32.add i32.const 7 i32.add i32.const -8 i32.and global.set $heap";
