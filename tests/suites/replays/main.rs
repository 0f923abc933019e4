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
/// middle.
macro_rules! replays {
    ($($(#[$doc:meta])* $case:ident)+) => {$(
        $(#[$doc])*
        mod $case {
            use crate::common::{Fate, Replay};

            #[tokio::test]
            async fn undisturbed() {
                super::$case(Replay::start(stringify!($case), Fate::Undisturbed).await).await;
            }

            #[tokio::test]
            async fn restarted() {
                super::$case(Replay::start(stringify!($case), Fate::Restarted).await).await;
            }

            #[tokio::test]
            async fn killed() {
                super::$case(Replay::start(stringify!($case), Fate::Killed).await).await;
            }
        }
    )+};
}

mod common;
mod refs;
