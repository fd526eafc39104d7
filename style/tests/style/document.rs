//! A document in Markdown: its text, tables and links.

use std::collections::{BTreeSet, HashMap};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A paragraph, a list item, a heading, or a table cell.
#[derive(Default)]
pub struct Block {
    pub is_heading: bool,
    /// For a table cell: the first cell of its row, and the head of its column.
    pub labels: Vec<String>,
    /// Whether `make figures` wrote the block. A test of `bench` checks such blocks.
    pub is_written: bool,
    /// The text and the code of the block, in order.
    pub parts: Vec<Part>,
}

/// A piece of text without code, or a piece of code.
pub struct Part {
    pub line: usize,
    pub is_code: bool,
    pub text: String,
}

#[derive(Default)]
pub struct Document {
    pub blocks: Vec<Block>,
    /// The targets of links and images, with their lines.
    pub links: Vec<(usize, String)>,
    /// The anchors to which links can refer after `#`.
    pub anchors: BTreeSet<String>,
    /// The numbers of the lines that belong to tables.
    pub tables: BTreeSet<usize>,
}

/// Converts a heading to its anchor, as GitHub does.
fn slug(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

impl Block {
    /// Returns the text and the code of the block, without markup.
    fn whole(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    fn parts(&self, is_code: bool) -> impl Iterator<Item = (usize, &str)> {
        let parts = self.parts.iter().filter(move |part| part.is_code == is_code);
        parts.map(|part| (part.line, part.text.as_str()))
    }

    /// Returns the text without code, with the line of each part.
    pub fn text(&self) -> impl Iterator<Item = (usize, &str)> {
        self.parts(false)
    }

    /// Returns the code in the text, with the line of each part.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.parts(true)
    }
}

impl Document {
    pub fn new(text: &str) -> Self {
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let line_of = |at: usize| ends.partition_point(|end| *end < at) + 1;
        let (mut document, mut seen) = (Self::default(), HashMap::new());
        let (mut is_written, mut heads, mut row, mut in_head, mut in_code) =
            (false, Vec::new(), Vec::new(), false, false);
        let mut heading = String::new();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = line_of(range.start);
            match event {
                Event::Start(Tag::CodeBlock(_)) => in_code = true,
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::Start(Tag::Table(_)) => {
                    document.tables.extend(line..=line_of(range.end.saturating_sub(1)));
                }
                Event::Start(Tag::TableHead) => {
                    (heads, row, in_head) = (Vec::new(), Vec::new(), true)
                }
                Event::Start(Tag::TableRow) => (row, in_head) = (Vec::new(), false),
                Event::Start(Tag::TableCell) => {
                    let head: Option<&String> = heads.get(row.len());
                    let labels = row.first().into_iter().chain(head).cloned().collect();
                    document.blocks.push(Block { labels, is_written, ..Block::default() });
                }
                Event::End(TagEnd::TableCell) => {
                    let said = document.blocks.last().unwrap().whole();
                    if in_head {
                        heads.push(said.clone());
                    }
                    row.push(said);
                }
                Event::Start(Tag::Heading { .. }) => {
                    heading.clear();
                    document.blocks.push(Block { is_heading: true, ..Block::default() });
                }
                Event::End(TagEnd::Heading(_)) => {
                    let name = slug(&heading);
                    let again =
                        seen.entry(name.clone()).and_modify(|times| *times += 1).or_insert(0);
                    document.anchors.insert(if *again == 0 {
                        name
                    } else {
                        format!("{name}-{again}")
                    });
                }
                Event::Start(Tag::Paragraph | Tag::Item) => {
                    document.blocks.push(Block { is_written, ..Block::default() });
                }
                Event::Html(said) | Event::InlineHtml(said) => {
                    is_written = (is_written || said.contains("<!-- figures:"))
                        && !said.contains("<!-- end -->");
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line, dest_url.into_string()));
                }
                Event::Text(_) if in_code => {}
                Event::Text(ref said) | Event::Code(ref said) => {
                    heading.push_str(said);
                    let Some(block) = document.blocks.last_mut() else { continue };
                    let is_code = matches!(event, Event::Code(_));
                    block.parts.push(Part { line, is_code, text: said.to_string() });
                }
                _ => {}
            }
        }
        document
    }
}

#[test]
fn parts_are_told_apart() {
    let document = Document::new(
        "# One `x`, and two\n\nText `code` and\nmore [a](b.md#c).\n\n| k | v |\n|---|---|\n| r | \
            1.5 |\n\n    drawn 7\n\n# Two\n# Two\n",
    );
    let anchors: Vec<_> = document.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["one-x-and-two", "two", "two-1"]);
    assert_eq!(document.links, [(4, "b.md#c".to_owned())]);
    assert_eq!(document.tables.iter().copied().collect::<Vec<_>>(), [6, 7, 8]);
    let cell =
        document.blocks.iter().find(|block| block.text().any(|(_, text)| text == "1.5")).unwrap();
    assert_eq!((cell.labels.join(" "), cell.parts[0].line), ("r v".to_owned(), 8));
    assert!(document.blocks.iter().all(|block| !block.whole().contains('7')));
    assert_eq!(document.blocks[1].code().collect::<Vec<_>>(), [(3, "code")]);
    assert_eq!(document.blocks[1].whole(), "Text code andmore a.");
}
