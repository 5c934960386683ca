//! A hash for maps that are read with every message, at a fifth of the cost of the standard one for short names.
//!
//! The names come from an agent, so both operands of the multiplication depend on a secret of this map: names that meet in
//! one place of one map do not meet in another, and an agent cannot choose them.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashes with the secret of one map.
#[derive(Clone, Debug)]
pub(super) struct QuickHash {
    start: u64,
    factor: u64,
}

impl Default for QuickHash {
    fn default() -> Self {
        let random = RandomState::new();
        Self { start: random.hash_one(0_u8), factor: random.hash_one(1_u8) | 1 }
    }
}

impl BuildHasher for QuickHash {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher { hash: self.start, factor: self.factor }
    }
}

/// Hashes one name.
#[derive(Debug)]
pub(super) struct QuickHasher {
    hash: u64,
    factor: u64,
}

impl QuickHasher {
    /// Multiplies to 128 bits and folds the halves, so that every bit of the word reaches every bit of the hash.
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.hash ^ word) * u128::from(self.factor);
        self.hash = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        // The length distinguishes a name from the same one with zeros before its end.
        let last = rest.iter().fold(bytes.len() as u64, |word, byte| (word << 8) | u64::from(*byte));
        self.mix(last);
    }

    fn write_u8(&mut self, byte: u8) {
        self.hash ^= u64::from(byte);
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.hash) * u128::from(self.factor.rotate_left(32));
        (product as u64) ^ ((product >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_differ_and_spread_over_the_places_of_a_map() {
        let hash = QuickHash::default();
        let names = (0..20_000).map(|number| format!("m{number}"));
        let hashes: Vec<u64> = names.map(|name| hash.hash_one(name.as_str())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        // Both ends of a hash are used: the low bits choose the place, the high ones tell what lies there.
        for shift in [0, 48] {
            let mut places = vec![0_u32; 1 << 12];
            hashes.iter().for_each(|hash| places[(hash >> shift) as usize % (1 << 12)] += 1);
            assert!(*places.iter().max().expect("places") < 30, "{shift}");
        }
    }

    #[test]
    fn what_meets_in_one_map_does_not_meet_in_another() {
        let (one, other) = (QuickHash::default(), QuickHash::default());
        let low = |hash: &QuickHash, number: u32| hash.hash_one(format!("m{number}").as_str()) & 0xFFF;
        let meeting: Vec<u32> = (0..40_000).filter(|number| low(&one, *number) == 7).collect();
        let places: HashSet<u64> = meeting.iter().map(|number| low(&other, *number)).collect();
        assert!(
            meeting.len() > 3 && places.len() * 2 > meeting.len(),
            "{} of {}",
            places.len(),
            meeting.len()
        );
    }

    #[test]
    fn zeros_at_the_end_of_a_name_count() {
        let hash = QuickHash::default();
        let names = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0"];
        let hashes: HashSet<u64> = names.iter().map(|name| hash.hash_one(*name)).collect();
        assert_eq!(hashes.len(), names.len());
    }
}
