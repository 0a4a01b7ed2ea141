//! Identities: 128 bits each, written as 32 hexadecimal digits. Whoever makes one draws the bits from the operating
//! system's randomness.

use std::fmt;
use std::str::FromStr;

/// A text or byte string that is no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id: 32 hexadecimal digits (16 bytes) are wanted")]
pub struct BadId(pub String);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            /// The 16 bytes that travel and are stored (big-endian).
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// As a protobuf field.
            pub fn to_vec(self) -> Vec<u8> {
                self.0.to_be_bytes().to_vec()
            }

            /// From a protobuf field.
            pub fn from_slice(bytes: &[u8]) -> Result<Self, BadId> {
                let array: [u8; 16] =
                    bytes.try_into().map_err(|_| BadId(format!("{} bytes", bytes.len())))?;
                Ok(Self(u128::from_be_bytes(array)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:032x})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
                let value = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
                value.map(Self).ok_or_else(|| BadId(text.to_owned()))
            }
        }
    };
}

id!(
    /// A block. A repaired copy keeps the id of the block it restores.
    BlockId
);
id!(
    /// A stripe.
    StripeId
);
id!(
    /// A flow; its attempts are numbered.
    FlowId
);
id!(
    /// A put that has begun and is not yet committed.
    PutId
);
id!(
    /// A cluster: a node belongs to one, for good.
    ClusterId
);
id!(
    /// A store: one folder of blocks, for good.
    StoreId
);
id!(
    /// The secret of one edge, known to its two ends and the flow's driver.
    Token
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip_and_bad_ones_are_refused() {
        let id = BlockId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(id.to_string().parse::<BlockId>(), Ok(id));
        assert_eq!(BlockId::from_slice(&id.to_bytes()), Ok(id));
        for bad in ["", "12", "+0000000000000000000000000000001", &"g".repeat(32), &"0".repeat(33)] {
            assert!(bad.parse::<BlockId>().is_err(), "{bad}");
        }
        assert!(BlockId::from_slice(&[0; 15]).is_err());
    }
}
