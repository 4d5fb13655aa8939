//! The lines of one evaluation: one of them, or all.

use std::ops::Range;

use crate::policy::Scope;

/// Lines that are evaluated together; the policy knows them by their position in here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    first: usize,
    lines: usize,
}

impl Group {
    /// What a step of this scope evaluates, in order, where there are so many lines.
    pub(super) fn of(scope: Scope, lines: usize) -> impl Iterator<Item = Self> {
        let (groups, lines) = match scope {
            Scope::Line => (lines, 1),
            Scope::Quote => (1, lines),
        };
        (0..groups).map(move |first| Self { first, lines })
    }

    pub(super) fn indices(self) -> Range<usize> {
        self.first..self.first.saturating_add(self.lines)
    }

    /// The line that a policy calls `key`.
    pub(super) fn line(self, key: u32) -> Option<usize> {
        let key = usize::try_from(key).ok().filter(|key| *key < self.lines)?;
        self.first.checked_add(key)
    }

    /// The only line, where there is only one.
    pub(super) fn only(self) -> Option<usize> {
        (self.lines == 1).then_some(self.first)
    }
}
