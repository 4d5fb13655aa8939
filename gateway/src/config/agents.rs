//! Keys that agents sign snapshots with: secrets, so what was written is never told back.

use std::collections::BTreeSet;
use std::ops::Range;

use farebox_metering::delivery::mac::MacKey;
use farebox_metering::redis::feed::{AgentKey, AgentKeys};
use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem};
use super::source::{Source, invalid};
use crate::suggestion::nearest;

const PATH: &str = "agents";
const EXPECTED: &str =
    "tables with a `node`, either a `secret` or a `secret_file`, and `tenants` where they are to be limited";
const MEMBERS: [&str; 4] = ["node", "secret", "secret_file", "tenants"];
const MOST_NAME_BYTES: usize = 128;

impl Source<'_> {
    /// `FAREBOX_AGENTS` (`node:secret`, comma between two), else the tables `[[agents]]`. `None`: there are none;
    /// `Some(None)`: reported.
    pub(super) fn agent_keys(&mut self) -> Option<Option<AgentKeys>> {
        let in_file = self.take_leaf(PATH).map(|leaf| self.agents_of(leaf.value, leaf.span));
        let in_environment = self.take_variable(PATH).map(|(name, text)| {
            let keys = text.split(',').map(key_of_pair).collect::<Result<Vec<_>, _>>();
            keys.map(together).map_err(|problem| self.report(Place::Variable(name), problem)).ok()
        });
        in_environment.or(in_file)
    }

    fn agents_of(&mut self, value: DeValue<'_>, span: Range<usize>) -> Option<AgentKeys> {
        let DeValue::Array(entries) = value else {
            self.report_at(span, invalid(PATH, format!("of type {}", value.type_str()), EXPECTED));
            return None;
        };
        let keys: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let read = match entry.get_ref() {
                    DeValue::Table(members) => key_of_table(members),
                    other => Err((None, invalid(PATH, format!("of type {}", other.type_str()), EXPECTED))),
                };
                read.map_err(|(at, problem)| self.report_at(at.unwrap_or(entry.span()), problem)).ok()
            })
            .collect();
        keys.into_iter().collect::<Option<Vec<_>>>().map(together)
    }
}

fn together(keys: Vec<(String, AgentKey)>) -> AgentKeys {
    let mut all = AgentKeys::default();
    for (node, key) in keys {
        all.add(&node, key);
    }
    all
}

/// A problem, and where it is if it is not the whole table.
type Misread = (Option<Range<usize>>, Problem);

fn key_of_table(members: &DeTable<'_>) -> Result<(String, AgentKey), Misread> {
    if let Some(unknown) = members.keys().find(|key| !MEMBERS.contains(&&**key.get_ref())) {
        let meant = nearest(unknown.get_ref(), MEMBERS).map(|name| format!("{PATH}.{name}"));
        let problem = Problem::Unknown { name: format!("{PATH}.{}", unknown.get_ref()), meant };
        return Err((Some(unknown.span()), problem));
    }
    let text = |name: &str| match members.get(name) {
        None => Ok(None),
        Some(value) => match value.get_ref().as_str() {
            Some(text) => Ok(Some((text, value.span()))),
            None => Err((Some(value.span()), invalid(&format!("{PATH}.{name}"), "not a string", "a string"))),
        },
    };
    let (node, secret, secret_file) = (text("node")?, text("secret")?, text("secret_file")?);
    let tenants = tenants(members)?;
    let Some((node, node_span)) = node else { return Err((None, invalid(PATH, "incomplete or doubled", EXPECTED))) };
    if !is_name(node) {
        return Err((Some(node_span), no_name("agents.node")));
    }
    let (secret, span) = match (secret, secret_file) {
        (Some((secret, span)), None) => (secret.to_owned(), span),
        (None, Some((file, span))) => match std::fs::read_to_string(file) {
            Ok(secret) => (secret, span),
            Err(error) => {
                return Err((Some(span), Problem::SecretFile { path: file.to_owned(), kind: error.kind() }));
            }
        },
        _ => return Err((None, invalid(PATH, "incomplete or doubled", EXPECTED))),
    };
    let key = key(node, &secret).map_err(|problem| (Some(span), problem))?;
    Ok((node.to_owned(), AgentKey { key, tenants }))
}

/// An empty list would be a key that nobody can use.
fn tenants(members: &DeTable<'_>) -> Result<Option<BTreeSet<String>>, Misread> {
    let Some(value) = members.get("tenants") else { return Ok(None) };
    let wrong = || (Some(value.span()), invalid("agents.tenants", "not a list of names", "a list of tenants"));
    let DeValue::Array(names) = value.get_ref() else { return Err(wrong()) };
    let names: Option<BTreeSet<_>> =
        names.iter().map(|name| name.get_ref().as_str().filter(|name| is_name(name)).map(str::to_owned)).collect();
    names.filter(|names| !names.is_empty()).map(Some).ok_or_else(wrong)
}

fn key_of_pair(pair: &str) -> Result<(String, AgentKey), Problem> {
    // Without a colon it may be the bare secret: it is not shown as a node.
    let (node, secret) = pair.split_once(':').ok_or_else(|| no_name("FAREBOX_AGENTS"))?;
    let node = node.trim();
    if !is_name(node) {
        return Err(no_name("FAREBOX_AGENTS"));
    }
    Ok((node.to_owned(), AgentKey { key: key(node, secret)?, tenants: None }))
}

fn key(node: &str, secret: &str) -> Result<MacKey, Problem> {
    MacKey::parse(secret).map_err(|error| Problem::AgentKey { node: node.to_owned(), error })
}

fn is_name(text: &str) -> bool {
    (1..=MOST_NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn no_name(setting: &str) -> Problem {
    let expected = "a name of 1 to 128 bytes in front of its secret, as agents have it in `node`, or `*`";
    invalid(setting, "without a node", expected)
}
