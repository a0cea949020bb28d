//! fitted
