//! Live usage as pricing sees it: what was observed of a tenant's GPUs, and how much of it may move a price.
//!
//! An [`Observation`] is what the metering room knows at one instant, already merged over nodes. [`judge`] holds it
//! against the plan's [`UsageRules`] (SPEC §6) and says what a policy may see of it. It is pure, so that a replay that
//! pins the observation comes to the same judgement.

use rust_decimal::Decimal;

use crate::policy::Stat;

/// Windowed statistics of one tenant, in the scope of one GPU model or of all its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub scope: UsageScope,
    /// When the oldest snapshot in it was observed, Unix milliseconds.
    pub observed_at_ms: i64,
    /// Age at the priced instant, the larger of "since observed" and "since received", so that an agent's clock cannot
    /// make a snapshot younger.
    pub age_ms: u64,
    /// False where an agent reports any health but `ok`.
    pub healthy: bool,
    /// The agents' reasons (`xid_79`, `throttled_thermal` …), sorted, each once.
    pub reasons: Vec<String>,
    /// How long the longest-running contributing job has held its GPUs, in seconds of wall time; `None` where a
    /// contribution is not bound to a job.
    pub job_held_s: Option<u64>,
    /// True where a contributing device is in MIG mode and brings no metric for the asked statistic.
    pub mig_without_metric: bool,
    pub stats: Vec<ObservedStat>,
}

/// One statistic of one window, merged over nodes by observed held time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedStat {
    pub stat: Stat,
    /// Held GPU-time in the window, microseconds.
    pub held_us: u64,
    pub quality: StatQuality,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageScope {
    GpuModel,
    Tenant,
}

impl UsageScope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GpuModel => "gpu_model",
            Self::Tenant => "tenant",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatQuality {
    Ok,
    /// Always 0 while power and clocks say load.
    SuspectZero,
}

/// Names a statistic: `usage/gpu_util/mean/7d`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatKey {
    pub metric: String,
    pub statistic: String,
    pub window: Window,
}

/// The windows that a snapshot may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    S10,
    M1,
    M5,
    M15,
    H24,
    D7,
    D30,
}

impl Window {
    pub const ALL: [Self; 7] = [Self::S10, Self::M1, Self::M5, Self::M15, Self::H24, Self::D7, Self::D30];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::S10 => "10s",
            Self::M1 => "1m",
            Self::M5 => "5m",
            Self::M15 => "15m",
            Self::H24 => "24h",
            Self::D7 => "7d",
            Self::D30 => "30d",
        }
    }

    pub fn seconds(self) -> u32 {
        match self {
            Self::S10 => 10,
            Self::M1 => 60,
            Self::M5 => 300,
            Self::M15 => 900,
            Self::H24 => 86_400,
            Self::D7 => 604_800,
            Self::D30 => 2_592_000,
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.as_str() == text)
    }
}

/// When an observation may move a price. Thresholds are plan parameters; the defaults are SPEC §6's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRules {
    /// Older than this: no surcharge.
    pub soft_stale_ms: u64,
    /// Older than this: no adjustment either way.
    pub hard_stale_ms: u64,
    /// Less observed than this share of held time: the statistic is not used.
    pub min_coverage: Decimal,
    /// Less held GPU-time than this in the window: the statistic is not used.
    pub thin_held_us: u64,
    /// A job younger than this: no surcharge.
    pub grace_s: u64,
}

impl Default for UsageRules {
    fn default() -> Self {
        Self {
            soft_stale_ms: 30_000,
            hard_stale_ms: 600_000,
            min_coverage: Decimal::from_parts(8, 0, 0, false, 1),
            thin_held_us: 3_600_000_000,
            grace_s: 900,
        }
    }
}

/// What a step may see of an observation, and what the quote says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedUsage {
    /// `None`: nothing may move the price.
    pub admitted: Option<AdmittedUsage>,
    /// All of them, each once, in the order in which the rules were asked; the first is the snapshot's `quality`.
    pub findings: Vec<UsageFinding>,
    /// Those of one statistic, each with its statistic; a step that does not read it is not concerned.
    pub stat_findings: Vec<(Stat, UsageFinding)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedUsage {
    pub scope: UsageScope,
    pub age_ms: u64,
    pub stats: Vec<Stat>,
}

/// Why an observation may not move the price, or only downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageFinding {
    NoSnapshot,
    MigNoUtilisation,
    HardStale,
    Thin,
    LowCoverage,
    SoftStale,
    DeviceUnhealthy,
    SuspectZero,
    GracePeriod,
}

impl JudgedUsage {
    /// The findings that concern a step which reads the statistics `named`: those of the whole observation, and those of
    /// one of these statistics.
    pub(crate) fn findings_on(&self, named: impl Fn(&Stat) -> bool) -> impl Iterator<Item = UsageFinding> {
        self.findings.iter().copied().filter(move |finding| {
            let of_named = || self.stat_findings.iter().any(|(stat, of_stat)| of_stat == finding && named(stat));
            !finding.is_of_one_statistic() || of_named()
        })
    }
}

