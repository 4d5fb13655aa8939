//! Tokens: compact JWS with HMAC-SHA-256 (RFC 7515, RFC 7518 §3.2) and a key id.
//!
//! Any replica that holds the key honours what another one issued. The header of a token is one of ours byte for byte or
//! the token is refused, so nothing that an attacker wrote is parsed before its signature has been checked: another
//! algorithm, an unknown key id, a doubled member and a blank too many all fail at the same comparison.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::Sha256;

/// RFC 7518 §3.2: a key is at least as long as the hash.
const SHORTEST_SECRET_BYTES: usize = 32;
const LONGEST_ID_BYTES: usize = 64;
/// A quote of 100 lines takes about 100 kB; nothing longer is worth hashing.
const LONGEST_TOKEN_BYTES: usize = 512 << 10;

/// One secret and its id. `Debug` shows the id only.
#[derive(Clone)]
pub struct TokenKey {
    id: String,
    /// `{"alg":"HS256","kid":"…","typ":"JWT"}` as it stands in a token.
    encoded_header: String,
    /// HMAC with the key taken in; cloned for each use.
    keyed: Hmac<Sha256>,
}

/// The keys of a gateway: the first signs, all verify.
#[derive(Clone, Debug)]
pub struct TokenKeys {
    signing: TokenKey,
    /// Earlier ones, kept until the last token that they signed has expired.
    retired: Vec<TokenKey>,
}

/// Why a key is not usable. Nothing of the secret is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the id `{0}` of a token key is not 1 to 64 letters, digits, `-`, `_` or `.`")]
    Id(String),
    #[error("the secret of token key `{0}` is not base64 of at least 32 bytes; `openssl rand -base64 32` makes one")]
    Secret(String),
    #[error("there is no token key; give one with an id and a secret")]
    NoKey,
    #[error("two token keys have the id `{0}`; rename one")]
    DuplicateId(String),
}

/// Why a token is refused. For the log: callers answer every case alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not a compact JWS of at most 512 KiB")]
    Malformed,
    #[error("the token's header is not one that this gateway writes: another algorithm or an unknown key id")]
    UnknownHeader,
    #[error("the token's signature does not fit")]
    Signature,
    #[error("the token was issued by another system")]
    Issuer,
    #[error("the token is meant for another use")]
    Audience,
    #[error("the token has expired")]
    Expired,
}

/// Claims that one of our keys signed. What they are good for is not known yet: [`SignedClaims::valid_for`] tells.
#[derive(Clone, Debug, PartialEq)]
pub struct SignedClaims(Value);

/// What a token must say to be of use: `iss` and `aud`, both exact.
#[derive(Clone, Copy, Debug)]
pub struct Purpose<'a> {
    pub issuer: &'a str,
    pub audience: &'a str,
}

impl TokenKey {
    /// # Errors
    /// [`KeyError::Id`] and [`KeyError::Secret`].
    pub fn new(id: &str, secret: &[u8]) -> Result<Self, KeyError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if id.is_empty() || id.len() > LONGEST_ID_BYTES || !id.bytes().all(is_plain) {
            return Err(KeyError::Id(id.chars().take(LONGEST_ID_BYTES).collect()));
        }
        if secret.len() < SHORTEST_SECRET_BYTES {
            return Err(KeyError::Secret(id.to_owned()));
        }
        let keyed = Hmac::new_from_slice(secret).map_err(|_| KeyError::Secret(id.to_owned()))?;
        // The id needs no escapes. Members in alphabetical order, as serde_json writes them.
        let header = format!(r#"{{"alg":"HS256","kid":"{id}","typ":"JWT"}}"#);
        Ok(Self { id: id.to_owned(), encoded_header: URL_SAFE_NO_PAD.encode(header), keyed })
    }

