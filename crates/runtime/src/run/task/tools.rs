//! Functions of the caller that a task gives to its agent as tools.

use bowline_protocol::Request;

use super::{AttemptContext, Task};
use crate::run::host_tools::{self, HostServer, HostTool, HostToolError, SERVER};

impl Task {
    /// Gives the agent a function of this program as a tool. The task then works with providers that take MCP servers over HTTP; for
    /// others it is refused, and the refusal names the field `tools`.
    ///
    /// The permission mode restricts the agent's own tools. Where the agent has an option for it, Bowline allows the calls of these
    /// tools in every mode; elsewhere the agent asks for an approval, as for any tool of an MCP server.
    ///
    /// A session keeps the names of its tools. A task that resumes it has to give it these tools again, or calls
    /// [`Task::only_named_mcp_servers`].
    pub fn tool(mut self, tool: HostTool) -> Self {
        self.host_tools.push(tool);
        self
    }

    /// Returns the name of the MCP server for the task's tools, if it has any.
    pub(crate) fn host_server(&self) -> Option<String> {
        (!self.host_tools.is_empty()).then(|| SERVER.to_owned())
    }

    /// Checks the tools.
    pub(crate) fn check_tools(&self) -> Result<(), HostToolError> {
        host_tools::check(&self.host_tools, &self.request.mcp_servers)
    }

    /// Adds the server for the tools, if there are any, to a request that is only checked or shown.
    pub(crate) fn describe_tools(&self, request: &mut Request) {
        if !self.host_tools.is_empty() {
            request.mcp_servers.insert(SERVER.to_owned(), host_tools::form());
        }
    }

    /// Starts the server for the tools, if there are any. The context of the run gets its address.
    pub(crate) async fn serve_tools(
        &self,
        context: &mut AttemptContext,
    ) -> Result<Option<HostServer>, HostToolError> {
        if self.host_tools.is_empty() {
            return Ok(None);
        }
        self.check_tools()?;
        let server = host_tools::serve(&self.host_tools).await?;
        context.host_address = Some(server.address());
        Ok(Some(server))
    }
}
