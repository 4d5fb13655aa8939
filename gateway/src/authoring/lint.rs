//! What a policy reads without need, and which of its codes no case shows.
//!
//! A word of `reads` is needed if removing or altering what it names changes the answer of at least one golden case. A
//! word that is not needed makes outcomes depend on more than they do, so that fewer can be reused.

mod alterations;

use std::collections::BTreeSet;

use farebox_pricing::policy::Manifest;

use super::cases::Case;
use super::declared::covers;
use super::trial::{Tried, evaluate};
use alterations::Seen;

/// One warning for each word that no case needs, and for each code that no case produces.
pub(super) fn lint(manifest: &Manifest, tried: &[(&Case, &Tried)]) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let seen = Seen::of(tried.iter().filter_map(|(case, _)| case.context.as_ref()));
    let words = configured(tried, |tried| tried.configured.as_ref().map(|it| it.reads()));
    for word in &words {
        if let Some(why) = unneeded(word, tried, &seen) {
            found.push(("reads", format!("`{word}` is read but {why}: drop it from `reads`, or add a case")));
        }
    }
    for word in &manifest.reads {
        if !words.iter().any(|narrow| covers(word, narrow)) {
            let text = format!("`{word}` is declared but read under no case's parameters: drop it, or add a case");
            found.push(("reads", text));
        }
    }
    let shown: BTreeSet<&str> = tried.iter().flat_map(|(_, tried)| tried.answer.codes()).collect();
    for code in configured(tried, |tried| tried.configured.as_ref().map(|it| it.produces())) {
        if !shown.iter().any(|shown| covers(code, shown)) {
            let text = format!("no case produces `{code}`: drop it from `produces`, or add a case");
            found.push(("produces", text));
        }
    }
    found
}

/// The words of all cases' configurations.
fn configured<'a>(
    tried: &[(&'a Case, &'a Tried)],
    words: impl Fn(&'a Tried) -> Option<&'a [String]>,
) -> BTreeSet<&'a str> {
    tried.iter().filter_map(|(_, tried)| words(tried)).flatten().map(String::as_str).collect()
}

/// Why no case shows that the word matters; `None` if one does.
fn unneeded(word: &str, tried: &[(&Case, &Tried)], seen: &Seen) -> Option<&'static str> {
    let mut is_there = false;
    for (case, tried) in tried {
        let (Some(configured), Some(context)) = (&tried.configured, &case.context) else { continue };
        if !configured.reads().iter().any(|read| read == word) {
            continue;
        }
        for altered in alterations::of(word, context, seen) {
            is_there = true;
            // A fault is another answer too.
            if !evaluate(configured, &altered).is_ok_and(|(answer, _)| answer == tried.answer) {
                return None;
            }
        }
    }
    Some(if is_there { "no case shows that it matters" } else { "no case has it" })
}
