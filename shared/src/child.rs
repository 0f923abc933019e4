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

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use command_fds::CommandFdExt;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use thiserror::Error;

use crate::lock::Guard;

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
    mut command: Command,
    input: &[u8],
    lock: Option<&Guard>,
    limits: &Limits,
    cancel: &Cancel,
) -> Result<Outcome, ChildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    run_inner(&mut command, input, lock, limits, cancel)
        .map_err(|source| ChildError { program, source })
}

fn run_inner(
    command: &mut Command,
    input: &[u8],
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

    let mut stdin = child.stdin.take();
    let mut stdout = Pipe::new(child.stdout.take().map(Into::into), limits.output)?;
    let mut stderr = Pipe::new(child.stderr.take().map(Into::into), limits.output)?;
    if let Some(pipe) = &stdin {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    let mut unsent = input;
    let mut patience = Patience::new(begun + limits.deadline);
    let mut gone = false;
    let mut drained_by = None;

    loop {
        if unsent.is_empty() {
            stdin = None;
        }
        if gone && stdout.pipe.is_none() && stderr.pipe.is_none() {
            break;
        }
        let now = Instant::now();
        let wait = match drained_by {
            Some(end) if now >= end => break,
            Some(end) => end - now,
            None => patience
                .step(now, cancel.is_cancelled(), pid)
                .saturating_duration_since(now),
        };
        let ready = poll(
            &exited,
            gone,
            stdin.as_ref(),
            &stdout,
            &stderr,
            cancel,
            wait,
        )?;
        if ready.input
            && let Some(pipe) = &mut stdin
        {
            match pipe.write(unsent) {
                Ok(written) => unsent = &unsent[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It doesn't want to hear the rest.
                Err(_) => unsent = &[],
            }
        }
        if ready.output {
            stdout.take(false);
        }
        if ready.errors {
            stderr.take(true);
        }
        if ready.exited && !gone {
            gone = true;
            unsent = &[];
            drained_by = Some(Instant::now() + DRAIN);
        }
    }
    // Whatever the child started and left behind ends with it.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    let status = child.wait()?;
    Ok(Outcome {
        end: patience.ended_as(status),
        truncated: stdout.dropped,
        stdout: stdout.kept,
        stderr: readable(&stderr.kept, stderr.dropped),
        took: begun.elapsed(),
    })
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

/// One of the child's outputs, as far as it was read.
struct Pipe {
    pipe: Option<OwnedFd>,
    kept: Vec<u8>,
    limit: usize,
    dropped: bool,
}

impl Pipe {
    fn new(pipe: Option<OwnedFd>, limit: usize) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self {
            pipe,
            kept: Vec::new(),
            limit,
            dropped: false,
        })
    }

    /// Reads what there is; `tail` keeps the last bytes instead of the first.
    fn take(&mut self, tail: bool) {
        let Some(pipe) = &self.pipe else { return };
        let mut buffer = [0_u8; 16 * 1024];
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(read) => self.keep(&buffer[..read], tail),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.pipe = None,
        }
    }

    fn keep(&mut self, bytes: &[u8], tail: bool) {
        if tail {
            self.kept.extend_from_slice(bytes);
            let over = self.kept.len().saturating_sub(self.limit);
            self.kept.drain(..over);
            self.dropped |= over > 0;
        } else {
            let room = self.limit.saturating_sub(self.kept.len()).min(bytes.len());
            self.kept.extend_from_slice(&bytes[..room]);
            self.dropped |= room < bytes.len();
        }
    }
}

/// What has something to say.
struct Ready {
    exited: bool,
    input: bool,
    output: bool,
    errors: bool,
}

fn poll(
    exited: &OwnedFd,
    gone: bool,
    stdin: Option<&std::process::ChildStdin>,
    stdout: &Pipe,
    stderr: &Pipe,
    cancel: &Cancel,
    wait: Duration,
) -> io::Result<Ready> {
    // One place per descriptor; an absent one leaves its place to the cancel pipe.
    let spare = (cancel.wake.as_fd(), PollFlags::empty());
    let places = [
        if gone {
            spare
        } else {
            (exited.as_fd(), PollFlags::IN)
        },
        stdin.map_or(spare, |pipe| (pipe.as_fd(), PollFlags::OUT)),
        stdout
            .pipe
            .as_ref()
            .map_or(spare, |pipe| (pipe.as_fd(), PollFlags::IN)),
        stderr
            .pipe
            .as_ref()
            .map_or(spare, |pipe| (pipe.as_fd(), PollFlags::IN)),
        if cancel.is_cancelled() {
            spare
        } else {
            (cancel.wake.as_fd(), PollFlags::IN)
        },
    ];
    let mut polled = places.map(|(descriptor, flags)| PollFd::from_borrowed_fd(descriptor, flags));
    let timeout = Timespec::try_from(wait).unwrap_or(Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    });
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let has = |place: usize| !polled[place].revents().is_empty();
    Ok(Ready {
        exited: !gone && has(0),
        input: stdin.is_some() && has(1),
        output: stdout.pipe.is_some() && has(2),
        errors: stderr.pipe.is_some() && has(3),
    })
}

/// Text for people: no control characters, no half characters at its cut.
fn readable(bytes: &[u8], cut: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    let text = text.trim();
    if cut {
        format!("… {text}")
    } else {
        text.to_owned()
    }
}
