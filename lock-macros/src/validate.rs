//! Checks that the function and the arguments fit together.

use humantime::format_duration;
use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::{Expr, FnArg, GenericArgument, Pat, PathArguments, Type};

use crate::args::{Args, LeaseArg, OnBusy, Time, WaitArg, word};
use crate::errors::{Errors, nearest};
use crate::form::Late;
use crate::item::{Form, Function, Scope};

/// Checks one of the attributes on the function, apart from its key.
pub(crate) fn check(function: &Function, args: &Args, scope: &Scope, errors: &mut Errors) {
    check_key(function, args, scope, errors);
    check_names(function, args, scope, errors);
    check_times(args, errors);
    check_contradictions(args, errors);
    check_plain(function, args, errors);
    check_map_err(function, args, errors);
    if let Some(WaitArg::UpTo(Time::Expression(value))) = &args.wait {
        let words = ["none", "forever", "never", "infinite"];
        check_word("wait", value, &words, "`none` or `forever`", scope, errors);
    }
    if let Some(LeaseArg::Fixed(Time::Expression(value))) = &args.lease {
        let words = ["watchdog", "none", "forever", "auto"];
        check_word("lease", value, &words, "`watchdog`", scope, errors);
    }
}

fn check_key(function: &Function, args: &Args, scope: &Scope, errors: &mut Errors) {
    if args.is_missing("key") && args.is_missing("keys") {
        let (example, why) = example_key(function, scope);
        errors.push_at(
            args.below.unwrap_or_else(Span::call_site),
            format!("the lock has no key; write `#[distributed_lock(key = \"{example}\")]`{why}"),
        );
    }
}

/// Returns a key for the function that is likely to compile, and what to know about it.
fn example_key(function: &Function, scope: &Scope) -> (String, String) {
    let names: Vec<_> = scope.names().into_iter().filter(|name| name != "self").collect();
    let types = argument_types(function);
    let has = |name: &&String, wanted: fn(&Type) -> bool| {
        types.iter().any(|(argument, ty)| *argument == **name && wanted(ty))
    };
    let function = &function.sig.ident;
    if let Some(name) = names.iter().find(|name| has(name, is_key_part)) {
        return (format!("{function}:{{{name}}}"), String::new());
    }
    match names.first() {
        Some(name) if has(&name, |_| true) => (
            format!("{function}:{{{name}.id}}"),
            format!(", with the field of `{name}` that tells the calls apart"),
        ),
        Some(name) => (format!("{function}:{{{name}}}"), String::new()),
        None => ("nightly-report".to_owned(), String::new()),
    }
}

/// Returns the arguments whose type the signature shows, as in `id: u64` and `Path(id): Path<u64>`.
fn argument_types(function: &Function) -> Vec<(String, &Type)> {
    let shown = function.sig.inputs.iter().filter_map(|input| {
        let FnArg::Typed(argument) = input else { return None };
        let (pattern, ty) = match &*argument.pat {
            Pat::TupleStruct(tuple) if tuple.elems.len() == 1 => {
                (tuple.elems.first()?, inner_type(&argument.ty)?)
            }
            pattern => (pattern, &*argument.ty),
        };
        match pattern {
            Pat::Ident(name) => Some((name.ident.unraw().to_string(), ty)),
            _ => None,
        }
    });
    shown.collect()
}

/// Returns the type in the angle brackets of a type, the last one if there are several.
pub(crate) fn inner_type(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(inside) = &path.path.segments.last()?.arguments else {
        return None;
    };
    inside.args.iter().rev().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// True if the type most likely implements `KeyPart`, by its name: types are not known to an attribute.
fn is_key_part(ty: &Type) -> bool {
    const KNOWN: &str = "u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize bool char str String Uuid IpAddr Ipv4Addr \
                         Ipv6Addr NonZeroU16 NonZeroU32 NonZeroU64 SystemTime NaiveDate Date Timestamp";
    match ty {
        Type::Reference(reference) => is_key_part(&reference.elem),
        Type::Group(group) => is_key_part(&group.elem),
        Type::Paren(paren) => is_key_part(&paren.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = last.ident.to_string();
            let has_inside = matches!(&*name, "Box" | "Arc" | "Rc" | "Cow");
            KNOWN.split(' ').any(|known| known == name)
                || name.ends_with("Id")
                || has_inside && inner_type(ty).is_some_and(is_key_part)
        }),
        _ => false,
    }
}

fn check_names(function: &Function, args: &Args, scope: &Scope, errors: &mut Errors) {
    if let Some(guard) = &args.guard
        && scope.find(&guard.to_string()).is_some()
    {
        errors.push_at(
            guard.span(),
            format!("`guard = {guard}` would hide the argument `{guard}`; choose another name"),
        );
    }
    if let Some(OnBusy::Fallback(path)) = &args.on_busy
        && let Err(why) = function.arguments(scope)
    {
        errors.push(syn::Error::new_spanned(
            path,
            format!("the fallback gets the same arguments, and one of them {why}"),
        ));
    }
}

/// Refuses stacked attributes whose guards would hide each other.
pub(crate) fn check_guards(all: &[Args], errors: &mut Errors) {
    let guards = || all.iter().filter_map(|args| args.guard.as_ref());
    for (nesting, guard) in guards().enumerate() {
        if guards().take(nesting).any(|outer| outer == guard) {
            errors.push_at(
                guard.span(),
                format!("`{guard}` is the hold of an attribute above; choose another name"),
            );
        }
    }
}

