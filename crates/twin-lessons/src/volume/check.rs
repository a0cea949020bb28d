//! The check of what is on a platter.

use std::rc::Rc;

use serde_json::{Value, json};
use twin_disk::BlockDevice;
use twin_fs::{CheckRequest, LayoutKind};
use twin_rt::{ClockOnly, Rt};
use twin_sim::Platter;

use super::setup::still;

/// Checks a platter.
pub(crate) fn checked(layout: &'static dyn LayoutKind, platter: &Platter) -> Result<Value, String> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let device: Rc<dyn BlockDevice> = Rc::new(still(&rt, platter.clone())?);
    let how = CheckRequest::default();
    let mut progress = |_, _| {};
    let checking = layout.check(&rt, device, how, &mut progress);
    let checked = rt.block_on(checking).map_err(|_| "the check does not end".to_string());
    rt.crash();
    Ok(match checked? {
        Ok(report) => json!({
            "ok": true,
            "clean": report.is_clean(),
            "findings": report.findings,
            "more_findings": report.more_findings,
            "notes": report.notes,
        }),
        Err(why) => json!({"ok": true, "clean": false, "findings": [why.to_string()], "notes": []}),
    })
}
