use super::*;
use proptest::prelude::*;
use quote::quote;

fn parsed(tokens: TokenStream) -> Args {
    let mut errors = Errors::default();
    let args = Args::parse(tokens, &mut errors);
    assert!(errors.into_compile_error().is_none());
    args
}

fn refused(tokens: TokenStream) -> String {
    let mut errors = Errors::default();
    Args::parse(tokens, &mut errors);
    errors.into_compile_error().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn every_argument_is_known() {
    for name in ARGUMENTS {
        let name = syn::parse_str::<TokenStream>(name).unwrap();
        let message = refused(quote!(#name = 1 + 1));
        assert!(!message.contains("there is no argument"), "{message}");
    }
    for (_, ours) in OTHER_NAMES {
        assert!(ARGUMENTS.contains(&ours));
    }
}

#[test]
fn values_are_understood() {
    let args = parsed(quote! {
        key("a:{}", x), wait = "1m 30s", lease = watchdog("45s"), client = self.client,
        guard = hold, on_busy = skip, on_lost = finish, crate = crate::locks,
    });
    assert!(matches!(args.key, Some(KeyArg::Filled(_, values)) if values.len() == 1));
    assert!(matches!(
        args.wait,
        Some(WaitArg::UpTo(Time::Literal(limit))) if limit == Duration::from_secs(90)
    ));
    assert!(matches!(
        args.lease,
        Some(LeaseArg::Watchdog(Some(Time::Literal(lease)))) if lease == Duration::from_secs(45)
    ));
    assert!(args.client.is_some() && args.root.is_some());
    assert_eq!(args.guard.unwrap(), "hold");
    assert!(args.on_busy == Some(OnBusy::Skip) && args.on_lost == Some(OnLost::Finish));
}

#[test]
fn words_and_expressions_are_told_apart() {
    assert!(matches!(parsed(quote!(wait = none)).wait, Some(WaitArg::Never)));
    assert!(matches!(parsed(quote!(wait = forever)).wait, Some(WaitArg::Forever)));
    let args = parsed(quote!(wait = self.patience, lease = LEASE));
    assert!(matches!(args.wait, Some(WaitArg::UpTo(Time::Expression(_)))));
    assert!(matches!(args.lease, Some(LeaseArg::Fixed(Time::Expression(_)))));
    let args = parsed(quote!(lease = watchdog));
    assert!(matches!(args.lease, Some(LeaseArg::Watchdog(None))));
    assert!(matches!(parsed(quote!(key = KEY)).key, Some(KeyArg::Expression(_))));
}

#[test]
fn all_errors_are_found_at_once() {
    let message = refused(quote!(key = 1, wait = "2", lease = "1ms", kind = fair, guard = 1));
    for part in ["a key is text", "no unit", "too short", "no argument `kind`", "a new name"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_broken_argument_is_not_a_missing_one() {
    let mut errors = Errors::default();
    assert!(Args::parse(quote!(wait = none), &mut errors).is_missing("key"));
    assert!(!Args::parse(quote!(key = 1), &mut errors).is_missing("key"));
    assert!(!Args::parse(quote!(wait = , key = "x"), &mut errors).is_missing("key"));
}

proptest! {
    #[test]
    fn no_argument_list_panics(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "key", "wait", "lease", "guard", "on_busy", "client", "crate", "kind", "=", ",",
                "(", ")", "{", "}", "\"a:{x}\"", "\"2s\"", "\"0s\"", "10ms", "-", "1", "none",
                "forever", "watchdog", "watchdog(\"1s\")", "self", "x", ".", "::", "+", "#",
            ]),
            0..12,
        ),
    ) {
        if let Ok(tokens) = syn::parse_str::<TokenStream>(&words.join(" ")) {
            Args::parse(tokens, &mut Errors::default());
        }
    }

    #[test]
    fn no_duration_panics(text in any::<String>()) {
        let literal = Lit::Str(LitStr::new(&text, Span::call_site()));
        let _ = literal_time("wait", &literal);
    }
}
