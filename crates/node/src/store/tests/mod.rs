//! What the world sees of the store.
