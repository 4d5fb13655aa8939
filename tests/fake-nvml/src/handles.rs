//! What handles are: numbers that carry the generation they are good for, and sets and samples until they are freed.

use std::collections::{BTreeMap, BTreeSet};

/// Devices are far apart, so that their instances fit in between.
const FIRST: usize = 0x1_0000;
const STEP: usize = 0x100;
/// Above lies the generation.
const GENERATION: u32 = 40;

/// Of one generation.
#[derive(Default)]
pub(crate) struct Handles {
    /// With the indices of the devices registered.
    pub(crate) sets: BTreeMap<usize, BTreeSet<u32>>,
    pub(crate) samples: BTreeMap<usize, Sampled>,
    /// Numbers given out so far, in all generations.
    given: usize,
}

/// What a sample handle stands for.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) device: usize,
    pub(crate) instance: Option<u32>,
}

impl Handles {
    pub(crate) fn new_set(&mut self) -> usize {
        self.given += 1;
        self.sets.insert(self.given, BTreeSet::new());
        self.given
    }

    pub(crate) fn new_sample(&mut self) -> usize {
        self.given += 1;
        self.samples.insert(self.given, Sampled::default());
        self.given
    }

    /// What was not freed.
    pub(crate) fn clear(&mut self) -> Vec<&'static str> {
        let sets = std::mem::take(&mut self.sets).into_keys().map(|_| "a set of events");
        sets.chain(std::mem::take(&mut self.samples).into_keys().map(|_| "a sample")).collect()
    }
}

pub(crate) fn device_handle(generation: u32, index: u32) -> usize {
    let place = FIRST + usize::try_from(index).unwrap_or(0) * STEP;
    usize::try_from(generation).unwrap_or(0) << GENERATION | place
}

pub(crate) fn instance_handle(parent: usize, index: u32) -> usize {
    parent + 1 + usize::try_from(index).unwrap_or(0)
}

pub(crate) fn generation(handle: usize) -> u32 {
    u32::try_from(handle >> GENERATION).unwrap_or(0)
}

/// Index of a handle's device.
pub(crate) fn device_of(handle: usize) -> Option<usize> {
    Some(place(handle).checked_sub(FIRST)? / STEP)
}

/// Index of a handle's instance in its device.
pub(crate) fn instance_of(handle: usize) -> Option<usize> {
    (place(handle).checked_sub(FIRST)? % STEP).checked_sub(1)
}

fn place(handle: usize) -> usize {
    handle & ((1 << GENERATION) - 1)
}
