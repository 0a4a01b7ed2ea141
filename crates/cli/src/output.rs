//! What goes to standard output: text and tables for people, JSON for programs.

use comfy_table::{Table, presets};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};

/// Standard output was closed by whoever read it (`stripeline ls | head -1`): no error, but the end.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub struct ClosedStdout;

/// How a command answers.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// One JSON document, or one per line for what comes as a stream, and nothing else.
    pub json: bool,
}

impl Output {
    /// A line for people; nothing with `--json`.
    pub fn say(self, line: impl Display) -> anyhow::Result<()> {
        if self.json { Ok(()) } else { emit(&line) }
    }

    /// The answer: `document` as JSON or, for people, the text that `text` makes.
    pub fn answer<T: Serialize>(self, document: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json {
            return emit(&serde_json::to_string(document)?);
        }
        emit(&lines(text()))
    }

    /// One line of a stream of JSON documents; nothing without `--json`.
    pub fn event<T: Serialize>(self, document: &T) -> anyhow::Result<()> {
        if self.json { emit(&serde_json::to_string(document)?) } else { Ok(()) }
    }
}

fn emit(line: &dyn Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(closed)
}

/// The text without blanks at the ends of lines: tables fill their last column up with them.
pub fn lines(text: impl Display) -> String {
    let lines: Vec<String> = text.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Tells a closed pipe from a real failure to write.
pub fn closed(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ClosedStdout.into();
    }
    anyhow::Error::new(error).context("cannot write to standard output")
}

/// A JSON object of fields under their own names, of one or several structs; others follow a semicolon. What `--json` prints
/// is an API: whoever renames such a field writes its old name here, behind the semicolon.
macro_rules! fields {
    ($($of:expr => $($name:ident)+),+ $(; $($rest:tt)+)?) => {
        serde_json::json!({ $($(stringify!($name): $of.$name,)+)+ $($($rest)+)? })
    };
}
pub(crate) use fields;

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Blanks between two columns.
const COLUMN_GAP: u16 = 2;

/// A table without lines: columns align, and `cut` and `awk` still work on it.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, COLUMN_GAP));
    }
    table
}
