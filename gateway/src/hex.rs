//! Digests as text.

use std::fmt::Write as _;

/// Two lower-case hex digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first 16 bytes, which are enough where a digest only tells things apart.
pub(crate) fn short_hex(digest: &[u8]) -> String {
    hex(digest.get(..16).unwrap_or(digest))
}

#[cfg(test)]
mod tests {
    use super::{hex, short_hex};

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 9, 0x10, 0xab, 0xff]), "000910abff");
        assert_eq!(short_hex(&[0x0a; 20]), "0a".repeat(16));
        assert_eq!(short_hex(&[1, 2]), "0102");
    }
}
