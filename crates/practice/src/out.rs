//! Standard output of the agent, buffered, and its behaviour without a reader.

use std::io::{self, BufWriter, Stdout, Write};

/// The size of the buffer: as much as a reader takes at once.
const BUFFER: usize = 64 * 1024;

/// Standard output.
///
/// A reader that is gone does not stop the agent: the real ones also go on to the end of their turn. Any other error is
/// kept and reported at the end, because half of an answer is no answer.
#[derive(Debug)]
pub(crate) struct Out {
    writer: BufWriter<Stdout>,
    /// Writes every line at once, so that a reader sees it immediately.
    pub(crate) prompt: bool,
    /// The number of bytes, including those without a reader.
    pub(crate) said: u64,
    gone: bool,
    error: Option<io::Error>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Self {
            writer: BufWriter::with_capacity(BUFFER, io::stdout()),
            prompt: false,
            said: 0,
            gone: false,
            error: None,
        }
    }

    /// Writes a line of JSON.
    pub(crate) fn json(&mut self, value: &serde_json::Value) {
        self.line(&value.to_string());
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.bytes(line.as_bytes());
        self.end_line();
    }

    /// Ends a line that was written in parts.
    pub(crate) fn end_line(&mut self) {
        self.bytes(b"\n");
        if self.prompt {
            self.flush();
        }
    }

    /// Writes raw bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.said += bytes.len() as u64;
        if !self.gone {
            let written = self.writer.write_all(bytes);
            self.note(written);
        }
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&mut self) {
        if !self.gone {
            let flushed = self.writer.flush();
            self.note(flushed);
        }
    }

    /// Closes standard output, while the process goes on. The null device replaces it.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.flush();
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        // dup2(2) leaves no gap. After a plain close(2), the next open(2) would get descriptor 1, and output would go there.
        rustix::stdio::dup2_stdout(&null)?;
        Ok(())
    }

    /// Returns the error that ended the output, other than a reader that left.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.gone = true;
            self.error = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }
}
