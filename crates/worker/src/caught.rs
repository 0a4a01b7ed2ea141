//! Mistakes of the program that end in a panic, kept to what they were made in.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Carries something out. What it has begun is dropped if it panics, and whoever waits goes on: with what it shares as the
/// panic left it, so that only those are to ask who can go on from there.
///
/// # Errors
/// What the panic said.
pub async fn caught<F: Future>(work: F) -> Result<F::Output, String> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(text(&*panic))),
    })
    .await
}

fn text(panic: &(dyn Any + Send)) -> String {
    let said =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a mistake of the program: it panicked with {:?}", said.unwrap_or("nothing that is a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_with_what_it_said() {
        assert_eq!(caught(async { 3 }).await, Ok(3));
        let panics = async {
            tokio::task::yield_now().await;
            assert_eq!(1 + 1, 3, "so it is not");
        };
        assert!(caught(panics).await.unwrap_err().contains("so it is not"));
        assert!(caught(async { panic!("plainly") }).await.unwrap_err().contains("plainly"));
    }
}
