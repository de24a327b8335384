//! The pages of the documentation, and the code on them.
//!
//! The build script makes modules of the Rust blocks; `tests/pages` compiles and runs these, and checks the blocks of
//! each other language. `docs/contributing-tests.md` says what each language is checked for.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

/// A page of the documentation.
#[derive(Debug)]
pub struct Page {
    /// The path from the root of the workspace, such as `docs/http.md`.
    pub path: String,
    /// The fenced blocks, in their order.
    pub blocks: Vec<Block>,
    /// The code between single backticks.
    pub spans: Vec<String>,
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The first word of the fence, such as `rust`; empty if it has none.
    pub language: String,
    /// The other words of the fence, which commas separate.
    pub flags: Vec<String>,
    /// The code between the fences.
    pub code: String,
}

impl Page {
    /// Reads the blocks of a page.
    #[must_use]
    pub fn parse(path: &str, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), blocks: Vec::new(), spans: Vec::new() };
        let mut open: Option<Block> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let line = text[..range.start].matches('\n').count() + 1;
                    open = Some(Block::new(line, &info));
                }
                // Indented code has no language: it is treated as a fence without one.
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                    let line = text[..range.start].matches('\n').count() + 1;
                    open = Some(Block::new(line, &CowStr::Borrowed("")));
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(open.take()),
                Event::Text(code) => {
                    if let Some(block) = &mut open {
                        block.code.push_str(&code);
                    }
                }
                Event::Code(code) => page.spans.push(code.into_string()),
                _ => {}
            }
        }
        page
    }

    /// The page's name as a module: `docs_http`.
    #[must_use]
    pub fn module(&self) -> String {
        let name = self.path.trim_end_matches(".md").to_lowercase();
        name.replace(|c: char| !c.is_alphanumeric(), "_")
    }

    /// The blocks in this language.
    pub fn in_language<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a Block> {
        self.blocks.iter().filter(move |block| block.language == language)
    }

    /// Where a block is, for messages: `docs/http.md:12`.
    #[must_use]
    pub fn place(&self, block: &Block) -> String {
        format!("{}:{}", self.path, block.line)
    }
}

impl Block {
    fn new(line: usize, info: &CowStr<'_>) -> Self {
        let mut words = info.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned);
        let language = words.next().unwrap_or_default();
        Self { line, language, flags: words.collect(), code: String::new() }
    }

    /// Whether the fence has this word after its language.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|word| word == flag)
    }

    /// The path of the test that a block quotes, if its first line is a comment with nothing but that path.
    #[must_use]
    pub fn quotes(&self) -> Option<&str> {
        let path = self.code.lines().next()?.strip_prefix("// ")?;
        let is_path = !path.contains(' ') && path.ends_with(".rs") && path.starts_with("tests/");
        is_path.then_some(path)
    }
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders whose pages are checked: the root, `docs`, and each folder with a README.
fn folders() -> Vec<PathBuf> {
    let top = fs::read_dir(root()).expect("the workspace can be read");
    let top = top.map(|entry| entry.expect("the workspace can be read").path());
    let has_pages =
        |folder: &PathBuf| folder.join("README.md").is_file() || folder.ends_with("docs");
    let mut folders: Vec<_> = top.filter(has_pages).collect();
    folders.push(root());
    folders.sort();
    folders
}

/// All pages: those at the root and in `docs`, and the README of each folder.
///
/// # Panics
///
/// If a page cannot be read.
#[must_use]
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut pages = Vec::new();
    for folder in folders() {
        let all = folder == root || folder.ends_with("docs");
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let file = entry.expect("the folder can be read").path();
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            if !is_page || !(all || file.ends_with("README.md")) {
                continue;
            }
            let path = file.strip_prefix(&root).expect("it is below the root");
            let path = path.to_str().expect("names of pages are text");
            pages.push(Page::parse(path, &fs::read_to_string(&file).expect("it can be read")));
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    pages
}
