//! Whose work a device did since the last pass, as far as its processes tell.

use std::collections::{BTreeMap, BTreeSet};

use super::Workload;
use super::cgroup::CgroupPath;
use super::covering::Unit;
use super::holdings::Holding;
use crate::tick::{Metric, Process};

const WHOLE: u64 = super::WHOLE as u64;

/// What a pass tells of who used a device or instance.
#[derive(Debug, Default)]
pub(super) struct Use {
    pub(super) works: Works,
    /// By the index of the holding. `None`: it cannot be said who used it.
    pub(super) by_holding: Option<BTreeMap<usize, Own>>,
    pub(super) others: Others,
}

/// Whether it was used by processes that are no holding's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Others {
    #[default]
    None,
    /// Their cgroups are known, and nobody's. A job of which no process was seen may be named wrongly.
    Strangers,
    /// `/proc` tells nothing of them: they may be anybody's.
    Hidden,
}

impl Use {
    /// What a holding used; nothing where it has no process here. `None`: that cannot be said, since others worked.
    pub(super) fn own(&self, holding: usize) -> Option<Own> {
        let own = self.by_holding.as_ref()?.get(&holding).copied();
        match (own, self.others) {
            (_, Others::Hidden) | (None, Others::Strangers) => None,
            (own, _) => Some(own.unwrap_or(Own { sm: 0, memory: Some(0) })),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Works {
    #[default]
    Unknown,
    /// It was asked, and did nothing for nobody.
    Idle,
    Busy,
}

/// What the processes of one holding used of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// Of the device's SM time since the last pass, millionths; over all holdings at most the whole.
    pub(super) sm: u64,
    /// `None`: of a process it is not known.
    pub(super) memory: Option<u64>,
}

/// The PIDs of the last pass with their start times.
#[derive(Debug, Default)]
pub(super) struct Pids(BTreeMap<u32, Option<u64>>);

/// The workloads of all holdings: of those that run in the order of their start, then of those that have ended.
#[derive(Debug, Default)]
pub(super) struct Claims<'a>(pub(super) Vec<(usize, &'a Workload)>);

impl<'a> Claims<'a> {
    pub(super) fn of(holdings: &'a [Holding]) -> Self {
        let claimants = || holdings.iter().enumerate().filter(|(_, holding)| !holding.is_told);
        let running = claimants().filter(|(_, holding)| holding.end.is_none());
        // Of two that name one cgroup equally closely, a process is the running one's.
        let ended = claimants().filter(|(_, holding)| holding.end.is_some());
        let all = running.chain(ended);
        Self(all.flat_map(|(index, holding)| holding.workloads.iter().map(move |of| (index, of))).collect())
    }

    /// An instance is wholly that holding's whose processes all of its processes are, as far as is known of them. By two of
    /// them it cannot be said who used how much.
    pub(super) fn of_instance(&self, unit: &Unit, processes: Option<&[Process]>) -> Use {
        let works = works(unit, processes);
        let Some(processes) = processes else { return Use { works, ..Use::default() } };
        let known = processes.iter().filter(|process| process.started.is_some() && process.cgroup.is_some());
        let holders: BTreeSet<Option<usize>> = known.map(|process| self.holder(process)).collect();
        let mut holders = holders.into_iter();
        let by_holding = match (holders.next(), holders.next()) {
            (Some(Some(only)), None) => Some(BTreeMap::from([(only, Own { sm: WHOLE, memory: None })])),
            // Nobody's processes, or none.
            (Some(None), None) => Some(BTreeMap::new()),
            (None, _) => processes.is_empty().then(BTreeMap::new),
            (Some(_), Some(_)) => None,
        };
        Use { works, by_holding, ..Use::default() }
    }

    /// The closest fit; the first of several.
    fn holder(&self, process: &Process) -> Option<usize> {
        let path = CgroupPath::parse(process.cgroup.as_deref()?)?;
        let fits = self.0.iter().filter_map(|(holding, workload)| Some((path.fit(workload)?, *holding)));
        fits.rev().max_by_key(|(fit, _)| *fit).map(|(_, holding)| holding)
    }
}

