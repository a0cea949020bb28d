//! The scenarios, one file each.

mod acl;
mod aged;
mod bigdir;
mod bill;
mod bucket;
mod bucket_coded;
mod bucket_follow;
mod bucket_local;
mod build;
mod cleaning;
mod crashlab;
mod enospc;
mod events;
mod flight;
mod flush;
mod forecast;
mod fork;
mod fsx;
mod fuse_nfs;
mod git;
mod gitkill;
mod grow;
mod holes;
mod hostile;
mod idle;
mod instructions;
mod journal;
mod kernel;
mod kill9;
mod loopdev;
mod memory;
mod nfs;
mod nfs_crowd;
mod nfs_mount;
mod nfs_peers;
mod observers;
mod old;
mod package;
mod pjdfstest;
mod places;
mod quota;
mod replacement;
mod rewrite;
mod scrub;
mod send;
mod served;
mod shell;
mod signatures;
mod snapshots;
mod sqlite;
mod startup;
mod strace;
mod streams;
mod sync;
mod times;
mod user;
mod writers;

use super::Scenario;

/// All scenarios, in the order in which they run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    git::SCENARIO,
    gitkill::SCENARIO,
    snapshots::SCENARIO,
    send::SCENARIO,
    sqlite::SCENARIO,
    bigdir::SCENARIO,
    flight::SCENARIO,
    instructions::SCENARIO,
    fsx::SCENARIO,
    pjdfstest::SCENARIO,
    acl::SCENARIO,
    times::SCENARIO,
    enospc::SCENARIO,
    grow::SCENARIO,
    quota::SCENARIO,
    sync::SCENARIO,
    crashlab::SCENARIO,
    holes::SCENARIO,
    startup::SCENARIO,
    writers::SCENARIO,
    kernel::SCENARIO,
    events::SCENARIO,
    user::SCENARIO,
    package::SCENARIO,
    kill9::SCENARIO,
    journal::SCENARIO,
    bucket::SCENARIO,
    bucket_local::SCENARIO,
    bucket_follow::SCENARIO,
    bucket_coded::SCENARIO,
    bill::SCENARIO,
    flush::SCENARIO,
    rewrite::SCENARIO,
    build::SCENARIO,
    loopdev::SCENARIO,
    cleaning::SCENARIO,
    idle::SCENARIO,
    memory::SCENARIO,
    nfs::SCENARIO,
    nfs_crowd::SCENARIO,
    nfs_mount::SCENARIO,
    fuse_nfs::SCENARIO,
    nfs_peers::SCENARIO,
    old::SCENARIO,
    aged::SCENARIO,
    fork::SCENARIO,
    forecast::SCENARIO,
    observers::SCENARIO,
    places::SCENARIO,
    replacement::SCENARIO,
    streams::SCENARIO,
    scrub::SCENARIO,
    shell::SCENARIO,
    signatures::SCENARIO,
    hostile::SCENARIO,
    strace::SCENARIO,
];
