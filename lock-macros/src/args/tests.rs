use std::time::Duration;

use super::*;
use proptest::prelude::*;
use quote::quote;
use syn::Lit;

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
    for pair in OTHER_NAMES.split(' ') {
        let (other, ours) = pair.split_once(':').unwrap();
        assert!(!ARGUMENTS.contains(&other) && ARGUMENTS.contains(&ours), "{pair}");
    }
}

#[test]
fn values_are_understood() {
    let args = parsed(quote! {
        key("a:{}", x), wait = "1m 30s", lease = watchdog("45s"), client = self.client,
        guard = hold, on_busy = skip, on_lost = finish, crate = crate::locks,
    });
    assert!(matches!(
        args.key,
        Some(KeyArg::One(KeyForm::Filled(_, values))) if values.len() == 1
    ));
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
    assert!(matches!(args.on_busy, Some(OnBusy::Skip)) && args.on_lost == Some("Finish"));
    let args = parsed(quote! {
        keys = ["a:{x}", key("b:{}", y), z], kind = semaphore(3), policy = "checkout", when = x > 1,
        on_busy = fallback(Self::other), on_release_lost = error, at_least = "5s", max_hold = limit,
        release_timeout = "1s",
    });
    assert!(matches!(
        &args.key,
        Some(KeyArg::All(forms)) if matches!(
            &forms[..],
            [KeyForm::Template(_), KeyForm::Filled(..), KeyForm::Expression(_)]
        )
    ));
    assert!(matches!(args.kind, Some(KindArg::Semaphore(Limit::Literal(3)))));
    assert_eq!(args.policy.map(|policy| policy.value()).as_deref(), Some("checkout"));
    assert!(args.when.is_some() && matches!(args.on_busy, Some(OnBusy::Fallback(_))));
    assert!(args.on_release_lost == Some("Error"));
    assert!(matches!(args.at_least, Some(Time::Literal(time)) if time == Duration::from_secs(5)));
    assert!(matches!(args.max_hold, Some(Time::Expression(_))));
    assert_eq!(args.release_timeout.and_then(|time| time.literal()), Some(Duration::from_secs(1)));
}

/// Errors for the usual mistakes of newcomers name the correct argument.
#[test]
fn near_misses_are_understood() {
    for (given, said) in [
        (quote!(key = "order:{}", id), "write `key(\"order:{}\", id)`"),
        (quote!(key: "a"), "the value stands behind `=`; write `key = …`"),
        (quote!(lease = "watchdog 30s"), "write `lease = watchdog(\"30s\")`"),
        (quote!(on_busy = fallback(self.slow)), "fallback(Self::slow)"),
        (quote!(on_busy = fallback(self.slow(id))), "fallback(Self::slow)"),
        (quote!(on_lost = "finish"), "`cancel` or `finish`, without quotes"),
    ] {
        let message = refused(given).replace("\\\"", "\"");
        assert!(message.contains(said), "{said}: {message}");
        assert_eq!(message.matches("compile_error").count(), 1, "{message}");
    }
    assert!(!refused(quote!(on_busy = ignore)).contains("quotes"));
    let mut errors = Errors::default();
    assert!(!Args::parse(quote!(name = "order:{id}"), &mut errors).is_missing("key"));
}

#[test]
fn kinds_are_words() {
    assert!(matches!(parsed(quote!(kind = mutex)).kind, Some(KindArg::Variant("Mutex"))));
    assert!(matches!(parsed(quote!(kind = fair)).kind, Some(KindArg::Variant("Fair"))));
    assert!(matches!(parsed(quote!(kind = read)).kind, Some(KindArg::Variant("Read"))));
    assert!(matches!(parsed(quote!(kind = write)).kind, Some(KindArg::Variant("Write"))));
    let kind = parsed(quote!(kind = semaphore(limit))).kind;
    assert!(matches!(kind, Some(KindArg::Semaphore(Limit::Expression(_)))));
    for (given, said) in [
        (quote!(kind = semaphore), "has a number of permits"),
        (quote!(kind = semaphore(0)), "between 1 and"),
        (quote!(kind = semaphore(1, 2)), "takes the number"),
        (quote!(kind = "fair"), "without quotes"),
        (quote!(kind = mutx), "did you mean `mutex`"),
    ] {
        let message = refused(given);
        assert!(message.contains(said), "{said}: {message}");
    }
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
    let key = parsed(quote!(key = KEY)).key;
    assert!(matches!(key, Some(KeyArg::One(KeyForm::Expression(_)))));
    assert!(matches!(parsed(quote!(keys = KEYS)).key, Some(KeyArg::AllOf(_))));
}

#[test]
fn all_errors_are_found_at_once() {
    let message = refused(quote!(key = 1, wait = "2", lease = "1ms", sort = fair, guard = 1));
    for part in ["a key is text", "no unit", "too short", "no argument `sort`", "a new name"] {
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
                "key", "keys", "wait", "lease", "guard", "on_busy", "client", "crate", "kind", "=",
                ",", "policy", "when", "at_least", "max_hold", "fallback", "semaphore", "[", "]",
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
        let _ = super::time::literal_time("wait", &literal);
    }
}
