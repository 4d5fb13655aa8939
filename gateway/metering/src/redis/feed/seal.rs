//! Roll-ups as they lie in Redis: what brings them in order, the gateways' MAC, and what is kept.
//!
//! The MAC is by gateways, not by agents: whoever can write to Redis can neither raise a utilisation nor give one tenant's to
//! another. An older roll-up put in the place of a newer one is taken, as nothing tells it from one that was kept late: its
//! buckets are those of its time, and what was held since is counted when the holding is next heard of.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::mirror::KeptRollUp;
use crate::redis::keys::ORDER_DIGITS;

/// Some 80 kB for each metric at most, and 1 kB for each holding.
pub(super) const MOST_ROLL_UP_BYTES: usize = 1 << 20;
const MAC_BYTES: usize = 32;
/// Order, MAC, lengths, and the names of tenant and model.
pub(super) const MOST_VALUE_BYTES: usize = MOST_ROLL_UP_BYTES + ORDER_DIGITS + MAC_BYTES + 512;
const CONTEXT: &[u8] = b"farebox roll-up 1";

/// Secrets that gateways share: the first seals, all open.
#[derive(Clone)]
pub struct SealKeys(Vec<[u8; 32]>);

impl SealKeys {
    /// `None` where there is none.
    pub fn new(keys: Vec<[u8; 32]>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// All of the value but its order. `None`: too large to be kept.
    pub(super) fn seal(&self, prefix: &str, order: &str, kept: &KeptRollUp) -> Option<Vec<u8>> {
        if kept.bytes.len() > MOST_ROLL_UP_BYTES {
            return None;
        }
        let body = postcard::to_stdvec(&(&kept.tenant, &kept.gpu_model, &kept.bytes)).ok()?;
        let mac = mac(self.0.first()?, prefix, order, &body)?.finalize().into_bytes();
        Some([mac.as_slice(), &body].concat())
    }

    /// What a gateway of ours kept. `None` for anything else.
    pub(super) fn open(&self, prefix: &str, value: &[u8]) -> Option<(String, KeptRollUp)> {
        let (order, rest) = value.split_at_checked(ORDER_DIGITS)?;
        let order = std::str::from_utf8(order).ok().filter(|order| order.bytes().all(|byte| byte.is_ascii_digit()))?;
        let (sealed, body) = rest.split_at_checked(MAC_BYTES)?;
        let is_ours =
            |key: &[u8; 32]| mac(key, prefix, order, body).is_some_and(|mac| mac.verify_slice(sealed).is_ok());
        if !self.0.iter().any(is_ours) {
            return None;
        }
        let (tenant, gpu_model, bytes) = postcard::from_bytes(body).ok()?;
        Some((order.to_owned(), KeptRollUp { tenant, gpu_model, bytes }))
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SealKeys({})", self.0.len())
    }
}

fn mac(key: &[u8; 32], prefix: &str, order: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
    // INVARIANT: HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(CONTEXT);
    // Neither has a zero byte, and the body says its lengths: no two triples read alike.
    for part in [prefix.as_bytes(), order.as_bytes()] {
        mac.update(&[0]);
        mac.update(part);
    }
    mac.update(&[0]);
    mac.update(body);
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::keys;

    fn keys(letters: &[u8]) -> SealKeys {
        SealKeys::new(letters.iter().map(|letter| [*letter; 32]).collect()).unwrap()
    }

    fn kept() -> KeptRollUp {
        KeptRollUp { tenant: "acme".to_owned(), gpu_model: "A100".to_owned(), bytes: vec![1, 2, 3] }
    }

    fn value(by: &SealKeys) -> Vec<u8> {
        let order = keys::order(7, 1);
        [order.as_bytes(), &by.seal("farebox", &order, &kept()).unwrap()].concat()
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let old = value(&keys(b"a"));
        assert_eq!(keys(b"ba").open("farebox", &old), Some((keys::order(7, 1), kept())));
        let new = value(&keys(b"ba"));
        assert_eq!(keys(b"a").open("farebox", &new), None);
        assert_eq!(keys(b"b").open("farebox", &new).unwrap().1, kept());
    }

    #[test]
    fn any_other_byte_or_prefix_is_noticed() {
        let value = value(&keys(b"a"));
        assert_eq!(keys(b"a").open("other", &value), None);
        for position in 0..value.len() {
            let mut changed = value.clone();
            changed[position] ^= 1;
            assert_eq!(keys(b"a").open("farebox", &changed), None, "byte {position}");
            assert_eq!(keys(b"a").open("farebox", &value[..position]), None, "{position} bytes");
        }
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let large = KeptRollUp { bytes: vec![0; MOST_ROLL_UP_BYTES + 1], ..kept() };
        assert_eq!(keys(b"a").seal("farebox", &keys::order(1, 1), &large), None);
        let most = KeptRollUp { bytes: vec![0; MOST_ROLL_UP_BYTES], ..kept() };
        assert!(
            keys(b"a").seal("farebox", &keys::order(1, 1), &most).unwrap().len() + ORDER_DIGITS <= MOST_VALUE_BYTES
        );
        assert_eq!(format!("{:?}", keys(b"ab")), "SealKeys(2)");
        assert!(SealKeys::new(Vec::new()).is_none());
    }
}
