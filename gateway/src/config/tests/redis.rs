//! `[redis]` and `[[agents]]`.

use super::*;

/// Nobody's certificate.
pub(super) const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBdTCCARugAwIBAgIUFw0UlvJLuH4VNfsf3+pL5frHAKswCgYIKoZIzj0EAwIw\n\
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjEyMDExNjM5MThaGA8yMTI2MTEwNzE2Mzkx\n\
OFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKAw\n\
Bhkb4I2rGD5IawpqY7BK6YoZsx9M65DhuV78COcYKE+V7mfrIOI9OpXj/x4h+YlU\n\
8ETqA9nsJ8qWfNlM7a+jUzBRMB0GA1UdDgQWBBSmmj8Tv35rbEkTZg5UrxMoO49l\n\
tjAfBgNVHSMEGDAWgBSmmj8Tv35rbEkTZg5UrxMoO49ltjAPBgNVHRMBAf8EBTAD\n\
AQH/MAoGCCqGSM49BAMCA0gAMEUCIFF9t6u+EJTiAyTeb0prbEjczjS7fSsb6HsE\n\
LH4VJCdbAiEArjhgN1LB27/ax2aEntb6Q2SzuMg/pzAthhK5+R377IY=\n\
-----END CERTIFICATE-----\n";
const AGENT: (&str, &str) = ("FAREBOX_AGENTS", "gpu-07:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
const URL: (&str, &str) = ("FAREBOX_REDIS_URL", "redis://127.0.0.1:6380/2");

fn redis(environment: &[(&str, &str)]) -> Redis {
    let environment: Vec<_> = environment.iter().copied().chain([KEY]).collect();
    load(None, &environment).unwrap().redis.unwrap()
}

#[test]
fn without_a_url_there_is_none() {
    assert_eq!(defaults().redis, None);
    let agents_alone = load(None, &[KEY, AGENT]).unwrap();
    assert_eq!(agents_alone.redis, None);
    for setting in ["username", "password_file", "ca_file"] {
        let file = File::new(SECRET);
        let errors = errors_of(&format!("redis.{setting} = {:?}\n", file.0), &[AGENT]);
        assert_eq!(errors, format!("`redis.{setting}` is of no use without `redis.url`; give that, or leave this out"));
    }
}

#[test]
fn settings_come_from_the_file_and_from_the_environment_above_it() {
    let password = File::new("hunter2\n");
    let text = format!(
        "[redis]\nurl = \"redis://one:two@h1:7/3\"\nusername = \"three\"\npassword_file = {:?}\nprefix = \"p\"\nshards = 4\n\
         [[agents]]\nnode = \"*\"\nsecret = \"{SECRET}\"\ntenants = [\"acme\", \"globex\"]\n",
        password.0
    );
    let file = File::new(&text);
    let from_file = load(Some(&file.0), &[KEY]).unwrap().redis.unwrap();
    let settings = &from_file.settings;
    assert_eq!((settings.host.as_str(), settings.port, settings.database), ("h1", 7, 3));
    assert_eq!(settings.username.as_deref(), Some("three"));
    assert_eq!(settings.password.as_deref(), Some("hunter2"), "the file's, without its line break");
    assert_eq!((settings.keyspace.prefix.as_str(), settings.keyspace.shards), ("p", 4));
    let above = load(
        Some(&file.0),
        &[
            KEY,
            AGENT,
            URL,
            ("FAREBOX_REDIS_USERNAME", "four"),
            ("FAREBOX_REDIS_PREFIX", "q"),
            ("FAREBOX_REDIS_SHARDS", "5"),
        ],
    );
    let above = above.unwrap().redis.unwrap();
    assert_eq!(above.settings.to_string(), "redis://127.0.0.1:6380/2");
    assert_eq!(above.settings.username.as_deref(), Some("four"));
    assert_eq!((above.settings.keyspace.prefix.as_str(), above.settings.keyspace.shards), ("q", 5));
    assert_ne!(above.agents, from_file.agents);
    assert_eq!(above.agents, redis(&[URL, AGENT]).agents);
}

#[test]
fn redis_without_the_keys_of_agents_says_what_to_do() {
    let told = "with `redis.url` the keys that agents sign with are needed, or no snapshot counts; add them under `[[agents]]`, \
                or set `FAREBOX_AGENTS` to `node:secret` (`openssl rand -base64 32` makes a secret)";
    assert_eq!(errors_of("", &[URL]), told);
    assert_eq!(errors_of("agents = []\n", &[URL]), told);
}

#[test]
fn what_is_wrong_is_placed() {
    for (text, error) in [
        (
            "redis.url = \"http://h\"\n".to_owned(),
            "f.toml:1:13: `redis.url`: it does not begin with `redis://`, or `rediss://` for TLS".to_owned(),
        ),
        (
            "redis.url = 1\n".to_owned(),
            "f.toml:1:13: `redis.url` is of type integer; give a URL like `redis://127.0.0.1:6379`".to_owned(),
        ),
        (
            "redis.prefix = \"{x}\"\n".to_owned(),
            "f.toml:1:16: `redis.prefix` is `{x}`; give 1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.` and `:`".to_owned(),
        ),
        (
            "[[agents]]\nnode = \"a\"\nsecret = \"c2hvcnQ=\"\n".to_owned(),
            "f.toml:3:10: the secret of agent `a`: the key has 5 bytes; give 32 to 1024 (`openssl rand -base64 32`)"
                .to_owned(),
        ),
        (
            "[[agents]]\nnode = \"a\"\nsecret_file = \"/nowhere\"\n".to_owned(),
            "f.toml:3:15: the secret file `/nowhere` cannot be read: entity not found".to_owned(),
        ),
        (
            format!("[[agents]]\nnode = \"a\"\nsecret = \"{SECRET}\"\ntenants = []\n"),
            "f.toml:4:11: `agents.tenants` is not a list of names; give a list of tenants".to_owned(),
        ),
        (
            format!("[[agents]]\nnode = \"a\"\nsecret = \"{SECRET}\"\ntenant = \"x\"\n"),
            "f.toml:4:1: `agents.tenant` is not a setting; did you mean `agents.tenants`?".to_owned(),
        ),
    ] {
        assert_eq!(errors_of(&text, &[]), error, "{text}");
    }
    let plain = File::new(AUTHORITY);
    let without_tls = errors_of(&format!("redis.ca_file = {:?}\n", plain.0), &[URL, AGENT]);
    assert!(without_tls.starts_with("`redis.url` is without TLS; "), "{without_tls}");
    let none = File::new("");
    let empty = errors_of(&format!("redis.ca_file = {:?}\n", none.0), &[("FAREBOX_REDIS_URL", "rediss://h"), AGENT]);
    assert!(empty.starts_with("`redis.ca_file`: the file of authorities holds no certificate"), "{empty}");
}

#[test]
fn no_error_and_no_debug_output_shows_a_secret() {
    let secret = "aHVudGVyMi1odW50ZXIyLWh1bnRlcjItaHVudGVyMg";
    for text in [
        format!("[[agents]]\nnode = \"a\"\nsecret = \"{secret}!\"\n"),
        format!("[[agents]]\nnode = \"a\"\nsecret = [\"{secret}\"]\n"),
        format!("agents = \"{secret}\"\n"),
        format!("redis.url = \"redis://u:{secret}@\"\n"),
        format!("redis.url = \"rdis://u:{secret}@h\"\n"),
        format!("redis.url = [\"redis://u:{secret}@h\"]\n"),
    ] {
        let errors = errors_of(&text, &[]);
        assert!(!errors.contains("aHVudGVyMi"), "{errors}");
    }
    for value in [secret.to_owned(), format!("a:{secret}!"), format!(":{secret}")] {
        let errors = load(None, &[KEY, ("FAREBOX_AGENTS", &value)]).unwrap_err();
        assert!(!format!("{errors} {errors:?}").contains("aHVudGVyMi"), "{errors}");
        assert!(errors.to_string().starts_with("FAREBOX_AGENTS: "), "{errors}");
    }
    let shown = format!("{:?}", redis(&[AGENT, ("FAREBOX_REDIS_URL", "redis://u:hunter2@h")]));
    assert!(!shown.contains("hunter2") && !shown.contains("MDEyMzQ1") && !shown.contains("012345"), "{shown}");
}
