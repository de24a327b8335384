//! What an annotated function calls may lock the same key again.

use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "order:{id}", wait = none, guard = hold)]
async fn outer(id: u64) -> Result<bool, LockError> {
    Ok(inner(id).await? == hold.token().get())
}

#[distributed_lock(key = "order:{id}", wait = none, guard = hold)]
async fn inner(id: u64) -> Result<u64, LockError> {
    Ok(hold.token().get())
}

struct Tree {
    children: Vec<Tree>,
}

impl Tree {
    #[distributed_lock(key = "tree", wait = none)]
    async fn count(&self) -> Result<usize, LockError> {
        let mut count = 1;
        for child in &self.children {
            count += Box::pin(child.count()).await?;
        }
        Ok(count)
    }
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert!(outer(1).await?);
            let leaf = || Tree { children: vec![] };
            let tree = Tree { children: vec![leaf(), Tree { children: vec![leaf(), leaf()] }] };
            assert_eq!(tree.count().await?, 5);
            Ok(())
        })
        .await
}
