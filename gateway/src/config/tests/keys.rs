//! Token keys, and that nothing shows one.

use super::*;

fn key_errors(keys: &str) -> String {
    let file = File::new(keys);
    let errors = load(Some(&file.0), &[]).unwrap_err().to_string();
    errors.replace(&file.0.display().to_string(), "f.toml")
}

#[test]
fn keys_come_from_the_file_from_files_of_their_own_and_from_the_environment() {
    let secret_file = File::new(&format!("{SECRET}\n"));
    let text = format!(
        "[[tokens.keys]]\nid = \"new\"\nsecret_file = {:?}\n[[tokens.keys]]\nid = \"old\"\nsecret = \"{SECRET}\"\n",
        secret_file.0
    );
    let file = File::new(&text);
    let config = load(Some(&file.0), &[]).unwrap();
    let shown = format!("{:?}", config.tokens.keys);
    assert!(shown.contains("signing: TokenKey { id: \"new\"") && shown.contains("retired: [TokenKey { id: \"old\""));
    let claims = serde_json::json!({ "a": 1 });
    let from_environment =
        load(Some(&file.0), &[("FAREBOX_TOKENS_KEYS", &format!("e:{SECRET},new:{SECRET}"))]).unwrap();
    let token = config.tokens.keys.sign(&claims);
    assert!(from_environment.tokens.keys.verify(&token).is_ok(), "the same secret from a file and from a variable");
    assert!(config.tokens.keys.verify(&from_environment.tokens.keys.sign(&claims)).is_err(), "but `e` is new");
}

#[test]
fn keys_that_are_wrong_are_placed() {
    let short = "c2hvcnQtc2VjcmV0";
    assert_eq!(
        key_errors(&format!("[[tokens.keys]]\nid = \"a\"\nsecret = \"{short}\"\n")),
        "f.toml:3:10: the secret of token key `a` is not base64 of at least 32 bytes; `openssl rand -base64 32` makes one"
    );
    assert_eq!(
        key_errors("[[tokens.keys]]\nid = \"a\"\nsecret_file = \"/nowhere\"\n"),
        "f.toml:3:15: the secret file `/nowhere` cannot be read: entity not found"
    );
    let expected = "give tables with an `id` and either a `secret` or a `secret_file`";
    for (keys, error) in [
        ("[[tokens.keys]]\nid = \"a\"\n", format!("f.toml:1:1: `tokens.keys` is incomplete or doubled; {expected}")),
        ("tokens.keys = 1\n", format!("f.toml:1:15: `tokens.keys` is of type integer; {expected}")),
        ("tokens.keys = [\"a\"]\n", format!("f.toml:1:16: `tokens.keys` is of type string; {expected}")),
        ("tokens.keys = []\n", "f.toml:1:15: there is no token key; give one with an id and a secret".to_owned()),
        (
            "tokens.keys = [{ id = 1, secret = \"x\" }]\n",
            "f.toml:1:23: `tokens.keys.id` is not a string; give a string".to_owned(),
        ),
        (
            "tokens.keys = [{ secretfile = 1 }]\n",
            "f.toml:1:18: `tokens.keys.secretfile` is not a setting; did you mean `tokens.keys.secret_file`?"
                .to_owned(),
        ),
        (
            "tokens.keys = [{ name = 1 }]\n",
            "f.toml:1:18: `tokens.keys.name` is not a setting; `farebox.example.toml` lists them all".to_owned(),
        ),
    ] {
        assert_eq!(key_errors(keys), error, "{keys}");
    }
    let twice =
        format!("tokens.keys = [{{ id = \"a\", secret = \"{SECRET}\" }}, {{ id = \"a\", secret = \"{SECRET}\" }}]");
    assert_eq!(key_errors(&twice), "f.toml:1:15: two token keys have the id `a`; rename one");
}

#[test]
fn no_error_and_no_debug_output_shows_a_secret() {
    let secret = "aHVudGVyMi1odW50ZXIyLWh1bnRlcjItaHVudGVyMg";
    let bad = [
        format!("[[tokens.keys]]\nid = \"a\"\nsecret = \"{secret}!\"\n"),
        format!("[[tokens.keys]]\nid = \"a\"\nsecret = \"{secret}\n"),
        format!("[[tokens.keys]]\nid = \"a\"\nsecret = '{secret}\"\"\"\n"),
        format!("[[tokens.keys]]\nid = \"a\"\nsecret = {secret}\n"),
        format!("[[tokens.keys]]\nid = \"a\"\nsecret = [\"{secret}\"]\n"),
        format!("[[tokens.keys]]\nid = \"a\"\nsecret = \"{secret}\"\nsecret_file = \"x\"\n"),
        format!("tokens.keys = \"{secret}\"\n"),
        format!("tokens.keys = [\"{secret}\"]\n"),
    ];
    for text in bad {
        let file = File::new(&text);
        let errors = load(Some(&file.0), &[]).unwrap_err();
        assert!(!format!("{errors} {errors:?}").contains("aHVudGVyMi"), "{errors}");
    }
    for value in [secret.to_owned(), format!("a:{secret}!"), format!("k:{SECRET},{secret}")] {
        let errors = load(None, &[("FAREBOX_TOKENS_KEYS", &value)]).unwrap_err();
        assert!(!format!("{errors} {errors:?}").contains("aHVudGVyMi"), "{errors}");
        assert!(errors.to_string().starts_with("FAREBOX_TOKENS_KEYS: "), "{errors}");
    }
    assert!(!format!("{:?}", defaults()).contains("MDEyMzQ1"));
}
