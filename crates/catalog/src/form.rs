//! How the model is stored: each of its types has one form, made of what the row encoding knows. A change of the model never
//! changes a format unseen, and a change of a form is a new version of the rows that have it.

use gf::Fingerprint;
use model::{
    Assign, BlockCopy, BlockFacts, BlockId, ClusterId, Flaw, Flawed, FlowId, Incarnation, Location,
    MemberState, NodeId, Part, PutId, Reason, Stamp, StoreId, StripeId, StripePlace, Sums, Switch, Term,
};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What can be stored in a row.
pub(crate) trait Stored: Sized {
    /// What is encoded.
    type Form: Serialize + DeserializeOwned;
    /// As it is stored.
    fn form(&self) -> Self::Form;
    /// From what was stored; `None` if nothing has that form.
    fn of(form: Self::Form) -> Option<Self>;
}

/// For fields of rows: `#[serde(with = "form")]`.
pub(crate) fn serialize<T: Stored, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.form().serialize(serializer)
}

pub(crate) fn deserialize<'de, T: Stored, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::of(T::Form::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("a value that is none"))
}

macro_rules! ids {
    ($($id:ty)*) => {
        $(impl Stored for $id {
            type Form = [u8; 16];
            fn form(&self) -> [u8; 16] {
                self.to_bytes()
            }
            fn of(form: [u8; 16]) -> Option<Self> {
                Some(Self(u128::from_be_bytes(form)))
            }
        })*
    };
}

ids! { BlockId StripeId FlowId PutId ClusterId StoreId }

/// Types whose fields are stored one after another, in this order.
macro_rules! fields {
    ($($type:ident { $($field:ident: $of:ty),* })*) => {
        $(impl Stored for $type {
            type Form = ($(<$of as Stored>::Form,)*);
            fn form(&self) -> Self::Form {
                ($(self.$field.form(),)*)
            }
            fn of(($($field,)*): Self::Form) -> Option<Self> {
                Some($type { $($field: Stored::of($field)?),* })
            }
        })*
    };
}

fields! {
    Location { node: NodeId, generation: u64 }
    BlockCopy { block: BlockId, node: NodeId, generation: u64 }
    Flawed { location: Location, flaw: Flaw }
    Term { number: u64, word: u64 }
    Stamp { term: Term, change: u64 }
    Sums { digest: Option<[u8; 32]>, fingerprint: Option<Fingerprint> }
    Part { name: String, version: u64, offset: u64, last: bool }
    BlockFacts {
        stored_bytes: u64, sums: Sums, last_generation: u64, locations: Vec<Location>, flawed: Vec<Flawed>,
        replicas: u32, part: Option<Part>, stripe: Option<StripePlace>, dead: bool
    }
}

macro_rules! as_they_are {
    ($($type:ty)*) => {
        $(impl Stored for $type {
            type Form = $type;
            fn form(&self) -> $type {
                self.clone()
            }
            fn of(form: $type) -> Option<Self> {
                Some(form)
            }
        })*
    };
}

pub(crate) use as_they_are;

as_they_are! { bool u16 u32 u64 String [u8; 32] }

impl Stored for NodeId {
    type Form = u32;
    fn form(&self) -> u32 {
        self.0
    }
    fn of(form: u32) -> Option<Self> {
        Some(NodeId(form))
    }
}

impl Stored for Incarnation {
    type Form = u64;
    fn form(&self) -> u64 {
        self.0
    }
    fn of(form: u64) -> Option<Self> {
        Some(Incarnation(form))
    }
}

impl<T: Stored> Stored for Vec<T> {
    type Form = Vec<T::Form>;
    fn form(&self) -> Self::Form {
        self.iter().map(T::form).collect()
    }
    fn of(form: Self::Form) -> Option<Self> {
        form.into_iter().map(T::of).collect()
    }
}

macro_rules! options {
    ($($type:ty)*) => {
        $(impl Stored for Option<$type> {
            type Form = Option<<$type as Stored>::Form>;
            fn form(&self) -> Self::Form {
                self.as_ref().map(Stored::form)
            }
            fn of(form: Self::Form) -> Option<Self> {
                match form {
                    None => Some(None),
                    Some(form) => Stored::of(form).map(Some),
                }
            }
        })*
    };
}

options! { [u8; 32] NodeId Part StripePlace }

/// In bytes the first two are an option, as it was before there were virtual members.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) enum MemberForm {
    Zero,
    Stored(<BlockId as Stored>::Form),
    Virtual(<BlockId as Stored>::Form),
}

impl Stored for MemberState<BlockId> {
    type Form = MemberForm;
    fn form(&self) -> MemberForm {
        match self {
            MemberState::Zero => MemberForm::Zero,
            MemberState::Stored(block) => MemberForm::Stored(block.form()),
            MemberState::Virtual(block) => MemberForm::Virtual(block.form()),
        }
    }
    fn of(form: MemberForm) -> Option<Self> {
        match form {
            MemberForm::Zero => Some(MemberState::Zero),
            MemberForm::Stored(form) => BlockId::of(form).map(MemberState::Stored),
            MemberForm::Virtual(form) => BlockId::of(form).map(MemberState::Virtual),
        }
    }
}

/// The index, and above it whether the member is virtual: in bytes a stored one is as it was before there were others.
impl Stored for StripePlace {
    type Form = (<StripeId as Stored>::Form, u32);
    fn form(&self) -> Self::Form {
        (self.stripe.form(), u32::from(self.index) | u32::from(self.is_virtual) << VIRTUAL_BIT)
    }
    fn of((stripe, place): Self::Form) -> Option<Self> {
        let is_virtual = place >> VIRTUAL_BIT == 1;
        let index = u16::try_from(place & !(1 << VIRTUAL_BIT)).ok()?;
        Some(StripePlace { stripe: StripeId::of(stripe)?, index, is_virtual })
    }
}

const VIRTUAL_BIT: u32 = 16;

/// As its bytes; none as no bytes.
impl Stored for Option<Fingerprint> {
    type Form = Vec<u8>;
    fn form(&self) -> Vec<u8> {
        self.as_ref().map_or(Vec::new(), |fingerprint| fingerprint.as_bytes().to_vec())
    }
    fn of(form: Vec<u8>) -> Option<Self> {
        match form.as_slice() {
            [] => Some(None),
            bytes => Some(Some(Fingerprint::from_bytes(bytes.try_into().ok()?))),
        }
    }
}

/// Types of a few values, stored by their place in a list.
macro_rules! listed {
    ($($type:ident [$($value:ident),*])*) => {
        $(impl Stored for $type {
            type Form = u32;
            fn form(&self) -> u32 {
                [$($type::$value),*].iter().position(|value| value == self).unwrap_or(0) as u32
            }
            fn of(form: u32) -> Option<Self> {
                [$($type::$value),*].get(form as usize).copied()
            }
        })*
    };
}

listed! {
    Assign [Balanced, LeastRecent, MPpr, LowestIndex]
    Switch [Go, Pause, Stop]
    Flaw [Missing, Damaged, Unread]
    Reason [Deleted, GivenUp, Surplus, Archived, Found, LetGo, Unfinished, Operator]
}