    /// From the secret as an operator writes it: standard base64, blanks around it ignored.
    ///
    /// # Errors
    /// As [`TokenKey::new`].
    pub fn from_base64(id: &str, secret: &str) -> Result<Self, KeyError> {
        let secret = STANDARD.decode(secret.trim()).unwrap_or_default();
        Self::new(id, &secret)
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// A key for another use. No token has a blank in what is signed, so none says what `purpose` with one comes to.
    fn derived(&self, purpose: &str) -> [u8; 32] {
        self.mac(&format!("farebox {purpose}")).finalize().into_bytes().into()
    }

    fn mac(&self, signing_input: &str) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(signing_input.as_bytes());
        mac
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenKeys {
    /// The first key signs.
    ///
    /// # Errors
    /// [`KeyError::NoKey`] and [`KeyError::DuplicateId`].
    pub fn new(keys: Vec<TokenKey>) -> Result<Self, KeyError> {
        let mut keys = keys.into_iter();
        let signing = keys.next().ok_or(KeyError::NoKey)?;
        let mut all = Self { signing, retired: Vec::new() };
        for key in keys {
            if all.with_id(&key.id).is_some() {
                return Err(KeyError::DuplicateId(key.id));
            }
            all.retired.push(key);
        }
        Ok(all)
    }

    /// A compact JWS over `claims`, in the bytes that serde_json gives them.
    pub fn sign(&self, claims: &Value) -> String {
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        let mut token = format!("{}.{payload}", self.signing.encoded_header);
        let tag = self.signing.mac(&token).finalize().into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(tag, &mut token);
        token
    }

    /// Checks form and signature, the latter in constant time.
    ///
    /// # Errors
    /// [`TokenError::Malformed`], [`TokenError::UnknownHeader`] and [`TokenError::Signature`].
    pub fn verify(&self, token: &str) -> Result<SignedClaims, TokenError> {
        if token.len() > LONGEST_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let (signing_input, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = signing_input.split_once('.').ok_or(TokenError::Malformed)?;
        let key = self.all().find(|key| key.encoded_header == header).ok_or(TokenError::UnknownHeader)?;
        // The engine refuses padding and stray bits at the end, so that each signature has one spelling.
        let tag = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        key.mac(signing_input).verify_slice(&tag).map_err(|_| TokenError::Signature)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenError::Malformed)?;
        let claims = serde_json::from_slice(&payload).map_err(|_| TokenError::Malformed)?;
        Ok(SignedClaims(claims))
    }

    /// Of each key one for another use, in the same order: `purpose` tells uses apart.
    pub fn derived(&self, purpose: &str) -> Vec<[u8; 32]> {
        self.all().map(|key| key.derived(purpose)).collect()
    }

    fn all(&self) -> impl Iterator<Item = &TokenKey> {
        std::iter::once(&self.signing).chain(&self.retired)
    }

    fn with_id(&self, id: &str) -> Option<&TokenKey> {
        self.all().find(|key| key.id == id)
    }
}

impl SignedClaims {
    /// The claims, if `iss` and `aud` are those of `purpose` and `exp` (Unix seconds) lies after `now`. A token without
    /// one of them is refused.
    ///
    /// # Errors
    /// [`TokenError::Issuer`], [`TokenError::Audience`] and [`TokenError::Expired`].
    pub fn valid_for(self, purpose: Purpose<'_>, now: Timestamp) -> Result<Value, TokenError> {
        let says = |name: &str, expected: &str| self.0.get(name).and_then(Value::as_str) == Some(expected);
        if !says("iss", purpose.issuer) {
            return Err(TokenError::Issuer);
        }
        if !says("aud", purpose.audience) {
            return Err(TokenError::Audience);
        }
        match self.0.get("exp").and_then(Value::as_i64) {
            Some(expires_unix_s) if now.as_second() < expires_unix_s => Ok(self.0),
            _ => Err(TokenError::Expired),
        }
    }
}

impl Purpose<'_> {
    /// `claims` with `iss`, `aud` and `exp` set, ready to be signed.
    pub fn claims_until(self, expires_at: Timestamp, mut claims: Map<String, Value>) -> Value {
        claims.insert("iss".to_owned(), json!(self.issuer));
        claims.insert("aud".to_owned(), json!(self.audience));
        // Up to the whole second that RFC 7519 wants, so that no token is dead before the quote that it stands for.
        let expires_unix_s = expires_at.as_second().saturating_add(i64::from(expires_at.subsec_nanosecond() > 0));
        claims.insert("exp".to_owned(), json!(expires_unix_s));
        Value::Object(claims)
    }
}

#[cfg(test)]
mod tests;
