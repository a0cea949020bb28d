//! How a session sends answers to the kernel.
//!
//! Contract: every request gets one answer. One that the kernel refuses becomes an error, so that its client
//! does not wait for ever.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use twin_disk::{Block, Bytes};
use twin_fs::FileSystem;

use super::super::reply::Answer;
use super::{Inner, MAX_PIECES};
use crate::zeros::push_zeros;

impl<F: FileSystem> Inner<F> {
    /// Sends an answer. Fails if the kernel no longer wants it.
    pub(super) fn send(
        &self,
        unique: u64,
        errno: Option<Errno>,
        mut answer: Answer,
    ) -> Result<(), Errno> {
        answer.finish(unique, errno);
        let sent = if answer.data.is_empty() {
            rustix::io::write(&self.fd, &answer.head)
        } else {
            self.send_data(&answer)
        };
        *self.spare.borrow_mut() = answer.head;
        match sent {
            Ok(_) => Ok(()),
            Err(gone @ (Errno::NOENT | Errno::NODEV)) => Err(gone),
            Err(errno) => {
                // The client would wait for ever for an answer that the kernel refuses, so it gets
                // an error.
                (self.options.report)(&format!("the kernel refuses an answer: {errno}"));
                if sent_error(&self.fd, unique).is_err() { Err(Errno::NODEV) } else { Err(errno) }
            }
        }
    }

    fn send_data(&self, answer: &Answer) -> Result<usize, Errno> {
        let mut expanded: Vec<Bytes> = Vec::with_capacity(answer.data.len());
        for block in &answer.data {
            match block {
                Block::Zero(len) => push_zeros(&mut expanded, *len as usize),
                block => expanded.push(block.to_bytes()),
            }
        }
        if expanded.len() >= MAX_PIECES {
            let len = answer.data.iter().map(Block::len).sum();
            expanded = vec![twin_disk::gather(&answer.data, 0, len).to_bytes()];
        }
        let mut pieces = Vec::with_capacity(1 + expanded.len());
        pieces.push(IoSlice::new(&answer.head));
        pieces.extend(expanded.iter().map(|bytes| IoSlice::new(bytes)));
        rustix::io::writev(&self.fd, &pieces)
    }
}

fn sent_error(fd: &OwnedFd, unique: u64) -> Result<(), Errno> {
    let mut answer = Answer::new(Vec::new());
    answer.finish(unique, Some(Errno::IO));
    rustix::io::write(fd, &answer.head).map(|_| ())
}