impl UsageFinding {
    fn is_of_one_statistic(self) -> bool {
        matches!(self, Self::Thin | Self::LowCoverage | Self::SuspectZero)
    }

    /// True where what is admitted may only lower a price.
    pub(crate) fn bars_surcharge(self) -> bool {
        matches!(self, Self::SoftStale | Self::DeviceUnhealthy | Self::SuspectZero | Self::GracePeriod)
    }

    /// The message code on the quote.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoSnapshot => "no_snapshot",
            Self::MigNoUtilisation => "mig_no_utilisation",
            Self::HardStale | Self::SoftStale => "stale",
            Self::Thin => "thin",
            Self::LowCoverage => "low_coverage",
            Self::DeviceUnhealthy => "device_unhealthy",
            Self::SuspectZero => "suspect_zero",
            Self::GracePeriod => "grace_period",
        }
    }

    /// One sentence for the customer.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoSnapshot => "no utilisation of these GPUs has been observed, so it does not move the price",
            Self::MigNoUtilisation => {
                "the GPUs are partitioned (MIG) and report no utilisation, so it does not move the price"
            }
            Self::HardStale => "the last observation is too old, so utilisation does not move the price",
            Self::Thin => "too little GPU time was held in the window, so utilisation does not move the price",
            Self::LowCoverage => "too little of the held time was observed, so utilisation does not move the price",
            Self::SoftStale => "the last observation is not recent: a discount counts, a surcharge does not",
            Self::DeviceUnhealthy => "a GPU is unhealthy or throttled: a discount counts, a surcharge does not",
            Self::SuspectZero => {
                "the reported utilisation of 0 contradicts power and clocks: a surcharge does not count"
            }
            Self::GracePeriod => "the job has only just started: a discount counts, a surcharge does not",
        }
    }
}

/// Xid events that the customer's own program causes; any other is the hardware's fault.
const APPLICATION_XIDS: [u32; 6] = [13, 31, 43, 45, 68, 109];

/// Holds an observation against the rules, for the statistics that a plan reads.
pub fn judge(observation: Option<&Observation>, rules: &UsageRules) -> JudgedUsage {
    let barred = |finding| JudgedUsage { admitted: None, findings: vec![finding], stat_findings: Vec::new() };
    let Some(observation) = observation else {
        return barred(UsageFinding::NoSnapshot);
    };
    if observation.age_ms > rules.hard_stale_ms {
        return barred(UsageFinding::HardStale);
    }
    if observation.stats.is_empty() {
        let mig = observation.mig_without_metric;
        return barred(if mig { UsageFinding::MigNoUtilisation } else { UsageFinding::NoSnapshot });
    }
    let mut stats = Vec::with_capacity(observation.stats.len());
    let mut stat_findings = Vec::new();
    for observed in &observation.stats {
        let finding = finding_on(observed, rules);
        if finding.is_none_or(UsageFinding::bars_surcharge) {
            stats.push(observed.stat.clone());
        }
        stat_findings.extend(finding.map(|finding| (observed.stat.clone(), finding)));
    }
    let is_suspect = stat_findings.iter().any(|(_, finding)| *finding == UsageFinding::SuspectZero);
    let mut findings: Vec<UsageFinding> = Vec::new();
    for (_, finding) in stat_findings.iter().filter(|(_, finding)| !finding.bars_surcharge()) {
        if !findings.contains(finding) {
            findings.push(*finding);
        }
    }
    if stats.is_empty() {
        return JudgedUsage { admitted: None, findings, stat_findings };
    }
    let unhealthy = !observation.healthy || observation.reasons.iter().any(|reason| blames_provider(reason));
    let discount_only = [
        (observation.age_ms > rules.soft_stale_ms, UsageFinding::SoftStale),
        (unhealthy, UsageFinding::DeviceUnhealthy),
        (is_suspect, UsageFinding::SuspectZero),
        (observation.job_held_s.is_some_and(|held_s| held_s < rules.grace_s), UsageFinding::GracePeriod),
    ];
    findings.extend(discount_only.into_iter().filter(|(holds, _)| *holds).map(|(_, finding)| finding));
    let admitted = AdmittedUsage { scope: observation.scope, age_ms: observation.age_ms, stats };
    JudgedUsage { admitted: Some(admitted), findings, stat_findings }
}

/// What is amiss with one statistic: one reason is enough.
fn finding_on(observed: &ObservedStat, rules: &UsageRules) -> Option<UsageFinding> {
    if observed.held_us < rules.thin_held_us {
        Some(UsageFinding::Thin)
    } else if observed.stat.coverage < rules.min_coverage {
        Some(UsageFinding::LowCoverage)
    } else {
        (observed.quality == StatQuality::SuspectZero).then_some(UsageFinding::SuspectZero)
    }
}

/// `xid_79` and `throttled_thermal` blame the provider, `xid_13` blames the program. A word that is not known here may
/// mean anything, and nobody pays more on a guess.
fn blames_provider(reason: &str) -> bool {
    let xid = reason.strip_prefix("xid_").and_then(|number| number.parse().ok());
    !xid.is_some_and(|xid: u32| APPLICATION_XIDS.contains(&xid))
}
