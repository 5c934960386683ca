//! Decodes arbitrary output in every dialect.

#![no_main]

use bowline_testkit::{Case, check_decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(case) = Case::read(input) {
        check_decode(&case);
    }
});
