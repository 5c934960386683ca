//! The policies of a task.

use bowline_protocol::RequestField;
use bowline_providers::invocation::Refusal;

use super::Task;
use crate::run::error::Error;
use crate::run::policy::PolicySource;

impl Task {
    /// Has policies judge what the agent does, before it does it. An agent that does not ask in any of its formats is refused.
    ///
    /// A denied action does not happen. An action that the policies ask about waits for a person, and is denied without one. In the modes
    /// `ask` and `edit`, an action that a policy of the user allows needs no other permission.
    pub fn policy(mut self, policy: PolicySource) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Returns whether policies judge what the agent does: the caller's, those of the settings, or that of the request.
    pub fn has_policies(&self) -> bool {
        self.policy.is_some() || self.settings.policy.is_some() || self.request.policy.is_some()
    }

    /// Returns all policies of the task: the caller's, those of the settings, and that of the request.
    pub(crate) fn all_policies(&self) -> Result<Option<PolicySource>, Error> {
        let of_request = self.request.policy.as_ref().map(PolicySource::of_spec).transpose();
        let of_request = of_request.map_err(|wrong| {
            let provider = self.request.provider.clone().unwrap_or_default();
            Error::from(Refusal::invalid(&provider, RequestField::Policy, wrong.to_string()))
        })?;
        let all = [self.policy.clone(), self.settings.policy.clone(), of_request];
        Ok(all.into_iter().flatten().reduce(PolicySource::and))
    }
}
