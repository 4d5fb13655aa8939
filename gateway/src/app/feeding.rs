//! The feed from Redis, where there is one.

use std::sync::Arc;

use farebox_metering::mirror::Mirror;
use farebox_metering::redis::feed::{Feed, FeedError, FeedSettings, SealKeys};

use crate::clock::Clock;
use crate::config::Config;

/// Gateways seal what they keep in Redis with keys of this use, so that whoever can write to Redis cannot.
const ROLL_UPS: &str = "roll-ups";

/// Redis need not answer: the gateway serves without it, and its quotes say how old their usage is.
pub(super) fn start(config: &Config, mirror: &Arc<Mirror>, clock: &Clock) -> Result<Option<Feed>, FeedError> {
    let seal = SealKeys::new(config.tokens.keys.derived(ROLL_UPS));
    let (Some(redis), Some(seal)) = (&config.redis, seal) else { return Ok(None) };
    let settings = FeedSettings { redis: redis.settings.clone(), agents: redis.agents.clone(), seal };
    let clock = clock.clone();
    Feed::start(settings, Arc::clone(mirror), Arc::new(move || clock.now())).map(Some)
}
