//! Steps that take long say so: a spinner on a terminal, plain lines elsewhere.
//!
//! The lines go to standard error directly, because the test runner swallows
//! what the printing macros write.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a long step repeats itself where there is no terminal.
const REPEAT: Duration = Duration::from_secs(30);

/// Writes one line to standard error.
pub fn note(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr(), "{}", line.as_ref());
}

/// One step that is being taken. [`Step::done`] says how it ended; dropping it
/// says that it didn't.
pub struct Step {
    what: String,
    start: Instant,
    shown: Shown,
    finished: bool,
}

enum Shown {
    Spinner(ProgressBar),
    Lines {
        stop: Option<Sender<()>>,
        thread: Option<JoinHandle<()>>,
    },
}

impl Step {
    /// Begins to show `what`.
    pub fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let shown = if std::io::stderr().is_terminal() {
            spinner(&what)
        } else {
            lines(&what)
        };
        Self {
            what,
            start: Instant::now(),
            shown,
            finished: false,
        }
    }

    /// Changes what is shown while the step goes on.
    pub fn say(&self, what: impl Into<Cow<'static, str>>) {
        if let Shown::Spinner(bar) = &self.shown {
            bar.set_message(what);
        }
    }

    /// Ends the step with its time and `result`; gives the time.
    pub fn done(mut self, result: impl AsRef<str>) -> Duration {
        self.finished = true;
        self.end("✓", result.as_ref());
        self.start.elapsed()
    }

    fn end(&mut self, mark: &str, result: &str) {
        match &mut self.shown {
            Shown::Spinner(bar) => bar.finish_and_clear(),
            Shown::Lines { stop, thread } => {
                stop.take();
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
        }
        let colon = if result.is_empty() { "" } else { ": " };
        note(format!(
            "{mark} {}{colon}{result} ({:.1} s)",
            self.what,
            self.start.elapsed().as_secs_f64()
        ));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.finished {
            self.end("✗", "failed");
        }
    }
}

fn spinner(what: &str) -> Shown {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg:.dim} {elapsed:.dim}")
    {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    Shown::Spinner(bar)
}

fn lines(what: &str) -> Shown {
    let (stop, stopped) = channel::<()>();
    let what = what.to_owned();
    let start = Instant::now();
    let thread = std::thread::spawn(move || {
        while stopped.recv_timeout(REPEAT) == Err(RecvTimeoutError::Timeout) {
            note(format!("… {what} ({} s)", start.elapsed().as_secs()));
        }
    });
    Shown::Lines {
        stop: Some(stop),
        thread: Some(thread),
    }
}