/// Says whether it worked: by what its utilisation readings cover, and by its processes.
pub(super) fn works(unit: &Unit, processes: Option<&[Process]>) -> Works {
    match (utilised(unit), processes) {
        (Some(true), _) => Works::Busy,
        (_, Some([_, ..])) => Works::Busy,
        (Some(false), _) | (None, Some([])) => Works::Idle,
        (None, None) => Works::Unknown,
    }
}

fn utilised(unit: &Unit) -> Option<bool> {
    let covers = || unit.mark(unit.utilisation()).into_iter().flat_map(|mark| mark.covers());
    covers().next().map(|_| covers().any(|cover| cover.value > 0))
}

impl Pids {
    /// Sums up the processes of a device by holding. Drivers tell only of processes that used it, so that no answer about any
    /// of them says nothing while the device shows work.
    pub(super) fn attribute(&mut self, unit: &Unit, processes: &[Process], claims: &Claims<'_>) -> Use {
        let mut use_of_it = Use { works: works(unit, Some(processes)), ..Use::default() };
        let is_told = processes.iter().any(|process| process.sm_util.is_some()) || utilised(unit) == Some(false);
        let mut now: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        let mut by_holding: BTreeMap<usize, Own> = BTreeMap::new();
        let mut total: u64 = 0;
        for process in processes {
            // One that is listed twice counts once.
            if now.insert(process.pid, process.started).is_some() {
                continue;
            }
            let sm = process.sm_util.unwrap_or_default().min(WHOLE);
            total += sm;
            let Some(holding) = process.started.and_then(|_| claims.holder(process)) else {
                let is_hidden = process.started.is_none() || process.cgroup.is_none();
                let other = if is_hidden { Others::Hidden } else { Others::Strangers };
                use_of_it.others = use_of_it.others.max(if sm > 0 { other } else { Others::None });
                continue;
            };
            let own = by_holding.entry(holding).or_insert(Own { sm: 0, memory: Some(0) });
            // What ran under this number before may have used part of it.
            let is_reused = self.0.get(&process.pid).is_some_and(|before| *before != process.started);
            own.sm += if is_reused { 0 } else { sm };
            own.memory = own.memory.zip(process.memory_bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
        }
        self.0 = now;
        // Rounding, or samples of more than one pass, may tell of more than there is.
        let whole = total.max(WHOLE);
        by_holding.values_mut().for_each(|own| own.sm = own.sm * WHOLE / whole);
        use_of_it.by_holding = is_told.then_some(by_holding);
        use_of_it
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.0.len()
    }
}

/// What is of the board as such, whoever uses how much of it.
pub(super) fn is_condition(metric: Metric) -> bool {
    matches!(metric, Metric::PowerW | Metric::SmClockMhz | Metric::MemClockMhz)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::Readings;

    const POD: &str = "8f0c1a2b-3d4e-5f60-7182-93a4b5c6d7e8";

    fn process(pid: u32, started: Option<u64>, cgroup: &str, sm_util: Option<u64>) -> Process {
        let cgroup = Some(cgroup.to_owned());
        Process { pid, started, kinds: Default::default(), memory_bytes: Some(100), sm_util, cgroup }
    }

    fn unit(utilisation: Option<u64>) -> Unit {
        let mut unit = Unit::new(0, 1_000_000);
        let mut readings = Readings::default();
        utilisation.into_iter().for_each(|value| readings.push(Metric::GpuUtil, value));
        unit.cover(&readings, 10_000_000);
        unit
    }

    fn sm(use_of_it: &Use) -> Option<Vec<(usize, u64)>> {
        Some(use_of_it.by_holding.as_ref()?.iter().map(|(holding, own)| (*holding, own.sm)).collect())
    }

    #[test]
    fn a_reused_pid_never_bills_its_predecessors_tenant() {
        let (first, second) = (Workload::Cgroup("/a".to_owned()), Workload::Cgroup("/b".to_owned()));
        let claims = Claims(vec![(0, &first), (1, &second)]);
        let busy = unit(Some(500_000));
        let mut pids = Pids::default();
        let before = pids.attribute(&busy, &[process(7, Some(1), "/a", Some(400_000))], &claims);
        assert_eq!(sm(&before), Some(vec![(0, 400_000)]));
        let reused = pids.attribute(&busy, &[process(7, Some(2), "/b", Some(400_000))], &claims);
        assert_eq!(sm(&reused), Some(vec![(1, 0)]), "neither tenant's: the sample is of both processes");
        let after = pids.attribute(&busy, &[process(7, Some(2), "/b", Some(400_000))], &claims);
        assert_eq!(sm(&after), Some(vec![(1, 400_000)]));
        let gone = pids.attribute(&busy, &[process(7, None, "/b", Some(400_000))], &claims);
        assert_eq!(sm(&gone), Some(vec![]), "it has ended, and nobody can say what it was");
    }

    #[test]
    fn a_process_listed_twice_counts_once() {
        let workload = Workload::Cgroup("/a".to_owned());
        let listed = process(7, Some(1), "/a", Some(400_000));
        let claims = Claims(vec![(0, &workload)]);
        let used = Pids::default().attribute(&unit(Some(400_000)), &[listed.clone(), listed], &claims);
        assert_eq!(used.by_holding.unwrap(), BTreeMap::from([(0, Own { sm: 400_000, memory: Some(100) })]));
    }

    #[test]
    fn an_empty_answer_while_the_device_works_is_unattributed_not_idle() {
        let workload = Workload::Cgroup("/a".to_owned());
        let claims = Claims(vec![(0, &workload)]);
        let silent = [process(7, Some(1), "/a", None)];
        let used = Pids::default().attribute(&unit(Some(1)), &silent, &claims);
        assert_eq!((used.works, sm(&used)), (Works::Busy, None));
        let used = Pids::default().attribute(&unit(Some(1)), &[], &claims);
        assert_eq!((used.works, sm(&used)), (Works::Busy, None));
        let used = Pids::default().attribute(&unit(Some(0)), &silent, &claims);
        assert_eq!(sm(&used), Some(vec![(0, 0)]), "it does nothing, and its processes neither");
        assert_eq!(Pids::default().attribute(&unit(Some(0)), &[], &claims).works, Works::Idle);
        assert_eq!(works(&unit(None), None), Works::Unknown);
        assert_eq!(works(&unit(None), Some(&[])), Works::Idle);
    }

    #[test]
    fn more_than_the_device_is_scaled_down_to_it() {
        let (first, second) = (Workload::Cgroup("/a".to_owned()), Workload::Cgroup("/b".to_owned()));
        let claims = Claims(vec![(0, &first), (1, &second)]);
        let listed = [
            process(1, Some(1), "/a", Some(800_000)),
            process(2, Some(1), "/b", Some(600_000)),
            process(3, Some(1), "/nobody", Some(600_000)),
        ];
        let used = Pids::default().attribute(&unit(Some(1_000_000)), &listed, &claims);
        assert_eq!(sm(&used), Some(vec![(0, 400_000), (1, 300_000)]));
    }

    #[test]
    fn the_closest_workload_has_the_process() {
        let (all, pod) = (Workload::Cgroup("/kubepods".to_owned()), Workload::Pod(POD.to_owned()));
        let claims = Claims(vec![(0, &all), (1, &pod), (2, &pod)]);
        let listed = [
            process(1, Some(1), &format!("/kubepods/pod{POD}"), Some(10)),
            process(2, Some(1), "/kubepods/x", Some(5)),
        ];
        let used = Pids::default().attribute(&unit(Some(1)), &listed, &claims);
        assert_eq!(sm(&used), Some(vec![(0, 5), (1, 10)]));
    }
}
