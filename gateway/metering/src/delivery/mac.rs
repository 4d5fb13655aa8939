//! The MAC of a snapshot: HMAC-SHA-256 with the agent's key, over the exact bytes of the snapshot without it (SHAPES).
//!
//! Signed is text, not meaning: a snapshot is written once, the MAC goes in front of its last brace, and whoever checks it
//! takes the same bytes out again. No canonical form is needed, and none can be got wrong.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Fewer bytes than the hash has would be the easier thing to guess (RFC 2104 §3).
const SHORTEST_KEY: usize = 32;
const LONGEST_KEY: usize = 1024;
const BEFORE_HEX: &[u8] = b",\"mac\":\"";
const AFTER_HEX: &[u8] = b"\"}";
const HEX_DIGITS: usize = 64;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A secret that an agent and the gateway share.
#[derive(Clone, PartialEq, Eq)]
pub struct MacKey {
    id: Option<String>,
    secret: Vec<u8>,
}

/// Why a text is no key. It never holds the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacKeyError {
    #[error("the key is not base64; make one with `openssl rand -base64 32`")]
    NotBase64,
    #[error("the key has {0} bytes; give {SHORTEST_KEY} to {LONGEST_KEY} (`openssl rand -base64 32`)")]
    Length(usize),
    #[error("the id in front of the key must be 1 to 64 of a-z, A-Z, 0-9, `-`, `_` and `.`")]
    Id,
}

/// Only a JSON object with members can carry a MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object with members")]
pub struct NotAnObject;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacError {
    #[error("the snapshot does not end in a MAC of {HEX_DIGITS} lower-case hex digits")]
    Absent,
    #[error("the MAC is not that of the snapshot under this key")]
    Wrong,
}

