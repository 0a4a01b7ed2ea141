//! One sentence of a paper, or one demand on ourselves, beside what was measured: met or missed, computed.

use serde::{Deserialize, Serialize};

/// Ratios that differ by less are called equal: it is about what repeated runs differ by.
const EQUAL_RATIO: f64 = 0.01;

/// How a ratio of two times (1 is equal) is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// `−89.4 %`
    Saving,
    /// `1.02 ×`
    Times,
    /// `2.00`: no ratio, a number of something
    Number,
}

/// What a ratio must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Target {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
    /// Only reported; less is better.
    None,
}

/// A comparison: all values are ratios, 1 meaning equal.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// What over what.
    pub what: String,
    /// How it is shown.
    pub form: Form,
    /// The paper's value, if it has one.
    pub paper: Option<f64>,
    /// What ours must be.
    pub target: Target,
    /// What ours is; `None` if it was not measured.
    pub ours: Option<f64>,
    /// Why, from the numbers.
    pub why: String,
}

impl Form {
    /// A ratio for people.
    pub fn text(self, ratio: f64) -> String {
        match self {
            Form::Times => format!("{ratio:.3} ×"),
            Form::Number => format!("{ratio:.2}"),
            Form::Saving => {
                let percent = (ratio - 1.0) * 100.0;
                let sign = if percent < 0.0 { "−" } else { "+" };
                format!("{sign}{:.1} %", percent.abs())
            }
        }
    }
}

impl Comparison {
    /// A ratio shown as a saving. It has no target, no counterpart in the paper and no reason, unless they are given.
    pub fn saving(what: impl Into<String>, ours: Option<f64>) -> Comparison {
        let (what, why) = (what.into(), String::new());
        Comparison { what, form: Form::Saving, paper: None, target: Target::None, ours, why }
    }

    /// The same, shown as a multiple.
    pub fn times(what: impl Into<String>, ours: Option<f64>) -> Comparison {
        Comparison { form: Form::Times, ..Comparison::saving(what, ours) }
    }

    /// The same of a number that is no ratio.
    pub fn number(what: impl Into<String>, ours: Option<f64>) -> Comparison {
        Comparison { form: Form::Number, ..Comparison::saving(what, ours) }
    }

    /// Beside the paper's value, if it has one.
    pub fn paper(self, paper: impl Into<Option<f64>>) -> Comparison {
        Comparison { paper: paper.into(), ..self }
    }

    /// What ours must be.
    pub fn target(self, target: Target) -> Comparison {
        Comparison { target, ..self }
    }

    /// Less than that, or as much.
    pub fn at_most(self, limit: f64) -> Comparison {
        self.target(Target::AtMost(limit))
    }

    /// More than that, or as much.
    pub fn at_least(self, limit: f64) -> Comparison {
        self.target(Target::AtLeast(limit))
    }

    /// With its reason.
    pub fn why(self, why: impl Into<String>) -> Comparison {
        Comparison { why: why.into(), ..self }
    }

    /// Whether the target was met; `None` if there is none, or nothing was measured.
    pub fn met(&self) -> Option<bool> {
        match self.target {
            Target::AtMost(limit) => Some(self.ours? <= limit),
            Target::AtLeast(limit) => Some(self.ours? >= limit),
            Target::None => None,
        }
    }

    /// `met`, `MISSED by 1.2 points`, …
    pub fn verdict(&self) -> String {
        match (self.ours, self.met(), self.target) {
            (None, ..) => "not measured".to_owned(),
            (Some(_), Some(true), _) => "met".to_owned(),
            (Some(ours), Some(false), Target::AtMost(limit) | Target::AtLeast(limit)) => match self.form {
                Form::Saving => format!("MISSED by {:.1} points", (ours - limit).abs() * 100.0),
                Form::Times | Form::Number => format!("MISSED by {:.3}", (ours - limit).abs()),
            },
            _ => "–".to_owned(),
        }
    }

    /// `better`, `equal` or `worse` than the paper; a dash if it has no value.
    pub fn beside_paper(&self) -> &'static str {
        let (Some(ours), Some(paper)) = (self.ours, self.paper) else { return "–" };
        let less_is_better = !matches!(self.target, Target::AtLeast(_));
        match ours - paper {
            difference if difference.abs() <= EQUAL_RATIO => "equal",
            difference if (difference < 0.0) == less_is_better => "better",
            _ => "worse",
        }
    }

    /// The target for people.
    pub fn target_text(&self) -> String {
        match self.target {
            Target::AtMost(1.0) if self.form == Form::Saving => "faster".to_owned(),
            Target::AtMost(limit) => format!("≤ {}", self.form.text(limit)),
            Target::AtLeast(limit) => format!("≥ {}", self.form.text(limit)),
            Target::None => "–".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saving(ours: f64) -> Comparison {
        Comparison::saving("pipeline over conventional", Some(ours)).paper(0.105).at_most(0.11)
    }

    #[test]
    fn a_miss_is_called_a_miss() {
        assert_eq!(saving(0.102).verdict(), "met");
        assert_eq!(saving(0.102).beside_paper(), "equal");
        assert_eq!(saving(0.09).beside_paper(), "better");
        assert_eq!(
            (saving(0.2).verdict().as_str(), saving(0.2).beside_paper()),
            ("MISSED by 9.0 points", "worse")
        );
        assert_eq!(Comparison { ours: None, ..saving(0.0) }.verdict(), "not measured");
        assert_eq!(saving(0.1).target_text(), "≤ −89.0 %");
        let at_least = Comparison { target: Target::AtLeast(0.9), paper: None, ..saving(0.85) };
        assert_eq!((at_least.met(), at_least.beside_paper()), (Some(false), "–"));
    }
}
