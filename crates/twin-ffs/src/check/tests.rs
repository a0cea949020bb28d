//! Damage of each kind is found, and a repair leaves nothing to find.
