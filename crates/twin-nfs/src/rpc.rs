//! Remote procedure calls, version 2 (RFC 5531): the heads of calls and of replies.
//!
//! Contract: [`parse`] accepts any bytes. Bytes from which no answer can be made (too short for a
//! number, or not a call) are [`Refusal::Silent`]; for everything else there is a reply.

use crate::record::mark;
use crate::xdr::{Garbage, Reader, Writer};

/// The longest credential, in bytes (RFC 5531, section 8.2).
const AUTH_MAX: usize = 400;
/// The most supplementary groups of an AUTH_SYS credential.
const GROUPS_MAX: u32 = 16;
/// The longest name of a client's machine in an AUTH_SYS credential.
const MACHINE_MAX: usize = 255;

/// The flavor of credentials that name no user.
pub const AUTH_NONE: u32 = 0;
/// The flavor of credentials that name a user and groups by number.
pub const AUTH_SYS: u32 = 1;

/// The user that a client claims to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The client names no user (AUTH_NONE).
    Nobody,
    /// A user of the client's machine (AUTH_SYS), which the server believes as far as the rules of
    /// an export say.
    User {
        /// The number of the user.
        uid: u32,
        /// The number of the primary group.
        gid: u32,
        /// The numbers of the supplementary groups.
        groups: Vec<u32>,
    },
}

/// The head of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number by which the client recognizes the reply.
    pub xid: u32,
    /// The number of the program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The number of the procedure.
    pub procedure: u32,
    /// The user of the client, from the credentials.
    pub caller: Caller,
    /// The byte of the record at which the arguments begin.
    pub args_at: usize,
}

/// Why a call is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No reply is possible.
    Silent,
    /// The version of RPC is not 2.
    RpcVersion,
    /// The credential is malformed.
    BadCredential,
    /// The credential is of a flavor that the server does not take.
    WeakCredential,
    /// There is no such program.
    Program,
    /// The program has these versions only.
    Version(u32, u32),
    /// There is no such procedure.
    Procedure,
    /// The arguments are not those of the procedure.
    Arguments,
}

/// The head of a call, or the number of a call (if it has one) that is refused.
pub fn parse(record: &[u8]) -> Result<Call, (Option<u32>, Refusal)> {
    let mut r = Reader::new(record);
    let (Ok(xid), Ok(0)) = (r.u32(), r.u32()) else { return Err((None, Refusal::Silent)) };
    parse_body(&mut r, xid).map_err(|refusal| (Some(xid), refusal))
}

fn parse_body(r: &mut Reader<'_>, xid: u32) -> Result<Call, Refusal> {
    let garbage = |_: Garbage| Refusal::Arguments;
    if r.u32().map_err(garbage)? != 2 {
        return Err(Refusal::RpcVersion);
    }
    let mut number = || r.u32().map_err(garbage);
    let (program, version, procedure) = (number()?, number()?, number()?);
    let flavor = number()?;
    let body = r.opaque(AUTH_MAX).map_err(|_| Refusal::BadCredential)?;
    let caller = match flavor {
        AUTH_NONE => Caller::Nobody,
        AUTH_SYS => sys(body).map_err(|_| Refusal::BadCredential)?,
        _ => return Err(Refusal::WeakCredential),
    };
    // The verifier of both flavors is empty; what a client sends there means nothing.
    r.u32().map_err(|_| Refusal::BadCredential)?;
    r.opaque(AUTH_MAX).map_err(|_| Refusal::BadCredential)?;
    Ok(Call { xid, program, version, procedure, caller, args_at: r.position() })
}

fn sys(body: &[u8]) -> Result<Caller, Garbage> {
    let mut r = Reader::new(body);
    let _stamp = r.u32()?;
    let _machine = r.opaque(MACHINE_MAX)?;
    let (uid, gid) = (r.u32()?, r.u32()?);
    let count = r.u32()?;
    if count > GROUPS_MAX {
        return Err(Garbage);
    }
    let groups = (0..count).map(|_| r.u32()).collect::<Result<_, _>>()?;
    r.end()?;
    Ok(Caller::User { uid, gid, groups })
}

/// The beginning of a reply to a call that is executed, with room for the record's mark. The
/// results follow; [`finish`] completes the record.
pub fn accepted(xid: u32) -> Writer {
    let mut out = head(xid, 0);
    verifier(&mut out);
    out.u32(0);
    out
}

