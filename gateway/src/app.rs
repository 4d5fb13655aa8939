//! Assembly: the one place that knows every part.
//!
//! Configuration is complete before this is called. The clock, the sockets and the stop signal are arguments.

mod feeding;
mod sandboxing;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use farebox_metering::mirror::Mirror;
use farebox_metering::redis::feed::{Feed, FeedError};
use farebox_metering::snapshot::WireSnapshot;
use farebox_sandbox::{Memo, SandboxError};
use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{self, Draining, Gateway, Streams};
use crate::catalog::{Catalog, CatalogProblem};
use crate::clock::Clock;
use crate::config::Config;
use crate::intake::Intake;
use crate::ledger::RecentQuotes;
use crate::quoting::{Issuer, Road, WhatIfCounters, WhatIfCounts};
use crate::schema::{Schema, SchemaError};
use crate::serving::{self, Service, TurnedAway, serve};
use crate::telemetry::{LatestShare, Metrics, Observed, ObservedWhatIfs};
use crate::workers::Workers;
use sandboxing::sandbox;

/// Everything but the sockets.
#[derive(Debug)]
pub struct App {
    gateway: Gateway,
    serving: serving::Limits,
    turned_away: Arc<TurnedAway>,
    sweep_every: Duration,
    forecast_error: Arc<LatestShare>,
    /// `None`: snapshots come over HTTP only.
    feed: Option<Feed>,
}

/// Sockets, bound by the caller. `/metrics` is on its own where there is one for it, else on the main one.
#[derive(Debug)]
pub struct Listeners {
    pub main: TcpListener,
    pub metrics: Option<TcpListener>,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the sandbox cannot be set up")]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("the pricing threads cannot be started")]
    Workers(#[source] std::io::Error),
    #[error(transparent)]
    Feed(#[from] FeedError),
    #[error("no plan can be priced under:\n{}", lines(.0))]
    NoPlans(Vec<CatalogProblem>),
}

impl App {
    pub fn build(config: &Config, clock: Clock) -> Result<Self, BuildError> {
        let sandbox = sandbox(config.sandbox, config.code_cache.as_deref())?;
        let (data, policies) = (config.data_dir.display(), config.policies_dir.display());
        tracing::info!(%data, %policies, "loading the catalogue; compiling the policies takes some seconds");
        let catalog = Catalog::load(&config.data_dir, &config.policies_dir, &sandbox);
        let (policies, from_code_cache) = (catalog.tallies.policies.good, catalog.policies_from_code_cache);
        tracing::info!(policies, from_code_cache, "the catalogue is loaded");
        Self::over(catalog, config, clock)
    }

    /// Over a catalogue that is loaded already.
    pub fn over(catalog: Catalog, config: &Config, clock: Clock) -> Result<Self, BuildError> {
        if catalog.plans.is_empty() {
            return Err(BuildError::NoPlans(catalog.problems));
        }
        for problem in &catalog.problems {
            tracing::error!(%problem, "left out of the catalogue");
        }
        let issuer = Issuer {
            name: config.tokens.issuer.clone(),
            keys: config.tokens.keys.clone(),
            engine: catalog.engine.clone(),
        };
        let road = Arc::new(Road {
            intake: Intake::new()?,
            catalog,
            memo: config.memo.map(Memo::new),
            mirror: Arc::new(Mirror::new(config.mirror)),
            quotes: RecentQuotes::new(config.quotes.kept),
            what_ifs: WhatIfCounters::default(),
            issuer: Some(issuer),
        });
        let turned_away = Arc::new(TurnedAway::default());
        let forecast_error = Arc::new(LatestShare::default());
        let (observed, away, error) = (Arc::clone(&road), Arc::clone(&turned_away), Arc::clone(&forecast_error));
        let mut metrics = Metrics::new(move || Observed {
            mirror: observed.mirror.counters(),
            memo: observed.memo.as_ref().map(Memo::counters).unwrap_or_default(),
            quotes_kept: observed.quotes.count(),
            what_ifs: what_ifs(observed.what_ifs.read()),
            connections_refused: away.connections_refused(),
            forecast_error: error.get(),
        });
        let workers = Workers::start(config.quotes.workers, config.quotes.queue).map_err(BuildError::Workers)?;
        let feed = feeding::start(config, &road.mirror, &clock)?;
        let watch = feed.as_ref().map(Feed::watch);
        if let Some(watch) = &watch {
            metrics.watch_feed(watch.clone());
        }
        let gateway = Gateway {
            road,
            feed: watch,
            workers,
            clock,
            metrics: Arc::new(metrics),
            snapshot_schema: Arc::new(Schema::of::<WireSnapshot>()?),
            body_limit_bytes: config.http.body_limit_bytes,
            bounds: config.http.bounds,
            origins: Arc::new(config.http.origins.clone()),
            draining: Draining::default(),
            streams: Streams::new(config.http.bounds.streams),
        };
        let sweep_every = sweep_every(config.mirror.retention);
        Ok(Self { gateway, serving: config.http.serving, turned_away, sweep_every, forecast_error, feed })
    }

    /// Serves until `stop`, then answers what was accepted and returns.
    pub async fn serve(mut self, listeners: Listeners, stop: impl Future<Output = ()> + Send + 'static) {
        let (told, stopped) = watch::channel(false);
        let draining = self.gateway.draining.clone();
        tokio::spawn(async move {
            stop.await;
            draining.begin();
            let _ = told.send(true);
        });
        let (road, clock, until_stopped) =
            (Arc::clone(&self.gateway.road), self.gateway.clock.clone(), until(stopped.clone()));
        let error = Arc::clone(&self.forecast_error);
        tokio::spawn(async move {
            tokio::select! {
                () = until_stopped => {}
                never = sweep(&road.mirror, &clock, self.sweep_every) => match never {},
                never = judge_forecasts(&road, &clock, self.sweep_every, &error) => match never {},
            }
        });
        let main = self.service(api::router(self.gateway.clone(), listeners.metrics.is_none()));
        let serving_main = serve(listeners.main, main, until(stopped.clone()));
        let drained = match listeners.metrics {
            Some(listener) => {
                let metrics = self.service(api::metrics_router(self.gateway.clone()));
                let serving_metrics = serve(listener, metrics, until(stopped));
                tokio::join!(serving_main, serving_metrics).0
            }
            None => serving_main.await,
        };
        tracing::info!(aborted = drained.aborted, "drained");
        // Threads of their own, which end by themselves within a second: waiting for them must not hold up this one.
        if let Some(feed) = self.feed.take() {
            let _ = tokio::task::spawn_blocking(|| feed.stop()).await;
        }
    }

    fn service(&self, router: Router) -> Service {
        Service {
            router,
            too_many_connections: api::too_many_connections,
            limits: self.serving,
            turned_away: Arc::clone(&self.turned_away),
        }
    }
}

/// Rooms do not name each other's numbers.
fn what_ifs(counts: WhatIfCounts) -> ObservedWhatIfs {
    let WhatIfCounts { saving, without_saving, not_priced, faulted } = counts;
    ObservedWhatIfs { saving, without_saving, not_priced, faulted }
}

/// A quarter of the retention, so that what has expired takes up memory for a quarter longer at most.
fn sweep_every(retention: SignedDuration) -> Duration {
    (retention.unsigned_abs() / 4).max(Duration::from_secs(1))
}

/// Gives back the memory of snapshots that have expired, at regular intervals.
async fn sweep(mirror: &Mirror, clock: &Clock, every: Duration) -> Infallible {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        mirror.sweep(clock.now());
    }
}

/// Finds out how far off forecasts have been, at regular intervals. It goes through all that is rolled up: not for the threads
/// that serve connections.
async fn judge_forecasts(road: &Arc<Road>, clock: &Clock, every: Duration, error: &LatestShare) -> Infallible {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (road, now) = (Arc::clone(road), clock.now());
        let judged = spawn_blocking(move || road.mirror.forecast_error_of_all(now)).await;
        error.set(judged.ok().flatten());
    }
}

