//! What the kernel says about processes: parents, sessions, processor time and
//! memory.

use std::fs;
use std::time::Duration;

/// Clock ticks a second in `/proc/<pid>/stat`; fixed by the kernel's ABI.
const TICKS: u64 = 100;

/// One process at one moment.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The program's name, at most 15 bytes.
    pub name: String,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// Its parent's id.
    pub parent: u32,
    /// Its session's id.
    pub session: u32,
    /// User and system time of the process itself.
    pub own_cpu: Duration,
    /// User and system time of its children that have ended and been waited for.
    pub children_cpu: Duration,
}

/// The process `pid`, or `None` when there is none.
pub fn process(pid: u32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |from: usize| -> Option<Duration> {
        let sum =
            fields.get(from)?.parse::<u64>().ok()? + fields.get(from + 1)?.parse::<u64>().ok()?;
        Some(Duration::from_millis(sum * 1000 / TICKS))
    };
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        own_cpu: ticks(11)?,
        children_cpu: ticks(13)?,
    })
}

/// Every process of the machine.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect()
}

/// The processes of `session` that are not zombies.
pub fn session(session: u32) -> Vec<Process> {
    all()
        .into_iter()
        .filter(|one| one.session == session && one.state != 'Z')
        .collect()
}

/// The living children of `pid`.
pub fn children(pid: u32) -> Vec<Process> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let Ok(first_thread) = listed else {
        return all().into_iter().filter(|one| one.parent == pid).collect();
    };
    // A child belongs to the thread that forked it.
    let mut pids = first_thread;
    if let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) {
        for task in tasks
            .flatten()
            .filter(|task| *task.file_name() != *pid.to_string())
        {
            pids.push(' ');
            pids += &fs::read_to_string(task.path().join("children")).unwrap_or_default();
        }
    }
    pids.split_whitespace()
        .filter_map(|one| process(one.parse().ok()?))
        .collect()
}

/// A `kB` line of `/proc/<pid>/status`, in bytes: `VmRSS` now, `VmHWM` at most.
pub fn memory(pid: u32, line: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status
        .lines()
        .find_map(|one| one.strip_prefix(line)?.strip_prefix(':'))?;
    Some(
        value
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            * 1024,
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_may_hold_spaces_and_parentheses() {
        let line = "42 (a ) b) S 7 42 9 0 -1 0 0 0 0 0 150 50 20 10 20 0 1 0 1 1 1";
        let process = parse(line).unwrap();
        assert_eq!(
            (process.pid, process.name.as_str(), process.parent),
            (42, "a ) b", 7)
        );
        assert_eq!(process.session, 9);
        assert_eq!(process.own_cpu, Duration::from_secs(2));
        assert_eq!(process.children_cpu, Duration::from_millis(300));
    }

    #[test]
    fn a_child_is_found_and_measured() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = children(std::process::id());
        assert!(found.iter().any(|one| one.pid == child.id()), "{found:?}");
        assert!(memory(std::process::id(), "VmRSS").unwrap() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
