//! Who signs commits and tags, by the programs that people sign with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::ssh::key;
use super::upstream::Upstream;
use super::{git, output};
use crate::guard;

/// When OpenPGP keys are made: long enough ago that one can have expired since.
const BORN: &str = "20200101T000000";
/// A day later.
const LATER: &str = "20200102T000000";

/// A key that signs, and the folder that it lies in.
pub struct Signer {
    folder: PathBuf,
    kind: Kind,
}

enum Kind {
    Ssh { identity: PathBuf },
    OpenPgp { fingerprint: String },
}

impl Signer {
    /// A new ssh key.
    pub fn ssh() -> Result<Self> {
        let folder = guard::folder("signer")?;
        let identity = key(&folder, "id_ed25519")?;
        Ok(Self {
            folder,
            kind: Kind::Ssh { identity },
        })
    }

    /// A new OpenPGP key that never expires, in a keyring of its own.
    pub fn openpgp() -> Result<Self> {
        let folder = guard::folder("signer")?;
        let mut signer = Self {
            folder,
            kind: Kind::OpenPgp {
                fingerprint: String::new(),
            },
        };
        signer.gpg(&[
            "--faked-system-time",
            BORN,
            "--quick-gen-key",
            "Ada <ada@example.org>",
            "ed25519",
            "sign",
            "never",
        ])?;
        let listed = signer.gpg(&["--list-keys", "--with-colons"])?;
        let mut lines = listed.lines().filter(|line| line.starts_with("fpr:"));
        let field = lines.next().and_then(|line| line.split(':').nth(9));
        let fingerprint = field.context("gpg lists no key")?.to_owned();
        signer.kind = Kind::OpenPgp { fingerprint };
        Ok(signer)
    }

    /// How what it signs is attributed: `openpgp <fingerprint>` or `ssh SHA256:<digest>`.
    pub fn name(&self) -> Result<String> {
        match &self.kind {
            Kind::OpenPgp { fingerprint } => Ok(format!("openpgp {fingerprint}")),
            Kind::Ssh { identity } => {
                let mut command = Command::new("ssh-keygen");
                let shown = output(command.args(["-l", "-E", "sha256", "-f"]).arg(identity))?;
                let digest = shown.split(' ').nth(1);
                let digest = digest.with_context(|| format!("no digest in {shown:?}"))?;
                Ok(format!("ssh {digest}"))
            }
        }
    }

    /// The public key as people give it out, and the name that such a file has.
    pub fn public(&self) -> Result<(&'static str, String)> {
        match &self.kind {
            Kind::OpenPgp { fingerprint } => Ok((
                "signer.asc",
                self.gpg(&["--armor", "--export", fingerprint])?,
            )),
            Kind::Ssh { identity } => {
                let path = identity.with_extension("pub");
                let text = std::fs::read_to_string(&path);
                let text = text.with_context(|| path.display().to_string())?;
                Ok(("signer.pub", text))
            }
        }
    }

    /// Has an OpenPGP key say that it expired long ago.
    pub fn expire(&self) -> Result<()> {
        let end = ["--faked-system-time", LATER, "--quick-set-expire"];
        let [faked, time, expire] = end;
        self.gpg(&[faked, time, expire, self.fingerprint()?, "1d"])
            .map(drop)
    }

    /// Gives an OpenPGP key up, by the certificate that gpg makes with each.
    pub fn revoke(&self) -> Result<()> {
        let name = format!("openpgp-revocs.d/{}.rev", self.fingerprint()?);
        let path = self.folder.join(name);
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| path.display().to_string())?;
        // gpg puts a colon before its first line, lest it be imported by mistake.
        let usable = self.folder.join("revocation.asc");
        guard::write(&usable, text.replace(":-----BEGIN", "-----BEGIN"))?;
        self.gpg(&["--import", &usable.display().to_string()])
            .map(drop)
    }

    fn fingerprint(&self) -> Result<&str> {
        match &self.kind {
            Kind::OpenPgp { fingerprint } => Ok(fingerprint),
            Kind::Ssh { .. } => bail!("an ssh key neither expires nor is revoked"),
        }
    }

    /// git in a working copy that signs by this key when it is told to sign.
    fn git(&self, work: &Path) -> Result<Command> {
        let mut command = git()?;
        let (format, key) = match &self.kind {
            Kind::Ssh { identity } => ("ssh", identity.display().to_string()),
            Kind::OpenPgp { fingerprint } => ("openpgp", fingerprint.clone()),
        };
        command
            .env("GNUPGHOME", &self.folder)
            .arg("-C")
            .arg(work)
            .args(["-c", &format!("gpg.format={format}")])
            .args(["-c", &format!("user.signingkey={key}")]);
        Ok(command)
    }

    fn gpg(&self, args: &[&str]) -> Result<String> {
        let mut command = gnupg("gpg", &self.folder);
        command.args(["--batch", "--no-tty", "--quiet"]);
        command.args(["--pinentry-mode", "loopback", "--passphrase", ""]);
        output(command.args(args)).context("gpg signs as people do: it has to be installed")
    }
}

impl Drop for Signer {
    /// gpg leaves an agent behind that would outlive the test.
    fn drop(&mut self) {
        if matches!(self.kind, Kind::OpenPgp { .. }) {
            let mut command = gnupg("gpgconf", &self.folder);
            let _ = command.args(["--kill", "all"]).status();
        }
    }
}

fn gnupg(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("GNUPGHOME", folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

impl Upstream {
    /// Commits everything, signed, pushes that to `main` and gives the commit's id.
    pub fn push_signed(&self, message: &str, signer: &Signer) -> Result<String> {
        self.run(&["add", "--all"])?;
        let mut commit = signer.git(self.work())?;
        commit.args(["commit", "--quiet", "--allow-empty", "--gpg-sign"]);
        output(commit.args(["--message", message]))?;
        self.run(&["push", "--quiet", "origin", "HEAD:refs/heads/main"])?;
        self.head()
    }

    /// Makes a signed tag of the working copy's commit, in place of an older one of that
    /// name, and pushes it.
    pub fn push_signed_tag(&self, tag: &str, signer: &Signer) -> Result<()> {
        let mut command = signer.git(self.work())?;
        command.args(["tag", "--force", "--sign", "--message", tag, tag]);
        output(&mut command)?;
        let full = format!("refs/tags/{tag}");
        self.run(&["push", "--quiet", "--force", "origin", &full])
            .map(drop)
    }
}
