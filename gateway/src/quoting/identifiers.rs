//! Ids: prefixed ULIDs. Those made later sort later, to the millisecond of the clock that priced the quote.

use jiff::Timestamp;
use ulid::Ulid;

/// The operating system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub(crate) struct NoRandomness(#[source] getrandom::Error);

/// `q_01kbbq3f6xk2e4s8vw2x7c9t5m`
pub(super) fn time_ordered(prefix: &str, now: Timestamp) -> Result<String, NoRandomness> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(NoRandomness)?;
    let millisecond = u64::try_from(now.as_millisecond()).unwrap_or_default();
    let id = Ulid::from_parts(millisecond, u128::from_be_bytes(random));
    Ok(format!("{prefix}{}", id.to_string().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::time_ordered;

    #[test]
    fn later_ids_sort_later_and_none_is_given_twice() {
        let at = |millisecond| time_ordered("q_", Timestamp::from_millisecond(millisecond).unwrap()).unwrap();
        let (earlier, later) = (at(1_796_083_200_000), at(1_796_083_200_001));
        assert!(earlier < later && earlier.starts_with("q_01"), "{earlier} {later}");
        assert_ne!(at(7), at(7));
    }
}
