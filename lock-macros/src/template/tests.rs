use super::*;
use crate::item::Function;
use proptest::prelude::*;

fn text(text: &str) -> Segment {
    Segment::Text(text.to_owned())
}

fn hole(path: &str, raw: bool) -> Segment {
    Segment::Hole { path: path.to_owned(), raw }
}

fn scope() -> Scope {
    Function::parse(quote!(
        async fn f(&self, id: u64, order: &Order, r#type: T) {}
    ))
    .unwrap()
    .scope()
}

fn borrowed(path: &str) -> Result<String, String> {
    borrow(path, &scope(), Span::call_site()).map(|tokens| tokens.to_string())
}

#[test]
fn templates_come_apart() {
    assert_eq!(segments("nightly"), Ok(vec![text("nightly")]));
    assert_eq!(segments("{a}"), Ok(vec![hole("a", false)]));
    let mixed = vec![text("o:"), hole("a.b", false), text(":"), hole("c", true)];
    assert_eq!(segments("o:{ a.b }:{c:raw}"), Ok(mixed));
    let tagged = vec![text("x:{"), hole("a", false), text("}:y")];
    assert_eq!(segments("x:{{{a}}}:y"), Ok(tagged));
    assert_eq!(segments("{}:{:raw}"), Ok(vec![hole("", false), text(":"), hole("", true)]));
}

#[test]
fn broken_templates_say_why() {
    for (template, reason) in [
        ("", "empty"),
        ("a{", "never closed"),
        ("{a", "never closed"),
        ("{a{b}}", "never closed"),
        ("a}", "closes nothing"),
        ("{a}}", "closes nothing"),
        ("a\nb", "control character '\\n'"),
        ("{a:?}", "the only one is `{a:raw}`"),
        ("{a:>8}", "the only one is `{a:raw}`"),
        ("{:x}", "the only one is `{:raw}`"),
        ("a{{b", "hash tag"),
        ("a{{}}b", "hash tag"),
        ("a}}b", "hash tag"),
        ("redisson_lock_queue:{a}", "begins with `redisson_lock_queue:`, which is reserved"),
        ("redisson_lock_queue:{a}", "of other locks; put text in front of it"),
        ("redisson_countdownlatch__channel__{{{a}}}", "begins with `redisson_countdownlatch__ch"),
        ("{{{a}}}:timeout", "ends with `:timeout` behind a hash tag"),
        ("{a}{b}", "`{a}` and `{b}` could run together"),
        ("{a}-{b}", "run together"),
        ("{a}%{b}", "run together"),
        (&"x".repeat(513), "513 bytes"),
    ] {
        let message = segments(template).unwrap_err();
        assert!(message.contains(reason), "{template}: {message}");
    }
}

#[test]
fn separators_and_raw_values_are_accepted() {
    for template in
        ["{a}:{b}", "{a} {b}", "{a}-:-{b}", "{{{a}}}{b}", "{a}{b:raw}{c}", "{a:raw}-{b}"]
    {
        assert!(segments(template).is_ok(), "{template}");
    }
}

#[test]
fn paths_borrow_arguments() {
    for (path, tokens) in [
        ("id", "& id"),
        ("order.id", "& order . id"),
        ("order.0.1", "& order . 0 . 1"),
        ("self.tenant.name()", "& self . tenant . name ()"),
        ("order.r#type", "& order . r#type"),
        ("type", "& r#type"),
        ("r#type", "& r#type"),
    ] {
        assert_eq!(borrowed(path).as_deref(), Ok(tokens));
    }
}

#[test]
fn other_expressions_are_refused() {
    for (path, reason) in [
        ("", "names nothing; write the argument, such as `{self}`"),
        ("0", "is not an argument"),
        ("a b", "is not an argument"),
        ("id + 1", "is not an argument"),
        ("order.", "is not an argument"),
        ("order.get(1)", "key(\"…{}\", order.get(1))"),
        ("order.await", "is not an argument"),
        ("order.99999999999", "is not an argument"),
        ("Self::NAME", "is not an argument"),
        ("user", "`f` has `self`, `id`, `order` and `type`"),
        ("ordr.id", "did you mean `{order}`?"),
    ] {
        let message = borrowed(path).unwrap_err();
        assert!(message.contains(reason), "{path}: {message}");
    }
}

#[test]
fn values_fill_placeholders_in_order() {
    let literal: LitStr = syn::parse_quote!("a:{}:{:raw}");
    let values: [Expr; 2] = [syn::parse_quote!(x + 1), syn::parse_quote!(y)];
    let pieces = filled(&literal, &values, &scope()).unwrap();
    assert!(matches!(&pieces[3], Piece::Part { raw: true, .. }));
    assert!(filled(&literal, &values[..1], &scope()).is_err());
    assert!(filled(&syn::parse_quote!("a:{}"), &values, &scope()).is_err());
    assert!(filled(&syn::parse_quote!("a:{x}"), &values[..1], &scope()).is_err());
}

proptest! {
    #[test]
    fn no_template_panics(template in "[{}:.a-z0-9 \\n#()?_é]{0,24}") {
        let literal = LitStr::new(&template, Span::call_site());
        if let Ok(pieces) = named(&literal, &scope()) {
            prop_assert!(!pieces.is_empty());
        }
        let _ = filled(&literal, &[syn::parse_quote!(x)], &scope());
    }

    #[test]
    fn no_unicode_panics(template in any::<String>()) {
        let _ = named(&LitStr::new(&template, Span::call_site()), &scope());
    }

    /// Escaped text comes back as it was.
    #[test]
    fn escapes_round_trip(text in "[a-z:{}]{1,12}") {
        let escaped = text.replace('{', "{{").replace('}', "}}");
        if let Ok(found) = segments(&escaped) {
            prop_assert_eq!(found, vec![Segment::Text(text)]);
        }
    }
}
