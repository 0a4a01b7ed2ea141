//! Faults as messages.

use crate::{limits, proto};
use model::{BlockId, Cause, Fault, FlowId, Peer};

impl From<Fault> for proto::Fault {
    fn from(f: Fault) -> Self {
        proto::Fault {
            cause: f.cause as u32,
            detail: f.detail,
            flow: f.flow.map(FlowId::to_vec).unwrap_or_default(),
            attempt: f.attempt,
            lane: f.lane,
            slice: f.slice,
            reporter: f.reporter.number(),
            suspect_from: f.suspect.map(|(from, _)| from.number()),
            suspect_to: f.suspect.map(|(_, to)| to.number()),
            block: f.block.map(BlockId::to_vec).unwrap_or_default(),
        }
    }
}

impl From<proto::Fault> for Fault {
    fn from(f: proto::Fault) -> Self {
        Fault {
            cause: Cause::from_number(f.cause),
            detail: cut(f.detail),
            flow: FlowId::from_slice(&f.flow).ok(),
            attempt: f.attempt,
            lane: f.lane,
            slice: f.slice,
            reporter: Peer::from_number(f.reporter),
            suspect: f.suspect_from.map(Peer::from_number).zip(f.suspect_to.map(Peer::from_number)),
            block: BlockId::from_slice(&f.block).ok(),
        }
    }
}

/// Truncates a detail that is too long to be logged.
fn cut(mut detail: String) -> String {
    if detail.len() > limits::MAX_DETAIL_BYTES {
        let end = (0..=limits::MAX_DETAIL_BYTES).rev().find(|&at| detail.is_char_boundary(at)).unwrap_or(0);
        detail.truncate(end);
        detail.push('…');
    }
    detail
}

/// What a call answers that fails with a fault.
pub fn status(fault: &Fault) -> tonic::Status {
    let text = fault.to_string();
    match fault.cause {
        Cause::Busy => tonic::Status::resource_exhausted(text),
        Cause::NotFound => tonic::Status::not_found(text),
        Cause::Denied => tonic::Status::permission_denied(text),
        Cause::Invalid => tonic::Status::invalid_argument(text),
        Cause::CorruptBlock | Cause::CorruptSlice | Cause::WrongDigest => tonic::Status::data_loss(text),
        Cause::Bug => tonic::Status::internal(text),
        _ => tonic::Status::unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_cut_between_two_letters() {
        let of = |detail: String| Fault::from(proto::Fault { detail, ..Default::default() }).detail;
        assert_eq!(of("short".to_owned()), "short");
        let cut = of("ä".repeat(limits::MAX_CONTROL_BYTES / 4));
        assert!(cut.ends_with("ä…") && cut.len() <= limits::MAX_DETAIL_BYTES + 3, "{}", cut.len());
    }
}
