//! The form in which a roll-up is kept: the same bytes of whatever replica counted the same, and nothing in it taken on trust.
//!
//! What no window reaches as of the last snapshot that was taken in is left out, whether it was swept here already or not.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::mirror::difference::{Counted, Upto};
use crate::mirror::rollup::{Kind, MOST_KINDS, RollUp, Tiers, Windows};
use crate::mirror::series::{Bins, Bucket, Series, TIER, TIERS, is_reached, oldest};
use crate::mirror::shard::{Book, Holding};
use crate::snapshot::{BINS, BootEpoch, HISTOGRAMS, Histogram, MAX_BOOT_EPOCH, MAX_NAME, is_name};

/// Goes up with every change of what follows it, and with [`HISTOGRAMS`].
const VERSION: u8 = 1;
/// Some 100,000 holdings.
const MOST_BYTES: usize = 64 << 20;
/// Of a window: it has 30 at most, and a clock that is set back leaves some after it.
const MOST_BUCKETS: usize = 128;
/// Clocks of gateways are not as far apart as this: what was observed later never was.
const LARGEST_LEAD: SignedDuration = SignedDuration::from_hours(24);

#[derive(Serialize, Deserialize)]
struct RollUpForm {
    used_at: Moment,
    let_go_at: Option<Moment>,
    total: WindowsForm,
    /// By name.
    kinds: Vec<KindForm>,
    /// By node, then job.
    holdings: Vec<HoldingForm>,
}

/// Unix ns.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Moment(i128);

/// By metric, its place in [`HISTOGRAMS`].
#[derive(Serialize, Deserialize)]
struct WindowsForm(Vec<(u8, [Vec<BucketForm>; TIERS])>);

#[derive(Serialize, Deserialize)]
struct BucketForm {
    slot: i64,
    held_us: u64,
    used: u128,
    ms: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct KindForm {
    name: String,
    fed_at: Moment,
    windows: WindowsForm,
}

#[derive(Serialize, Deserialize)]
struct HoldingForm {
    node: String,
    job: Option<String>,
    boot_epoch: EpochForm,
    seq: u64,
    has_ended: bool,
    observed_at: Moment,
    held_us: u64,
    upto: [Option<UptoForm>; HISTOGRAMS.len()],
}

#[derive(Serialize, Deserialize)]
enum EpochForm {
    Number(u128),
    Instant(Moment),
    Text(String),
}

#[derive(Serialize, Deserialize)]
struct UptoForm {
    held_us: u64,
    used: u128,
    ms: Vec<u32>,
}

/// `None` for what could not be read again.
pub(super) fn write(roll_up: &RollUp, book: &Book) -> Option<Vec<u8>> {
    let now = book.used_at;
    let kinds = roll_up.kinds().map(|(name, kind)| KindForm {
        name: name.to_string(),
        fed_at: kind.fed_at.into(),
        windows: WindowsForm::of(&kind.windows, now),
    });
    let counted = book.counted.iter().filter(|(_, counted)| is_reached(counted.observed_at, now));
    let form = RollUpForm {
        used_at: now.into(),
        let_go_at: book.let_go_at.map(Moment::from),
        total: WindowsForm::of(roll_up.total(), now),
        kinds: kinds.filter(|kind| !kind.windows.0.is_empty()).collect(),
        holdings: counted.map(|(holding, counted)| HoldingForm::of(holding, counted)).collect(),
    };
    let bytes = postcard::to_extend(&form, vec![VERSION]).ok()?;
    (bytes.len() <= MOST_BYTES).then_some(bytes)
}

/// `None` for what no mirror has written.
pub(super) fn read(bytes: &[u8], now: Timestamp) -> Option<(RollUp, Book)> {
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION || bytes.len() > MOST_BYTES {
        return None;
    }
    let (form, left) = postcard::take_from_bytes::<RollUpForm>(rest).ok()?;
    if !left.is_empty() || form.kinds.len() > MOST_KINDS {
        return None;
    }
    let latest = now.checked_add(LARGEST_LEAD).ok()?;
    let mut roll_up = RollUp::default();
    roll_up.put(form.total.read(latest)?);
    let are_sorted = form.kinds.is_sorted_by(|one, next| one.name < next.name);
    for KindForm { name, fed_at, windows } in form.kinds {
        let windows = windows.read(latest).filter(|windows| are_sorted && !windows.is_empty())?;
        let name = Some(name).filter(|name| is_name(name, MAX_NAME))?;
        roll_up.put_kind(Arc::from(name), Kind { fed_at: fed_at.before(latest)?, windows });
    }
    let let_go_at = match form.let_go_at {
        Some(at) => Some(at.before(latest)?),
        None => None,
    };
    let mut book = Book { let_go_at, used_at: form.used_at.before(latest)?, ..Book::default() };
    for holding in form.holdings {
        let (holding, counted) = holding.read(latest)?;
        if book.counted.last().is_some_and(|(last, _)| *last >= holding) {
            return None;
        }
        book.counted.insert_mut(holding, Arc::new(counted));
    }
    Some((roll_up, book))
}

impl Moment {
    fn before(self, latest: Timestamp) -> Option<Timestamp> {
        Timestamp::from_nanosecond(self.0).ok().filter(|at| *at <= latest)
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self(at.as_nanosecond())
    }
}

impl WindowsForm {
    fn of(windows: &Windows, now: Timestamp) -> Self {
        let metrics = windows.metrics().map(|(place, tiers)| {
            let mut form: [Vec<BucketForm>; TIERS] = Default::default();
            for (buckets, (series, (_, bucket))) in form.iter_mut().zip(tiers.iter().zip(TIER)) {
                *buckets =
                    series.buckets(oldest(now, bucket)).map(|(slot, bucket)| BucketForm::of(slot, bucket)).collect();
            }
            (u8::try_from(place).unwrap_or(u8::MAX), form)
        });
        Self(metrics.filter(|(_, tiers)| tiers.iter().any(|buckets| !buckets.is_empty())).collect())
    }

