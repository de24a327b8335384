//! Mutants of Rust: other operators, conditions turned round, and functions, statements and match arms without effect.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprBinary, ExprIf, ExprMatch, ExprUnary, GenericArgument,
    ImplItemConst, ImplItemFn, ItemConst, ItemFn, ItemImpl, ItemMod, ItemStatic, LocalInit, Meta,
    Pat, PatGuard, PathArguments, ReturnType, Signature, Stmt, TraitItemConst, TraitItemFn, Type,
    UnOp,
};

use crate::plant::{Change, Form};

/// Operators, and what takes their place.
const OPERATORS: &[(&str, &[&str])] = &[
    ("==", &["!="]),
    ("!=", &["=="]),
    ("<", &["<=", ">"]),
    ("<=", &["<", ">"]),
    (">", &[">=", "<"]),
    (">=", &[">", "<"]),
    ("&&", &["||"]),
    ("||", &["&&"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("/", &["*"]),
    ("%", &["/"]),
    ("&", &["|"]),
    ("|", &["&"]),
    ("+=", &["-="]),
    ("-=", &["+="]),
    ("*=", &["/="]),
    ("/=", &["*="]),
    ("&=", &["|="]),
    ("|=", &["&="]),
];

/// The changes of a file. Not each of them compiles.
pub(super) fn changes(source: &str) -> Vec<Change> {
    let mut finder = Finder { source, function: String::new(), found: Vec::new() };
    if let Ok(file) = syn::parse_file(source) {
        finder.visit_file(&file);
    }
    finder.found
}

struct Finder<'a> {
    source: &'a str,
    /// Where it is.
    function: String,
    found: Vec<Change>,
}

impl<'a> Finder<'a> {
    fn text(&self, of: &impl Spanned) -> &'a str {
        &self.source[of.span().byte_range()]
    }

    fn add(&mut self, range: Range<usize>, form: Form, new: impl Into<String>, what: String) {
        let what = format!("{what} in {}", self.function);
        self.found.push(Change { range, form, new: new.into(), what });
    }

    fn function(&mut self, attrs: &[Attribute], sig: &Signature, block: &Block, outer: &str) {
        if !is_here(attrs) || sig.constness.is_some() || sig.ident == "fmt" {
            return;
        }
        let name = [outer, &sig.ident.to_string()].concat();
        let before = std::mem::replace(&mut self.function, name);
        let body = block.brace_token.span;
        let inside = body.open().byte_range().end..body.close().byte_range().start;
        let text = self.source[inside.clone()].trim();
        for value in values(&sig.output) {
            if !block.stmts.is_empty() && text != value && sig.ident != "default" {
                let what = format!("replace the body by `{value}`");
                self.add(inside.start..inside.start, Form::Return, value, what);
            }
        }
        visit::visit_block(self, block);
        self.function = before;
    }
}

/// False for what only other builds have.
fn is_here(attrs: &[Attribute]) -> bool {
    let words_of = |attr: &Attribute| match &attr.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
        meta => meta.path().get_ident().map_or(String::new(), ToString::to_string),
    };
    !attrs.iter().map(words_of).any(|words| {
        let mut words = words.split(|c: char| !c.is_alphanumeric());
        words.any(|word| ["test", "not", "fuzzing"].contains(&word))
    })
}

/// Values that a function with this type may return in place of its own.
fn values(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, of) => values_of(of),
    }
}

fn values_of(of: &Type) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let path = match of {
        Type::Path(path) => path.path.segments.last(),
        Type::Tuple(_) => return owned(&["Default::default()"]),
        _ => return Vec::new(),
    };
    let Some(path) = path else { return Vec::new() };
    let of_first = |write: fn(String) -> String| match &path.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(first)) => values_of(first).into_iter().map(write).collect(),
            _ => Vec::new(),
        },
        _ => vec![write("Default::default()".to_owned())],
    };
    match &*path.ident.to_string() {
        "bool" => owned(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" => owned(&["0", "1"]),
        "Option" => {
            let mut values = of_first(|value| format!("Some({value})"));
            values.push("None".to_owned());
            values
        }
        "Result" => of_first(|value| format!("Ok({value})")),
        "Poll" => of_first(|value| format!("std::task::Poll::Ready({value})")),
        _ => owned(&["Default::default()"]),
    }
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_here(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if is_here(&item.attrs) {
            let name = [self.text(&*item.self_ty).split('<').next().unwrap_or_default(), "::"];
            let before = std::mem::replace(&mut self.function, name.concat());
            visit::visit_item_impl(self, item);
            self.function = before;
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, "");
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        let outer = self.function.clone();
        self.function(&item.attrs, &item.sig, &item.block, &outer);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block, "");
        }
    }

    // What is computed when the program is compiled has no room for a switch.
    fn visit_item_const(&mut self, _: &'ast ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast TraitItemConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}

    // The block of `let … else` has to leave, and does nothing else.
    fn visit_local_init(&mut self, init: &'ast LocalInit) {
        self.visit_expr(&init.expr);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt {
            let is_effect =
                matches!(expr, Expr::MethodCall(_) | Expr::Call(_) | Expr::Await(_) | Expr::Try(_))
                    || matches!(expr, Expr::Assign(_) | Expr::Return(_) | Expr::Break(_))
                    || matches!(expr, Expr::Continue(_) | Expr::Binary(_));
            if is_effect {
                let what = format!("delete `{}`", self.text(stmt));
                self.add(stmt.span().byte_range(), Form::Statement, "", what);
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let operator = self.text(&binary.op).to_owned();
        let others = OPERATORS.iter().find(|(its, _)| *its == operator);
        let others = others.filter(|_| !has_let(&binary.left) && !has_let(&binary.right));
        for other in others.into_iter().flat_map(|(_, others)| *others) {
            let [left, right] = [self.text(&*binary.left), self.text(&*binary.right)];
            let new = format!("({left}) {other} ({right})");
            let what = format!("replace `{operator}` by `{other}` in `{}`", self.text(binary));
            self.add(binary.span().byte_range(), Form::Value, new, what);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        if let UnOp::Not(_) = unary.op {
            let (new, what) = (self.text(&*unary.expr).to_owned(), self.text(unary));
            let what = format!("delete `!` in `{what}`");
            self.add(unary.span().byte_range(), Form::Value, new, what);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_if(&mut self, expr: &'ast ExprIf) {
        let is_simple = matches!(
            &*expr.cond,
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Path(_) | Expr::Field(_) | Expr::Macro(_)
        );
        if is_simple {
            let condition = self.text(&*expr.cond);
            let (new, what) = (format!("!{condition}"), format!("turn round `if {condition}`"));
            self.add(expr.cond.span().byte_range(), Form::Value, new, what);
        }
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        // Without another arm for the rest it does not compile.
        if expr.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_))) {
            for arm in &expr.arms {
                if !matches!(arm.pat, Pat::Wild(_) | Pat::Guard(_)) && is_here(&arm.attrs) {
                    let what = format!("delete the arm `{}`", self.text(&arm.pat));
                    let at = arm.pat.span().byte_range().end;
                    self.add(at..at, Form::Arm, "", what);
                }
            }
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_pat_guard(&mut self, pat: &'ast PatGuard) {
        if !has_let(&pat.guard) {
            for value in ["true", "false"] {
                let what = format!("replace the guard `{}` by `{value}`", self.text(&*pat.guard));
                self.add(pat.guard.span().byte_range(), Form::Value, value, what);
            }
        }
        visit::visit_pat_guard(self, pat);
    }
}
