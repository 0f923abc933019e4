//! What this process started and must not outlive it.
//!
//! A Rust destructor doesn't run when a test binary is killed, and statics are
//! never dropped. So a small shell waits at the other end of a pipe: when this
//! process is gone, however it went, the pipe closes, and the shell kills every
//! session that is still registered and removes the process' scratch folder.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use anyhow::{Context, Result};

/// Reads `+ SESSION` and `- SESSION` lines until the end of the file. A
/// session's members are found in `/proc`, where the fourth field after the
/// parenthesised name is the session.
const WATCHER: &str = r#"
trap '' HUP INT TERM
sessions=
while read -r verb session; do
  case $verb in
    +) sessions="$sessions $session" ;;
    -) kept=
       for one in $sessions; do [ "$one" = "$session" ] || kept="$kept $one"; done
       sessions=$kept ;;
  esac
done
for stat in /proc/[0-9]*/stat; do
  { read -r line < "$stat"; } 2>/dev/null || continue
  pid=${line%% *}
  set -- ${line##*) }
  for one in $sessions; do [ "$one" = "$4" ] && kill -KILL "$pid" 2>/dev/null; done
done
for try in 1 2 3 4 5; do
  rm -rf -- "$TANDEM_SCRATCH" 2>/dev/null && exit
  sleep 0.2
done
"#;

struct Guard {
    pipe: Mutex<ChildStdin>,
    scratch: PathBuf,
}

static GUARD: OnceLock<Guard> = OnceLock::new();

fn guard() -> Result<&'static Guard> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(guard) = GUARD.get() {
        return Ok(guard);
    }
    let guard = start()?;
    Ok(GUARD.get_or_init(|| guard))
}

fn start() -> Result<Guard> {
    let scratch = tempfile::Builder::new()
        .prefix("tandem-")
        .tempdir()
        .context("no scratch folder in the temporary directory")?
        .keep();
    let mut shell = Command::new("sh")
        .args(["-c", WATCHER])
        .env("TANDEM_SCRATCH", &scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("sh, which cleans up behind a killed test process, did not start")?;
    let pipe = shell
        .stdin
        .take()
        .context("the shell has no standard input")?;
    Ok(Guard {
        pipe: Mutex::new(pipe),
        scratch,
    })
}

fn tell(verb: char, session: u32) -> Result<()> {
    let mut pipe = guard()?
        .pipe
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    writeln!(pipe, "{verb} {session}").context("the shell that cleans up is gone")
}

/// Every process of `session` is killed once this process is gone.
pub(crate) fn adopt(session: u32) -> Result<()> {
    tell('+', session)
}

/// `session` has ended; its number may belong to a stranger soon.
pub(crate) fn release(session: u32) {
    // When the shell is gone there is nothing left that could harm a stranger.
    let _ = tell('-', session);
}

/// A new folder below this process' scratch folder, which is removed when the
/// process ends.
pub fn folder(name: &str) -> Result<PathBuf> {
    let root = &guard()?.scratch;
    tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(root)
        .with_context(|| format!("no folder for {name} in {}", root.display()))
        .map(tempfile::TempDir::keep)
}

/// Writes `content` to `path` and makes the folders above it.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    fs::write(path, content).with_context(|| path.display().to_string())
}
