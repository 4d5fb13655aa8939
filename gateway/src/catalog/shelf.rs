//! Documents by name, those that had to be left out included: who depends on one is told which of the two it is.

use std::collections::BTreeMap;

use super::Tally;
use crate::suggestion::did_you_mean;

/// Names shown in a message.
const SHOWN: usize = 8;

#[derive(Debug)]
pub(super) struct Shelf<T> {
    /// `plan`, `price book` …
    what: &'static str,
    slots: BTreeMap<String, Slot<T>>,
    /// Documents without a name that could be read.
    nameless: usize,
}

#[derive(Debug)]
struct Slot<T> {
    path: String,
    /// The file that says why there is no item.
    blamed: String,
    item: Option<T>,
}

/// Why there is no such item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) sentence: String,
    /// The file whose problems are the cause, where it was left out.
    pub(super) because: Option<String>,
}

impl<T> Shelf<T> {
    pub(super) fn of(what: &'static str) -> Self {
        Self { what, slots: BTreeMap::new(), nameless: 0 }
    }

    /// Keeps an item, or with `None` that it was left out. If its name is taken, neither of the two holds: which would be
    /// chance. The sentence then names the other file.
    pub(super) fn put(&mut self, name: &str, path: &str, item: Option<T>) -> Result<(), String> {
        if let Some(first) = self.slots.get_mut(name) {
            first.item = None;
            first.blamed = path.to_owned();
            return Err(format!("{} `{name}` is also in {}; neither is used", self.what, first.path));
        }
        self.slots.insert(name.to_owned(), Slot { path: path.to_owned(), blamed: path.to_owned(), item });
        Ok(())
    }

    /// Counts a document that nobody can name.
    pub(super) fn leave_out_nameless(&mut self) {
        self.nameless = self.nameless.saturating_add(1);
    }

    /// An item, or why there is none.
    pub(super) fn get(&self, name: &str) -> Result<&T, Missing> {
        let what = self.what;
        let (sentence, because) = match self.slots.get(name) {
            Some(Slot { item: Some(item), .. }) => return Ok(item),
            Some(Slot { blamed, .. }) => {
                (format!("{what} `{name}` is left out; see the problems of {blamed}"), Some(blamed.clone()))
            }
            None => {
                let meant = did_you_mean(name, self.slots.keys().map(String::as_str));
                let remedy = if meant.is_empty() { format!("; {}", there_are(self.names())) } else { meant };
                (format!("there is no {what} `{name}`{remedy}"), None)
            }
        };
        Err(Missing { sentence, because })
    }

    pub(super) fn tally(&self) -> Tally {
        Tally { good: self.names().count(), left_out: self.left_out().count().saturating_add(self.nameless) }
    }

    /// The items that were not left out.
    pub(super) fn into_items(self) -> BTreeMap<String, T> {
        self.slots.into_iter().filter_map(|(name, slot)| Some((name, slot.item?))).collect()
    }

    /// Of the items that were not left out.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.slots.iter().filter(|(_, slot)| slot.item.is_some()).map(|(name, _)| name)
    }

    /// Names of the items that were left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &String> {
        self.slots.iter().filter(|(_, slot)| slot.item.is_none()).map(|(name, _)| name)
    }

    /// True also where the item was left out.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.slots.contains_key(name)
    }

    /// The item under a name, unless it was left out.
    pub(super) fn peek(&self, name: &str) -> Option<&T> {
        self.slots.get(name)?.item.as_ref()
    }
}

/// `there are `a`, `b` and 3 more`
pub(super) fn there_are<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match (names.len(), names.len().saturating_sub(SHOWN)) {
        (0, _) => "there are none".to_owned(),
        (1, _) => format!("there is {shown}"),
        (_, 0) => format!("there are {shown}"),
        (_, more) => format!("there are {shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_taken_twice_holds_nothing() {
        let mut shelf = Shelf::of("plan");
        shelf.put("a", "plans/1.toml", Some(1)).unwrap();
        shelf.put("b", "plans/2.toml", None).unwrap();
        shelf.put("d", "plans/4.toml", Some(4)).unwrap();
        assert_eq!(shelf.get("a"), Ok(&1));
        let taken = shelf.put("a", "plans/3.toml", Some(3)).unwrap_err();
        assert_eq!(taken, "plan `a` is also in plans/1.toml; neither is used");
        let missing = |name: &str| shelf.get(name).map_err(|missing| (missing.sentence, missing.because)).unwrap_err();
        let left_out = |name: &str, path: &str| {
            (format!("plan `{name}` is left out; see the problems of {path}"), Some(path.to_owned()))
        };
        // The file that was read second says what is wrong.
        assert_eq!(missing("a"), left_out("a", "plans/3.toml"));
        assert_eq!(missing("b"), left_out("b", "plans/2.toml"));
        assert_eq!(missing("c"), ("there is no plan `c`; there is `d`".to_owned(), None));
        assert_eq!(shelf.left_out().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(shelf.into_items().into_keys().collect::<Vec<_>>(), ["d"]);
    }
}
