//! The argument list: `name = value` or `name(…)`, each at most once, in any order.

mod key;
mod time;
mod words;

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprPath, LitStr, Token};

pub(crate) use self::key::{KeyArg, KeyForm};
pub(crate) use self::time::{LeaseArg, Time, WaitArg};
pub(crate) use self::words::{KindArg, Limit, OnBusy};
use crate::errors::{Errors, list, nearest};

/// Names that other libraries use, each with that of this crate's argument.
const OTHER_NAMES: &str = "name:key id:key names:keys timeout:wait wait_timeout:wait ttl:lease expire:lease expiry:lease \
                           lock_at_most_for:lease lock_at_least_for:at_least redis:client connection:client \
                           condition:when fallback:on_busy error:map_err on_error:map_err type:kind config:policy";

/// Generates the names of the arguments, the type that holds their values, and the function that reads each
/// value from one list: `"name" => field: Type = reader`.
macro_rules! arguments {
    ($($name:literal => $field:ident: $type:ty = $read:path;)*) => {
        /// All arguments.
        pub(crate) const ARGUMENTS: [&str; 2 + [$($name),*].len()] = ["key", "keys", $($name),*];

        /// The arguments of one attribute.
        #[derive(Default)]
        pub(crate) struct Args {
            pub(crate) key: Option<KeyArg>,
            $(pub(crate) $field: Option<$type>,)*
            /// The place of the attribute, if it is not the one that is being expanded.
            pub(crate) below: Option<Span>,
            /// The names of the arguments seen, valid or not, and their places.
            seen: Vec<Ident>,
            /// True if parsing stopped half way.
            broken: bool,
        }

        impl Args {
            fn set_value(&mut self, name: &Ident, value: Expr) -> syn::Result<()> {
                match name.to_string().as_str() {
                    "key" => self.set_key(name, KeyArg::One(key::one(value)?))?,
                    "keys" => self.set_key(name, key::all(value)?)?,
                    $($name => self.$field = Some($read(value)?),)*
                    _ => return Err(unknown(name)),
                }
                Ok(())
            }
        }
    };
}

arguments! {
    "wait" => wait: WaitArg = time::wait;
    "lease" => lease: LeaseArg = time::lease;
    "kind" => kind: KindArg = words::kind;
    "policy" => policy: LitStr = policy;
    "client" => client: Expr = syn::Result::Ok;
    "guard" => guard: Ident = guard;
    "when" => when: Expr = syn::Result::Ok;
    "on_busy" => on_busy: OnBusy = words::on_busy;
    "map_err" => map_err: ExprPath = map_err;
    "on_lost" => on_lost: &'static str = words::on_lost;
    "on_release_lost" => on_release_lost: &'static str = words::on_release_lost;
    "at_least" => at_least: Time = time::at_least;
    "max_hold" => max_hold: Time = time::max_hold;
    "release_timeout" => release_timeout: Time = time::release_timeout;
    "crate" => root: syn::Path = root;
}

