//! What passes between us and a running child: its three pipes, in one wait.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// The child's pipes, as far as they were written and read.
pub(super) struct Talk<'a> {
    stdin: Option<ChildStdin>,
    unsent: &'a [u8],
    /// Parts that wait for an answer to the one before.
    later: &'a [&'a [u8]],
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

impl<'a> Talk<'a> {
    pub(super) fn new(child: &mut Child, parts: &'a [&'a [u8]], limit: usize) -> io::Result<Self> {
        let stdin = child.stdin.take();
        if let Some(pipe) = &stdin {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let mut talk = Self {
            stdin,
            unsent: parts.first().copied().unwrap_or_default(),
            later: parts.get(1..).unwrap_or_default(),
            stdout: Output::new(child.stdout.take().map(Into::into), limit, Keep::Beginning)?,
            stderr: Output::new(child.stderr.take().map(Into::into), limit, Keep::End)?,
        };
        talk.close_if_all_is_said();
        Ok(talk)
    }

    /// Whether the child closed both of its outputs.
    pub(super) fn is_over(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Nobody listens any more.
    pub(super) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Waits until something passes, and lets it pass. Says whether `exited`
    /// became ready; `waking` only ends the wait.
    pub(super) fn wait(
        &mut self,
        exited: Option<&OwnedFd>,
        waking: Option<&OwnedFd>,
        wait: Duration,
    ) -> io::Result<bool> {
        let writing = self.stdin.as_ref().filter(|_| !self.unsent.is_empty());
        let asked = [
            exited.map(|fd| (fd.as_fd(), PollFlags::IN)),
            waking.map(|fd| (fd.as_fd(), PollFlags::IN)),
            writing.map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
            self.stdout
                .pipe
                .as_ref()
                .map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            self.stderr
                .pipe
                .as_ref()
                .map(|pipe| (pipe.as_fd(), PollFlags::IN)),
        ];
        let [exit, _, input, output, errors] = poll(asked, wait)?;
        if input {
            self.write();
        }
        if output && self.stdout.read() {
            self.say_next();
        }
        if errors {
            self.stderr.read();
        }
        self.close_if_all_is_said();
        Ok(exit)
    }

    fn write(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        match pipe.write(self.unsent) {
            Ok(written) => self.unsent = &self.unsent[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // It doesn't want to hear the rest.
            Err(_) => self.hang_up(),
        }
    }

    /// The child answered: it is our turn, unless it spoke before we were done.
    fn say_next(&mut self) {
        if self.unsent.is_empty()
            && let Some((next, later)) = self.later.split_first()
        {
            self.unsent = next;
            self.later = later;
        }
    }

    fn close_if_all_is_said(&mut self) {
        if self.unsent.is_empty() && self.later.is_empty() {
            self.stdin = None;
        }
    }
}

/// Which end of an output is kept when it is longer than allowed.
#[derive(Clone, Copy)]
enum Keep {
    Beginning,
    End,
}

/// One of the child's outputs, as far as it was read.
pub(super) struct Output {
    pipe: Option<OwnedFd>,
    pub(super) kept: Vec<u8>,
    limit: usize,
    keep: Keep,
    pub(super) dropped: bool,
}

impl Output {
    fn new(pipe: Option<OwnedFd>, limit: usize, keep: Keep) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self {
            pipe,
            kept: Vec::new(),
            limit,
            keep,
            dropped: false,
        })
    }

    /// Reads what there is, and says whether there was anything.
    fn read(&mut self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut buffer = [0_u8; 16 * 1024];
        match rustix::io::read(pipe, &mut buffer) {
            Err(Errno::AGAIN | Errno::INTR) => false,
            Ok(0) | Err(_) => {
                self.pipe = None;
                false
            }
            Ok(read) => {
                self.take(&buffer[..read]);
                true
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let over = (self.kept.len() + bytes.len()).saturating_sub(self.limit);
        self.dropped |= over > 0;
        match self.keep {
            Keep::Beginning => self
                .kept
                .extend_from_slice(&bytes[..bytes.len().saturating_sub(over)]),
            Keep::End => {
                self.kept.extend_from_slice(bytes);
                self.kept.drain(..over);
            }
        }
    }

    /// Text for people: no control characters, no half characters at its cut.
    pub(super) fn readable(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        let printable = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
        let text: String = text.chars().filter(printable).collect();
        let text = text.trim();
        if self.dropped {
            format!("… {text}")
        } else {
            text.to_owned()
        }
    }
}

/// Waits for any of what is asked, and says which became ready.
fn poll<const N: usize>(
    asked: [Option<(std::os::fd::BorrowedFd<'_>, PollFlags)>; N],
    wait: Duration,
) -> io::Result<[bool; N]> {
    let mut polled: Vec<PollFd<'_>> = asked
        .iter()
        .flatten()
        .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    let timeout = Timespec::try_from(wait).unwrap_or(Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    });
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut answers = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(asked.map(|place| place.is_some() && answers.next().unwrap_or_default()))
}
