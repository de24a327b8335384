async fn send_invoice() {}
