//! Where snapshots go: to a gateway over HTTP, one by one, or into Redis, a batch at a time.

use std::fmt;
use std::io;

use jiff::Timestamp;

use super::courier::Addressee;
use super::mac::{self, MacKey};
use super::post::{self, Gateway, Posted};
use super::skew::Call;
use super::spool::{Parcel, SpoolLimits};
use crate::clock::Clock;
use crate::redis::keys::{self, Keyspace, Whose};
use crate::redis::link::RedisSettings;
use crate::redis::writer::{Signed, WriteLimits, Writer};

/// Of one call to Redis: what a slow link carries within its time, and a script does in a few ms.
const REDIS_BATCH: SpoolLimits = SpoolLimits { entries: 500, bytes: 1 << 20 };
const NO_EPOCH: &str = "its boot epoch is neither an instant nor a number: no agent writes such a one";

/// Whom to deliver to.
#[derive(Clone, Debug)]
pub enum Destination {
    /// `http://host:port`
    Gateway(String),
    Redis(RedisSettings, WriteLimits),
}

#[derive(Debug)]
pub(super) enum Port {
    Gateway(Gateway),
    Redis(Box<Writer>),
}

/// What came of a try.
#[derive(Debug)]
pub(super) struct Tried {
    /// Of the parcels, in their order; `None`: not tried.
    pub(super) outcomes: Vec<Option<Posted>>,
    /// What the other side's clock said, if it said it.
    pub(super) call: Option<Call>,
}

/// With its MAC, as Redis is told of it.
struct Sealed {
    order: String,
    body: Vec<u8>,
}

impl Destination {
    pub(super) fn addressee(&self) -> Addressee {
        match self {
            Self::Gateway(_) => Addressee { name: "the gateway", batch: SpoolLimits { entries: 1, bytes: usize::MAX } },
            Self::Redis(..) => Addressee { name: "Redis", batch: REDIS_BATCH },
        }
    }

    /// # Errors
    /// Those of [`Writer::new`].
    pub(super) fn open(&self, clock: &Clock) -> io::Result<Port> {
        match self {
            Self::Gateway(root) => Ok(Port::Gateway(Gateway::new(root))),
            Self::Redis(settings, limits) => Ok(Port::Redis(Box::new(Writer::new(settings, *limits, clock.clone())?))),
        }
    }
}

impl fmt::Display for Destination {
    /// Without secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(root) => formatter.write_str(root),
            Self::Redis(settings, _) => {
                let Keyspace { prefix, shards } = &settings.keyspace;
                write!(formatter, "{settings}, keys `{prefix}`, {shards} shard(s)")
            }
        }
    }
}

impl Port {
    pub(super) fn post(&mut self, parcels: &[Parcel], key: Option<&MacKey>, clock: &Clock) -> Tried {
        match self {
            Self::Gateway(gateway) => post_one(gateway, parcels, key, clock),
            Self::Redis(writer) => write(writer, parcels, key),
        }
    }
}

fn post_one(gateway: &Gateway, parcels: &[Parcel], key: Option<&MacKey>, clock: &Clock) -> Tried {
    let Some(parcel) = parcels.first() else { return Tried { outcomes: Vec::new(), call: None } };
    let body = match signed(parcel, key) {
        Ok(body) => body,
        Err(refused) => return Tried { outcomes: vec![Some(refused)], call: None },
    };
    let sent_us = clock.now().wall_us;
    let (outcome, date) = gateway.post(&body, post::TIMEOUT);
    let received_us = clock.now().wall_us;
    let call = date.map(|date| {
        let least_us = date.as_microsecond();
        // A date is to the second, cut.
        Call { sent_us, received_us, least_us, most_us: least_us.saturating_add(1_000_000) }
    });
    Tried { outcomes: vec![Some(outcome)], call }
}

fn write(writer: &mut Writer, parcels: &[Parcel], key: Option<&MacKey>) -> Tried {
    let sealed: Vec<Result<Sealed, Posted>> = parcels.iter().map(|parcel| seal(parcel, key)).collect();
    let ready: Vec<(usize, Signed<'_>)> = parcels
        .iter()
        .zip(&sealed)
        .enumerate()
        .filter_map(|(position, (parcel, sealed))| {
            let Sealed { order, body } = sealed.as_ref().ok()?;
            let holding = &parcel.holding;
            let whose = Whose {
                tenant: &holding.tenant,
                node: &holding.node,
                gpu_model: &holding.gpu_model,
                job: holding.job.as_deref(),
            };
            Some((position, Signed { whose, order, body }))
        })
        .collect();
    let snapshots: Vec<Signed<'_>> = ready.iter().map(|(_, snapshot)| *snapshot).collect();
    let written = writer.write(&snapshots);
    let mut outcomes: Vec<Option<Posted>> = sealed.iter().map(|sealed| sealed.as_ref().err().cloned()).collect();
    let mut away = written.away;
    for ((position, _), taken) in ready.iter().zip(written.taken) {
        let outcome = match taken {
            Some(true) => Some(Posted::Applied),
            Some(false) => Some(Posted::NotNewer),
            // One stands for all that nobody answered for.
            None => away.take().map(|reason| Posted::Away { reason, retry_after: None, was_answered: false }),
        };
        if let Some(place) = outcomes.get_mut(*position) {
            *place = outcome;
        }
    }
    let call = written.time.map(|time| Call {
        sent_us: time.sent_us,
        received_us: time.received_us,
        least_us: time.server_us,
        most_us: time.server_us,
    });
    Tried { outcomes, call }
}

fn seal(parcel: &Parcel, key: Option<&MacKey>) -> Result<Sealed, Posted> {
    let epoch_us = epoch_us(&parcel.holding.boot_epoch);
    let epoch_us = epoch_us.ok_or_else(|| Posted::Refused { reason: NO_EPOCH.to_owned() })?;
    Ok(Sealed { order: keys::order(epoch_us, parcel.seq), body: signed(parcel, key)? })
}

/// Agents write the instant at which the epoch began, to the µs.
fn epoch_us(boot_epoch: &str) -> Option<u64> {
    if boot_epoch.bytes().all(|byte| byte.is_ascii_digit()) {
        return boot_epoch.parse().ok();
    }
    u64::try_from(boot_epoch.parse::<Timestamp>().ok()?.as_microsecond()).ok()
}

fn signed(parcel: &Parcel, key: Option<&MacKey>) -> Result<Vec<u8>, Posted> {
    let Some(key) = key else { return Ok(parcel.body.to_vec()) };
    mac::sign(key, &parcel.body).map_err(|error| Posted::Refused { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_as_agents_write_them_come_in_order() {
        let written =
            ["7", "1970-01-01T00:00:00.000008Z", "2025-12-01T00:00:00.000006Z", "2025-12-01T00:00:00.000007Z"];
        let epochs: Vec<_> = written.into_iter().map(epoch_us).collect();
        assert_eq!(epochs, [Some(7), Some(8), Some(1_764_547_200_000_006), Some(1_764_547_200_000_007)]);
        for other in ["", "soon", "1969-12-31T23:59:59Z", "99999999999999999999999"] {
            assert_eq!(epoch_us(other), None, "{other}");
        }
    }
}
