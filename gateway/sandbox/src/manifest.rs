//! What a policy says of itself: the form of a manifest, and whether it covers a configuration.

use farebox_pricing::policy::{Fault, Manifest, Scope};
use farebox_pricing::reads::Reads;

use crate::bindings as wire;
use crate::limits::Counts;
use crate::receiving::Reader;

/// Reads a manifest, or says in one sentence what is wrong with it.
pub(crate) fn read(manifest: wire::Manifest, counts: &Counts) -> Result<Manifest, String> {
    let reader = Reader(counts);
    let form = |fault: Fault| match fault {
        Fault::ContractViolation(what) => what,
        other => other.to_string(),
    };
    if !is_name(&manifest.name) || manifest.name.len() > counts.name_bytes {
        return Err(format!("name `{}` is not lower-case words joined by `-`", manifest.name.escape_debug()));
    }
    if !is_version(&manifest.version) || manifest.version.len() > counts.name_bytes {
        return Err(format!("version `{}` is not a semantic version", manifest.version.escape_debug()));
    }
    if manifest.parameters_schema.len() > counts.schema_bytes {
        return Err(format!("the parameter schema is over {} bytes long", counts.schema_bytes));
    }
    let reads = reader.names(manifest.reads).map_err(form)?;
    let produces = reader.names(manifest.produces).map_err(form)?;
    check_reads(&reads)?;
    check_produces(&produces)?;
    Ok(Manifest {
        name: manifest.name,
        version: manifest.version,
        scope: match manifest.scope {
            wire::Scope::Line => Scope::Line,
            wire::Scope::Quote => Scope::Quote,
        },
        reads,
        produces,
        parameters_schema: manifest.parameters_schema,
        facts: reader.facts(manifest.facts).map_err(form)?,
    })
}

/// Every word of `reads` has a form that the contract knows; together they are what they name.
pub(crate) fn check_reads(reads: &[String]) -> Result<Reads, String> {
    Reads::parse(reads).map_err(|word| format!("`reads` has no word of the form `{}`", word.0.escape_debug()))
}

/// Every word of `produces` has the form of a code or of a pattern of codes.
pub(crate) fn check_produces(produces: &[String]) -> Result<(), String> {
    match produces.iter().find(|word| !is_code(word)) {
        Some(word) => Err(format!("`produces` has no code of the form `{}`", word.escape_debug())),
        None => Ok(()),
    }
}

/// The first of the words of a configuration's `reads` that the manifest's do not cover.
pub(crate) fn uncovered_read<'a>(words: &'a [String], declared: &Reads) -> Option<&'a str> {
    words.iter().map(String::as_str).find(|word| !Reads::parse(&[word]).is_ok_and(|read| declared.covers(&read)))
}

/// The first of the codes that no pattern covers.
pub(crate) fn uncovered_code<'a>(codes: &'a [String], patterns: &[String]) -> Option<&'a str> {
    codes.iter().map(String::as_str).find(|code| !patterns.iter().any(|pattern| covers(pattern, code)))
}

/// `x.*` stands for every code below `x`, `*` for any.
fn covers(pattern: &str, code: &str) -> bool {
    if pattern == code {
        return true;
    }
    pattern.strip_suffix('*').is_some_and(|stem| code.len() > stem.len() && code.starts_with(stem))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Semantic Versioning 2.0.0: three numbers, then perhaps `-` and a pre-release, then perhaps `+` and a build.
fn is_version(version: &str) -> bool {
    let (version, build) = version.split_once('+').map_or((version, None), |(version, build)| (version, Some(build)));
    let (numbers, release) = version.split_once('-').map_or((version, None), |(numbers, pre)| (numbers, Some(pre)));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = |word: &str| !is_digits(word) || word == "0" || !word.starts_with('0');
    numbers.split('.').count() == 3
        && numbers.split('.').all(|number| is_word(number) && is_digits(number) && is_canonical(number))
        && release.is_none_or(|words| words.split('.').all(|word| is_word(word) && is_canonical(word)))
        && build.is_none_or(|words| words.split('.').all(is_word))
}

fn is_key_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// `*`, or a code such as `pytorch_eager` or `v2.8-nightly`, or all codes below a word (`tier.*`).
fn is_code(code: &str) -> bool {
    code == "*" || code.strip_suffix(".*").unwrap_or(code).split('.').all(is_key_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn reads_are_those_of_the_engine() {
        check_reads(&owned(&["amounts", "usage/*", "balance.wallet", "step.base.*"])).unwrap();
        for (word, shown) in [("balance.purse", "balance.purse"), ("usage/gpu_util/mean/8d", "usage/gpu_util/mean/8d")]
        {
            let error = check_reads(&owned(&["amounts", word])).unwrap_err();
            assert_eq!(error, format!("`reads` has no word of the form `{shown}`"));
        }
        // A terminal obeys nothing of it.
        assert!(check_reads(&owned(&["a.\u{1b}[31m"])).unwrap_err().ends_with("`a.\\u{1b}[31m`"));
    }

    #[test]
    fn the_first_read_that_the_manifest_lacks_is_named() {
        let declared = check_reads(&owned(&["workload.*", "usage/*", "balance.*"])).unwrap();
        let uncovered = |words: &[&str]| uncovered_read(&owned(words), &declared).map(str::to_owned);
        assert_eq!(uncovered(&["workload.image", "usage/gpu_util/mean/7d", "balance.wallet"]), None);
        assert_eq!(uncovered(&["workload.image", "usage.age", "time"]).as_deref(), Some("usage.age"));
    }

    #[test]
    fn codes_have_the_form_of_codes() {
        for code in ["pytorch_eager", "v2.8-nightly", "70", "*", "tier.*"] {
            assert!(is_code(code), "{code}");
        }
        for code in ["", "Eager", "a b", "a..b", "*.a", "a*", "\u{1b}[31m"] {
            assert!(!is_code(code), "{code}");
        }
    }

    #[test]
    fn patterns_cover_the_codes_below_them() {
        for (pattern, code) in [("tier.*", "tier.gold"), ("tier.*", "tier.*"), ("*", "eager"), ("eager", "eager")] {
            assert!(covers(pattern, code), "{pattern} {code}");
        }
        for (pattern, code) in [
            ("tier.*", "tier"),
            ("tier.*", "tier."),
            ("tier.*", "tiers.gold"),
            ("tier.gold", "tier.*"),
            ("eager", "eagerly"),
        ] {
            assert!(!covers(pattern, code), "{pattern} {code}");
        }
        assert_eq!(uncovered_code(&owned(&["eager", "fsdp"]), &owned(&["eager"])), Some("fsdp"));
    }
}
