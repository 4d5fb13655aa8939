//! Defaults, the example, where each setting can come from, and everything that can be wrong with one.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

mod keys;
mod origins;
mod redis;

use redis::AUTHORITY;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const KEY: (&str, &str) = ("FAREBOX_TOKENS_KEYS", "k:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");

/// A file of its own, gone at the end.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("farebox-config-{}-{count}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn load(file: Option<&Path>, environment: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    Config::load(file, environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

/// The errors of a file beside a usable key, one on a line, its own name taken out.
fn errors_of(text: &str, environment: &[(&str, &str)]) -> String {
    let file = File::new(text);
    let environment: Vec<_> = environment.iter().copied().chain([KEY]).collect();
    let errors = load(Some(&file.0), &environment).unwrap_err();
    errors.to_string().replace(&file.0.display().to_string(), "f.toml")
}

fn defaults() -> Config {
    load(None, &[KEY]).unwrap()
}

#[test]
fn defaults_are_complete_but_for_a_key() {
    let config = defaults();
    assert_eq!(config.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(config.metrics_listen, None);
    assert_eq!(config.policies_dir, PathBuf::from("data/policies"));
    assert_eq!(config.code_cache, None);
    assert_eq!(config.http.body_limit_bytes, 1_048_576);
    assert_eq!(config.http.serving, serving::Limits::standard());
    assert_eq!(config.mirror, MirrorLimits::default());
    assert_eq!(config.sandbox.memory_bytes, farebox_sandbox::Limits::standard().memory_bytes);
    let error = load(None, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`tokens.keys` has no key; add one under `[[tokens.keys]]`, or set `FAREBOX_TOKENS_KEYS` to `id:secret` (`openssl rand -base64 32` makes a secret)"
    );
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../farebox.example.toml")
}

#[test]
fn the_example_states_the_defaults() {
    let config = load(Some(&example()), &[KEY]).unwrap();
    assert_eq!(format!("{config:#?}"), format!("{:#?}", defaults()));
}

#[test]
fn the_example_names_every_setting_and_what_is_commented_out_in_it_works() {
    // Without its marks, a comment that reads like a setting or a table is one.
    let is_setting = |line: &str| line.contains(" = ") && !line.contains("FAREBOX_") || line.starts_with("[[");
    let text = fs::read_to_string(example()).unwrap();
    let uncommented: Vec<_> = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|comment| is_setting(comment)).unwrap_or(line))
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let (secret_file, authority) = (File::new(SECRET), File::new(AUTHORITY));
    let secrets = ["/run/secrets/farebox-2026-12", "/run/secrets/farebox-redis", "/run/secrets/farebox-agent-gpu-07"];
    let mut text = uncommented.join("\n").replace("redis://", "rediss://");
    for secret in secrets {
        text = text.replace(secret, &secret_file.0.display().to_string());
    }
    text = text.replace("/etc/farebox/redis-ca.pem", &authority.0.display().to_string());
    let file = File::new(&text);
    let config = load(Some(&file.0), &[]).unwrap();
    assert_eq!(config.metrics_listen, Some("127.0.0.1:9090".parse().unwrap()));
    assert_eq!(config.quotes.workers, 2);
    assert_eq!(config.code_cache, Some(PathBuf::from("/var/cache/farebox/compiled")));
    assert_eq!(config.redis.unwrap().settings.to_string(), "rediss://127.0.0.1:6379/0");
    // A value that no setting takes, for each line: what is not named in the example would be missing here.
    let count = text.lines().filter(|line| line.contains(" = ")).count();
    let broken: String = text
        .lines()
        .map(|line| line.split_once(" = ").map_or(line.to_owned(), |(name, _)| format!("{name} = true")) + "\n")
        .collect();
    let named: Vec<_> = {
        let file = File::new(&broken);
        let errors = load(Some(&file.0), &[]).unwrap_err();
        errors.iter().map(|error| error.to_string()).collect()
    };
    assert_eq!(named.len(), count - 3, "one for each setting, one for the key, one for the agent: {named:#?}");
}

