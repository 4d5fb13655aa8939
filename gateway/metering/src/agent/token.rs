//! The token of job calls: read from a file, kept as its hash, compared without telling by the time where it differs.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// `openssl rand -hex 16` has twice as many.
const SHORTEST: usize = 16;
const LONGEST: usize = 512;

/// What a caller must send as `Authorization: Bearer …`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token([u8; 32]);

/// Why a text is no token. It never holds the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give {SHORTEST} to {LONGEST} printable ASCII characters without blanks, such as of `openssl rand -hex 32`")]
pub(crate) struct NoToken;

impl Token {
    /// Blanks around it are not part of it.
    ///
    /// # Errors
    /// [`NoToken`].
    pub(crate) fn parse(text: &str) -> Result<Self, NoToken> {
        let text = text.trim();
        let fits = (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Sha256::digest(text).into())).ok_or(NoToken)
    }

    /// Whether the value of an `Authorization` header has it.
    pub(crate) fn is_in(&self, authorization: &[u8]) -> bool {
        let Some((scheme, sent)) = authorization.split_at_checked(7) else { return false };
        let sent: [u8; 32] = Sha256::digest(sent.trim_ascii()).into();
        let differs = self.0.iter().zip(sent).fold(0, |differs, (own, sent)| differs | (own ^ sent));
        scheme.eq_ignore_ascii_case(b"Bearer ") && differs == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_counts() {
        let token = Token::parse(" 0123456789abcdef\n").unwrap();
        assert!(token.is_in(b"Bearer 0123456789abcdef") && token.is_in(b"bearer  0123456789abcdef "));
        for other in [
            &b""[..],
            b"Bearer",
            b"Bearer ",
            b"Bearer 0123456789abcde",
            b"Bearer 0123456789abcdeff",
            b"0123456789abcdef",
        ] {
            assert!(!token.is_in(other), "{}", String::from_utf8_lossy(other));
        }
        assert!(!token.is_in(b"Basic  0123456789abcdef"));
    }

    #[test]
    fn what_is_too_short_or_has_blanks_is_none() {
        for text in ["", "hunter2", "0123456789abcde", "0123456789 abcdef", "0123456789abcdef\u{fc}"] {
            assert_eq!(Token::parse(text), Err(NoToken), "{text}");
        }
        assert!(Token::parse(&"x".repeat(LONGEST + 1)).is_err());
    }
}
