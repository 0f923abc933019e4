//! A status while it is being written.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Subject;
use crate::crd::{Condition, ConditionType, HelmReleaseStatus, Phase, Target};

/// A status while it is being written. Equal things said again leave no trace in it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The status so far.
    pub status: HelmReleaseStatus,
    now: Timestamp,
}

impl Draft {
    /// Begins with what was said before.
    #[must_use]
    pub fn new(before: &HelmReleaseStatus, now: Timestamp) -> Self {
        let mut draft = Self {
            status: before.clone(),
            now,
        };
        draft.tick(now);
        draft
    }

    /// The moment that it speaks of.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Time goes on.
    pub fn tick(&mut self, now: Timestamp) {
        // The API keeps whole seconds; anything finer would differ from itself.
        self.now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    }

    /// Forgets what was said of another release than `target`: whose operation it was, what
    /// its tests came to and what is released says nothing about this one.
    pub fn forget_others(&mut self, target: &Target) {
        let formers = self.status.formers(target);
        let status = &mut self.status;
        let known = std::mem::replace(&mut status.former_releases, formers);
        let other = |said: &Option<String>, now: &str| said.as_deref().is_some_and(|it| it != now);
        if other(&status.release_name, &target.name)
            || other(&status.release_namespace, &target.namespace)
        {
            *status = HelmReleaseStatus {
                observed_generation: status.observed_generation,
                phase: status.phase,
                conditions: status.conditions.take(),
                former_releases: std::mem::take(&mut status.former_releases),
                ..HelmReleaseStatus::default()
            };
            // Back to a former name: what was known of it counts again.
            if let Some(back) = known.into_iter().find(|former| former.target() == *target) {
                status.revision = back.revision;
                status.last_attempted_revision = back.last_attempted_revision;
                status.operation = back.operation;
            }
            for type_ in [
                ConditionType::Deployed,
                ConditionType::Tested,
                ConditionType::RolledBack,
            ] {
                self.clear(type_);
            }
        }
    }

    /// Names the release that it speaks of.
    pub(super) fn about(&mut self, target: &Target) {
        self.status.release_name = Some(target.name.clone());
        self.status.release_namespace = Some(target.namespace.clone());
    }

    /// Notes which chart was tried last.
    pub(super) fn tried(&mut self, subject: &Subject<'_>) {
        self.status.last_attempted_revision = subject.chart.map(ToOwned::to_owned);
        self.status.last_attempted_chart = subject.origin.map(ToOwned::to_owned);
        self.status.dependencies = subject.dependencies.cloned();
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.status.phase = Some(phase);
    }

    /// Whether a condition has another status than this, or isn't there.
    #[must_use]
    pub fn is_not(&self, type_: ConditionType, status: &str) -> bool {
        self.status
            .condition(type_)
            .is_none_or(|condition| condition.status != status)
    }

    /// The message of a condition that is False.
    pub(super) fn failure_of(&self, type_: ConditionType) -> Option<&str> {
        self.status
            .condition(type_)
            .filter(|condition| condition.status == "False")?
            .message
            .as_deref()
    }

    pub(super) fn set(&mut self, type_: ConditionType, status: &str, reason: &str, message: &str) {
        let conditions = self.status.conditions.get_or_insert_default();
        let now = Some(Time(self.now));
        let new = Condition {
            type_: type_.as_str().to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: now.clone(),
            last_transition_time: now,
        };
        let Some(old) = conditions
            .iter_mut()
            .find(|condition| condition.type_ == new.type_)
        else {
            conditions.push(new);
            return;
        };
        if (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message) {
            return;
        }
        let since = if old.status == new.status {
            old.last_transition_time.clone()
        } else {
            new.last_transition_time.clone()
        };
        *old = Condition {
            last_transition_time: since,
            ..new
        };
    }

    pub(super) fn clear(&mut self, type_: ConditionType) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|condition| condition.type_ != type_.as_str());
        }
    }
}
