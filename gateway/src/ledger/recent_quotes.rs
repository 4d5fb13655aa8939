//! The newest quotes, in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use super::Quote;

/// Lines kept for each quote that may be kept: most quotes have one or two, a few have a hundred.
const LINES_PER_QUOTE: usize = 5;

/// Keeps the newest `capacity` quotes, and of large ones fewer: at most five lines for each quote of the capacity. The
/// oldest leave for a new one. A quote that has left stays acceptable by its token.
#[derive(Debug)]
pub(crate) struct RecentQuotes {
    capacity: usize,
    kept: RwLock<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<String, Arc<Quote>>,
    oldest_first: VecDeque<Arc<Quote>>,
    lines: usize,
}

impl RecentQuotes {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, kept: RwLock::default() }
    }

    pub(crate) fn keep(&self, quote: Arc<Quote>) {
        // Freed after the lock is: a large quote takes a while.
        let mut left = Vec::new();
        // A panic elsewhere cannot leave the parts in disagreement: nothing between them can fail.
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.lines += quote.settled.lines.len();
        kept.by_id.insert(quote.issued.id.clone(), Arc::clone(&quote));
        kept.oldest_first.push_back(quote);
        let most_lines = self.capacity.saturating_mul(LINES_PER_QUOTE);
        while kept.oldest_first.len() > self.capacity || kept.lines > most_lines {
            let Some(oldest) = kept.oldest_first.pop_front() else { break };
            kept.lines -= oldest.settled.lines.len();
            left.extend(kept.by_id.remove(&oldest.issued.id));
            left.push(oldest);
        }
        drop(kept);
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Quote>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    /// How many quotes are kept.
    pub(crate) fn count(&self) -> usize {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).oldest_first.len()
    }
}
