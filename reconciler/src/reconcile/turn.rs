//! Whose turn it is. Of the passes that want to run helm, some have their turn: they ask for
//! everything, make their chart and their finalizer ready, and later read what became of it.
//! As many as there are places run helm at the same time; a place is held for as long as the
//! child lives, and no longer.

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard, watch};

use super::Trouble;
use super::fresh::Fresh;
use super::pass::{Next, Pass};

/// How old what a plan was made on may get while a place is waited for.
const FRESH: Duration = Duration::from_secs(1);

/// What came of waiting for a place.
pub(super) enum Place {
    /// It is ours, and the plan still good.
    Taken,
    /// It may be ours, but what the plan was made on is old.
    Late,
    /// The process is to end.
    Ending,
}

/// The passes that wait for their turn, and those that let all of them go first.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: watch::Sender<usize>,
    late: Mutex<()>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        *self.waiting.borrow() == 0
    }

    /// Waits until nobody waits for a turn. One at a time: helm may still be at work for the
    /// last of them.
    pub(super) async fn after_all(&self) -> MutexGuard<'_, ()> {
        // The other end lives for as long as this.
        let _ = self
            .waiting
            .subscribe()
            .wait_for(|waiting| *waiting == 0)
            .await;
        self.late.lock().await
    }

    fn join(&self) -> Waiting<'_> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        Waiting(self)
    }
}

/// A pass that waits for its turn.
struct Waiting<'a>(&'a Queue);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

impl Pass<'_> {
    /// Whether others wait for their turn.
    pub(super) fn others_wait(&self) -> bool {
        !self.ctx.queue.is_empty()
    }

    /// Waits for its turn if helm is to be run, and asks anew for everything that a decision
    /// depends on.
    pub(super) async fn freshen(&mut self, runs_helm: bool) -> Result<Next, Trouble> {
        if runs_helm && !self.take_turn().await {
            return Ok(Next::End);
        }
        let deleting = self.snapshot.entry.is_deleting();
        // Whatever was listed is old, and its lock in the way.
        self.fresh = None;
        self.fresh = Some(Fresh::ask(self.ctx, &self.target, deleting).await?);
        self.saw_record();
        Ok(Next::Step)
    }

    /// Waits for its turn; `false` if the process is to end.
    pub(super) async fn take_turn(&mut self) -> bool {
        if self.turn.is_none() {
            self.looking = None;
            let _waiting = self.ctx.queue.join();
            tokio::select! {
                turn = self.ctx.turns.acquire() => self.turn = turn.ok(),
                () = self.ctx.stopping.cancelled() => return false,
            }
        }
        true
    }

    /// Takes a place among the helm children. Others' children may live for minutes; then
    /// what is wanted, and what is there, are looked at once more.
    pub(super) async fn take_place(&mut self) -> Place {
        if self.place.is_some() {
            return Place::Taken;
        }
        let begun = Instant::now();
        let places = self.ctx.places.clone();
        tokio::select! {
            place = places.acquire_owned() => self.place = place.ok(),
            () = self.ctx.stopping.cancelled() => return Place::Ending,
        }
        if begun.elapsed() > FRESH || self.inputs.has_changed().unwrap_or(true) {
            return Place::Late;
        }
        Place::Taken
    }
}