    fn read(self, latest: Timestamp) -> Option<Windows> {
        if !self.0.is_sorted_by(|(one, _), (next, _)| one < next) {
            return None;
        }
        let mut metrics: [Option<Arc<Tiers>>; HISTOGRAMS.len()] = Default::default();
        for (place, form) in self.0 {
            let mut tiers = Tiers::default();
            for (series, (buckets, (_, (seconds, _)))) in tiers.iter_mut().zip(form.into_iter().zip(TIER)) {
                *series = read_series(buckets, latest.as_second().div_euclid(seconds))?;
            }
            if tiers.iter().all(Series::is_empty) {
                return None;
            }
            *metrics.get_mut(usize::from(place))? = Some(Arc::new(tiers));
        }
        Some(Windows::of(metrics))
    }
}

fn read_series(buckets: Vec<BucketForm>, last: i64) -> Option<Series> {
    let are_sorted = buckets.is_sorted_by(|one, next| one.slot < next.slot);
    if !are_sorted || buckets.len() > MOST_BUCKETS || buckets.last().is_some_and(|bucket| bucket.slot > last) {
        return None;
    }
    let read = |bucket: BucketForm| {
        let observed = Bins::of(bucket.used, bucket.ms)?;
        Some((bucket.slot, Bucket { held_us: bucket.held_us, observed }))
    };
    Some(Series::of(buckets.into_iter().map(read).collect::<Option<Vec<_>>>()?))
}

impl BucketForm {
    fn of(slot: i64, bucket: &Bucket) -> Self {
        let (used, ms) = bucket.observed.parts();
        Self { slot, held_us: bucket.held_us, used, ms: ms.to_vec() }
    }
}

impl HoldingForm {
    fn of(holding: &Holding, counted: &Counted) -> Self {
        Self {
            node: holding.node.clone(),
            job: holding.job.clone(),
            boot_epoch: match &counted.boot_epoch {
                BootEpoch::Number(number) => EpochForm::Number(*number),
                BootEpoch::Instant(at) => EpochForm::Instant((*at).into()),
                BootEpoch::Text(text) => EpochForm::Text(text.clone()),
            },
            seq: counted.seq,
            has_ended: counted.has_ended,
            observed_at: counted.observed_at.into(),
            held_us: counted.held_us,
            upto: counted.upto.each_ref().map(|upto| upto.as_ref().map(UptoForm::of)),
        }
    }

    fn read(self, latest: Timestamp) -> Option<(Holding, Counted)> {
        let are_names = is_name(&self.node, MAX_NAME) && self.job.as_ref().is_none_or(|job| is_name(job, MAX_NAME));
        let mut upto = HISTOGRAMS.map(|_| None);
        for (read, form) in upto.iter_mut().zip(self.upto) {
            *read = match form {
                Some(form) => Some(form.read()?),
                None => None,
            };
        }
        let counted = Counted {
            boot_epoch: match self.boot_epoch {
                EpochForm::Number(number) => BootEpoch::Number(number),
                // An agent's clock may have been anywhere when it began.
                EpochForm::Instant(Moment(at)) => BootEpoch::Instant(Timestamp::from_nanosecond(at).ok()?),
                EpochForm::Text(text) => BootEpoch::Text(Some(text).filter(|text| is_name(text, MAX_BOOT_EPOCH))?),
            },
            seq: self.seq,
            has_ended: self.has_ended,
            observed_at: self.observed_at.before(latest)?,
            held_us: self.held_us,
            upto,
        };
        are_names.then_some((Holding { node: self.node, job: self.job }, counted))
    }
}

impl UptoForm {
    fn of(upto: &Upto) -> Self {
        let (mut used, mut ms) = (0_u128, Vec::new());
        for (bin, in_bin) in upto.bins.0.iter().enumerate().filter(|(_, in_bin)| **in_bin > 0) {
            used |= 1 << bin;
            ms.push(*in_bin);
        }
        Self { held_us: upto.held_us, used, ms }
    }

    fn read(self) -> Option<Upto> {
        let observed = Bins::of(self.used, self.ms.into_iter().map(u64::from).collect())?;
        let mut bins = Box::new([0; BINS]);
        for (bin, ms) in observed.used() {
            *bins.get_mut(bin)? = u32::try_from(ms).ok()?;
        }
        Some(Upto { held_us: self.held_us, bins: Histogram(bins) })
    }
}
