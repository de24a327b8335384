//! `cfg` and other attributes, on the function, on its arguments and around it, and visibilities.

use lock_runtime::{LockClient, LockError, distributed_lock};

#[cfg(any())]
#[distributed_lock(key = "not there", nonsense)]
fn not_compiled() {}

#[cfg_attr(all(), distributed_lock(key = "c:{id}", guard = hold))]
async fn under_a_condition(id: u64) -> Result<String, LockError> {
    Ok(format!("{id} {}", hold.key()))
}

#[distributed_lock(key = "c:{id}")]
async fn arguments(
    #[cfg(all())] id: u64,
    #[cfg(any())] not_there: u64,
    #[allow(unused_mut)] mut other: u64,
) -> Result<u64, LockError> {
    Ok(id + other)
}

/// Documented.
#[must_use = "it is only a future"]
#[distributed_lock(key = "c")]
#[doc = "More."]
#[inline(never)]
#[cfg(all())]
#[cfg_attr(any(), nonsense)]
#[expect(unused_variables, reason = "to see that it reaches the function")]
async fn attributes(unused: u64) -> Result<u64, LockError> {
    #![allow(unused_mut)]
    #[cfg(any())]
    compile_error!("is not compiled");
    #[allow(unused_assignments)]
    let mut value = 1;
    value = 2;
    Ok(value)
}

#[distributed_lock(key = "a")]
#[deprecated]
async fn old() -> Result<u8, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a")]
async unsafe fn dangerous(at: *const u8) -> Result<u8, LockError> {
    // SAFETY: the caller promises that it can be read.
    Ok(unsafe { *at })
}

pub mod outer {
    pub mod inner {
        use lock_runtime::{LockError, distributed_lock};

        #[distributed_lock(key = "c")]
        pub(in crate::attributes::outer) async fn restricted() -> Result<u64, LockError> {
            Ok(3)
        }
    }

    pub async fn call() -> Result<u64, lock_runtime::LockError> {
        inner::restricted().await
    }
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(under_a_condition(1).await?, "1 c:1");
            assert_eq!(arguments(1, 2).await?, 3);
            assert_eq!(attributes(1).await?, 2);
            #[allow(deprecated)]
            let one = old().await?;
            assert_eq!(one, 1);
            let value = 7;
            // SAFETY: `value` lives.
            assert_eq!(unsafe { dangerous(&raw const value) }.await?, 7);
            assert_eq!(outer::call().await?, 3);
            Ok(())
        })
        .await
}
