//! What a call may take of the memory before it has been executed.
//!
//! Contract: [`reply_most`] is no less than the reply of any server to the record; it depends on nothing but
//! the record, and on the length of the one reply that depends on how the server is set up.

use super::super::server::{LISTING_MAX, proc};
use crate::handle::HANDLE_MAX;
use crate::record::TRANSFER_MAX;
use crate::rpc;
use crate::xdr::{Garbage, Reader};

/// Memory that executing a call takes, besides its record, its data and its reply.
pub const CALL_BYTES: usize = 6 << 10;
/// The longest reply of a call without data, names or entries.
const PLAIN_REPLY: usize = 1 << 10;
/// The longest reply of READLINK: a path.
const PATH_REPLY: usize = 5 << 10;
/// The longest record of a call without data: head with credentials, handles, names.
const RECORD_WITHOUT_DATA: usize = 4 << 10;

/// The most bytes that a call holds from now until its reply has been given: its record, what
/// executing takes, and its reply. `special` is the longest reply to a call of another program than NFS.
pub(super) fn of(record: &[u8], special: usize) -> usize {
    let (procedure, reply) = reply_most(record, special);
    let work = match procedure {
        // The data goes to the volume as a buffer of its own.
        Some(proc::WRITE) => record.len(),
        // Blocks, and the reply into which they are copied.
        Some(proc::READ) => reply,
        // Entries in memory are larger than in a reply, where those without attributes are very short.
        Some(proc::READDIR) => 8 * reply,
        Some(proc::READDIRPLUS) => 3 * reply,
        _ => 0,
    };
    record.len() + work + CALL_BYTES + reply
}

/// The most bytes that a record of this length holds once it is complete.
pub(super) fn of_long(len: usize) -> usize {
    2 * len + CALL_BYTES + PLAIN_REPLY
}

/// The procedure of NFS that is called, and the longest reply.
fn reply_most(record: &[u8], special: usize) -> (Option<u32>, usize) {
    let Ok(call) = rpc::parse(record) else { return (None, PLAIN_REPLY) };
    if call.program != proc::NFS {
        return (None, special.max(PLAIN_REPLY));
    }
    // Arguments of other procedures than WRITE end where they should, or are refused.
    if call.procedure == proc::WRITE || record.len() > RECORD_WITHOUT_DATA {
        return (Some(proc::WRITE), PLAIN_REPLY);
    }
    let args = Reader::new(&record[call.args_at..]);
    let most =
        requested_bytes(call.procedure, args).map_or(PLAIN_REPLY, |asked| asked + PLAIN_REPLY);
    (Some(call.procedure), most)
}

/// The bytes of data or of entries that a call asks for.
fn requested_bytes(procedure: u32, mut args: Reader<'_>) -> Result<usize, Garbage> {
    match procedure {
        proc::READ => {
            args.opaque(HANDLE_MAX)?;
            args.u64()?;
            args.u32().map(|count| count.min(TRANSFER_MAX) as usize)
        }
        proc::READDIR | proc::READDIRPLUS => {
            args.opaque(HANDLE_MAX)?;
            args.u64()?;
            args.u64()?;
            if procedure == proc::READDIRPLUS {
                args.u32()?;
            }
            args.u32().map(|count| count.min(LISTING_MAX) as usize)
        }
        proc::READLINK => Ok(PATH_REPLY),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Caller;

    fn call(procedure: u32, numbers: &[u32]) -> Vec<u8> {
        let mut out = rpc::call(1, (proc::NFS, 3, procedure), &Caller::Nobody);
        out.opaque(&[0; 32]);
        numbers.iter().for_each(|&number| out.u32(number));
        out.into_bytes()[4..].to_vec()
    }

    #[test]
    fn room_is_taken_for_what_a_call_asks_for() {
        let most = |procedure, numbers: &[u32]| reply_most(&call(procedure, numbers), 0).1;
        assert_eq!(most(proc::READ, &[0, 0, 5000]), 5000 + PLAIN_REPLY);
        assert_eq!(most(proc::READ, &[0, 0, u32::MAX]), (1 << 20) + PLAIN_REPLY);
        assert_eq!(most(proc::READDIR, &[0, 0, 0, 0, 4096]), 4096 + PLAIN_REPLY);
        assert_eq!(most(proc::READDIRPLUS, &[0, 0, 0, 0, 1, u32::MAX]), (128 << 10) + PLAIN_REPLY);
        assert_eq!(most(proc::READ, &[0]), PLAIN_REPLY, "arguments that are cut off");
        assert_eq!(reply_most(b"nonsense", 0), (None, PLAIN_REPLY));
    }

    #[test]
    fn a_record_with_data_is_held_twice() {
        let mut record = call(proc::WRITE, &[0, 0, 9000, 0, 9000]);
        record.extend([7; 9000]);
        assert!(of(&record, 0) >= 18_000 && of(&record, 0) <= of_long(record.len()));
    }
}