/// The record of a reply to a call that is refused; `None` if there is no reply.
pub fn refused(xid: Option<u32>, refusal: Refusal) -> Option<Vec<u8>> {
    let xid = xid?;
    let denied = |words: &[u32]| {
        let mut out = head(xid, 1);
        words.iter().for_each(|&word| out.u32(word));
        out
    };
    let unaccepted = |words: &[u32]| {
        let mut out = head(xid, 0);
        verifier(&mut out);
        words.iter().for_each(|&word| out.u32(word));
        out
    };
    Some(finish(match refusal {
        Refusal::Silent => return None,
        Refusal::RpcVersion => denied(&[0, 2, 2]),
        Refusal::BadCredential => denied(&[1, 1]),
        Refusal::WeakCredential => denied(&[1, 5]),
        Refusal::Program => unaccepted(&[1]),
        Refusal::Version(low, high) => unaccepted(&[2, low, high]),
        Refusal::Procedure => unaccepted(&[3]),
        Refusal::Arguments => unaccepted(&[4]),
    }))
}

/// Completes a record that begins with room for its mark.
pub fn finish(out: Writer) -> Vec<u8> {
    let mut bytes = out.into_bytes();
    let mark = mark(bytes.len() - 4);
    bytes[..4].copy_from_slice(&mark);
    bytes
}

fn head(xid: u32, denied: u32) -> Writer {
    let mut out = Writer::after(Vec::with_capacity(256));
    out.u32(0);
    out.u32(xid);
    out.u32(1);
    out.u32(denied);
    out
}

fn verifier(out: &mut Writer) {
    out.u32(AUTH_NONE);
    out.u32(0);
}

/// The beginning of a call, with room for the record's mark.
pub fn call(xid: u32, (program, version, procedure): (u32, u32, u32), caller: &Caller) -> Writer {
    let mut out = Writer::after(Vec::with_capacity(256));
    [0, xid, 0, 2, program, version, procedure].iter().for_each(|&word| out.u32(word));
    match caller {
        Caller::Nobody => verifier(&mut out),
        Caller::User { uid, gid, groups } => {
            let mut body = Writer::default();
            body.u32(0);
            body.opaque(b"twinfs");
            body.u32(*uid);
            body.u32(*gid);
            body.u32(groups.len() as u32);
            groups.iter().for_each(|&group| body.u32(group));
            out.u32(AUTH_SYS);
            out.opaque(&body.into_bytes());
        }
    }
    verifier(&mut out);
    out
}

/// The number of a reply, and its results if the call was executed.
pub fn parse_reply(record: &[u8]) -> Result<(u32, Option<Reader<'_>>), Garbage> {
    let mut r = Reader::new(record);
    let xid = r.u32()?;
    if r.u32()? != 1 {
        return Err(Garbage);
    }
    if r.u32()? != 0 {
        return Ok((xid, None));
    }
    r.u32()?;
    r.opaque(AUTH_MAX)?;
    let executed = r.u32()? == 0;
    Ok((xid, executed.then_some(r)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_it_was_written() {
        let caller = Caller::User { uid: 7, gid: 8, groups: vec![9, 10] };
        let mut out = call(77, (100_003, 3, 4), &caller);
        out.u32(5);
        let bytes = finish(out);
        let parsed = parse(&bytes[4..]).unwrap();
        assert_eq!((parsed.xid, parsed.program, parsed.version), (77, 100_003, 3));
        assert_eq!((parsed.procedure, &parsed.caller), (4, &caller));
        assert_eq!(Reader::new(&bytes[4 + parsed.args_at..]).u32(), Ok(5));
    }

    #[test]
    fn every_cut_of_a_call_is_refused_and_none_panics() {
        let caller = Caller::User { uid: 7, gid: 8, groups: vec![9] };
        let bytes = finish(call(77, (100_003, 3, 4), &caller));
        for len in 0..bytes.len() - 4 {
            let (xid, refusal) = parse(&bytes[4..4 + len]).unwrap_err();
            assert_eq!(xid.is_some(), len >= 8, "{len}");
            assert_eq!(refused(xid, refusal).is_some(), len >= 8);
        }
    }

    #[test]
    fn too_many_groups_are_a_bad_credential() {
        let caller = Caller::User { uid: 7, gid: 8, groups: vec![9; 17] };
        let bytes = finish(call(77, (100_003, 3, 4), &caller));
        assert_eq!(parse(&bytes[4..]), Err((Some(77), Refusal::BadCredential)));
    }
}
