use super::*;
use proptest::prelude::*;
use syn::parse_quote;

/// Without white space, for comparing.
fn squeezed(tokens: TokenStream) -> String {
    tokens.to_string().replace(char::is_whitespace, "")
}

#[test]
fn the_expansion_is_one_call() {
    let found = expand(
        quote!(key = "order:{id}", wait = "2s", lease = "10s"),
        quote! {
            #[inline]
            pub async fn pay(id: u64) -> Result<u64, E> { Ok(id) }
        },
    );
    let expected = quote! {
        #[inline]
        pub async fn pay(id: u64) -> Result<u64, E> {
            static __LOCK_SITE: ::lock_runtime::private::LockSite =
                ::lock_runtime::private::LockSite {
                    name: ::core::concat!(::core::module_path!(), "::", "pay"),
                    key: "order:{id}",
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
            let __lock_key = ::lock_runtime::private::template(&[
                ::lock_runtime::private::Piece::Text("order:"),
                ::lock_runtime::private::Piece::Part(&id)
            ]);
            let __lock_settings = ::lock_runtime::private::Settings {
                client: ::core::option::Option::None,
                wait: ::core::option::Option::Some(
                    ::lock_runtime::Wait::UpTo(::core::time::Duration::new(2u64, 0u32))
                ),
                lease: ::core::option::Option::Some(
                    ::lock_runtime::Lease::Fixed(::core::time::Duration::new(10u64, 0u32))
                ),
                on_lost: ::core::default::Default::default(),
            };
            ::lock_runtime::private::locked(
                &__LOCK_SITE,
                __lock_key,
                __lock_settings,
                ::lock_runtime::private::plain(async move {
                    if let ::core::option::Option::Some(__lock_never) =
                        ::core::option::Option::None::<Result<u64, E>>
                    {
                        return __lock_never;
                    }
                    match () { () => { Ok(id) } }
                }),
            ).await
        }
    };
    assert_eq!(squeezed(found), squeezed(expected));
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
        "#![allow(unused)]static",
        "private::Piece::Raw(&(x+1))",
        "client:::core::option::Option::Some(crate::locks::private::client(&(self.client())))",
        "Into::<crate::locks::Wait>::into(self.wait)",
        "crate::locks::Lease::default()",
        "crate::locks::OnLost::Finish",
        "crate::locks::private::locked_or_skip(&__LOCK_SITE,__lock_key,__lock_settings,\
         crate::locks::private::with_guard(move|__lock_guard|asyncmove{",
        "match&*__lock_guard{hold=>{hold.token();}}",
        "Option::None::<()>",
    ] {
        assert!(found.contains(part), "{part}\n{found}");
    }
    assert!(!found.contains("lock_runtime"), "{found}");
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
                fn f() {}
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
