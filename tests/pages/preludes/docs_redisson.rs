async fn pay() {}
