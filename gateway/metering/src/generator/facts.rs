//! What is published of GPU fleets, as curves from the rank of a sample to its value.
//!
//! The figures are those of the cluster traces' papers, as collected for this project: shares of samples at 0, below 30 % and
//! above 70 %, and the median of `gpu_util` for Acme Seren and Kalos (training of LLMs), Philly (training), PAI (averages per
//! instance) and GenTD26 (inference, per pod; its mean and p90 in place of the median); for Seren `sm_active` and power as
//! well; a H200 idle and under load. Between two published points a curve is straight: what is not published is not
//! pretended to be known. `tests.rs` holds each curve against its figures.

/// One: ranks and shares.
pub(super) const ONE: u64 = 1_000_000;

/// Values from the lowest rank to the highest, in pieces: (rank at which the piece begins, lowest, highest value).
#[derive(Debug)]
pub(super) struct Curve {
    pieces: &'static [(u64, u64, u64)],
    /// Of values that are not 0: they are multiples of it.
    step: u64,
}

impl Curve {
    /// The value at a rank, both in millionths of one; the value in the curve's own unit.
    pub(super) fn at(&self, rank: u64) -> u64 {
        let mut end = ONE;
        for &(start, low, high) in self.pieces.iter().rev() {
            if rank >= start {
                let steps = (high - low) / self.step + 1;
                let into = (rank - start).min(end - start - 1);
                return low + steps * into / (end - start) * self.step;
            }
            end = start;
        }
        0
    }
}

/// A fleet whose utilisation is published, or `steady`, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fleet {
    /// Acme Seren: training of LLMs. The only one with `sm_util` and power.
    Seren,
    /// Acme Kalos: training of LLMs.
    Kalos,
    /// Philly: training.
    Philly,
    /// PAI: averages per instance.
    Pai,
    /// GenTD26: inference, per pod.
    Gentd26,
    /// Invented: one training job that uses its GPUs well, 82 % on average with little spread.
    Steady,
}

impl Fleet {
    pub(super) fn gpu_util(self) -> &'static Curve {
        match self {
            Self::Seren => &SEREN_GPU,
            Self::Kalos => &KALOS_GPU,
            Self::Philly => &PHILLY_GPU,
            Self::Pai => &PAI_GPU,
            Self::Gentd26 => &GENTD26_GPU,
            Self::Steady => &STEADY_GPU,
        }
    }

    /// `None`: nothing is published, so nothing is generated.
    pub(super) fn sm_util(self) -> Option<&'static Curve> {
        (self == Self::Seren).then_some(&SEREN_SM)
    }

    /// mW. `None`: power follows utilisation.
    pub(super) fn power(self) -> Option<&'static Curve> {
        (self == Self::Seren).then_some(&SEREN_POWER)
    }

    /// How long a phase lasts and after how long the fleet's shares are met exactly, s: (shortest, longest, block).
    pub(super) fn rhythm(self) -> (u64, u64, u64) {
        match self {
            Self::Steady => (5, 20, 40),
            _ => (60, 3600, 4 * 3600),
        }
    }
}

/// Driver utilisation comes in whole per cent.
const PERCENT: u64 = 10_000;
/// GPM gives fractions; four decimals of one are plenty.
const BASIS_POINT: u64 = 100;

const fn gpu(pieces: &'static [(u64, u64, u64)]) -> Curve {
    Curve { pieces, step: PERCENT }
}

static SEREN_GPU: Curve = gpu(&[
    (0, 0, 0),
    (310_000, 10_000, 290_000),
    (320_000, 300_000, 700_000),
    (340_000, 710_000, 990_000),
    (500_000, 990_000, 1_000_000),
]);
static KALOS_GPU: Curve = gpu(&[
    (0, 0, 0),
    (340_000, 10_000, 290_000),
    (360_000, 300_000, 700_000),
    (390_000, 710_000, 970_000),
    (500_000, 970_000, 1_000_000),
]);
static PHILLY_GPU: Curve = gpu(&[
    (0, 0, 0),
    (320_000, 10_000, 290_000),
    (420_000, 300_000, 490_000),
    (500_000, 490_000, 700_000),
    (600_000, 710_000, 1_000_000),
]);
static PAI_GPU: Curve = gpu(&[
    (0, 0, 0),
    (360_000, 10_000, 40_000),
    (500_000, 40_000, 290_000),
    (840_000, 300_000, 700_000),
    (890_000, 710_000, 1_000_000),
]);
/// Between 67 % and its p90 bent so that the mean is the published 7 %.
static GENTD26_GPU: Curve = gpu(&[
    (0, 0, 0),
    (670_000, 10_000, 90_000),
    (790_000, 90_000, 250_000),
    (900_000, 250_000, 290_000),
    (940_000, 300_000, 700_000),
    (987_000, 710_000, 1_000_000),
]);
/// p50 0.85, p95 0.97, from 0.10 to 1, mean 0.82, as `fixtures/snapshots/steady-82.json` has them.
static STEADY_GPU: Curve = gpu(&[
    (0, 100_000, 400_000),
    (50_000, 700_000, 850_000),
    (500_000, 850_000, 970_000),
    (950_000, 970_000, 1_000_000),
]);
static SEREN_SM: Curve = Curve {
    pieces: &[
        (0, 0, 0),
        (300_000, 100, 299_900),
        (380_000, 300_000, 500_000),
        (500_000, 500_000, 700_000),
        (700_000, 700_100, 810_000),
        (900_000, 810_000, 1_000_000),
    ],
    step: BASIS_POINT,
};
/// Milliwatts, in whole watts. Lowest and highest are not published: a little under p25, and the limit of an A100.
static SEREN_POWER: Curve = Curve {
    pieces: &[
        (0, 55_000, 66_000),
        (250_000, 66_000, 97_000),
        (500_000, 97_000, 291_000),
        (750_000, 291_000, 395_000),
        (900_000, 395_000, 400_000),
    ],
    step: 1000,
};

/// A H200 idle and under load: mW, MHz, and the memory utilisation beside a `gpu_util` of one, millionths.
pub(super) const H200_IDLE_MW: u64 = 78_000;
pub(super) const H200_LOAD_MW: u64 = 627_000;
pub(super) const H200_LIMIT_MW: u64 = 700_000;
pub(super) const H200_IDLE_MHZ: u64 = 345;
pub(super) const H200_LOAD_MHZ: u64 = 1980;
pub(super) const H200_LOAD_MEM_UTIL: u64 = 70_000;
