//! stub for the first compile
use std::rc::Rc;
use twin_disk::BlockDevice;
use twin_fs::Result;
use twin_rt::Rt;
#[derive(Default)]
pub struct Report {
    pub findings: Vec<()>,
    pub more_findings: u64,
}
pub async fn repair(
    _rt: &Rt,
    _device: Rc<dyn BlockDevice>,
    _p: &mut dyn FnMut(u64),
) -> Result<Report> {
    Err(twin_fs::FsError::Invalid("not yet"))
}
