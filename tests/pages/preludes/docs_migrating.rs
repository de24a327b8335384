async fn pay() {}
async fn report() {}
