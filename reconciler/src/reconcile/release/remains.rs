//! Objects that outlive their release for a while: held by a finalizer when the wait for
//! their end was over.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::crd::Target;
use crate::reconcile::objects::{ObjectRef, Objects, ObjectsError};

/// What uninstalls of this process may have left.
#[derive(Clone)]
pub(super) struct Remains {
    objects: Objects,
    left: Arc<Mutex<HashMap<Target, Vec<ObjectRef>>>>,
}

impl Remains {
    pub(super) fn new(objects: Objects) -> Self {
        Self {
            objects,
            left: Arc::default(),
        }
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Remembers objects that may be left.
    pub(super) async fn remember(&self, target: &Target, objects: Vec<ObjectRef>) {
        if !objects.is_empty() {
            self.left.lock().await.insert(target.clone(), objects);
        }
    }

    /// Those of the objects remembered that are still being removed; the others are
    /// forgotten.
    pub(super) async fn terminating(&self, target: &Target) -> Result<Vec<String>, ObjectsError> {
        let Some(left) = self.left.lock().await.get(target).cloned() else {
            return Ok(Vec::new());
        };
        let still = self.removing(target, &left).await?;
        let names = still.iter().map(ToString::to_string).collect();
        let mut all = self.left.lock().await;
        if still.is_empty() {
            all.remove(target);
        } else {
            all.insert(target.clone(), still);
        }
        Ok(names)
    }

    async fn removing(
        &self,
        target: &Target,
        objects: &[ObjectRef],
    ) -> Result<Vec<ObjectRef>, ObjectsError> {
        let seen = self.objects.look(objects, &target.namespace).await?;
        Ok(seen
            .into_iter()
            .filter(|seen| seen.terminating)
            .map(|seen| seen.object)
            .collect())
    }
}
