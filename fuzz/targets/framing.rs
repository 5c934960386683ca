//! Cuts arbitrary bytes in arbitrary chunks, with every framing and a small cap.

#![no_main]

use bowline_providers::dialect::Framing;
use bowline_testkit::{Chunking, check_framing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[framing, cap, chunking], bytes)) = input.split_first_chunk::<3>() else { return };
    let framing = [Framing::Lines, Framing::LinesOrEvents, Framing::Document][usize::from(framing) % 3];
    // The largest is above what an input can hold, so most inputs meet no cap.
    let cap = [4, 16, 4096, 1 << 20][usize::from(cap) % 4];
    check_framing(framing, cap, bytes, Chunking::new(chunking.into()));
});
