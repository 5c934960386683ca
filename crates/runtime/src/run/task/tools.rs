//! Functions of the caller that a task gives to its agent as tools.

use super::Task;
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
        // A server of the caller with this name stays, so that `check_tools` finds it.
        self.request.mcp_servers.entry(SERVER.to_owned()).or_insert_with(host_tools::placeholder);
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

    /// Starts the server for the tools, if there are any, and puts its address into the request.
    pub(crate) async fn serve_tools(&mut self) -> Result<Option<HostServer>, HostToolError> {
        if self.host_tools.is_empty() {
            return Ok(None);
        }
        self.check_tools()?;
        let server = host_tools::serve(&self.host_tools).await?;
        self.request.mcp_servers.insert(SERVER.to_owned(), server.address());
        Ok(Some(server))
    }
}
