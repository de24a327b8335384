//! [`RouteIndex`]: finds the routes of a path without a look at every one of them.

use std::collections::HashMap;

use crate::http::request::route::{Route, Segment, decode, split_first};

/// Routes by their segments, each with a `T`.
///
/// The routers' `matchit` does not fit: it compares fixed text as it is written and not decoded, refuses
/// routes that differ in a parameter's name only, and knows one answer to a path, where a route of
/// another method has to let the next one have its turn.
#[derive(Debug)]
pub(crate) struct RouteIndex<T>(Node<T>);

#[derive(Debug)]
struct Node<T> {
    /// Of the routes that end here, in the order in which they came.
    ends: Vec<T>,
    /// Of those that end here with `{*rest}`.
    rests: Vec<T>,
    fixed: HashMap<Box<str>, Node<T>>,
    one: Option<Box<Node<T>>>,
}

impl<T> RouteIndex<T> {
    pub(crate) fn new() -> Self {
        Self(Node::new())
    }

    pub(crate) fn insert(&mut self, route: &Route, value: T) {
        let mut node = &mut self.0;
        for segment in route.segments() {
            node = match segment {
                Segment::Fixed(text) => {
                    node.fixed.entry(text.as_str().into()).or_insert_with(Node::new)
                }
                Segment::One(_) => node.one.get_or_insert_with(|| Box::new(Node::new())),
                // Nothing comes behind it.
                Segment::Rest(_) => return node.rests.push(value),
            };
        }
        node.ends.push(value);
    }

    /// Of the routes that match `path`, the first one that is accepted. The closest are asked first:
    /// from the left, fixed text before one segment before the rest, and then as they came.
    pub(crate) fn find<'i>(
        &'i self,
        path: &str,
        mut accept: impl FnMut(&'i T) -> bool,
    ) -> Option<&'i T> {
        self.0.find(path.strip_prefix('/'), &mut accept)
    }
}

impl<T> Node<T> {
    fn new() -> Self {
        Self { ends: Vec::new(), rests: Vec::new(), fixed: HashMap::new(), one: None }
    }

    /// Goes no deeper than the longest route has segments, whatever the path.
    fn find<'i>(
        &'i self,
        path: Option<&str>,
        accept: &mut impl FnMut(&'i T) -> bool,
    ) -> Option<&'i T> {
        let Some(path) = path else { return self.ends.iter().find(|value| accept(value)) };
        let (first, others) = split_first(path);
        let text = if self.fixed.is_empty() { None } else { decode(first) };
        let fixed = text.and_then(|text| self.fixed.get(&*text));
        let one = self.one.as_deref().filter(|_| !first.is_empty());
        for child in fixed.into_iter().chain(one) {
            let found = child.find(others, accept);
            if found.is_some() {
                return found;
            }
        }
        if path.is_empty() {
            return None;
        }
        self.rests.iter().find(|value| accept(value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sorts before routes that fit less closely.
    fn closeness(route: &Route) -> Vec<u8> {
        let rank = |segment: &Segment| match segment {
            Segment::Fixed(_) => 0,
            Segment::One(_) => 1,
            Segment::Rest(_) => 2,
        };
        route.segments().iter().map(rank).collect()
    }

    /// The positions of those that match, the closest first, by a look at each.
    fn one_by_one(routes: &[Route], path: &str) -> Vec<usize> {
        let mut found: Vec<_> = (0..routes.len()).filter(|at| routes[*at].matches(path)).collect();
        found.sort_by_key(|at| closeness(&routes[*at]));
        found
    }

    fn index(routes: &[Route]) -> RouteIndex<usize> {
        let mut index = RouteIndex::new();
        routes.iter().enumerate().for_each(|(at, route)| index.insert(route, at));
        index
    }

    /// The positions of those that are asked for, in order.
    fn asked(index: &RouteIndex<usize>, path: &str) -> Vec<usize> {
        let mut asked = Vec::new();
        assert_eq!(
            index.find(path, |at| {
                asked.push(*at);
                false
            }),
            None
        );
        asked
    }

    #[test]
    fn the_closest_is_asked_first() {
        let routes = [
            "/{*rest}",
            "/{a}/mine",
            "/orders/{*rest}",
            "/orders/{id}",
            "/orders/mine",
            "/{b}/mine",
            "/orders/{nr}",
            "/orders/mine/",
            "/",
            "/orders",
        ];
        let routes = routes.map(|route| Route::parse(route).unwrap());
        let index = index(&routes);
        for (path, expected) in [
            ("/orders/mine", vec![4, 3, 6, 2, 1, 5, 0]),
            ("/orders/%6Dine", vec![4, 3, 6, 2, 1, 5, 0]),
            ("/orders/7", vec![3, 6, 2, 0]),
            ("/orders/%FF", vec![3, 6, 2, 0]),
            ("/orders/mine/", vec![7, 2, 0]),
            ("/orders//", vec![2, 0]),
            ("/orders/", vec![0]),
            ("/orders", vec![9, 0]),
            ("/", vec![8]),
            ("//", vec![0]),
            ("", vec![]),
            ("*", vec![]),
        ] {
            assert_eq!(asked(&index, path), expected, "{path}");
            assert_eq!(one_by_one(&routes, path), expected, "{path}");
        }
    }

    fn routes() -> impl Strategy<Value = Vec<Route>> {
        let fixed = prop::sample::select(vec!["a", "b", "", "a b", "é", "%", "%61", "*", "a+b"]);
        let segment = prop_oneof![3 => fixed.prop_map(str::to_owned), 2 => Just("{}".to_owned())];
        let rest = prop::bool::weighted(0.3);
        let route = (prop::collection::vec(segment, 1..5), rest).prop_map(|(segments, rest)| {
            let mut text = String::new();
            for (at, segment) in segments.iter().enumerate() {
                text += "/";
                text += &segment.replace("{}", &format!("{{p{at}}}"));
            }
            Route::parse(&(text + if rest { "/{*rest}" } else { "" })).unwrap()
        });
        prop::collection::vec(route, 0..24)
    }

    fn path() -> impl Strategy<Value = String> {
        let segment = prop::sample::select(vec![
            "a", "b", "", "%61", "%62", "a%20b", "a b", "a+b", "%C3%A9", "é", "%", "%25", "%2561",
            "%FF", "%2F", "a%2Fb", "%zz", "%7Bp0%7D", "{p0}", "{*rest}", "*", "c",
        ]);
        let slash = prop::bool::weighted(0.97);
        (prop::collection::vec(segment, 0..8), slash).prop_map(|(segments, slash)| {
            let path = segments.join("/");
            if slash { format!("/{path}") } else { path }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn it_finds_what_a_look_at_each_finds(
            routes in routes(),
            paths in prop::collection::vec(path(), 1..16),
            accepted in any::<u32>(),
        ) {
            let index = index(&routes);
            for path in &paths {
                let expected = one_by_one(&routes, path);
                prop_assert_eq!(asked(&index, path), &expected[..], "{}", path);
                let accept = |at: &usize| accepted & 1 << at != 0;
                let first = expected.iter().copied().find(accept);
                prop_assert_eq!(index.find(path, accept).copied(), first, "{}", path);
            }
        }
    }
}
