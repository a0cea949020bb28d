//! The model in the place of a volume.

use std::cell::RefCell;

use twin_rt::Rt;

use super::ModelFs;
use twin_fs::{FileSystem, Reply, Request, Result};

/// A model that front ends and tests can use as any file system. Executes each request at once.
pub struct Mounted {
    rt: Rt,
    model: RefCell<ModelFs>,
}

impl Mounted {
    /// Mounts a model; times come from `rt`.
    pub fn new(rt: Rt, model: ModelFs) -> Mounted {
        Mounted { rt, model: RefCell::new(model) }
    }

    /// A copy of the present state.
    pub fn snapshot(&self) -> ModelFs {
        self.model.borrow().clone()
    }
}

impl FileSystem for Mounted {
    async fn execute(&self, request: Request) -> Result<Reply> {
        self.model.borrow_mut().apply(self.rt.now(), &request)
    }
}
