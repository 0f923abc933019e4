//! Which helm it is.

/// Oldest helm 3 that works: the first whose flags and labels are all as used here.
const OLDEST_3: u64 = 14;

/// The generation of helm, which decides on flags.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Major {
    /// Helm 3: client-side apply.
    Three,
    /// Helm 4: server-side or client-side apply.
    Four,
}

/// The version of a helm program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HelmVersion {
    text: String,
    major: u64,
    minor: u64,
}

impl HelmVersion {
    /// Reads what `helm version` prints: `v4.3.1`, and also `v4.3` as a plain build says.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut numbers = text
            .strip_prefix('v')
            .unwrap_or(text)
            .split(['.', '-', '+']);
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self {
            text: text.to_owned(),
            major,
            minor,
        })
    }

    /// Whether releases can be made with it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.major == 4 || (self.major == 3 && self.minor >= OLDEST_3)
    }

    /// The generation.
    #[must_use]
    pub fn major(&self) -> Major {
        if self.major == 3 {
            Major::Three
        } else {
            Major::Four
        }
    }
}

impl std::fmt::Display for HelmVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged() {
        for (text, supported) in [
            ("v4.3.1", true),
            ("v4.3", true),
            ("4.0.0-rc.1", true),
            ("v3.14.0+g1234", true),
            ("v3.22.0", true),
            ("v3.13.3", false),
            ("v2.17.0", false),
            ("v5.0.0", false),
        ] {
            let version = HelmVersion::parse(text);
            assert_eq!(
                version.map(|version| version.is_supported()),
                Some(supported),
                "{text}"
            );
        }
        for text in ["", "v", "v4", "helm 4.3", "v4.x"] {
            assert_eq!(HelmVersion::parse(text), None, "{text}");
        }
    }
}
