use super::types::without_impl;
use super::*;
use proptest::prelude::*;
use syn::parse_quote;

/// Without white space, for comparing.
fn squeezed(tokens: TokenStream) -> String {
    tokens.to_string().replace(char::is_whitespace, "")
}

/// As a formatter would print it.
fn shown(args: TokenStream, item: TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(expand(args, item)).unwrap())
}

/// The expansion is one call of the runtime, and short.
#[test]
fn the_expansion_is_one_call() {
    let found = shown(
        quote!(key = "order:{id}", wait = "2s", lease = "10s"),
        quote! {
            #[inline]
            pub async fn pay(id: u64) -> Result<u64, E> { Ok(id) }
        },
    );
    assert_eq!(found, include_str!("one_call.snapshot"), "{found}");
    assert!(found.lines().count() < 28, "{found}");
}

#[test]
fn other_settings_are_other_arguments() {
    let found = squeezed(expand(
        quote!(
            key("a:{:raw}", x + 1),
            guard = hold,
            on_busy = skip,
            on_lost = finish,
            wait = self.wait,
            lease = watchdog,
            kind = semaphore(limit),
            policy = "p",
            client = self.client(),
            crate = crate::locks
        ),
        quote!(
            async fn f(&self, x: u8) {
                #![allow(unused)]
                hold.token();
            }
        ),
    ));
    for part in [
        "#![allow(unused)]let(__lock_spec,__lock_view)=",
        ".text(\"a:\").raw(&(x+1))",
        ".client(&(self.client()))",
        ".semaphore(limit)",
        ".wait(self.wait)",
        "::core::option::Option::Some(\"p\")",
        ",lease=crate::locks::private::v1::WATCHDOG",
        ",on_lost=crate::locks::options::OnLost::Finish",
        ".names_guard()",
        ").with_view();crate::locks::private::v1::locked(__lock_spec,asyncmove{",
        "lethold=__lock_view;matchhold.held(){hold=>{hold.token();}}",
        "crate::locks::private::v1::SkipReturn::returns(crate::locks::private::v1::FromLockError::",
        "private::v1::never::<()>()",
    ] {
        assert!(found.contains(part), "{part}\n{found}");
    }
    assert!(!found.contains("lock_runtime"), "{found}");
}

/// Attributes apply in the order in which they are written: each is in the body of the one before.
#[test]
fn stacked_attributes_are_nested() {
    let found = squeezed(expand(
        quote!(key = "a"),
        quote! {
            #[doc = "x"]
            #[distributed_lock(key = "b", guard = hold)]
            #[lock_runtime::distributed_lock(key = "c")]
            async fn f() -> Result<u8, E> { Ok(1) }
        },
    ));
    assert!(!found.contains("#[distributed_lock") && found.starts_with("#[doc"), "{found}");
    let place = |text: &str| found.find(text).unwrap_or_else(|| panic!("{text}: {found}"));
    let order = [
        "text(\"a\")",
        "asyncmove{",
        "text(\"b\")",
        "hold.held()",
        "hold=>",
        "text(\"c\")",
        "Ok(1)",
    ];
    assert!(order.map(place).is_sorted(), "{found}");
}

/// An error in one of several attributes is reported once, and no attribute is left to report it again.
#[test]
fn a_broken_stacked_attribute_is_reported_once() {
    let found = squeezed(expand(
        quote!(key = "a"),
        quote! {
            #[distributed_lock(key = "b", wait = "2")]
            async fn f() -> Result<u8, E> { Ok(1) }
        },
    ));
    assert_eq!(found.matches("compile_error").count(), 1, "{found}");
    assert!(!found.contains("distributed_lock("), "{found}");
}

/// A function that returns a future runs no part of its body before it has the lock.
#[test]
fn functions_that_return_futures_are_called_inside() {
    let found = squeezed(expand(
        quote!(key = "a"),
        quote!(
            fn f(x: u8) -> impl Future<Output = Result<u8, E>> {
                async move { Ok(x) }
            }
        ),
    ));
    assert!(found.contains("future(move||asyncmove{let__lock_spec="), "{found}");
    assert!(
        found.contains(
            "private::v1::future(move||{iffalse{let_=(&x,);}match(){()=>{asyncmove{Ok(x)}}}}).await"
        ),
        "{found}"
    );
    assert_eq!(found.matches("let_=").count(), 1, "{found}");
    let boxed = squeezed(expand(
        quote!(key = "a"),
        quote!(
            fn f(x: u8) -> BoxFuture<'static, Result<u8, E>> {
                Box::pin(g(x))
            }
        ),
    ));
    assert!(boxed.contains("::std::boxed::Box::pin(asyncmove{let__lock"), "{boxed}");
    assert!(boxed.contains("future(move||->BoxFuture<'static,Result<u8,E>>{"), "{boxed}");
}

