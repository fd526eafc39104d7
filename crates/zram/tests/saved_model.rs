//! Tests saved files with random damage.
#![allow(clippy::unwrap_used)]

use testkit::saved::SavedModel;
use testkit::{run_any, scaled};

#[test]
fn a_damaged_file_is_restored_as_it_was_or_what_is_lost_is_named() {
    let (mut restored, mut refused) = (0, 0);
    // A file with few changes may be restored. A file with many changes is rejected at the first
    // damage.
    for nth in 0..scaled(300, 20_000) as u64 {
        let report = run_any::<SavedModel>(nth, 1 + nth as usize % 8).unwrap();
        (restored, refused) = (restored + report.restored, refused + report.refused);
    }
    println!("{restored} restored, {refused} refused");
    let is_set = std::env::var_os("UZRAM_SEED").is_some();
    assert!(is_set || (restored > 50 && refused > 50), "{restored} restored, {refused} refused");
}
