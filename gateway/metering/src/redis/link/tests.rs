//! Connections to real servers, with passwords and TLS.

use std::fs;

use farebox_servers::{Certificates, RedisOptions, RedisServer};
use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// What comes of a `PING`.
fn ping(settings: &RedisSettings) -> Result<String, String> {
    runtime().block_on(async {
        let client = settings.client().unwrap();
        let connection = client.get_multiplexed_async_connection_with_config(&RedisSettings::timeouts()).await;
        let mut connection = connection.map_err(|error| describe(&error))?;
        redis::cmd("PING").query_async(&mut connection).await.map_err(|error| describe(&error))
    })
}

#[test]
fn passwords_open_and_wrong_ones_do_not() {
    let server = RedisServer::start_with(RedisOptions::default().with("requirepass", "s3cret!"));
    let url = |login: &str| RedisSettings::parse_url(&format!("redis://{login}127.0.0.1:{}/3", server.port())).unwrap();
    assert_eq!(ping(&url(":s3cret!@")), Ok("PONG".to_owned()));
    assert_eq!(ping(&url("default:s3cret!@")), Ok("PONG".to_owned()));
    assert!(ping(&url(":other@")).unwrap_err().contains("(WRONGPASS)"));
    assert!(ping(&url("")).unwrap_err().contains("(NOAUTH)"));
    assert!(!format!("{:?}", url("u:s3cret!@")).contains("s3cret"));
}

#[test]
fn a_database_that_is_not_there_is_said() {
    let server = RedisServer::start();
    let settings = RedisSettings { database: 999, ..RedisSettings::parse_url(&server.url()).unwrap() };
    assert_eq!(ping(&settings), Err("it has no such database".to_owned()));
}

#[test]
fn tls_trusts_its_own_authority_only() {
    let server = RedisServer::start_with_tls(RedisOptions::default());
    let settings = RedisSettings::parse_url(&format!("rediss://localhost:{}", server.tls_port())).unwrap();
    let trusting = |file: &std::path::Path| RedisSettings {
        tls: Some(Tls { authorities: Some(fs::read(file).unwrap()) }),
        ..settings.clone()
    };
    assert_eq!(ping(&trusting(&server.authority())), Ok("PONG".to_owned()));
    let by_address = RedisSettings { host: "127.0.0.1".to_owned(), ..trusting(&server.authority()) };
    assert_eq!(ping(&by_address), Ok("PONG".to_owned()));
    let stranger = Certificates::make();
    for wrong in [trusting(&stranger.authority()), settings.clone()] {
        let cause = ping(&wrong).unwrap_err();
        assert!(cause.contains("certificate"), "{cause}");
    }
    // TLS to a port without, and the other way round.
    assert!(ping(&RedisSettings { port: server.port(), ..trusting(&server.authority()) }).is_err());
    assert!(ping(&RedisSettings { tls: None, ..settings.clone() }).is_err());

    let authorities =
        |pem: &[u8]| RedisSettings { tls: Some(Tls { authorities: Some(pem.to_vec()) }), ..settings.clone() };
    assert_eq!(authorities(b"").client().unwrap_err(), LinkError::NoCertificate);
    assert_eq!(authorities(b"nothing").client().unwrap_err(), LinkError::NoCertificate);
    let torn = b"-----BEGIN CERTIFICATE-----\nMIIB\n";
    assert!(matches!(authorities(torn).client(), Err(LinkError::Certificate(_))));
}
