//! Ways to split a stream into chunks, as a pipe may deliver it.

/// A way to split, the same every time for the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    seed: u64,
}

impl Chunking {
    /// Creates the way to split that belongs to a seed. Seed 0 gives single bytes, the hardest case.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Splits the bytes. No piece is empty, and joined they are the bytes again.
    pub fn cut(self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut state = self.seed;
        let mut rest = bytes;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (piece, after) = rest.split_at(next_length(&mut state).min(rest.len()));
            rest = after;
            Some(piece)
        })
    }

    /// Picks an offset in `0..=length`.
    pub fn place(self, length: usize) -> usize {
        let mut state = self.seed.wrapping_add(1);
        usize::try_from(scramble(&mut state) % (length as u64 + 1)).unwrap_or(length)
    }
}

/// The longest piece is longer than a usual line, so that some pieces hold several lines and some none.
fn next_length(state: &mut u64) -> usize {
    if *state == 0 {
        return 1;
    }
    let random = scramble(state);
    let longest = [1, 3, 16, 300][(random >> 32) as usize % 4];
    1 + random as usize % longest
}

/// SplitMix64: three lines, and no dependency in a crate that fuzz targets build with other flags.
fn scramble(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for seed in 0..50 {
            let pieces: Vec<&[u8]> = Chunking::new(seed).cut(&bytes).collect();
            assert_eq!(pieces.concat(), bytes);
            assert!(pieces.iter().all(|piece| !piece.is_empty()));
            assert!(Chunking::new(seed).place(7) <= 7);
        }
        assert_eq!(Chunking::new(0).cut(&bytes).count(), bytes.len());
    }
}
