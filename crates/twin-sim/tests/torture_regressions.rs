//! Bugs that torture found and that need its load to show: the runs that showed them.

use twin_sim::torture::{self, Scenario};

fn run(text: &str) {
    let scenario: Scenario = text.parse().unwrap();
    if let Err(failure) = torture::run(&scenario) {
        panic!("{failure}");
    }
}

/// Of the indirect blocks above a block, a lower one may stay in memory while an upper one
/// leaves. Holding them looked for the lower one, found it, missed the upper one, took that for a
/// race, and began anew, for ever.
#[test]
fn indirect_blocks_that_left_memory_are_loaded_again() {
    run("seed=47,size=12582912,segment=65536,ops=2000,clients=2,users=0,think-ns=0,space=1048576,\
         cache=262144,inodes=30,checkpoint=64,victim=greedy,age-ns=5000000");
}

/// The only live blocks of a victim were indirect blocks that were dirty in memory. Cleaning
/// leaves those to the next checkpoint, so the victim stayed as it was, was chosen again, and no
/// checkpoint came.
#[test]
fn a_victim_whose_blocks_are_dirty_is_not_cleaned_for_ever() {
    run("seed=64,profile=classic,size=8388608,segment=131072,streams=1,workload=overwrite,\
         ops=2000,shuffled=1,think-ns=0,space=1048576,files=15,write=70000,stamps=0,checkpoint=64");
}

/// A directory was removed while somebody listed it or looked for a name in it, which went on as
/// if it were there.
#[test]
fn a_directory_that_is_removed_meanwhile_has_no_names() {
    run("seed=67,size=8388608,segment=131072,workload=metadata,ops=2000,clients=2,users=0,\
         shuffled=1,think-ns=1000000,space=1048576,write=70000,inodes=4,checkpoint=1,\
         victim=greedy");
    run("seed=315,size=8388608,streams=1,ops=2000,clients=2,users=0,shuffled=1,think-ns=0,\
         space=1048576,cache=524288,inodes=4,stamps=0,checkpoint=64,victim=greedy,age-ns=5000000");
}

/// The times of a whiteout were taken before the rename that makes it waited for its blocks.
#[test]
fn a_whiteout_is_as_old_as_its_rename() {
    run("seed=135,profile=classic,size=25165824,segment=131072,streams=1,ops=2000,clients=5,\
         users=0,think-ns=0,space=3145728,files=15,write=70000,cache=262144,inodes=4,checkpoint=1");
}

/// The reply to a truncation was made when the last block was freed, with what others had changed
/// of the file since it was cut.
#[test]
fn the_reply_to_a_truncation_is_from_when_it_took_effect() {
    run("seed=134,size=25165824,clients=4,users=0,shuffled=1,think-ns=0,space=3145728,write=6000,\
         cache=524288,inodes=4,eager=1,checkpoint=64,victim=greedy,age-ns=5000000000");
}