/// Either order of expansion works: `#[async_trait]` finds an `async fn` after this attribute, too.
#[test]
fn async_functions_stay_async() {
    let expanded = expand(
        quote!(key = "{self.tenant}:{id}", guard = hold),
        quote! {
            async fn f<'a, T: Sync>(&'a self, P(id): P, n: &'a T) -> Result<&'a T, E> { Ok(n) }
        },
    );
    let method = syn::parse2::<syn::ImplItemFn>(expanded).unwrap();
    assert!(method.sig.asyncness.is_some());
    assert!(method.attrs.is_empty() && method.sig.inputs.len() == 3);
}

/// After `#[async_trait]`, the lock is put where the arguments have names again.
#[test]
fn methods_under_async_trait_are_locked_inside() {
    let item = quote! {
        fn f<'life0, 'async_trait>(&'life0 self, __arg1: P, n: u8)
            -> Pin<Box<dyn Future<Output = Result<u8, E>> + Send + 'async_trait>>
        {
            Box::pin(async move {
                if let Some(__ret) = None::<Result<u8, E>> { return __ret; }
                let __self = self;
                let P(id) = { let __arg1 = __arg1; __arg1 };
                let n = n;
                let __ret: Result<u8, E> = { Ok(id + n) };
                __ret
            })
        }
    };
    let args = quote!(key = "{self.tenant}:{id}", wait = self.patience);
    let found = squeezed(expand(args, item));
    let place = |text: &str| found.find(text).unwrap_or_else(|| panic!("{text}: {found}"));
    let order = [
        "let__self=self;",
        "letP(id)=",
        "letn=n;",
        "part(&__self.tenant)",
        "part(&id)",
        ".wait(__self.patience)",
        "iflet",
        "let__ret:",
    ];
    assert!(order.map(place).is_sorted(), "{found}");
}

#[test]
fn fallbacks_get_the_arguments() {
    let found = squeezed(expand(
        quote!(key = "a", on_busy = fallback(Self::other), guard = hold),
        quote!(
            async fn f(&self, mut x: u8) -> Result<u8, E> {
                Ok(x)
            }
        ),
    ));
    assert!(found.contains(".names_guard().has_fallback()"), "{found}");
    let run = "matchhold.is_busy(){false=>matchhold.held(){hold=>{Ok(x)}},true=>{::core::future::IntoFuture::into_future(\
               Self::other(self,x)).await}}";
    assert!(found.contains(run), "{found}");
}

#[test]
fn broken_attributes_leave_the_item() {
    for (args, item) in [
        (
            quote!(key = "{y}"),
            quote!(
                async fn f(x: u8) -> Result<u8, E> {
                    Ok(x)
                }
            ),
        ),
        (
            quote!(key = "a"),
            quote!(
                const fn f() {}
            ),
        ),
        (
            quote!(key = "a"),
            quote!(
                async fn f(&self);
            ),
        ),
        (
            quote!(key = "a"),
            quote!(
                struct S;
            ),
        ),
        (
            quote!(key = ),
            quote!(
                async fn f() {}
            ),
        ),
        (quote!(), quote!(async fn f() { let x = ; })),
    ] {
        let found = squeezed(expand(args, item.clone()));
        assert!(found.starts_with("::core::compile_error!"), "{found}");
        assert!(found.ends_with(&squeezed(item)), "{found}");
    }
}

#[test]
fn impl_trait_is_erased_from_the_anchor() {
    for (ty, expected) in [
        (parse_quote!(Result<u8, E>), "Result<u8,E>"),
        (parse_quote!(impl Debug), "_"),
        (parse_quote!(Result<impl Debug, E>), "Result<_,E>"),
        (parse_quote!(Option<(&'a [impl Debug], [impl Debug; 2])>), "Option<(&'a[_],[_;2])>"),
        (parse_quote!(Box<dyn Iterator<Item = impl Debug>>), "Box<_>"),
        (parse_quote!(Stream<Item = impl Debug>), "_"),
    ] {
        assert_eq!(squeezed(without_impl(&ty)), expected);
    }
}

/// Arguments that a body mentions are captured whole; the others stay outside and are reported as unused.
#[test]
fn bodies_take_whole_arguments() {
    let found = squeezed(expand(
        quote!(key = "{only_key}"),
        quote! {
            async fn f(
                mut self, a: A, unused: U, (b, _): B, only_key: u8, #[cfg(any())] gone: u8, r#in: C,
            ) -> Result<u8, E> {
                if self.x { b.y += a.z; gone(); (..b, b.unused()) } else { r#in.call() }
            }
        },
    ));
    assert!(found.contains("let_=(&r#in,&b,&a,&self,);return"), "{found}");
    let found = squeezed(expand(
        quote!(key = "a"),
        quote!(
            async fn f(a: A) -> Result<u8, E> {
                Ok(1)
            }
        ),
    ));
    assert!(!found.contains("let_="), "{found}");
    let found = squeezed(expand(
        quote!(key = "a"),
        quote!(
            async fn f(a: usize, b: &[u8]) -> Result<&[u8], E> {
                Ok(&b.0[..a])
            }
        ),
    ));
    assert!(found.contains("let_=(&b,&a,);return"), "{found}");
}

/// Only a type that names a future counts as one.
#[test]
fn futures_are_known_by_name() {
    let form = |ty: TokenStream| Function::parse(quote!(fn f() -> #ty {})).unwrap().form;
    for ty in [
        quote!(impl Future<Output = u8> + Send),
        quote!(impl 'a + std::future::Future<Output = u8>),
    ] {
        assert!(matches!(form(ty), Form::Future { boxed: false }));
    }
    for ty in [
        quote!(Pin<Box<dyn Future<Output = u8> + Send + 'a>>),
        quote!(std::pin::Pin<Box<(dyn Future<Output = u8>)>>),
        quote!(BoxFuture<'a, u8>),
        quote!(future::LocalBoxFuture<'static, u8>),
        quote!(ReportBoxFuture),
    ] {
        assert!(matches!(form(ty), Form::Future { boxed: true }));
    }
    for ty in [
        quote!(u8),
        quote!(ReportFuture),
        quote!(Result<BoxFuture<'a, u8>, E>),
        quote!(Option<impl Future>),
        quote!(Box<dyn Future<Output = u8>>),
        quote!(impl Iterator<Item = BoxFuture<'a, u8>>),
        quote!(impl FnOnce() -> BoxFuture<'a, u8>),
    ] {
        assert!(matches!(form(ty), Form::Sync));
    }
}

#[test]
fn the_output_of_a_future_is_found() {
    for (ty, expected) in [
        (parse_quote!(impl Future<Output = Result<u8, E>> + Send), Some("Result<u8,E>")),
        (parse_quote!(Pin<Box<dyn Future<Output = (u8, X)> + 'a>>), Some("(u8,X)")),
        (parse_quote!(Pin<Box<(dyn Future<Output = u8> + 'a)>>), Some("u8")),
        (parse_quote!(BoxFuture<'a, u8>), None),
        (parse_quote!(impl Trait<Output>), None),
    ] {
        assert_eq!(crate::form::output(&ty).map(|ty| squeezed(quote!(#ty))).as_deref(), expected);
    }
}

proptest! {
    #[test]
    fn nothing_panics(
        args in "[a-z_ =,(){}\":.0-9]{0,40}",
        item in "(pub )?(async )?(fn f)?(\\(&?self, x: u8\\)|\\(\\))?( -> [A-Z<>,]{1,9})?[ {};a-z]{0,9}",
    ) {
        if let (Ok(args), Ok(item)) = (args.parse(), item.parse()) {
            expand(args, item);
        }
    }
}

#[test]
fn a_plain_function_needs_the_feature() {
    let message = |ty: TokenStream, blocking| {
        let function = Function::parse(quote!(fn pay() -> #ty {})).unwrap();
        let mut errors = Errors::default();
        validate::check_shape(&function, blocking, &mut errors);
        errors.into_result().err().map(|error| error.to_string())
    };
    assert_eq!(message(quote!(Result<(), E>), true), None);
    let refused = message(quote!(Result<(), E>), false).unwrap();
    assert!(
        refused.contains("write `async fn pay`") && refused.contains("`blocking`"),
        "{refused}"
    );
    // What is an alias of a future, most likely, is told the same with and without the feature.
    let refused = message(quote!(PayFuture<'_>), false).unwrap();
    assert!(refused.contains("return `impl Future` or a `BoxFuture` itself"), "{refused}");
    assert_eq!(message(quote!(PayFuture<'_>), true), Some(refused));
}

#[cfg(feature = "blocking")]
#[test]
fn a_plain_function_is_called() {
    let found = squeezed(expand(
        quote!(key = "order:{id}", guard = hold, on_busy = fallback(cached)),
        quote! {
            fn pay(id: u64) -> Result<u64, E> { hold.check()?; Ok(id) }
        },
    ));
    let called = "::lock_runtime::private::v1::called(__lock_spec,move||{";
    for part in [called, "hold=>{hold.check()?;Ok(id)}", "true=>{cached(id)}"] {
        assert!(found.contains(part), "{part} is not in {found}");
    }
    assert!(!found.contains("async") && !found.contains("await"), "{found}");
}
