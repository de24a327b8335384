//! Attributes and layers have the class of their template.

use lock_tower::LockLayer;
use tower::{ServiceBuilder, ServiceExt as _};

use super::*;
use crate::tower::prelude::{request, runs};

macro_rules! annotated {
    ($($name:ident $key:literal;)*) => {$(
        #[distributed_lock(key = $key)]
        async fn $name(
            tenant: &str,
            id: u64,
            inner: BoxFuture<'_, Result<(), LockError>>,
        ) -> Result<(), LockError> {
            inner.await
        }
    )*};
}

annotated! {
    order "site-tenant:{tenant}:order:{id}";
    stock "site-tenant:{tenant}:stock:{id}";
}

#[tokio::test]
async fn attributes_have_the_class_of_their_template() {
    let (warnings, client) = (Warnings::start(), client());
    let nothing = || -> BoxFuture<'static, _> { Box::pin(async { Ok(()) }) };
    let both = async {
        order("t", 1, Box::pin(stock("t", 1, nothing()))).await?;
        assert_eq!(warnings.lines(), [""; 0]);
        stock("u", 2, Box::pin(order("u", 2, nothing()))).await
    };
    client.scope(both).await.unwrap();
    let [line] = warnings.lines().try_into().unwrap();
    let (order, stock) = ("site-tenant:{}:order", "site-tenant:{}:stock");
    let found = edges(&client.admin().lock_order(), &[order, stock]);
    assert_eq!(found, pairs([(order, stock), (stock, order)]));
    for part in ["lock_order::sites::order (", "lock_order::sites::stock (", order, stock] {
        assert!(line.contains(part), "no {part:?}: {line}");
    }
}

#[distributed_lock(key = "stacked-a:{id}")]
#[distributed_lock(key = "stacked-b:{id}")]
async fn stacked(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["stacked-d:{id}", "stacked-c:{id}"])]
async fn several(id: u64) -> Result<(), LockError> {
    stacked(id).await
}

#[distributed_lock(key = format!("stacked-e:{id}"))]
async fn expression(id: u64) -> Result<(), LockError> {
    stacked(id).await
}

/// Stacked attributes and several keys are in one order. A lock that a call makes is of the class of an attribute's.
#[tokio::test]
async fn stacked_attributes_contradict_nothing() {
    let (warnings, client) = (Warnings::start(), client());
    let all = async {
        stacked(1).await?;
        several(2).await?;
        expression(3).await
    };
    client.scope(all).await.unwrap();
    assert_eq!(warnings.lines(), [""; 0]);
    let [a, b, c, d, e] = ["stacked-a", "stacked-b", "stacked-c", "stacked-d", "stacked-e"];
    let expected = [(a, b), (c, a), (d, a), (c, b), (d, b), (e, a), (e, b)];
    assert_eq!(edges(&client.admin().lock_order(), &[a, b, c, d, e]), pairs(expected));
    nest(&client, &["stacked-b:4", "stacked-a:4"]).await;
    assert_eq!(warnings.lines().len(), 1, "against the attributes");
}

#[tokio::test]
async fn layers_have_the_class_of_their_template() {
    let (warnings, client) = (Warnings::start(), client());
    let layer = |key: &str| {
        LockLayer::http().client(client.clone()).key(key).route("/{tenant}/{id}").build().unwrap()
    };
    let inner = client.clone();
    let handler = runs(move || {
        let inner = inner.clone();
        async move { nest(&inner, &["layer-audit"]).await }
    });
    let (tenant, order) =
        ("layer-tenant:{path.tenant}", "layer-tenant:{path.tenant}:order:{path.id}");
    let service = ServiceBuilder::new().layer(layer(tenant)).layer(layer(order)).service(handler);
    for path in ["/7/1", "/8/2"] {
        let answer = service.clone().oneshot(request("POST", path)).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    let found = client.admin().lock_order();
    let [tenant, order, audit] = ["layer-tenant", "layer-tenant:{}:order", "layer-audit"];
    let expected = pairs([(tenant, order), (order, audit), (tenant, audit)]);
    assert_eq!(edges(&found, &[tenant, order]), expected);
    let edge = found.edges.iter().find(|edge| edge.inner == order).unwrap();
    assert_eq!(edge.times, 2);
    assert!(edge.inner_site.starts_with(file!()), "{edge:#?}");
    assert_eq!(warnings.lines(), [""; 0]);
    let generic = LockLayer::new(client.clone(), |_: &_| LockKey::new("layer-audit").map(Some));
    let service = ServiceBuilder::new().layer(generic).service(service);
    service.oneshot(request("POST", "/9/3")).await.unwrap();
    assert_eq!(warnings.lines().len(), 2, "the layers inside of it, against each");
}