/// Ends once the value is true, or nobody can set it any more.
async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn lines(problems: &[CatalogProblem]) -> String {
    problems.iter().map(CatalogProblem::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use farebox_metering::mirror::MirrorLimits;
    use farebox_metering::snapshot::Snapshot;
    use jiff::Timestamp;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_has_expired_is_swept_and_nothing_else() {
        let mirror = Mirror::new(MirrorLimits::default());
        let received_at: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let text = include_str!("../../fixtures/snapshots/steady-82.json").replace("@now", &received_at.to_string());
        let wire: WireSnapshot = serde_json::from_str(&text).unwrap();
        mirror.apply(Snapshot::try_from(wire).unwrap(), received_at).unwrap();
        let every = Duration::from_millis(1);

        let before = Clock::from_fn(move || received_at + SignedDuration::from_mins(29));
        let _ = timeout(Duration::from_millis(50), sweep(&mirror, &before, every)).await;
        assert_eq!(mirror.counters().entries, 1);

        let after = Clock::from_fn(move || received_at + SignedDuration::from_mins(30));
        let swept = async {
            while mirror.counters().entries > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            never = sweep(&mirror, &after, every) => match never {},
            swept = timeout(Duration::from_secs(10), swept) => swept.unwrap(),
        }
    }

    #[test]
    fn the_sweep_is_a_quarter_of_the_retention_and_never_spins() {
        assert_eq!(sweep_every(SignedDuration::from_mins(30)), Duration::from_secs(450));
        assert_eq!(sweep_every(SignedDuration::from_secs(1)), Duration::from_secs(1));
    }
}
