//! Layers that cannot be built.

use super::*;

fn http() -> HttpLockLayerBuilder {
    HttpLockLayerBuilder::new()
}

#[test]
fn impossible_layers_say_why() {
    let function = http().key_fn(|_| Ok(None));
    for (builder, reason) in [
        (http(), "the layer has no key"),
        (http().key("{nope}"), "unknown placeholder `{nope}`"),
        (http().key("a").methods([]), "locks no method"),
        (http().key("a").route("orders"), "does not begin with `/`"),
        (function.route("/{id}"), "the key is a closure"),
        (
            http().key("{path.id}").route("/{order}/{item}"),
            "`{path.id}` is not in the route `/{order}/{item}`, which has `{path.order}`, \
             `{path.item}`",
        ),
        (http().key("{path.id}").route("/"), "which has no parameters"),
    ] {
        let message = builder.build().unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn path_parameters_need_somebody_who_knows_them() {
    let layer = http().key("order:{path.id}").build();
    if cfg!(feature = "axum") {
        assert!(layer.is_ok());
    } else {
        let message = layer.unwrap_err().to_string();
        assert!(message.contains("`{path.id}` needs a route"), "{message}");
    }
    assert!(http().key("order:{path.id}").route("/orders/{id}").build().is_ok());
}