#[test]
fn every_setting_comes_from_the_file_and_from_the_environment_above_it() {
    let settings = [
        ("listen", "\"0.0.0.0:1\""),
        ("metrics.listen", "\"[::1]:2\""),
        ("data_dir", "\"d\""),
        ("policies_dir", "\"p\""),
        ("tokens.issuer", "\"i\""),
        ("sandbox.evaluate_fuel", "123456"),
        ("sandbox.memory_bytes", "2097152"),
        ("sandbox.cache_dir", "\"c\""),
        ("memo.bytes", "1048576"),
        ("memo.recompute_one_in", "7"),
        ("quotes.kept", "3"),
        ("quotes.workers", "4"),
        ("quotes.queue", "5"),
        ("http.body_limit_bytes", "2048"),
        ("http.header_read_timeout", "\"1500ms\""),
        ("http.keep_alive_timeout", "\"61s\""),
        ("http.body_read_timeout", "\"6s\""),
        ("http.request_timeout", "\"16s\""),
        ("http.write_timeout", "\"8s\""),
        ("http.max_connections", "9"),
        ("http.max_requests", "10"),
        ("http.max_streams", "14"),
        ("http.cors_origins", "\"https://shop.example, http://[::1]:3000\""),
        ("http.drain_timeout", "\"21s\""),
        ("mirror.retention", "\"11m\""),
        ("mirror.snapshots", "12"),
        ("mirror.roll_ups", "13"),
        ("log.format", "\"text\""),
        ("log.level", "\"debug\""),
    ];
    let text: String = settings.iter().map(|(path, value)| format!("{path} = {value}\n")).collect();
    let file = File::new(&text);
    let from_file = format!("{:#?}", load(Some(&file.0), &[KEY]).unwrap());
    let names: Vec<_> = settings
        .iter()
        .map(|(path, value)| {
            let name = format!("FAREBOX_{}", path.replace('.', "_").to_ascii_uppercase());
            (name, value.trim_matches('"').to_owned())
        })
        .collect();
    let all: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain([KEY]).collect();
    assert_eq!(format!("{:#?}", load(None, &all).unwrap()), from_file);
    let example = example();
    assert_eq!(format!("{:#?}", load(Some(&example), &all).unwrap()), from_file, "the environment is above the file");
    for (name, value) in &names {
        let alone = format!("{:#?}", load(None, &[KEY, (name.as_str(), value.as_str())]).unwrap());
        assert_ne!(alone, format!("{:#?}", defaults()), "{name} changes nothing");
    }
}

#[test]
fn the_policies_lie_in_the_data_directory_unless_said_otherwise() {
    let config = load(None, &[KEY, ("FAREBOX_DATA_DIR", "/srv/f")]).unwrap();
    assert_eq!(config.policies_dir, PathBuf::from("/srv/f/policies"));
}

#[test]
fn all_errors_are_told_at_once_with_their_places() {
    let text = "\
listen = \"localhost\"
dta_dir = \"d\"

[http]
max_connections = 0
body_read_timeout = 5
  header_read_timeout = \"soon\"
\"größe\" = 1

[log]
level = \"loud\"
";
    let environment =
        [("FAREBOX_QUOTES_QUEUE", "-1"), ("FAREBOX_HTTP_MAX", "1"), ("FAREBOX_DATA_DRI", "d"), ("PATH", "/bin")];
    assert_eq!(
        errors_of(text, &environment),
        "\
f.toml:1:10: `listen` is `localhost`; give an address with a port, like `127.0.0.1:8080`
f.toml:2:1: `dta_dir` is not a setting; did you mean `data_dir`?
f.toml:5:19: `http.max_connections` is `0`; give a whole number from 1 to 1000000
f.toml:6:21: `http.body_read_timeout` is of type integer; give a duration from `100ms` to `1m`, like `10s`
f.toml:7:25: `http.header_read_timeout` is `soon`; give a duration from `100ms` to `1m`, like `10s`
f.toml:8:1: `http.größe` is not a setting; `farebox.example.toml` lists them all
f.toml:11:9: `log.level` is `loud`; give `error` or `warn` or `info` or `debug` or `trace`
FAREBOX_DATA_DRI: `FAREBOX_DATA_DRI` is not a setting; did you mean `FAREBOX_DATA_DIR`?
FAREBOX_HTTP_MAX: `FAREBOX_HTTP_MAX` is not a setting; `farebox.example.toml` lists them all
FAREBOX_QUOTES_QUEUE: `quotes.queue` is `-1`; give a whole number from 1 to 100000"
    );
}

