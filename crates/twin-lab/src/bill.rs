//! The bill of a bucket.

use serde::Serialize;
use twin_bucket::Counts;
use twin_sim::model::Prices;

/// The bill of a bucket, in dollars, by the prices that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BillFigures {
    /// Requests that stored an object.
    pub puts: u64,
    /// Requests that read.
    pub gets: u64,
    /// Requests that deleted, which cost nothing.
    pub deletes: u64,
    /// Requests that listed.
    pub lists: u64,
    /// Bytes that were sent to be stored.
    pub in_bytes: u64,
    /// Bytes that were read.
    pub out_bytes: u64,
    /// Requests that the store did not answer, or told to come again; they cost nothing.
    pub unanswered: u64,
    /// For all requests of the run.
    pub requests_usd: f64,
    /// For the bytes that it moved in and out.
    pub transfer_usd: f64,
    /// Bytes that it stores at the end.
    pub stored_bytes: u64,
    /// For storing them for a month.
    pub storage_usd_month: f64,
}

impl BillFigures {
    /// The bill for what a store was asked, and for what it stores now.
    pub(crate) fn of(asked: &Counts, stored_bytes: u64, prices: &Prices) -> BillFigures {
        let Counts { puts, gets, deletes, lists, in_bytes, out_bytes, unanswered } = *asked;
        let (change, read) = ((puts + lists) as f64, gets as f64);
        let gb = |bytes: u64| bytes as f64 / 1e9;
        BillFigures {
            puts,
            gets,
            deletes,
            lists,
            in_bytes,
            out_bytes,
            unanswered,
            requests_usd: (change * prices.put_1000 + read * prices.get_1000) / 1e3,
            transfer_usd: gb(in_bytes) * prices.in_gb + gb(out_bytes) * prices.out_gb,
            stored_bytes,
            storage_usd_month: gb(stored_bytes) * prices.month_gb,
        }
    }

    /// What the work itself costs, wherever it is stored afterwards.
    pub fn work_usd(&self) -> f64 {
        self.requests_usd + self.transfer_usd
    }
}
