//! The operator's hand on what runs in the background.

/// Whether a task goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Switch {
    /// It goes on.
    #[default]
    Go,
    /// It waits.
    Pause,
    /// It ends or, if it lasts as long as its process, does nothing.
    Stop,
}

impl Switch {
    /// What `pause`, `resume` and `stop` mean; `status` wants nothing.
    pub fn of(action: &str) -> Result<Option<Switch>, BadAction> {
        match action {
            "pause" => Ok(Some(Switch::Pause)),
            "resume" => Ok(Some(Switch::Go)),
            "stop" => Ok(Some(Switch::Stop)),
            "status" => Ok(None),
            _ => Err(BadAction(action.to_owned())),
        }
    }

    /// The word that means it.
    pub fn action(self) -> &'static str {
        match self {
            Switch::Go => "resume",
            Switch::Pause => "pause",
            Switch::Stop => "stop",
        }
    }
}

/// What no task can be told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a task can be told pause, resume, stop or status, not {0:?}")]
pub struct BadAction(String);
