//! Single packets, without a session and without a kernel: for fuzz targets and benchmarks.
//!
//! Contract: treats a packet as a session does ([`parse`], [`plan`], [`encode`]) that has agreed on
//! no special features and whose clients are checked by the kernel, as on most mounts.

use twin_disk::Bytes;
use twin_fs::{Cred, Op, Reply};

use super::abi::{self, InHeader};
use super::blanks::Blanks;
use super::options::{Agreed, SessionOptions};
use super::parse::parse;
use super::reply::{Answer, Terms, encode};
use super::translate::{Expect, Plan, WriteHow, plan, write_op};

/// The operations that a packet of the kernel requests from the core. Empty if it needs none.
///
/// # Errors
/// A description of what is wrong with the packet.
pub fn requests(packet: &[u8]) -> Result<Vec<(Cred, Op)>, String> {
    Ok(match planned(packet)?.1 {
        Plan::Ask(cred, op, _) => vec![(cred, op)],
        Plan::Write { cred, ino, off, len, how, .. } => {
            let data = Bytes::copy_of(&packet[abi::WRITE_HEAD..abi::WRITE_HEAD + len]);
            vec![(cred, write_op(ino, off, data, how))]
        }
        Plan::Forget(ops) => ops.into_iter().map(|op| (Cred::root(), op)).collect(),
        _ => Vec::new(),
    })
}

/// The packet that answers a packet of the kernel with this reply of the core. `None` if the packet
/// needs no answer, or if the reply does not belong to the request. File data is moved out of the
/// reply.
pub fn answer(packet: &[u8], reply: &mut Reply) -> Option<Vec<u8>> {
    let (header, plan) = planned(packet).ok()?;
    let expect = match plan {
        Plan::Ask(_, _, expect) => expect,
        Plan::Write { how, stale, .. } => Expect::Written { stale, late: how == WriteHow::Late },
        _ => return None,
    };
    let mut answer = Answer::new(Vec::new());
    let (options, blanks) = (SessionOptions::default(), Blanks::default());
    let terms = Terms { options: &options, blanks: &blanks };
    let said = encode(&mut answer, expect, reply, terms).ok()?;
    answer.finish(header.unique, said.err());
    answer.data.iter().for_each(|block| answer.head.extend_from_slice(&block.to_bytes()));
    Some(answer.head)
}

fn planned(packet: &[u8]) -> Result<(InHeader, Plan), String> {
    let (header, call) = parse(packet).map_err(|malformed| malformed.to_string())?;
    let agreed = Agreed { started: true, kill_privileges: true, ..Agreed::default() };
    let plan = plan(&header, call, &SessionOptions::default(), &agreed, b"");
    Ok((header, plan))
}
