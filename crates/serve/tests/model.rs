//! Tests the answers to random clients, one client after another, against the protocol's document.

#![allow(clippy::unwrap_used, reason = "tests")]

use testkit::nbd::model::NbdModel;
use testkit::{run_any, scaled};

#[test]
fn any_client_is_answered_as_the_document_says() {
    let (mut done, mut refused) = (0, 0);
    for nth in 0..scaled(24, 1000) as u64 {
        let report = run_any::<NbdModel>(nth, 1000).unwrap();
        println!("{report:?}");
        assert!(report.clients > 10 && report.options > 50, "{report:?}");
        assert!(report.read > 0 && report.extents > 0, "{report:?}");
        (done, refused) = (done + report.done, refused + report.refused);
    }
    assert!(refused > 100 && done > refused, "{done} are done, {refused} refused");
}
