//! `farebox serve`: configuration, telemetry, sockets, then the app until it is told to stop.

use std::path::Path;

use tokio::net::TcpListener;

use super::Failure;
use crate::app::{App, Listeners};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::serving::stop_signal;
use crate::telemetry::{LogSettings, log_subscriber};

pub(super) fn run(file: Option<&Path>) -> Result<(), Failure> {
    let config = Config::load(file, config::environment()).map_err(Failure::usage)?;
    start_logging(config.log)?;
    let app = App::build(&config, Clock::system()).map_err(Failure::new)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::new)?;
    runtime.block_on(async {
        let listeners = bind(&config).await?;
        app.serve(listeners, stop_signal().map_err(Failure::new)?).await;
        Ok(())
    })
}

/// Logs go to stderr, so that stdout is the command's own.
pub(super) fn start_logging(settings: LogSettings) -> Result<(), Failure> {
    tracing::subscriber::set_global_default(log_subscriber(settings, std::io::stderr)).map_err(Failure::new)
}

/// Binds before anything is served, and says where.
async fn bind(config: &Config) -> Result<Listeners, Failure> {
    let main = listen(config.listen, "`listen`").await?;
    let metrics = match config.metrics_listen {
        Some(address) => Some(listen(address, "`metrics.listen`").await?),
        None => None,
    };
    Ok(Listeners { main, metrics })
}

/// `setting` is what chooses the address.
pub(super) async fn listen(address: std::net::SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    let cannot = format!("cannot listen on {address}; choose another address with {setting}");
    let listener = TcpListener::bind(address).await.map_err(|error| Failure::because(&cannot, error))?;
    tracing::info!(address = %listener.local_addr().map_err(Failure::new)?, "listening");
    Ok(listener)
}
