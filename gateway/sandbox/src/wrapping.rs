//! Core modules become components here, so that authors need nothing but a compiler.

use wasmparser::Parser;
use wit_component::ComponentEncoder;

use crate::load_error::LoadError;

/// Wraps a core module, built with the SDK, as a component; a component is passed through. The same bytes always give
/// the same bytes. There are no adapters, so a module with imports is refused.
pub fn componentize(core_or_component: &[u8]) -> Result<Vec<u8>, LoadError> {
    if Parser::is_component(core_or_component) {
        return Ok(core_or_component.to_vec());
    }
    if !Parser::is_core_wasm(core_or_component) {
        return Err(of_no_wasm(core_or_component));
    }
    let mut encoder = ComponentEncoder::default()
        .validate(true)
        .module(core_or_component)
        .map_err(|error| LoadError::NotWrappable(error.into()))?;
    encoder.encode().map_err(|error| LoadError::NotWrappable(error.into()))
}

/// Says what the bytes are instead.
fn of_no_wasm(bytes: &[u8]) -> LoadError {
    if bytes.is_empty() {
        return LoadError::Empty;
    }
    if wasmtime::Engine::detect_precompiled(bytes).is_some() || is_executable(bytes) {
        return LoadError::NativeCode;
    }
    if bytes.starts_with(b"\0asm") || b"\0asm".starts_with(bytes) {
        return LoadError::Malformed("the header is not that of a module or component".into());
    }
    match bytes.trim_ascii_start() {
        [b'(', ..] | [b';', b';', ..] => LoadError::Text,
        _ => LoadError::NotWasm,
    }
}

fn is_executable(bytes: &[u8]) -> bool {
    let signatures: [&[u8]; 5] = [b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"!<arch>"];
    signatures.iter().any(|signature| bytes.starts_with(signature))
}
