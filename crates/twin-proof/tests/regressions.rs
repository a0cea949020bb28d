//! Bugs that campaigns found and that need its load to show: the runs that showed them.

use twin_ffs::Ffs;
use twin_proof::{Depth, Exhaustive, Failure, Known, Scenario};

/// A scenario, written as a failure prints it, that must pass this kind of run.
fn passes<T>(text: &str, kind: impl Fn(&Scenario) -> Result<T, Failure>) {
    if let Err(failure) = kind(&text.parse().unwrap()) {
        panic!("{failure}");
    }
}

fn run(text: &str) {
    passes(text, twin_proof::run);
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

fn crash(text: &str) {
    let depth = Depth { most: 2500, ..Depth::default() };
    passes(text, |scenario| twin_proof::crash(scenario, &depth));
}

/// Reading held the blocks that it found, loaded those that it missed, and took what was there
/// then. What a read-ahead had brought in between was not held, left memory again while the rest
/// was loaded, and was taken for a hole: zeros were read.
#[test]
fn a_block_that_comes_while_others_are_loaded_is_no_hole() {
    crash(
        "seed=100606,size=3145728,streams=1,workload=overwrite,ops=300,clients=2,users=0,\
           shuffled=1,think-ns=1000000,space=1572864,files=15,write=6000,cache=262144,inodes=30,\
           eager=1,checkpoint=1,victim=greedy,age-ns=5000000",
    );
    crash(
        "seed=100953,size=4194304,workload=overwrite,ops=300,clients=3,users=0,shuffled=1,\
           think-ns=0,space=2097152,files=15,write=20000,cache=262144,inodes=4,age-ns=5000000",
    );
}

/// Closing did not wait for the cleaner, which wrote groups behind the last checkpoint. The next
/// mount began with the serial number of that checkpoint, used those numbers again, and after a
/// power failure the old groups stood in for the new ones: acknowledged data was gone. Now closing
/// waits, and every mount skips serial numbers.
#[test]
fn what_the_cleaner_wrote_while_the_volume_closed_does_not_come_back() {
    crash(
        "seed=1043,size=3145728,workload=commits,ops=150,clients=3,users=0,think-ns=0,fill=85,\
           space=307200,files=10,write=6000,cache=262144,eager=1,checkpoint=1,age-ns=5000000000",
    );
    crash(
        "seed=1052,size=3145728,workload=mixed,ops=150,clients=3,users=0,shuffled=1,think-ns=0,\
           fill=91,space=102400,files=10,write=70000,cache=262144,inodes=30,stamps=0,eager=1,\
           age-ns=5000000",
    );
}

/// A write failed, the volume took no more changes, and what should have been written left memory.
/// Reading it gave what was on the device in its place; the classic profile has no checksum to
/// notice.
#[test]
fn what_could_not_be_written_stays_readable() {
    for text in [
        "seed=118,profile=classic,size=8388608,segment=131072,streams=1,workload=commits,ops=300,\
         clients=2,users=0,think-ns=0,space=1048576,files=15,write=9000,cache=262144,inodes=4,\
         eager=1,checkpoint=3",
        "seed=14,profile=classic,size=5242880,streams=1,ops=150,clients=5,users=0,fill=91,\
         space=307200,files=10,cache=262144,checkpoint=1,victim=greedy,age-ns=5000000000",
    ] {
        passes(text, twin_proof::failing);
    }
}

/// The last reference of an inode was given back, its inode could not be read to see whether it
/// was to be freed, and that was answered as a failure of giving it back: who believed that held
/// an inode whose number was soon somebody else's.
#[test]
fn a_reference_that_is_given_back_is_gone_on_a_failing_disk_too() {
    for text in [
        "seed=1001797,size=25165824,segment=65536,streams=1,workload=commits,ops=300,clients=3,\
         users=0,shuffled=1,think-ns=1000000,fill=0,space=1048576,files=15,write=9000,\
         cache=262144,inodes=4,stamps=0,eager=1,checkpoint=1,victim=cost-benefit,age-ns=5000000",
        "seed=1003462,size=4194304,segment=65536,streams=1,workload=commits,ops=300,clients=4,\
         users=0,shuffled=0,think-ns=1000000,fill=0,space=2097152,files=15,write=3000,\
         cache=4194304,inodes=4,stamps=0,eager=1,checkpoint=3,victim=greedy,age-ns=5000000",
    ] {
        passes(text, twin_proof::failing);
    }
}

/// A block behind an indirect block had been written to and had no place on the disk yet when its
/// file was cut. It was dropped at once, the pointer to it later; an indirect block that went to
/// the log in between led nowhere, and the next mount refused the volume.
#[test]
fn an_indirect_block_of_a_file_that_is_cut_leads_nowhere_wrong() {
    let text = "seed=1009209,size=4194304,segment=65536,streams=2,workload=mixed,\
                ops=300,clients=3,users=0,shuffled=1,think-ns=1000000,fill=0,\
                space=2097152,files=15,write=6000,cache=262144,inodes=4,stamps=0,\
                eager=1,checkpoint=8,victim=greedy,age-ns=5000000";
    passes(text, twin_proof::failing);
}

/// A directory block that failed its check stayed in memory, and the next one to come took it for
/// checked; blocks that the cleaner brought in were never checked. An insertion that was planned
/// then found no room, which ended the program.
#[test]
fn a_damaged_directory_block_is_refused_each_time() {
    let text = "seed=11,profile=classic,size=3145728,streams=1,workload=small_files,\
                ops=150,shuffled=1,think-ns=1000000,fill=10,space=1048576,\
                write=6000,cache=524288,inodes=30,checkpoint=3,victim=greedy,\
                age-ns=5000000";
    passes(text, |scenario| twin_proof::damage(scenario, 200));
}

/// A restart had to free what lost its name, on a volume so full that this waited for the cleaner,
/// which was started only afterwards.
#[test]
fn a_restart_on_a_nearly_full_volume_has_its_cleaner() {
    let depth = Depth { points: 150, work_every: u64::MAX, ..Depth::default() };
    let text = "seed=1289,size=4194304,workload=fill,ops=150,clients=5,users=0,fill=80,\
                space=307200,files=10,cache=524288,inodes=4,victim=greedy,\
                age-ns=5000000";
    passes(text, |scenario| twin_proof::crash(scenario, &depth));
}

/// A group of the cleaner was cut off by a power failure, so what it forwarded did not count. It lay
/// where the stream went on after the recovery, but the stream went on elsewhere, and at the next
/// opening its serial number was lower than the checkpoint's: it counted.
#[test]
fn what_a_power_failure_cut_off_forwards_nothing() {
    passes("seed=8", |scenario| twin_proof::full(scenario, 20));
}

/// On a volume so full that the cleaner gained nothing, a name was removed, and then there was no
/// room to free what it had named: the answer was that there is no space, though the name was
/// gone. Now the answer is that it is done, and the space comes back when there is room to note it.
#[test]
fn a_name_that_is_gone_is_not_refused() {
    let text = "seed=1000424,size=10485760,segment=65536,streams=1,workload=mixed,\
                ops=100,clients=4,users=0,shuffled=1,think-ns=0,fill=92,\
                space=1572864,files=40,write=6000,cache=524288,inodes=1000,eager=1,\
                checkpoint=64,age-ns=5000000";
    passes(text, |scenario| twin_proof::full(scenario, 20));
}

/// What a short file held in its inode, and had synced, moved to a block when the file grew. With synchronous
/// metadata the inode could reach the disk before that block, and then led to what had been there.
#[test]
fn what_an_inode_held_is_on_the_disk_before_the_inode_leads_to_it_elsewhere() {
    for workload in ["create-n.sync+grow-b.none", "create-n.sync+alloc-b-grow.fsync"] {
        let scenario = Scenario {
            ordering: "sync".into(),
            workload: workload.into(),
            ..Scenario::exhaustive(0)
        };
        let mut campaign = Exhaustive::<Ffs>::new(&scenario, &Known::default()).unwrap();
        campaign.workload(workload).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Once the judge was wrong. The model has a stand-in for the number of what a rename leaves behind, until a reply shows
/// it. The lookup that did was taken for a change of the directory, so a later fsync of the directory, which had been durable
/// for long, was held to promise also what another directory had been given in between.
#[test]
fn a_number_that_a_lookup_shows_changes_no_directory() {
    let workload = "whiteout-b-n.age+xattr-d.fdatasync+chmod-b.fsyncdir";
    let scenario = Scenario { workload: workload.into(), ..Scenario::exhaustive(0) };
    let mut campaign = Exhaustive::<Ffs>::new(&scenario, &Known::default()).unwrap();
    campaign.workload(workload).unwrap_or_else(|failure| panic!("{failure}"));
}
