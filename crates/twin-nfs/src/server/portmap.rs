//! The portmapper (RFC 1833, version 2), for clients that ask where NFS is. It has no memory: it
//! knows the programs of this server and takes no registrations.

use super::{Context, Server, proc};
use crate::rpc::Refusal;
use crate::xdr::{Garbage, Reader, Writer};

/// The number of TCP in mappings.
const TCP: u32 = 6;

impl Server {
    pub(super) fn portmap(
        &self,
        c: Context<'_>,
        args: Reader<'_>,
        out: &mut Writer,
    ) -> Result<Result<(), Garbage>, Refusal> {
        match c.call.procedure {
            proc::portmap::NULL => Ok(args.end()),
            proc::portmap::GETPORT => Ok(self.getport(args, out)),
            proc::portmap::DUMP => Ok(args.end().map(|()| self.dump_ports(out))),
            _ => Err(Refusal::Procedure),
        }
    }

    fn getport(&self, mut r: Reader<'_>, out: &mut Writer) -> Result<(), Garbage> {
        let asked = (r.u32()?, r.u32()?, r.u32()?);
        r.u32()?;
        r.end()?;
        let known = [proc::NFS, proc::MOUNT].iter().any(|&program| asked == (program, 3, TCP));
        out.u32(if known { self.port.get().into() } else { 0 });
        Ok(())
    }

    fn dump_ports(&self, out: &mut Writer) {
        for (program, version) in [(proc::PORTMAP, 2), (proc::MOUNT, 3), (proc::NFS, 3)] {
            let port = self.port.get().into();
            [1, program, version, TCP, port].iter().for_each(|&word| out.u32(word));
        }
        out.flag(false);
    }
}
