//! Documents by name, those that had to be left out included: who depends on one is told which of the two it is.

use std::collections::BTreeMap;

/// Names shown in a message.
const SHOWN: usize = 8;

#[derive(Debug)]
pub(super) struct Shelf<T> {
    /// `plan`, `price book` …
    what: &'static str,
    slots: BTreeMap<String, Slot<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    path: String,
    item: Option<T>,
}

impl<T> Shelf<T> {
    pub(super) fn of(what: &'static str) -> Self {
        Self { what, slots: BTreeMap::new() }
    }

    /// Keeps an item, or with `None` that it was left out. If its name is taken, neither of the two holds: which would be
    /// chance. The sentence then names the other file.
    pub(super) fn put(&mut self, name: &str, path: &str, item: Option<T>) -> Result<(), String> {
        if let Some(first) = self.slots.get_mut(name) {
            first.item = None;
            return Err(format!("{} `{name}` is also in {}; neither is used", self.what, first.path));
        }
        self.slots.insert(name.to_owned(), Slot { path: path.to_owned(), item });
        Ok(())
    }

    /// An item, or a sentence that says why there is none.
    pub(super) fn get(&self, name: &str) -> Result<&T, String> {
        let what = self.what;
        match self.slots.get(name) {
            Some(Slot { item: Some(item), .. }) => Ok(item),
            Some(Slot { path, .. }) => Err(format!("{what} `{name}` is left out; see the problems of {path}")),
            None => Err(format!("there is no {what} `{name}`; {}", there_are(self.names()))),
        }
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
        assert_eq!(shelf.get("a"), Err("plan `a` is left out; see the problems of plans/1.toml".to_owned()));
        assert_eq!(shelf.get("b"), Err("plan `b` is left out; see the problems of plans/2.toml".to_owned()));
        assert_eq!(shelf.get("c"), Err("there is no plan `c`; there is `d`".to_owned()));
        assert_eq!(shelf.left_out().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(shelf.into_items().into_keys().collect::<Vec<_>>(), ["d"]);
    }
}
