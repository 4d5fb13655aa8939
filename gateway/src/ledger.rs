//! The ledger: what was promised. Until it has a database, quotes are kept in bounded memory, the newest ones.

mod quote;
mod recent_quotes;

pub(crate) use quote::{Issued, Message, Quote};
pub(crate) use recent_quotes::RecentQuotes;
