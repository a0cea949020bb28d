//! A network without loss or delay, for lessons and tests.

use std::rc::Rc;

use twin_disk::Bytes;
use twin_rt::Rt;

use super::rpc::{Carrier, Deliver};
use crate::export::Peer;
use crate::server::Server;

/// Bytes of the mark before a record.
const MARK: usize = 4;

/// A client whose calls reach the server at once, as those of this machine's root.
pub struct Direct {
    rt: Rt,
    server: Rc<Server>,
}

impl Direct {
    /// Leads to `server`, which answers in tasks of `rt`.
    pub fn to(rt: &Rt, server: &Rc<Server>) -> Direct {
        Direct { rt: rt.clone(), server: Rc::clone(server) }
    }
}

impl Carrier for Direct {
    fn carry(&self, record: Bytes, deliver: Deliver) {
        let server = Rc::clone(&self.server);
        self.rt.spawn("call", async move {
            let reply = server.answer(Peer::LOCAL_ROOT, record).await;
            deliver(reply.map(|reply| reply[MARK..].to_vec()));
        });
    }
}