/// The token after an argument's name.
enum Given {
    Value(Expr),
    List(Span, Punctuated<Expr, Token![,]>),
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                args.parse_one(input, errors)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        let parsed = all.parse2(tokens);
        args.broken = errors.keep(parsed).is_none();
        args
    }

    /// Where the argument is named, or else the attribute.
    pub(crate) fn place(&self, name: &str) -> Span {
        self.seen.iter().find(|seen| *seen == name).map_or_else(Span::call_site, Ident::span)
    }

    /// True if the argument is not there, as far as can be known.
    pub(crate) fn is_missing(&self, name: &str) -> bool {
        !self.broken && !self.is_seen(name)
    }

    fn is_seen(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    fn parse_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<()> {
        if let Ok(literal) = input.fork().parse::<LitStr>() {
            let message = format!("this has no name; write `key = {:?}`", literal.value());
            return Err(input.error(message));
        }
        let name = input.call(Ident::parse_any)?;
        let given = if input.peek(syn::token::Paren) {
            let content;
            let paren = syn::parenthesized!(content in input);
            Given::List(paren.span.join(), Punctuated::parse_terminated(&content)?)
        } else if input.peek(Token![=]) && !input.peek(Token![==]) {
            input.parse::<Token![=]>()?;
            if input.is_empty() || input.peek(Token![,]) {
                return Err(without_value(&name));
            }
            Given::Value(ungrouped(input.parse()?))
        } else if input.peek(Token![:]) && !input.peek(Token![::]) {
            let message = format!("the value stands behind `=`; write `{name} = …`");
            return Err(input.error(message));
        } else if ARGUMENTS.contains(&name.to_string().as_str()) {
            return Err(without_value(&name));
        } else {
            return Err(self.value_of_key(&name).unwrap_or_else(|| unknown(&name)));
        };
        if self.is_seen(&name.to_string()) {
            errors.push_at(name.span(), format!("`{name}` is given twice; keep one of them"));
        } else {
            let set = self.set(&name, given);
            // An author who wrote `name = "…"` did not forget the key.
            let meant = other_name(&name.to_string()).unwrap_or_default();
            if !ARGUMENTS.contains(&name.to_string().as_str()) && meant.starts_with("key") {
                self.seen.push(Ident::new(meant, name.span()));
            }
            self.seen.push(name);
            errors.keep(set);
        }
        Ok(())
    }

    /// The error for `key = "order:{}", id`, whose author meant to give the key a value.
    fn value_of_key(&mut self, name: &Ident) -> Option<syn::Error> {
        let Some(KeyArg::One(KeyForm::Template(text))) = &self.key else { return None };
        let text = text.value();
        if !text.contains("{}") && !text.contains("{:raw}") {
            return None;
        }
        // Its placeholders need no error of their own.
        self.key = None;
        let message =
            format!("values follow the text inside of `key(…)`; write `key({text:?}, {name})`");
        Some(syn::Error::new(name.span(), message))
    }

    fn set(&mut self, name: &Ident, given: Given) -> syn::Result<()> {
        let argument = name.to_string();
        match given {
            Given::List(span, list) if argument == "key" => {
                self.set_key(name, KeyArg::One(key::filled(span, list)?))
            }
            Given::List(..) if ARGUMENTS.contains(&argument.as_str()) => {
                let value = if argument == "keys" { "[…]" } else { "…" };
                let message = format!(
                    "`{argument}` takes its value behind `=`; write `{argument} = {value}`"
                );
                Err(syn::Error::new(name.span(), message))
            }
            Given::List(..) => Err(unknown(name)),
            Given::Value(value) => self.set_value(name, value),
        }
    }

    fn set_key(&mut self, name: &Ident, key: KeyArg) -> syn::Result<()> {
        if self.key.is_some() {
            let message = "`key` names one lock and `keys` several; write all of them in `keys`";
            return Err(syn::Error::new(name.span(), message));
        }
        self.key = Some(key);
        Ok(())
    }
}

fn without_value(name: &Ident) -> syn::Error {
    syn::Error::new(name.span(), format!("`{name}` has no value; write `{name} = …`"))
}

/// The name of this crate's argument for another library's name.
fn other_name(text: &str) -> Option<&'static str> {
    let mut pairs = OTHER_NAMES.split(' ').filter_map(|pair| pair.split_once(':'));
    pairs.find_map(|(other, ours)| (other == text).then_some(ours))
}

fn unknown(name: &Ident) -> syn::Error {
    let text = name.unraw().to_string();
    let hint = match other_name(&text).or_else(|| nearest(&text, ARGUMENTS)) {
        Some(near) => format!(" (did you mean `{near}`?)"),
        None => String::new(),
    };
    let all = list(ARGUMENTS, "and");
    let message = format!("there is no argument `{text}`{hint}; the arguments are {all}");
    syn::Error::new(name.span(), message)
}

fn policy(value: Expr) -> syn::Result<LitStr> {
    let problem = match value {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. }) if !name.value().is_empty() => {
            if name.value() != "none" {
                return Ok(name);
            }
            syn::Error::new_spanned(
                name,
                "no policy can have the name `none`, which metrics and logs give to locks without one; omit \
                 `policy`, or name a policy of the configuration",
            )
        }
        value => syn::Error::new_spanned(
            value,
            "a policy is named as the configuration names it, such as `policy = \"checkout\"`",
        ),
    };
    Err(problem)
}

fn guard(value: Expr) -> syn::Result<Ident> {
    // A capital would look like a constant, and keywords are no names.
    let is_name = |word: &&Ident| {
        let text = word.to_string();
        !text.starts_with(char::is_uppercase) && !["self", "super", "crate"].contains(&&*text)
    };
    word(&value).filter(is_name).cloned().ok_or_else(|| {
        syn::Error::new_spanned(
            &value,
            "`guard` gives the hold a name in the body; write a new name, such as `guard = hold`",
        )
    })
}

/// The function that makes the error.
fn map_err(value: Expr) -> syn::Result<ExprPath> {
    match value {
        Expr::Path(path) => Ok(path),
        value => Err(syn::Error::new_spanned(
            value,
            "`map_err` takes the path of a `fn(LockError) -> E`, where `E` is the error that the function returns; write \
             `map_err = to_my_error`",
        )),
    }
}

/// The path of the runtime crate.
pub(crate) fn root(value: Expr) -> syn::Result<syn::Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        value => Err(syn::Error::new_spanned(
            value,
            "`crate` is the path of `lock_runtime` from here, such as `crate = ::lock_runtime`",
        )),
    }
}

/// The expression, if it is a single name.
pub(crate) fn word(value: &Expr) -> Option<&Ident> {
    match value {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}

/// Removes the invisible brackets around a `macro_rules!` variable.
pub(crate) fn ungrouped(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

#[cfg(test)]
mod tests;
