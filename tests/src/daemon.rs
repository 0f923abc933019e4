//! A program that runs beside the test: started in a session of its own, its
//! output in a file, ended with everything that it started.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

use crate::wait::{Look, until_blocking};
use crate::{guard, procfs};

/// How much of a log is shown when a test fails.
const TAIL: usize = 16 * 1024;

/// A running program. Dropping it kills its whole session.
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
    ended: bool,
}

/// What to run: a program, arguments and environment, kept so that it can be
/// started again as a kubelet restarts a container.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// For messages and the log's file name.
    pub name: String,
    /// The program's path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set beside the inherited ones.
    pub env: Vec<(String, String)>,
}

impl Recipe {
    /// A recipe without environment of its own.
    pub fn new<A: Into<String>>(
        name: &str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
        }
    }

    /// Adds one variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }
}

impl Daemon {
    /// Starts `recipe`; standard output and error go to a file in `logs`, which
    /// a later start of the same name continues.
    pub fn start(recipe: &Recipe, logs: &Path) -> Result<Self> {
        fs::create_dir_all(logs)?;
        let log = logs.join(format!("{}.log", recipe.name));
        let out = File::options().create(true).append(true).open(&log)?;
        // `setsid` because a session also holds children that moved to process
        // groups of their own, and nothing else reaches those.
        let child = Command::new("setsid")
            .arg(&recipe.program)
            .args(&recipe.args)
            .envs(recipe.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| {
                format!(
                    "{} did not start (through setsid)",
                    recipe.program.display()
                )
            })?;
        guard::adopt(child.id())?;
        Ok(Self {
            name: recipe.name.clone(),
            child,
            log,
            ended: false,
        })
    }

    /// The program's process id, which is its session's id too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that holds its output.
    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// All output so far, also that of earlier starts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of the output.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let mut from = log.len().saturating_sub(TAIL);
        while !log.is_char_boundary(from) {
            from += 1;
        }
        log.get(from..).unwrap_or_default().to_owned()
    }

    /// The exit status, once it has ended.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid())
            .ok()
            .and_then(Pid::from_raw)
            .context("no process id")?;
        rustix::process::kill_process(pid, signal).with_context(|| format!("{} is gone", self.name))
    }

    /// `kill -9` of the program alone: what it started lives on. Waits for the
    /// end of the program.
    pub fn kill_alone(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.ended = true;
        Ok(())
    }

    /// Kills the program and everything it started, as the end of a container
    /// does, and waits until all are gone.
    pub fn kill(&mut self) -> Result<()> {
        let session = self.pid();
        if !self.ended {
            self.kill_alone()?;
        }
        until_blocking(
            format!("the end of what {} started", self.name),
            Duration::from_secs(20),
            || {
                let left = procfs::session(session);
                for one in &left {
                    if let Some(pid) = i32::try_from(one.pid).ok().and_then(Pid::from_raw) {
                        let _ = rustix::process::kill_process(pid, Signal::KILL);
                    }
                }
                Ok(Look::when(left.is_empty(), format!("{left:?}")))
            },
        )?;
        guard::release(session);
        Ok(())
    }

    /// `SIGTERM`, then the exit status; an error when it still runs after
    /// `within`.
    pub fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let name = self.name.clone();
        until_blocking(format!("{name} to end after SIGTERM"), within, || {
            Ok(Look::from_option(self.exited()?, "still running"))
        })
    }
}

impl Daemon {
    /// What no program of a test may do: end before it is told to, or panic.
    fn misbehaved(&mut self) -> Option<String> {
        if !self.ended
            && let Ok(Some(status)) = self.exited()
        {
            return Some(format!("{} ended by itself with {status}", self.name));
        }
        let log = self.log();
        let panic = log.lines().find(|line| line.contains("panicked at"))?;
        Some(format!("{} panicked: {panic}", self.name))
    }
}

impl Drop for Daemon {
    #[expect(
        clippy::panic,
        reason = "a test must fail by it, whatever else it looked at"
    )]
    fn drop(&mut self) {
        let misbehaved = self.misbehaved();
        let _ = self.kill();
        if let Some(why) = misbehaved.filter(|_| !std::thread::panicking()) {
            panic!("{why}\n{}", self.log_tail());
        }
        if std::thread::panicking() {
            use std::io::Write;
            let _ = writeln!(
                std::io::stderr(),
                "---- {} ({}), the end of it\n{}----",
                self.name,
                self.log.display(),
                self.log_tail()
            );
        }
    }
}
