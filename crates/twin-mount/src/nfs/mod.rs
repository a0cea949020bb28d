//! NFS: [`serve_volumes`] serves volumes by itself, and [`Beside`] serves the volume of a mount in the same process.
//! What is served to whom is read from arguments by [`shares`] and [`exports`].

mod beside;
mod server;
mod shares;

pub use beside::{Beside, NfsBeside, Running};
pub use server::{ServeRequest, serve_volumes};
pub use shares::{Share, exports, shares};
