//! What the program shows its users, and the house rules of the repository.

mod architecture;
mod commands;
mod documents;
mod plan;
mod processes;
