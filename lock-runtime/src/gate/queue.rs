//! A queue that is served from the front, and that can be left anywhere.
//!
//! Nearly all waiters come at the end and leave at the front, which needs no search. A waiter that leaves in the middle
//! leaves a gap there, so the waiters behind it stay where they are. Once most places are gaps, all gaps are removed.

use std::collections::VecDeque;

/// So many gaps, and so much unused room, are kept in any case.
const FEW: usize = 64;

/// Values in the order of their numbers. No number is there twice.
pub(super) struct WaitQueue<T> {
    /// Without gaps at its two ends.
    places: VecDeque<Place<T>>,
    /// Number of places that are no gaps.
    len: usize,
}

struct Place<T> {
    number: u64,
    /// `None` for a gap.
    value: Option<T>,
}

impl<T> Default for WaitQueue<T> {
    fn default() -> Self {
        Self { places: VecDeque::new(), len: 0 }
    }
}

impl<T> WaitQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a value, in the middle if its number says so.
    pub(super) fn insert(&mut self, number: u64, value: T) {
        self.len += 1;
        let place = Place { number, value: Some(value) };
        if self.places.back().is_none_or(|last| last.number < number) {
            return self.places.push_back(place);
        }
        match self.find(number) {
            Ok(at) => self.places[at] = place,
            Err(at) => self.places.insert(at, place),
        }
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.places.front()?.value.as_ref()
    }

    pub(super) fn pop_first(&mut self) -> Option<T> {
        let first = self.places.pop_front()?.value;
        self.len -= 1;
        self.tidy();
        first
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let at = self.find(number).ok()?;
        self.places[at].value.as_mut()
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.find(number).ok()?;
        let removed = self.places[at].value.take()?;
        self.len -= 1;
        self.tidy();
        Some(removed)
    }

    /// Removes all values that are chosen, and returns them in order.
    pub(super) fn remove_if(&mut self, is_chosen: impl Fn(&T) -> bool) -> Vec<T> {
        let chosen = |place: &mut Place<T>| place.value.take_if(|value| is_chosen(value));
        let removed: Vec<_> = self.places.iter_mut().filter_map(chosen).collect();
        self.len -= removed.len();
        self.tidy();
        removed
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.value.as_ref())
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = T> {
        self.places.into_iter().filter_map(|place| place.value)
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        self.places.binary_search_by_key(&number, |place| place.number)
    }

    /// Removes the gaps at the ends, all gaps if they are the greater part, and room that is not needed any more.
    fn tidy(&mut self) {
        let is_gap = |place: Option<&Place<T>>| place.is_some_and(|place| place.value.is_none());
        while is_gap(self.places.front()) {
            self.places.pop_front();
        }
        while is_gap(self.places.back()) {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.len + FEW {
            self.places.retain(|place| place.value.is_some());
        }
        if self.places.capacity() > 4 * (self.places.len() + FEW) {
            self.places.shrink_to(2 * (self.places.len() + FEW));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// One random change of both, which must agree.
    fn change(queue: &mut WaitQueue<u64>, model: &mut BTreeMap<u64, u64>, next: u64) {
        let some = fastrand::u64(next.saturating_sub(100)..=next);
        match fastrand::u8(0..10) {
            0..4 => {
                queue.insert(next, next * 2);
                model.insert(next, next * 2);
            }
            4 if !model.contains_key(&some) => {
                queue.insert(some, some * 2);
                model.insert(some, some * 2);
            }
            5 => assert_eq!(queue.remove(some), model.remove(&some)),
            6 => {
                let mut both = [queue.get_mut(some), model.get_mut(&some)];
                both.iter_mut().flatten().for_each(|value| **value += 1);
                assert_eq!(both[0], both[1]);
            }
            7 if fastrand::u8(0..10) == 0 => {
                let removed: Vec<_> = model.extract_if(.., |_, value| *value % 3 == 0).collect();
                let removed: Vec<_> = removed.into_iter().map(|(_, value)| value).collect();
                assert_eq!(queue.remove_if(|value| *value % 3 == 0), removed);
            }
            _ => assert_eq!(queue.pop_first(), model.pop_first().map(|(_, value)| value)),
        }
    }

    #[test]
    fn it_is_a_map_in_order() {
        for seed in 0..200 {
            fastrand::seed(seed);
            let (mut queue, mut model) = (WaitQueue::default(), BTreeMap::new());
            for next in 0..500 {
                change(&mut queue, &mut model, next);
                assert_eq!(queue.len(), model.len(), "seed {seed}");
                assert_eq!(queue.first(), model.values().next(), "seed {seed}");
                assert!(queue.iter().eq(model.values()), "seed {seed}");
            }
            assert!(queue.into_values().eq(model.into_values()), "seed {seed}");
        }
    }

    #[test]
    fn what_leaves_leaves_no_room_behind() {
        let mut queue = WaitQueue::default();
        (0..100_000).for_each(|number| queue.insert(number, ()));
        // The ends stay, so that nothing is trimmed there.
        (1..99_999).for_each(|number| assert_eq!(queue.remove(number), Some(())));
        assert_eq!(queue.len(), 2);
        assert!(queue.places.len() <= 2 * FEW, "{} places", queue.places.len());
        assert!(queue.places.capacity() <= 8 * FEW, "room for {}", queue.places.capacity());
    }
}