/// Refuses durations that contradict each other, if all of them are known.
fn check_times(args: &Args, errors: &mut Errors) {
    let lease = match &args.lease {
        Some(LeaseArg::Fixed(lease)) => Some(lease),
        _ => None,
    };
    if lease.is_some() && args.max_hold.is_some() {
        let message = "`max_hold` ends renewals, and a fixed lease has none; take one of them out";
        errors.push_at(args.place("max_hold"), message);
    }
    let limits = [("the fixed lease", lease), ("`max_hold`", args.max_hold.as_ref())];
    for (than, limit) in limits {
        let literals =
            args.at_least.as_ref().and_then(Time::literal).zip(limit.and_then(Time::literal));
        let Some((at_least, limit)) = literals.filter(|(at_least, limit)| at_least > limit) else {
            continue;
        };
        let (at_least, limit) = (format_duration(at_least), format_duration(limit));
        let message =
            format!("`at_least` of {at_least} is longer than {than} of {limit}; make it shorter");
        errors.push_at(args.place("at_least"), message);
    }
}

fn check_contradictions(args: &Args, errors: &mut Errors) {
    if let (Some(WaitArg::Forever), Some(OnBusy::Skip | OnBusy::Fallback(_))) =
        (&args.wait, &args.on_busy)
    {
        let message =
            "`wait = forever` never reports busy; give `wait` a limit, or take out `on_busy`";
        errors.push_at(args.place("wait"), message);
    }
}

/// Refuses what only async functions can do.
fn check_plain(function: &Function, args: &Args, errors: &mut Errors) {
    if let (Form::Sync, Some("Cancel")) = (&function.form, args.on_lost) {
        errors.push_at(
            args.place("on_lost"),
            format!(
                "`{}` is not async, so its body cannot be stopped; write `on_lost = finish`, and check the hold in \
                 the body: `guard = hold` and `hold.check()?`",
                function.sig.ident
            ),
        );
    }
}

/// Refuses `map_err` where the return type, as far as it is known by name, has no error.
fn check_map_err(function: &Function, args: &Args, errors: &mut Errors) {
    let (Some(path), Some(output)) = (&args.map_err, function.output()) else { return };
    let (what, instead) = match &output {
        Type::Tuple(unit) if unit.elems.is_empty() => ("nothing", "Result<(), E>"),
        Type::Path(ty) if ty.path.segments.last().is_some_and(|last| last.ident == "Option") => {
            ("an `Option`", "Result<Option<T>, E>")
        }
        _ => return,
    };
    errors.push(syn::Error::new_spanned(
        path,
        format!(
            "`map_err` makes an error, and `{}` returns {what}; return `{instead}`, or take out `map_err`",
            function.sig.ident
        ),
    ));
}

/// Otherwise a misspelt word would be reported as a variable that does not exist.
fn check_word(
    argument: &str,
    value: &Expr,
    words: &[&str],
    choices: &str,
    scope: &Scope,
    errors: &mut Errors,
) {
    let Some(word) = word(value).map(ToString::to_string) else { return };
    if scope.find(&word).is_none() && nearest(&word, words.iter().copied()).is_some() {
        let message = format!(
            "`{word}` is neither an argument nor a word of `{argument}`; write {choices}, a text \
             such as `\"10s\"`, or an expression"
        );
        errors.push(syn::Error::new_spanned(value, message));
    }
}

/// Checks that the function can be locked at all; a plain one only if `blocking` is true.
pub(crate) fn check_shape(function: &Function, blocking: bool, errors: &mut Errors) {
    let sig = &function.sig;
    let name = &sig.ident;
    if let Some(token) = sig.constness {
        errors.push_at(
            token.span,
            match blocking {
                true => format!("a `const fn` cannot wait for a lock; write `fn {name}`"),
                false => format!("a `const fn` cannot wait for a lock; write `async fn {name}`"),
            },
        );
        return;
    }
    if let Some(abi) = &sig.abi {
        errors.push(syn::Error::new_spanned(
            abi,
            "an `extern` function cannot wait for a lock; lock a function without `extern`, and call it from this one",
        ));
        return;
    }
    if function.body.is_none() {
        errors.push_at(
            name.span(),
            format!(
                "`{name}` has no body to lock; put the attribute on the method in each `impl`, or \
                 give this one a body"
            ),
        );
    }
    let is_plain = matches!(function.form, Form::Sync);
    let late = Late::find(function.output().as_ref(), is_plain);
    let is_future = late.as_ref().is_some_and(|(word, _)| word.to_string().ends_with("Future"));
    if is_plain && !blocking && !is_future {
        errors.push_at(
            sig.fn_token.span,
            format!(
                "`{name}` is not async and cannot wait for a lock; write `async fn {name}`, or turn on the \
                 feature `blocking` of `lock_runtime`"
            ),
        );
    } else if let Some((word, Late(happens, mut instead))) = late {
        let future =
            format!("return `impl Future` or a `BoxFuture` itself, or write `async fn {name}`");
        if is_plain && is_future {
            instead = &future;
        }
        errors.push_at(
            word.span(),
            format!("the `{word}` in what `{name}` returns {happens} after the release; {instead}"),
        );
    }
}
