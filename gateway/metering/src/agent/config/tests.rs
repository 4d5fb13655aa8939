//! The configuration: its defaults, its order of precedence, and everything that can be wrong with it.

use std::fs;

use farebox_servers::Certificates;

use super::*;
use crate::meter::{Part, Workload};
use crate::redis::writer::WriteLimits;
use crate::samples::Directory;
use crate::tick::InstanceId;

const EXAMPLE: &str = include_str!("../../../farebox-agent.toml");
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn load(
    file: Option<&str>,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Config, ConfigErrors> {
    let directory = Directory::new();
    let path = directory.path().join("agent.toml");
    if let Some(text) = file {
        fs::write(&path, text).unwrap();
    }
    let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    Config::load(Inputs {
        file: file.map(|_| path.as_path()),
        environment: environment.iter().map(owned),
        flags: flags.iter().map(|(setting, text)| (*setting, (*text).to_owned())).collect(),
        host_name: Some("gpu-07".to_owned()),
    })
}

fn delivers_to(config: &Config) -> String {
    config.to.as_ref().map_or("nobody".to_owned(), ToString::to_string)
}

/// What is wrong, each without the path of the file.
fn wrong(file: &str) -> Vec<String> {
    let errors = load(Some(file), &[], &[]).unwrap_err();
    errors
        .iter()
        .map(|error| {
            error.to_string().rsplit_once("agent.toml:").map_or_else(|| error.to_string(), |(_, rest)| rest.to_owned())
        })
        .collect()
}

#[test]
fn the_example_says_the_defaults() {
    let (example, defaults) = (load(Some(EXAMPLE), &[], &[]).unwrap(), load(None, &[], &[]).unwrap());
    assert_eq!(format!("{example:?}"), format!("{defaults:?}"));
    assert_eq!((defaults.node.as_str(), defaults.to.is_none()), ("gpu-07", true));
    assert_eq!(
        (defaults.tick, defaults.control_listen.to_string()),
        (Duration::from_secs(1), "127.0.0.1:9411".to_owned())
    );
}

#[test]
fn every_commented_setting_of_the_example_is_one() {
    let directory = Directory::new();
    let key = directory.path().join("key");
    fs::write(&key, format!("gpu-07:{KEY}\n")).unwrap();
    let is_setting =
        |line: &str| line.starts_with("# [[") || line.strip_prefix("# ").is_some_and(|rest| rest.contains(" = "));
    let token = directory.path().join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    let password = directory.path().join("password");
    fs::write(&password, "s3cret\n").unwrap();
    let certificates = Certificates::make();
    // Redis is in the gateway's place.
    let lines = EXAMPLE.lines().filter(|line| !line.starts_with("# gateway = "));
    let lines = lines.map(|line| if is_setting(line) { &line[2..] } else { line });
    let text = lines.collect::<Vec<_>>().join("\n").replace("/etc/farebox-agent/key", key.to_str().unwrap());
    let text = text.replace("/etc/farebox-agent/token", token.to_str().unwrap());
    let text = text.replace("/etc/farebox-agent/redis-password", password.to_str().unwrap());
    let text = text.replace("/etc/farebox-agent/redis-ca.pem", certificates.authority().to_str().unwrap());
    let config = load(Some(&text), &[], &[]).unwrap();
    assert_eq!(delivers_to(&config), "rediss://redis.internal:6379/0, keys `farebox`, 1 shard(s)");
    assert_eq!(config.models["NVIDIA A100-SXM4-80GB"], "A100");
    assert_eq!(config.assignments.len(), 2);
    let part = &config.assignments[1].parts[0];
    assert_eq!((part.instance, part.share), (Some(InstanceId { gpu_instance: 1, compute_instance: 0 }), 500_000));
    assert_eq!(config.key.unwrap().id(), Some("gpu-07"));
    assert!(config.control_token.is_some());
    assert_eq!(config.warnings.len(), 3, "the key, the token and the password may be read by others");
}

#[test]
fn flags_count_above_variables_and_those_above_the_file() {
    let file = "tick = \"2s\"\nnode = \"file\"\ngateway = \"http://file:1\"\n[spool]\nentries = 5\n";
    let environment = [
        ("FAREBOX_AGENT_NODE", "variable"),
        ("FAREBOX_AGENT_GATEWAY", "http://variable:1/"),
        ("FAREBOX_AGENT_SPOOL_ENTRIES", "6"),
        ("FAREBOX_AGENT_SERVICE_HOST", "10.0.0.1"),
        ("FAREBOX_AGENT_PORT_80_TCP", "tcp://"),
        ("FAREBOX_LISTEN", "the gateway's"),
    ];
    let config = load(Some(file), &environment, &[("node", "flag")]).unwrap();
    assert_eq!((config.node.as_str(), delivers_to(&config)), ("flag", "http://variable:1".to_owned()));
    assert_eq!((config.tick, config.spool.entries), (Duration::from_secs(2), 6));
    let config = load(Some(file), &[("FAREBOX_AGENT_GATEWAY", "")], &[]).unwrap();
    assert_eq!(delivers_to(&config), "nobody", "an empty one is none");
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_where() {
    let file = "tick = \"50ms\"\nnodes = \"a\"\ncontrol_listen = 9411\n[spool]\nentires = 1\nbytes = -1\n[models]\n\"A\" = 1\n[lgo]\nlevel = 1\n";
    assert_eq!(
        wrong(file),
        [
            "1:8: `tick` is `50ms`; give a duration from `100ms` to `1m`, like `1s`",
            "2:1: `nodes` is not a setting; there is `node`, `gateway`, `redis`, `tick`, `library`, `state_dir`, `control_listen`, `control_token_file`, `metrics_listen`, `mac`, `spool`, `models`, `assignments`, `log`",
            "3:18: `control_listen` is of type integer; give an address with a port, like `127.0.0.1:9411`",
            "5:1: `spool.entires` is not a setting; there is `spool.entries`, `spool.bytes`",
            "6:9: `spool.bytes` is `-1`; give a whole number from 65536 to 1073741824",
            "8:7: `models.\"A\"` is of type integer; give a model of the price book, like \"A100\"",
            "10:1: `lgo.level` is not a setting; there is `node`, `gateway`, `redis`, `tick`, `library`, `state_dir`, `control_listen`, `control_token_file`, `metrics_listen`, `mac`, `spool`, `models`, `assignments`, `log`",
        ]
    );
    let errors = load(Some("tick = \"1s\"\nnode = ["), &[("FAREBOX_AGENT_TICKS", "1s")], &[("log.level", "loud")])
        .unwrap_err()
        .to_string();
    assert!(errors.lines().count() >= 3 && errors.contains("agent.toml:2:8: "), "{errors}");
    assert!(errors.contains("--log-level: `log.level` is `loud`"), "{errors}");
    assert!(errors.contains("FAREBOX_AGENT_TICKS: `FAREBOX_AGENT_TICKS` is not a setting"), "{errors}");
    assert!(load(Some("\u{0}"), &[], &[]).is_err());
}

#[test]
fn job_calls_stay_on_this_host() {
    assert!(wrong("control_listen = \"0.0.0.0:9411\"\n")[0].contains("loopback"));
    assert!(wrong("control_listen = \"10.0.0.7:9411\"\n")[0].contains("loopback"));
    assert!(load(Some("control_listen = \"[::1]:9411\"\nmetrics_listen = \"0.0.0.0:9412\"\n"), &[], &[]).is_ok());
    assert!(wrong("metrics_listen = \"127.0.0.1:9411\"\n")[0].contains("both"));
}

#[test]
fn a_host_without_a_name_of_its_own_tells_no_gateway_of_itself() {
    let load = |host_name: Option<&str>, flags: &[(&'static str, &str)]| {
        Config::load(Inputs {
            file: None,
            environment: std::iter::empty(),
            flags: flags.iter().map(|(setting, text)| (*setting, (*text).to_owned())).collect(),
            host_name: host_name.map(str::to_owned),
        })
    };
    let gateway = ("gateway", "http://a:1");
    for host_name in [None, Some("localhost"), Some("")] {
        assert!(load(host_name, &[gateway]).unwrap_err().to_string().contains("`node` is not set"));
        assert!(load(host_name, &[]).is_ok());
        assert!(load(host_name, &[gateway, ("node", "gpu-07")]).unwrap().node_was_named);
    }
    assert!(!load(Some("gpu-07"), &[gateway]).unwrap().node_was_named);
}

#[test]
fn a_token_that_is_none_is_told_without_being_shown() {
    let directory = Directory::new();
    let token = directory.path().join("token");
    let file = format!("control_token_file = \"{}\"\n", token.display());
    assert!(wrong(&file)[0].contains("`control_token_file`") && wrong(&file)[0].contains("cannot be read"));
    fs::write(&token, "hunter2!").unwrap();
    let told = wrong(&file);
    assert!(told[0].contains("16 to 512") && !told[0].contains("hunter2"), "{told:?}");
}

#[test]
fn only_plain_http_is_spoken() {
    for url in ["https://a", "http://", "a:1", "http://a/path", "http://a b", "http://u@a", "http://a?x"] {
        assert_eq!(wrong(&format!("gateway = \"{url}\"\n")).len(), 1, "{url}");
    }
    assert!(load(Some("gateway = \"http://[::1]:8080/\"\n"), &[], &[]).is_ok());
}

#[test]
fn a_key_that_is_none_is_told_without_being_shown() {
    let directory = Directory::new();
    let key = directory.path().join("key");
    let file = format!("[mac]\nkey_file = \"{}\"\n", key.display());
    assert!(wrong(&file)[0].contains("cannot be read"));
    fs::write(&key, "hunter2!").unwrap();
    let told = wrong(&file);
    assert!(told[0].contains("not base64") && !told[0].contains("hunter2"), "{told:?}");
    fs::write(&key, KEY).unwrap();
    let config = load(Some(&file), &[], &[]).unwrap();
    assert!(!format!("{config:?}").contains(KEY) && !format!("{config:?}").contains("48, 49, 50"));
}

#[test]
fn assignments_of_one_job_are_one_and_wrong_ones_are_all_told() {
    let file = "\
[[assignments]]\ntenant = \"acme\"\ngpu = \"GPU-2\"\n\
[[assignments]]\ntenant = \"acme\"\ngpu = \"GPU-1\"\nshare = \"0.25\"\ncgroup = \"/slurm/job_1\"\n";
    let config = load(Some(file), &[], &[]).unwrap();
    let part = |gpu: &str, share| Part { gpu_uuid: gpu.to_owned(), instance: None, share };
    let expected = Job {
        tenant: "acme".to_owned(),
        job: None,
        parts: vec![part("GPU-1", 250_000), part("GPU-2", 1_000_000)],
        workloads: vec![Workload::Cgroup("/slurm/job_1".to_owned())],
    };
    assert_eq!(config.assignments, [expected]);

    let file = "\
[[assignments]]\ntenant = \"_idle\"\ngpu = 0\nshare = \"2\"\ncolour = \"red\"\n\
[[assignments]]\ngpu = \"GPU-1\"\n\
[[assignments]]\ntenant = \"a\"\n\
[[assignments]]\ntenant = \"a\"\ninstance = \"1/0\"\n\
[[assignments]]\ntenant = \"b\"\ngpu = \"GPU-1\"\n\
[[assignments]]\ntenant = \"b\"\ngpu = \"GPU-1\"\n";
    let told = wrong(file);
    assert_eq!(told.len(), 8, "{told:#?}");
    for part in [
        "`tenant` `_idle`",
        "`gpu` is of type integer",
        "`share` `2`",
        "colour",
        "no `tenant`",
        "neither",
        "of no `gpu`",
        "twice",
    ] {
        assert!(told.iter().any(|line| line.contains(part)), "{part} in {told:#?}");
    }
    assert_eq!(wrong("assignments = 1\n").len(), 1);
    assert_eq!(wrong("assignments = [1, 2]\n").len(), 2);
}

#[test]
fn a_gateway_is_an_address_that_can_be_connected_to() {
    for given in ["http://127.0.0.1:8080", "http://[::1]:8080/", "http://gateway.internal"] {
        assert!(load(None, &[], &[("gateway", given)]).is_ok(), "{given}");
    }
    for given in [
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://a:",
        "http://[::1",
        "http://a:b",
        "https://a",
        "http://",
    ] {
        let errors = load(None, &[], &[("gateway", given)]).unwrap_err().to_string();
        assert!(errors.contains("an address like"), "{given}: {errors}");
    }
}

#[test]
fn only_files_that_end_are_read() {
    let directory = Directory::new();
    let large = directory.path().join("large.toml");
    fs::File::create(&large).unwrap().set_len(LONGEST_FILE_BYTES).unwrap();
    for path in [Path::new("/dev/zero"), directory.path(), large.as_path()] {
        assert!(small_file(path).is_err(), "{}", path.display());
    }
}

#[test]
fn redis_is_in_the_gateways_place_with_a_key_and_its_secrets_in_files() {
    let directory = Directory::new();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (key, password) = (file("key", KEY), file("password", "s3cret\n"));
    let (empty, lines) = (file("empty", ""), file("lines", "s3cret\nmore\n"));
    let url = ("redis.url", "redis://a");
    let key = ("mac.key_file", key.as_str());
    let password = ("redis.password_file", password.as_str());
    let config = load(None, &[], &[url, key, ("redis.username", "agent"), password, ("redis.keep", "2h")]).unwrap();
    let Some(Destination::Redis(settings, limits)) = config.to else { panic!("no Redis") };
    assert_eq!((settings.username.as_deref(), settings.password.as_deref()), (Some("agent"), Some("s3cret")));
    assert_eq!(limits, WriteLimits { keep: Duration::from_secs(7_200), ..WriteLimits::standard() });

    let refused = |flags: &[(&'static str, &str)], expected: &str| {
        let errors = load(None, &[], flags).unwrap_err().to_string();
        assert!(errors.contains(expected) && !errors.contains("s3cret"), "{errors}");
    };
    refused(&[url], "`mac.key_file` is not");
    refused(&[url, key, ("gateway", "http://a:1")], "snapshots go to one of them");
    refused(&[("redis.url", "redis://s3cret@b@c"), key], "`redis.url` cannot be used");
    refused(&[("redis.url", "redis://u:s3cret@c"), key, password], "leave out one of them");
    refused(&[("redis.url", "redis://u@c"), key], "no password");
    for not_one in [empty.as_str(), lines.as_str()] {
        refused(&[url, key, ("redis.password_file", not_one)], "one line with a password");
    }
    refused(&[url, key, ("redis.ca_file", empty.as_str())], "`redis.ca_file`");
    refused(&[url, key, ("redis.prefix", "a{b")], "`redis.prefix`");
    refused(&[("redis.shards", "0")], "1 to 256");
    refused(&[("redis.keep", "30s")], "`redis.keep`");
    let config = load(None, &[], &[("redis.url", "redis://:s3cret@a"), key]).unwrap();
    assert!(config.warnings.iter().any(|warning| warning.contains("`redis.password_file`")));
    assert!(!format!("{config:?}").contains("s3cret"));
    assert!(load(None, &[], &[("redis.url", ""), ("gateway", "http://a:1")]).is_ok(), "an empty one is none");
}