#[test]
fn columns_count_characters() {
    assert!(errors_of("http = { \"größe\" = 1, queue = 1 }\n", &[]).contains("f.toml:1:23: `http.queue`"));
}

#[test]
fn broken_toml_is_placed_and_the_rest_is_still_checked() {
    let errors = errors_of(
        "listen = \ndata_dir = \"d\"\ndata_dir = \"e\"\n[http]\nqueue = 1\n",
        &[("FAREBOX_LOG_LEVEL", "loud")],
    );
    assert!(errors.contains("f.toml:1:9: ") || errors.contains("f.toml:1:10: "), "{errors}");
    assert!(errors.contains("f.toml:3:1: ") && errors.contains("duplicate key"), "{errors}");
    assert!(errors.contains("`http.queue` is not a setting") && errors.contains("FAREBOX_LOG_LEVEL: "), "{errors}");
}

#[test]
fn a_file_that_cannot_be_read_is_one_error_among_others() {
    let errors = load(Some(Path::new("/nowhere/f.toml")), &[("FAREBOX_LISTEN", "x")]).unwrap_err().to_string();
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 3, "{errors}");
    assert_eq!(lines[0], "/nowhere/f.toml: the configuration file cannot be read: entity not found");
}

#[test]
fn tables_that_are_none_of_ours_are_errors_also_when_empty() {
    assert_eq!(errors_of("[metrics]\n[tokns]\n", &[]), "f.toml:2:2: `tokns` is not a setting; did you mean `tokens`?");
    assert_eq!(
        errors_of("metrics = 1\nhttp = \"x\"\n", &[]),
        "f.toml:1:1: `metrics` is not a setting; `farebox.example.toml` lists them all\n\
         f.toml:2:1: `http` is not a setting; `farebox.example.toml` lists them all"
    );
}

#[test]
fn numbers_and_durations_at_their_edges() {
    for (value, is_fine) in [
        ("1", true),
        ("1000000", true),
        ("1000001", false),
        ("0x10", true),
        ("1_000", true),
        ("1.0", false),
        ("\"5\"", false),
        ("-1", false),
        ("99999999999999999999999", false),
        ("true", false),
    ] {
        let file = File::new(&format!("http.max_connections = {value}"));
        assert_eq!(load(Some(&file.0), &[KEY]).is_ok(), is_fine, "{value}");
    }
    for value in ["", " 1", "+1", "1 ", "0x10", "1_000", "١"] {
        assert!(load(None, &[KEY, ("FAREBOX_HTTP_MAX_CONNECTIONS", value)]).is_err(), "`{value}`");
    }
    for (value, is_fine) in
        [("100ms", true), ("99ms", false), ("1m", true), ("61s", false), ("-5s", false), ("5", false)]
    {
        let loaded = load(None, &[KEY, ("FAREBOX_HTTP_WRITE_TIMEOUT", value)]);
        assert_eq!(loaded.is_ok(), is_fine, "{value}");
    }
}

#[test]
fn settings_that_do_not_fit_together() {
    assert_eq!(
        errors_of("metrics.listen = \"127.0.0.1:8080\"\nhttp.request_timeout = \"10s\"\n", &[]),
        "`listen` and `metrics.listen` are both `127.0.0.1:8080`; give metrics a port of their own or leave it out\n\
         `http.request_timeout` must be longer than `http.body_read_timeout`"
    );
    assert_eq!(
        errors_of("http.drain_timeout = \"15s\"\n", &[]),
        "`http.drain_timeout` must be longer than `http.request_timeout`"
    );
    let any_port = [KEY, ("FAREBOX_LISTEN", "127.0.0.1:0"), ("FAREBOX_METRICS_LISTEN", "127.0.0.1:0")];
    assert!(load(None, &any_port).is_ok(), "port 0 is another port each time");
}

#[test]
fn variables_of_others_are_not_ours() {
    let kubernetes = [
        KEY,
        ("FAREBOX_PORT", "tcp://10.0.0.1:80"),
        ("FAREBOX_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("FAREBOX_SERVICE_HOST", "10.0.0.1"),
        ("farebox_listen", "x"),
    ];
    assert!(load(None, &kubernetes).is_ok());
}
