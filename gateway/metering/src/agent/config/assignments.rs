//! `[[assignments]]`: who holds what without a job call.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::Problem;
use super::source::{Source, invalid};
use crate::agent::holding::{self, WHOLE};
use crate::meter::{Job, Part, Workload};

const PATH: &str = "assignments";
const EXPECTED: &str = "tables with a `tenant` and a `gpu`, a `pod`, a `container` or a `cgroup`";
const MEMBERS: [&str; 8] = ["tenant", "job", "gpu", "instance", "share", "pod", "container", "cgroup"];

impl Source<'_> {
    /// Entries of the same tenant and job are one.
    pub(super) fn assignments(&mut self) -> Vec<Job> {
        let Some(leaf) = self.take_leaf(PATH) else { return Vec::new() };
        let DeValue::Array(entries) = leaf.value else {
            self.report_at(leaf.span, invalid(PATH, format!("of type {}", leaf.value.type_str()), EXPECTED));
            return Vec::new();
        };
        let mut jobs: Vec<Job> = Vec::new();
        for entry in &entries {
            let DeValue::Table(members) = entry.get_ref() else {
                let found = format!("of type {}", entry.get_ref().type_str());
                self.report_at(entry.span(), invalid(PATH, found, EXPECTED));
                continue;
            };
            let Some(job) = self.assignment(members, &entry.span()) else { continue };
            match jobs.iter_mut().find(|known| (&known.tenant, &known.job) == (&job.tenant, &job.job)) {
                Some(known) => {
                    known.parts.extend(job.parts);
                    known.workloads.extend(job.workloads);
                }
                None => jobs.push(job),
            }
        }
        let jobs: Vec<_> = jobs.into_iter().map(holding::in_order).collect();
        for job in &jobs {
            if let Some(part) = holding::doubled(&job.parts) {
                let sentence = format!("`{}` is assigned to `{}` twice", holding::part_text(part), job.tenant);
                self.report_at(leaf.span.clone(), Problem::Assignment(sentence));
            }
        }
        jobs
    }

    /// `None`: reported.
    fn assignment(&mut self, members: &DeTable<'_>, span: &Range<usize>) -> Option<Job> {
        let mut is_whole = true;
        for key in members.keys().filter(|key| !MEMBERS.contains(&&**key.get_ref())) {
            let known = MEMBERS.map(|member| format!("{PATH}.{member}")).to_vec();
            self.report_at(key.span(), Problem::Unknown { name: format!("{PATH}.{}", key.get_ref()), known });
            is_whole = false;
        }
        let tenant = self.member(members, "tenant", holding::tenant, &mut is_whole);
        let job = self.member(members, "job", holding::name, &mut is_whole);
        let gpu = self.member(members, "gpu", holding::gpu, &mut is_whole);
        let instance = self.member(members, "instance", holding::instance, &mut is_whole);
        let share = self.member(members, "share", holding::share, &mut is_whole);
        let workloads = [
            self.member(members, "pod", holding::pod, &mut is_whole),
            self.member(members, "container", holding::container, &mut is_whole),
            self.member(members, "cgroup", holding::cgroup, &mut is_whole),
        ];
        let workloads: Vec<Workload> = workloads.into_iter().flatten().collect();
        if !is_whole {
            return None;
        }
        let report = |source: &mut Self, sentence: &str| {
            source.report_at(span.clone(), Problem::Assignment(sentence.to_owned()));
            None
        };
        let Some(tenant) = tenant else { return report(self, "an entry has no `tenant`; say whose it is") };
        if gpu.is_none() && (instance.is_some() || share.is_some()) {
            return report(self, "an entry has an `instance` or a `share` of no `gpu`; add it");
        }
        if gpu.is_none() && workloads.is_empty() {
            return report(self, "an entry has neither a `gpu` nor a `pod`, `container` or `cgroup`; add one");
        }
        let part = gpu.map(|gpu_uuid| Part { gpu_uuid, instance, share: share.unwrap_or(WHOLE) });
        Some(Job { tenant, job, parts: part.into_iter().collect(), workloads })
    }

    /// A member's value; where it is wrong, that is reported and the entry is no longer whole.
    fn member<T>(
        &mut self,
        members: &DeTable<'_>,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
        is_whole: &mut bool,
    ) -> Option<T> {
        let value = members.get(name)?;
        let read = match value.get_ref().as_str() {
            Some(text) => read(text).map_err(|wrong| format!("`{name}` `{text}` {wrong}")),
            None => Err(format!("`{name}` is of type {}; give a string", value.get_ref().type_str())),
        };
        read.map_err(|sentence| {
            self.report_at(value.span(), Problem::Assignment(sentence));
            *is_whole = false;
        })
        .ok()
    }
}
