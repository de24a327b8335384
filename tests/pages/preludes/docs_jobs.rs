use std::time::Duration;

async fn send_reports() -> u64 {
    0
}

async fn consume_for_ever() {
    std::future::pending().await
}

/// A table of days.
struct Books;

impl Books {
    async fn is_closed(&self, day: u32) -> bool {
        false
    }

    async fn close(&self, day: u32) {}
}
