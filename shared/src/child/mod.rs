//! Runs one program (git or helm) to its end, or to the end of our patience.
//!
//! The child leads a process group of its own, so that whatever it starts can
//! be ended with it; it inherits the given lock and nothing else; it is told
//! to end when our thread dies; and it runs under a wall-clock deadline, since
//! a server that drips one byte at a time defeats every other timeout.
//!
//! [`run`] blocks its thread for as long as the child lives. That is on
//! purpose: the kernel sends the parent-death signal when the *thread* that
//! started the child ends, so the thread that starts it has to stay.

mod talk;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use command_fds::CommandFdExt;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};
use thiserror::Error;

use crate::lock::Guard;
use talk::Talk;

/// From the polite signal to the one that can't be refused.
const GRACE: Duration = Duration::from_secs(10);
/// How long what the child left in its pipes is waited for.
const DRAIN: Duration = Duration::from_secs(1);

/// How a child is run.
#[derive(Debug)]
pub struct Limits {
    /// Wall-clock time, at most.
    pub deadline: Duration,
    /// Bytes kept of each of standard output and standard error; of the
    /// latter the last ones. More is read and dropped.
    pub output: usize,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code (128 + n for signal n).
    Exited(i32),
    /// It was ended because its time was over.
    TimedOut,
    /// It was ended because it was no longer wanted.
    Cancelled,
}

/// What a child left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// Whether there was more of it than was kept.
    pub truncated: bool,
    /// The end of its standard error, made readable.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Outcome {
    /// Whether it ended by itself, with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.end == End::Exited(0)
    }
}

/// Why a child could not be run.
#[derive(Debug, Error)]
#[error("can't run `{program}`: {source}")]
pub struct ChildError {
    program: String,
    source: io::Error,
}

/// Ends a running child from another thread: TERM to its group, and KILL ten
/// seconds later. Clones end the same child.
#[derive(Clone, Debug)]
pub struct Cancel {
    asked: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    waker: Arc<OwnedFd>,
}

impl Cancel {
    /// A new handle.
    ///
    /// # Errors
    /// If no descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        let (wake, waker) = rustix::pipe::pipe_with(
            rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK,
        )?;
        Ok(Self {
            asked: Arc::default(),
            wake: Arc::new(wake),
            waker: Arc::new(waker),
        })
    }

    /// Asks for the end.
    pub fn cancel(&self) {
        self.asked.store(true, Ordering::SeqCst);
        // A full pipe has woken the reader already.
        let _ = rustix::io::write(&*self.waker, &[1]);
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Runs `command` with `input` on its standard input. `lock` is held until the
/// child is gone, even if this process isn't there any more.
///
/// # Errors
/// If the program can't be started or waited for. How it ended is no error.
pub fn run(
    command: Command,
    input: &[u8],
    lock: Option<&Guard>,
    limits: &Limits,
    cancel: &Cancel,
) -> Result<Outcome, ChildError> {
    converse(command, &[input], lock, limits, cancel)
}

/// Like [`run`], for a program that reads ahead and so must be talked to in
/// turns: each part of the input goes out once the one before was answered,
/// with whatever output.
///
/// # Errors
/// As [`run`].
pub fn converse(
    mut command: Command,
    parts: &[&[u8]],
    lock: Option<&Guard>,
    limits: &Limits,
    cancel: &Cancel,
) -> Result<Outcome, ChildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    run_inner(&mut command, parts, lock, limits, cancel)
        .map_err(|source| ChildError { program, source })
}

fn run_inner(
    command: &mut Command,
    parts: &[&[u8]],
    lock: Option<&Guard>,
    limits: &Limits,
    cancel: &Cancel,
) -> io::Result<Outcome> {
    let begun = Instant::now();
    let inherited = lock.map(Guard::descriptor).transpose()?;
    command.preserved_fds(inherited.into_iter().collect());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    end_with_parent(command);
    let mut child = command.spawn()?;
    // The command keeps a copy of the lock's descriptor; it must not outlive us here.
    *command = Command::new("");
    let pid = Pid::from_child(&child);
    let exited = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;

    let mut talk = Talk::new(&mut child, parts, limits.output)?;
    let mut patience = Patience::new(begun + limits.deadline);
    let mut drained_by = None;
    while drained_by.is_none() || !talk.is_over() {
        let now = Instant::now();
        let wait = match drained_by {
            Some(end) if now >= end => break,
            Some(end) => end - now,
            None => patience
                .step(now, cancel.is_cancelled(), pid)
                .saturating_duration_since(now),
        };
        let waking = (!cancel.is_cancelled()).then_some(&*cancel.wake);
        let exit = drained_by.is_none().then_some(&exited);
        if talk.wait(exit, waking, wait)? {
            talk.hang_up();
            drained_by = Some(Instant::now() + DRAIN);
        }
    }
    // Whatever the child started and left behind ends with it.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    let status = child.wait()?;
    Ok(Outcome {
        end: patience.ended_as(status),
        truncated: talk.stdout.dropped,
        stderr: talk.stderr.readable(),
        stdout: talk.stdout.kept,
        took: begun.elapsed(),
    })
}

/// Keeps `command` from writing any file larger than `file` bytes, and from having more than
/// `memory` bytes of memory of its own. It ends where it would.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec can only be given this way"
)]
pub fn confine(command: &mut Command, file: u64, memory: u64) {
    let set = |resource, most| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        rustix::process::setrlimit(resource, limit)
    };
    // SAFETY: two setrlimit system calls; nothing is allocated, locked or shared.
    unsafe {
        command.pre_exec(move || {
            set(Resource::Fsize, file)?;
            Ok(set(Resource::Data, memory)?)
        });
    }
}

#[expect(
    unsafe_code,
    reason = "what runs between fork and exec can only be given this way"
)]
fn end_with_parent(command: &mut Command) {
    // SAFETY: one prctl system call; nothing is allocated, locked or shared.
    unsafe {
        command.pre_exec(|| {
            Ok(rustix::process::set_parent_process_death_signal(Some(
                Signal::TERM,
            ))?)
        });
    }
}

/// When to lose patience, and what was done about it.
struct Patience {
    deadline: Instant,
    kill_at: Option<Instant>,
    why: Option<End>,
}

impl Patience {
    fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            kill_at: None,
            why: None,
        }
    }

    /// Sends what is due, and says when to look again.
    fn step(&mut self, now: Instant, cancelled: bool, group: Pid) -> Instant {
        match self.kill_at {
            None if cancelled || now >= self.deadline => {
                self.why = Some(if cancelled {
                    End::Cancelled
                } else {
                    End::TimedOut
                });
                let _ = rustix::process::kill_process_group(group, Signal::TERM);
                self.kill_at = Some(now + GRACE);
                now + GRACE
            }
            None => self.deadline,
            Some(at) if now >= at => {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                now + GRACE
            }
            Some(at) => at,
        }
    }

    fn ended_as(&self, status: ExitStatus) -> End {
        self.why.unwrap_or_else(|| {
            End::Exited(
                status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            )
        })
    }
}
