//! Token keys: secrets, so what was written is never told back.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem};
use super::source::{Source, invalid};
use crate::suggestion::nearest;
use crate::token::{KeyError, TokenKey, TokenKeys};

const PATH: &str = "tokens.keys";
const EXPECTED: &str = "tables with an `id` and either a `secret` or a `secret_file`";

impl Source<'_> {
    /// `FAREBOX_TOKENS_KEYS` (`id:secret`, comma between two), else the tables `[[tokens.keys]]`. `None`: reported.
    pub(super) fn token_keys(&mut self) -> Option<TokenKeys> {
        let in_file = self.take_leaf(PATH).map(|leaf| (self.keys_of(leaf.value, &leaf.span), leaf.span));
        let in_environment = self.take_variable(PATH);
        if let Some((name, text)) = in_environment {
            let keys = text.split(',').map(key_of_pair).collect::<Result<_, _>>().and_then(TokenKeys::new);
            return keys.map_err(|error| self.report(Place::Variable(name), error.into())).ok();
        }
        let Some((keys, span)) = in_file else {
            self.report(Place::Whole, Problem::NoKey);
            return None;
        };
        // `None`: already reported.
        TokenKeys::new(keys?).map_err(|error| self.report_at(span, error.into())).ok()
    }

    fn keys_of(&mut self, value: DeValue<'_>, span: &Range<usize>) -> Option<Vec<TokenKey>> {
        let DeValue::Array(entries) = value else {
            self.report_at(span.clone(), invalid(PATH, format!("of type {}", value.type_str()), EXPECTED));
            return None;
        };
        let keys: Vec<_> = entries.into_iter().map(|entry| self.key_of(entry.get_ref(), entry.span())).collect();
        keys.into_iter().collect()
    }

    fn key_of(&mut self, entry: &DeValue<'_>, span: Range<usize>) -> Option<TokenKey> {
        let read = match entry {
            DeValue::Table(members) => key_of_table(members),
            other => Err((None, invalid(PATH, format!("of type {}", other.type_str()), EXPECTED))),
        };
        read.map_err(|(at, problem)| self.report_at(at.unwrap_or(span), problem)).ok()
    }
}

/// A problem, and where it is if it is not the whole table.
type Misread = (Option<Range<usize>>, Problem);

fn key_of_table(members: &DeTable<'_>) -> Result<TokenKey, Misread> {
    const MEMBERS: [&str; 3] = ["id", "secret", "secret_file"];
    if let Some(unknown) = members.keys().find(|key| !MEMBERS.contains(&&**key.get_ref())) {
        let meant = nearest(unknown.get_ref(), MEMBERS);
        return Err((
            Some(unknown.span()),
            Problem::Unknown {
                name: format!("{PATH}.{}", unknown.get_ref()),
                meant: meant.map(|name| format!("{PATH}.{name}")),
            },
        ));
    }
    let text = |name: &str| match members.get(name) {
        None => Ok(None),
        Some(value) => match value.get_ref().as_str() {
            Some(text) => Ok(Some((text, value.span()))),
            None => Err((Some(value.span()), invalid(&format!("{PATH}.{name}"), "not a string", "a string"))),
        },
    };
    let (id, secret, secret_file) = (text("id")?, text("secret")?, text("secret_file")?);
    match (id, secret, secret_file) {
        (Some((id, _)), Some((secret, span)), None) => {
            TokenKey::from_base64(id, secret).map_err(|error| (Some(span), error.into()))
        }
        (Some((id, _)), None, Some((file, span))) => {
            key_of_file(id, Path::new(file)).map_err(|problem| (Some(span), problem))
        }
        _ => Err((None, invalid(PATH, "incomplete or doubled", EXPECTED))),
    }
}

fn key_of_file(id: &str, file: &Path) -> Result<TokenKey, Problem> {
    let secret = std::fs::read_to_string(file)
        .map_err(|error| Problem::SecretFile { path: file.display().to_string(), kind: error.kind() })?;
    Ok(TokenKey::from_base64(id, &secret)?)
}

fn key_of_pair(pair: &str) -> Result<TokenKey, KeyError> {
    // Without a colon it may be the bare secret: it is not shown as an id.
    let (id, secret) = pair.split_once(':').ok_or_else(|| KeyError::Secret("?".to_owned()))?;
    TokenKey::from_base64(id.trim(), secret)
}
