//! Failing situations that users of helm-operator and its neighbours reported, replayed
//! against the pair: each as it is, and with both processes restarted, and killed, in the
//! middle of it. The names are those of the public reports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

/// Makes three tests of each case: undisturbed, restarted in the middle, killed in the
/// middle. A case may name how its world is started.
macro_rules! replays {
    ($($(#[$doc:meta])* $case:ident $([$start:ident])?)+) => {$(
        $(#[$doc])*
        mod $case {
            use crate::common::{Fate, Replay};

            async fn replay(fate: Fate) {
                let world = replays!(@world $($start)?);
                super::$case(world(stringify!($case), fate).await).await;
            }

            #[tokio::test]
            async fn undisturbed() {
                replay(Fate::Undisturbed).await;
            }

            #[tokio::test]
            async fn restarted() {
                replay(Fate::Restarted).await;
            }

            #[tokio::test]
            async fn killed() {
                replay(Fate::Killed).await;
            }
        }
    )+};
    (@world) => { Replay::start };
    (@world $start:ident) => { Replay::$start };
}

mod common;
mod credentials;
mod edits;
mod hooks;
mod leftovers;
mod life;
mod links;
mod owners;
mod paths;
mod reach;
mod refs;
mod siblings;
mod size;
mod steady;
mod values;
