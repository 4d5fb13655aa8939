//! A known answer, then round trips, then everything that must be refused.

use super::*;

const PURPOSE: Purpose<'static> = Purpose { issuer: "farebox", audience: "accept" };
/// The key of RFC 7515 A.1.
const RFC_7515_KEY: &str = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";

fn key(id: &str, seed: u8) -> TokenKey {
    TokenKey::new(id, &[seed; 32]).unwrap()
}

fn keys() -> TokenKeys {
    TokenKeys::new(vec![key("2026-12", 1), key("2026-06", 2)]).unwrap()
}

fn at(unix_s: i64) -> Timestamp {
    Timestamp::from_second(unix_s).unwrap()
}

fn claims() -> Value {
    let claims = json!({ "tenant": "acme", "jti": "q_1", "total": "9300.10" });
    PURPOSE.claims_until(at(2_000), claims.as_object().unwrap().clone())
}

/// A token as someone with the key could write it, whatever its header.
fn token_with_header(header: &str, key: &TokenKey) -> String {
    let signing_input = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims().to_string()));
    let tag = key.mac(&signing_input).finalize().into_bytes();
    format!("{signing_input}.{}", URL_SAFE_NO_PAD.encode(tag))
}

#[test]
fn rfc_7515_a_1() {
    // Its header has a line break in it, which ours never has: the signature is checked, not the whole token.
    let signing_input = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0\
                         dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let key = TokenKey::new("a", &URL_SAFE_NO_PAD.decode(RFC_7515_KEY).unwrap()).unwrap();
    let tag = URL_SAFE_NO_PAD.encode(key.mac(signing_input).finalize().into_bytes());
    assert_eq!(tag, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
}

#[test]
fn a_token_has_these_bytes() {
    let token = TokenKeys::new(vec![key("k", 7)]).unwrap().sign(&json!({ "a": "1.50" }));
    // From Python: hmac.new(bytes([7]) * 32, signing_input, "sha256"), base64url without padding.
    assert_eq!(
        token,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKV1QifQ.eyJhIjoiMS41MCJ9.Eg9uVAdBoPK0Ea9xZ6NgpijnaVBaSYIX3YNT6sDOHc8"
    );
}

#[test]
fn what_was_signed_comes_back() {
    let verified = keys().verify(&keys().sign(&claims())).unwrap();
    assert_eq!(verified.valid_for(PURPOSE, at(1_999)), Ok(claims()));
}

#[test]
fn retired_keys_verify_and_only_the_first_signs() {
    let before = TokenKeys::new(vec![key("2026-06", 2)]).unwrap();
    assert!(keys().verify(&before.sign(&claims())).is_ok());
    assert_eq!(before.verify(&keys().sign(&claims())), Err(TokenError::UnknownHeader));
}

#[test]
fn the_same_id_with_another_secret_is_refused() {
    let stranger = TokenKeys::new(vec![key("2026-12", 9)]).unwrap();
    assert_eq!(keys().verify(&stranger.sign(&claims())), Err(TokenError::Signature));
}

#[test]
fn every_altered_bit_is_refused() {
    let (keys, token) = (keys(), keys().sign(&claims()));
    for position in 0..token.len() {
        for bit in 0..8 {
            let mut bytes = token.clone().into_bytes();
            bytes[position] ^= 1 << bit;
            // What is no UTF-8 any more cannot even be asked.
            let Ok(altered) = String::from_utf8(bytes) else { continue };
            assert!(keys.verify(&altered).is_err(), "bit {bit} of byte {position}: {altered}");
        }
    }
}

#[test]
fn every_shortened_or_lengthened_token_is_refused() {
    let (keys, token) = (keys(), keys().sign(&claims()));
    for end in 0..token.len() {
        assert!(keys.verify(&token[..end]).is_err(), "cut at {end}");
    }
    for garbage in ["A", "=", ".", " ", "\n", "\0", ".e30", "AAAA"] {
        assert!(keys.verify(&format!("{token}{garbage}")).is_err(), "{garbage:?} after");
        assert!(keys.verify(&format!("{garbage}{token}")).is_err(), "{garbage:?} before");
    }
    assert_eq!(keys.verify(&"a".repeat(LONGEST_TOKEN_BYTES + 1)), Err(TokenError::Malformed));
}

#[test]
fn a_spelling_of_the_signature_with_stray_bits_is_refused() {
    let (keys, token) = (keys(), keys().sign(&claims()));
    // 32 bytes leave two bits of the last character unused: three other letters decode to the same bytes in lax decoders.
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (rest, last) = token.split_at(token.len() - 1);
    let accepted: Vec<_> = ALPHABET.chars().filter(|letter| keys.verify(&format!("{rest}{letter}")).is_ok()).collect();
    assert_eq!(accepted, last.chars().collect::<Vec<_>>());
}

#[test]
fn other_headers_are_refused_even_when_signed_with_our_key() {
    let (keys, key) = (keys(), key("2026-12", 1));
    assert!(keys.verify(&token_with_header(r#"{"alg":"HS256","kid":"2026-12","typ":"JWT"}"#, &key)).is_ok());
    let refused = [
        r#"{"alg":"none","kid":"2026-12","typ":"JWT"}"#,
        r#"{"alg":"HS512","kid":"2026-12","typ":"JWT"}"#,
        r#"{"alg":"EdDSA","kid":"2026-12","typ":"JWT"}"#,
        r#"{"alg":"HS256","kid":"2099-01","typ":"JWT"}"#,
        r#"{"alg":"HS256","kid":"","typ":"JWT"}"#,
        r#"{"alg":"HS256","typ":"JWT"}"#,
        r#"{"alg":"HS256","alg":"HS256","kid":"2026-12","typ":"JWT"}"#,
        r#"{"alg":"HS256","kid":"2026-06","kid":"2026-12","typ":"JWT"}"#,
        r#"{"alg":"HS256","crit":["exp"],"kid":"2026-12","typ":"JWT"}"#,
        r#"{"alg":"HS256","kid":"2026-12","typ":"JWT"} "#,
        "",
    ];
    for header in refused {
        assert_eq!(keys.verify(&token_with_header(header, &key)), Err(TokenError::UnknownHeader), "{header}");
    }
    let unsigned = format!("{}.{}.", URL_SAFE_NO_PAD.encode(refused[0]), URL_SAFE_NO_PAD.encode(claims().to_string()));
    assert_eq!(keys.verify(&unsigned), Err(TokenError::UnknownHeader));
}

#[test]
fn issuer_audience_and_expiry_are_checked() {
    let valid_for = |claims: Value, now: i64| {
        let verified = keys().verify(&keys().sign(&claims)).unwrap();
        verified.valid_for(PURPOSE, at(now)).map(|_| ())
    };
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        claims
    };
    assert_eq!(valid_for(claims(), 1_999), Ok(()));
    assert_eq!(valid_for(claims(), 2_000), Err(TokenError::Expired));
    assert_eq!(valid_for(without("exp"), 0), Err(TokenError::Expired));
    assert_eq!(valid_for(with("exp", json!("2000")), 0), Err(TokenError::Expired));
    assert_eq!(valid_for(with("exp", json!(1e300)), 0), Err(TokenError::Expired));
    assert_eq!(valid_for(without("aud"), 0), Err(TokenError::Audience));
    assert_eq!(valid_for(with("aud", json!("console")), 0), Err(TokenError::Audience));
    assert_eq!(valid_for(with("aud", json!(["accept"])), 0), Err(TokenError::Audience));
    assert_eq!(valid_for(with("iss", json!("farebox2")), 0), Err(TokenError::Issuer));
    assert_eq!(valid_for(json!([]), 0), Err(TokenError::Issuer));
}

#[test]
fn keys_that_are_no_keys() {
    let base64 = STANDARD.encode([1; 32]);
    assert!(TokenKey::from_base64("a", &format!(" {base64}\n")).is_ok());
    assert_eq!(TokenKey::new("a", &[1; 31]).err(), Some(KeyError::Secret("a".to_owned())));
    assert_eq!(TokenKey::from_base64("a", "not base64 !").err(), Some(KeyError::Secret("a".to_owned())));
    for id in ["", "a b", "a\"b", "schlüssel", &"a".repeat(65)] {
        assert!(matches!(TokenKey::from_base64(id, &base64), Err(KeyError::Id(_))), "{id}");
    }
    assert_eq!(TokenKeys::new(Vec::new()).err(), Some(KeyError::NoKey));
    let twice = vec![key("b", 1), key("a", 2), key("a", 3)];
    assert_eq!(TokenKeys::new(twice).err(), Some(KeyError::DuplicateId("a".to_owned())));
}

#[test]
fn nothing_of_a_secret_is_shown() {
    let secret = [0xab; 32];
    let keys = TokenKeys::new(vec![TokenKey::new("k", &secret).unwrap()]).unwrap();
    assert_eq!(
        format!("{keys:?}"),
        r#"TokenKeys { signing: TokenKey { id: "k", .. }, retired: [] }"#,
        "`Debug` names the ids and nothing else"
    );
}