impl MacKey {
    /// Reads base64, alone or after an id and a colon: `gpu-07:aGk…`. The id tells keys apart for people.
    ///
    /// # Errors
    /// [`MacKeyError`].
    pub fn parse(text: &str) -> Result<Self, MacKeyError> {
        let text = text.trim();
        let (id, secret) = match text.split_once(':') {
            Some((id, secret)) => (Some(id.trim()), secret.trim()),
            None => (None, text),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if id.is_some_and(|id| id.is_empty() || id.len() > 64 || !id.bytes().all(is_plain)) {
            return Err(MacKeyError::Id);
        }
        let secret = STANDARD.decode(secret).map_err(|_| MacKeyError::NotBase64)?;
        if !(SHORTEST_KEY..=LONGEST_KEY).contains(&secret.len()) {
            return Err(MacKeyError::Length(secret.len()));
        }
        Ok(Self { id: id.map(str::to_owned), secret })
    }

    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn mac(&self) -> Option<Hmac<Sha256>> {
        // INVARIANT: HMAC takes keys of any length.
        Hmac::<Sha256>::new_from_slice(&self.secret).ok()
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MacKey({})", self.id.as_deref().unwrap_or("without an id"))
    }
}

/// The snapshot with `,"mac":"<hex>"` in front of its last brace. `snapshot` is one JSON object, without `mac`.
///
/// # Errors
/// [`NotAnObject`].
pub fn sign(key: &MacKey, snapshot: &[u8]) -> Result<Vec<u8>, NotAnObject> {
    let open =
        snapshot.strip_suffix(b"}").filter(|open| open.len() > 1 && open.starts_with(b"{")).ok_or(NotAnObject)?;
    let mut mac = key.mac().ok_or(NotAnObject)?;
    mac.update(snapshot);
    let mut signed = Vec::with_capacity(open.len().saturating_add(BEFORE_HEX.len() + HEX_DIGITS + AFTER_HEX.len()));
    signed.extend_from_slice(open);
    signed.extend_from_slice(BEFORE_HEX);
    for byte in mac.finalize().into_bytes() {
        for nibble in [byte >> 4, byte & 15] {
            signed.extend(DIGITS.get(usize::from(nibble)));
        }
    }
    signed.extend_from_slice(AFTER_HEX);
    Ok(signed)
}

/// Whether the body ends in its MAC under this key. What is compared takes the same time wherever it differs.
///
/// # Errors
/// [`MacError`].
pub fn verify(key: &MacKey, body: &[u8]) -> Result<(), MacError> {
    let open = body.strip_suffix(AFTER_HEX).ok_or(MacError::Absent)?;
    let (open, hex) = open.split_at_checked(open.len().wrapping_sub(HEX_DIGITS)).ok_or(MacError::Absent)?;
    let open = open.strip_suffix(BEFORE_HEX).ok_or(MacError::Absent)?;
    let sent = bytes_of(hex).ok_or(MacError::Absent)?;
    let mut mac = key.mac().ok_or(MacError::Wrong)?;
    mac.update(open);
    mac.update(b"}");
    mac.verify_slice(&sent).map_err(|_| MacError::Wrong)
}

fn bytes_of(hex: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| DIGITS.iter().position(|known| known == digit).and_then(|found| u8::try_from(found).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(value(high)? << 4 | value(low)?),
        _ => None,
    };
    hex.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNAPSHOT: &[u8] = br#"{"schema":1,"node":"gpu-07","seq":41,"tenant":"acme"}"#;

    fn key() -> MacKey {
        MacKey::parse("gpu-07:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap()
    }

    /// By `openssl dgst -sha256 -mac HMAC -macopt key:0123456789abcdef0123456789abcdef`.
    #[test]
    fn the_mac_is_the_one_that_openssl_computes() {
        let signed = String::from_utf8(sign(&key(), SNAPSHOT).unwrap()).unwrap();
        let expected = "fd975db837baab338ff26426dfa9bf1bbea28cba276feba8d2a6e9c9d36a44ab";
        assert_eq!(signed, format!(r#"{{"schema":1,"node":"gpu-07","seq":41,"tenant":"acme","mac":"{expected}"}}"#));
        assert_eq!(verify(&key(), signed.as_bytes()), Ok(()));
    }

    #[test]
    fn any_other_byte_is_noticed() {
        let signed = sign(&key(), SNAPSHOT).unwrap();
        for position in 0..signed.len() {
            let mut changed = signed.clone();
            changed[position] ^= 1;
            assert!(verify(&key(), &changed).is_err(), "byte {position}");
        }
        let mut longer = signed.clone();
        longer.push(b'\n');
        assert_eq!(verify(&key(), &longer), Err(MacError::Absent));
        let other = MacKey::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWc=").unwrap();
        assert_eq!(verify(&other, &signed), Err(MacError::Wrong));
    }

    #[test]
    fn what_cannot_end_in_a_mac_has_none() {
        let upper = String::from_utf8(sign(&key(), SNAPSHOT).unwrap()).unwrap();
        let upper = upper.replace("mac\":\"", "MAC\":\"");
        for body in [&b""[..], b"}", b"\"}", b"{}", SNAPSHOT, br#"{"mac":"00"}"#, upper.as_bytes()] {
            assert_eq!(verify(&key(), body), Err(MacError::Absent), "{}", String::from_utf8_lossy(body));
        }
        for body in [&b""[..], b"{}", b"[1]", b"{\"a\":1", b"1}"] {
            assert_eq!(sign(&key(), body), Err(NotAnObject));
        }
    }

    #[test]
    fn keys_that_are_none_are_refused_without_being_told() {
        let short = STANDARD.encode([7; 31]);
        for (text, error) in [
            ("hunter2!", MacKeyError::NotBase64),
            ("", MacKeyError::Length(0)),
            (short.as_str(), MacKeyError::Length(31)),
            (":MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", MacKeyError::Id),
            ("a b:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", MacKeyError::Id),
        ] {
            assert_eq!(MacKey::parse(text), Err(error), "{text}");
        }
        assert_eq!(key().id(), Some("gpu-07"));
        assert_eq!(format!("{:?}", key()), "MacKey(gpu-07)");
        assert_eq!(MacKey::parse(" MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n").unwrap().id(), None);
    }
}
