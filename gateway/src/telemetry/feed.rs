//! What the feed from Redis tells at each scrape.

use std::fmt;

use farebox_metering::redis::feed::FeedWatch;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::observed::{encode_counters, encode_gauges};

#[derive(Debug)]
pub(super) struct Collector(pub(super) FeedWatch);

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let observed = self.0.observed();
        let lag = "From the receipt of a snapshot by Redis to the mirror.";
        let described =
            encoder.encode_descriptor("mirror_feed_lag", lag, Some(&Unit::Seconds), MetricType::Histogram)?;
        self.0.lag().0.encode(described)?;
        let connected = observed.shards.saturating_sub(observed.away);
        let gauges = [
            ("mirror_feed_shards", "Shards in Redis.", observed.shards),
            ("mirror_feed_connected", "Shards with a connection to Redis, read to the end.", connected),
        ];
        encode_gauges(&mut encoder, &gauges)?;
        if let Some(age_ms) = observed.age_ms {
            let help = "Since Redis answered last, on the shard that is silent for longest.";
            // Lossless to 2⁵³.
            let age = ConstGauge::new(age_ms as f64 / 1_000.0);
            age.encode(encoder.encode_descriptor("mirror_feed_age", help, Some(&Unit::Seconds), MetricType::Gauge)?)?;
        }
        let counters = [
            ("mirror_feed_entries", "Entries of the stream that were read.", observed.entries),
            ("mirror_feed_gaps", "Times that the stream did not go on where it had been read to.", observed.gaps),
            ("mirror_feed_bootstraps", "Times that all snapshots were read.", observed.bootstraps),
            ("mirror_feed_roll_ups_kept", "Roll-ups that were written to Redis.", observed.roll_ups_kept),
            (
                "mirror_feed_roll_ups_restored",
                "Roll-ups that came from Redis at the start.",
                observed.roll_ups_restored,
            ),
            (
                "mirror_feed_roll_ups_refused",
                "Roll-ups in Redis without a gateway's MAC, or of another version.",
                observed.roll_ups_refused,
            ),
            ("mirror_feed_roll_ups_failed", "Roll-ups that could not be written.", observed.roll_ups_failed),
        ];
        encode_counters(&mut encoder, &counters)?;
        let help = "Snapshots from Redis that do not count, by reason.";
        let mut dropped = encoder.encode_descriptor("mirror_feed_dropped", help, None, MetricType::Counter)?;
        for (reason, count) in observed.dropped {
            ConstCounter::new(count).encode(dropped.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}
