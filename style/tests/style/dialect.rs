//! Sentences must be plain English. The rule counts, for each file, expressions that readers had to
//! read twice, and sentences of more than 35 words.
//!
//! The rule reads comments, documents and help texts. The rule ignores code and messages.

use std::collections::BTreeMap;
use std::ops::Range;

use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, PatternSet};

use crate::prose::{Sentence, sentences};
use crate::ratchet::{self, Counts, add};
use crate::tree::Tree;

const TABLE: &str = "style/dialect.txt";
const REMEDY: &str =
    "Rewrite the sentence: its subject is a noun of the field, its verb the field's.";
const DIVIDE: &str = "Divide the sentence: one thought each.";
/// The characters that are stripped from the start of a reported expression.
const SIGNS: [char; 6] = ['.', ';', ':', ',', '(', ' '];
/// The maximum number of words in a sentence.
const WORDS: usize = 35;

/// An expression that is counted.
struct Expression {
    /// The recommended words.
    instead: &'static str,
    pattern: &'static str,
    /// If this text follows the expression, the expression is not counted. The text may be empty.
    unless: &'static str,
    /// A sentence with the expression, and one without it.
    planted: [&'static str; 2],
}

const EXPRESSIONS: [Expression; 17] = [
    Expression {
        instead: "a noun: a thread, a client, the caller",
        pattern: r"(?:^|[.;:,(] |\b(?:by|for|of|to|and|as|from|with|but|that|if) )[Ww]ho \w+",
        unless: "",
        planted: ["The lock is held by who evicts.", "The thread who evicts holds the lock."],
    },
    Expression {
        instead: "a noun: the block, the page, the value",
        pattern: r"(?:^|[.;:,(] )[Ww]hat \b",
        unless: "an? ",
        planted: ["What is compressed counts.", "What a pity, and this is what counts."],
    },
    Expression {
        instead: "a verb in the active voice",
        // Up to six words, none of which begins with "been".
        pattern: concat!(
            r"\b[Hh](?:as|ave|aving) ",
            r"(?:(?:[^\sb]\S*|b|b[^\se]\S*|be|be[^\se]\S*|bee|bee[^\sn]\S*) ){1,6}be \w+"
        ),
        unless: "",
        planted: ["A call has the best beer be here.", "A page has been said to be cold."],
    },
    Expression {
        instead: "a verb in the active voice",
        pattern: r"(?:^|[.;:] )Has (?:a|an|the|what|this|its|it|all)\b",
        unless: "",
        planted: ["Has the kernel populate pages.", "Has allocated pages."],
    },
    Expression {
        instead: "the thing itself: the free space",
        pattern: r"\b(?:that|as|than|what|which|where) there (?:is|are)\b",
        unless: "",
        planted: ["More pages than there are.", "The caller knows if there are pages."],
    },
    Expression {
        instead: "the time: during the copy",
        pattern: r"\b[Mm]eanwhile\b",
        unless: "",
        planted: ["Others may write meanwhile.", "Others may write during the copy."],
    },
    Expression {
        instead: "returned, reported, logged, published",
        pattern: r"\btold\b",
        unless: "",
        planted: ["The caller is told.", "A threshold is logged."],
    },
    Expression {
        instead: "evicted, freed, released, dropped",
        pattern: r"\b(?:is|are|has|that|what|may|can't|to|it|they|pages|blocks) (?:gone|goes?)\b",
        unless: " (?:on|to|by|through|over)",
        planted: ["The page is gone.", "It goes on to the next page."],
    },
    Expression {
        instead: "is defined, is listed, means",
        pattern: r"\bstands?\b",
        unless: " (?:for|in for)",
        planted: ["The rule stands there.", "A tag stands for a page, and stands in for it."],
    },
    Expression {
        instead: "the name of the parameter",
        pattern: r"\b[Ss]o (?:many|much|long|often)\b",
        unless: " (?:that|as)",
        planted: ["Allocates so\nmany bytes.", "So many that none fits, so long as it lasts."],
    },
    Expression {
        instead: "again, during",
        pattern: r"\b(?:anew|amid)\b",
        unless: "",
        planted: ["The call starts anew.", "The call starts a new pyramid."],
    },
    Expression {
        instead: "again",
        pattern: r"\bonce more\b",
        unless: "",
        planted: ["The call is tried once more.", "Once moreover, it is tried at once."],
    },
    Expression {
        instead: "the subject first",
        pattern: r"(?:^|[.;:] )Of (?:a|the|what|those|each|its|two)\b",
        unless: "",
        planted: ["Of the pages one is kept.", "Pages of the pool; of a page. Of pages, one."],
    },
    Expression {
        instead: "if, when",
        pattern: r"(?:^|[.;:,(] )[Ww]here (?:it|there|that|no|what|they|all)\b",
        unless: "",
        planted: [
            "Where no page fits, one is evicted.",
            "The place where it lies, where a page lies.",
        ],
    },
    Expression {
        instead: "Returns ..., in a sentence of its own",
        pattern: r"^[A-Z][a-z]+s\b[^.]*; (?:what|whether|how|where|its?|the|those|none|false)\b",
        unless: "",
        planted: [
            "Takes a page; none if all are taken.",
            "Takes a page; returns `None` if all are taken.",
        ],
    },
    Expression {
        instead: "except",
        pattern: r"\bbut for\b",
        unless: "",
        planted: ["All pages but for one.", "All pages but forty."],
    },
    Expression {
        instead: "the time: after the copy",
        pattern: r"\bby (?:now|then)\b",
        unless: "",
        planted: ["The page may be freed by then.", "Nearby then, passed by nowhere."],
    },
];

/// The compiled patterns of all expressions.
struct Patterns {
    /// Finds all expressions in one pass.
    all: Regex,
    each: Vec<(Regex, Option<Regex>)>,
}

fn compiled(patterns: &[&str]) -> Regex {
    let bytes = syntax::Config::new().unicode(false).utf8(false);
    let all = Config::new().match_kind(MatchKind::All).utf8_empty(false);
    let first = Config::new().utf8_empty(false);
    let config = if patterns.len() > 1 { all } else { first };
    Regex::builder().syntax(bytes).configure(config).build_many(patterns).unwrap()
}

impl Patterns {
    fn new() -> Self {
        let each = EXPRESSIONS.iter().map(|expression| {
            let unless = Some(expression.unless).filter(|unless| !unless.is_empty());
            (compiled(&[expression.pattern]), unless.map(|unless| compiled(&[unless])))
        });
        Self {
            all: compiled(&EXPRESSIONS.map(|expression| expression.pattern)),
            each: each.collect(),
        }
    }

    /// Returns the index of each expression in `text`, and the range of the expression in `text`.
    fn faults(&self, text: &str) -> Vec<(usize, Range<usize>)> {
        let mut present = PatternSet::new(EXPRESSIONS.len());
        self.all.which_overlapping_matches(&Input::new(text), &mut present);
        let mut faults = Vec::new();
        for nth in present.iter().map(|pattern| pattern.as_usize()) {
            let (pattern, unless) = &self.each[nth];
            for found in pattern.find_iter(text) {
                let after = Input::new(text).range(found.end()..).anchored(Anchored::Yes);
                if !unless.as_ref().is_some_and(|unless| unless.is_match(after)) {
                    faults.push((nth, found.range()));
                }
            }
        }
        faults
    }
}

/// Adds the violations in a sentence to the counts of expressions and of long sentences.
fn look(path: &str, sentence: &Sentence, patterns: &Patterns, counts: &mut [Counts; 2]) {
    for (nth, range) in patterns.faults(&sentence.text) {
        let (line, instead) = (sentence.line(range.start), EXPRESSIONS[nth].instead);
        let rest = &sentence.text[range.end..];
        let end = range.end + rest.find(' ').unwrap_or(rest.len());
        let said = sentence.text[range.start..end].trim_start_matches(SIGNS);
        add(&mut counts[0], path, format!("{path}:{line}: \"{said}\": write {instead}"));
    }
    let words = sentence.text.split_whitespace().count();
    if words > WORDS {
        let line = sentence.line(0);
        let fault = format!("{path}:{line}: a sentence of {words} words, {WORDS} at most");
        add(&mut counts[1], path, fault);
    }
}

/// Returns the counts of expressions and of long sentences, by file.
fn counts(tree: &Tree) -> [Counts; 2] {
    let (patterns, mut counts) = (Patterns::new(), [Counts::new(), Counts::new()]);
    for (path, text) in tree.all() {
        for sentence in sentences(tree, path, text) {
            look(path, &sentence, &patterns, &mut counts);
        }
    }
    counts
}

#[test]
fn sentences_are_plain() {
    let [dialect, long] = counts(Tree::disk());
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, count) in &dialect {
        *sums.entry(Tree::disk().crate_of(path)).or_default() += count.number;
    }
    println!("of each crate: {sums:?}");
    ratchet::hold_in(TABLE, &[("dialect", REMEDY, &dialect), ("long-sentences", DIVIDE, &long)]);
}

#[test]
fn each_expression_is_found() {
    let patterns = Patterns::new();
    for (nth, expression) in EXPRESSIONS.iter().enumerate() {
        let [fault, fine] = expression.planted.map(|text| text.replace('\n', " "));
        let found: Vec<_> = patterns.faults(&fault).into_iter().map(|(nth, _)| nth).collect();
        assert_eq!(found, [nth], "{fault}");
        assert_eq!(patterns.faults(&fine), [], "{fine}");
    }
}

#[test]
fn each_expression_is_found_in_each_kind_of_text() {
    for expression in &EXPRESSIONS {
        let fault = expression.planted[0];
        let marked = |sign| format!("{sign}{}\n", fault.replace('\n', &format!("\n{sign}")));
        let plain = format!("{fault}\n");
        let texts = [
            ("a.md", plain.clone()),
            ("a.rs", marked("/// ") + "fn a() {}\n"),
            ("b.rs", format!("#[command(after_help = \"{fault}\")]\nstruct B;\n")),
            ("a.h", format!("/*\n * {fault}\n */\n")),
            ("a.c", marked("// ")),
            ("a.py", format!("def a():\n    \"\"\"{fault}\"\"\"\n")),
            ("a.pyi", marked("# ")),
            ("a.sh", marked("# ")),
            ("Makefile", marked("# ")),
            // Code and messages are ignored.
            ("b.md", format!("`{fault}`\n\n```\n{fault}\n```\n")),
            ("c.rs", format!("#[error(\"{fault}\")]\nstruct C;\n")),
            ("b.py", format!("print(\"\"\"{fault}\"\"\")\n")),
        ];
        let tree = Tree::of(&texts.each_ref().map(|(path, text)| (*path, text.as_str())));
        let found: Vec<_> =
            counts(&tree)[0].iter().map(|(path, count)| (path.clone(), count.number)).collect();
        let expected = ["Makefile", "a.c", "a.h", "a.md", "a.py", "a.pyi", "a.rs", "a.sh", "b.rs"];
        assert_eq!(found, expected.map(|path| (path.to_owned(), 1)), "{fault}");
    }
}

#[test]
fn faults_name_their_line() {
    let text = "// A page fits, who\n// evicts; the caller is\n// told `told` so.\n";
    let [dialect, _] = counts(&Tree::of(&[("a/b.rs", text)]));
    let expected = [
        "a/b.rs:1: \"who evicts;\": write a noun: a thread, a client, the caller",
        "a/b.rs:3: \"told\": write returned, reported, logged, published",
    ];
    assert_eq!(dialect["a/b.rs"].faults, expected);
}

#[test]
fn long_sentences_are_found() {
    let words = |number: usize| vec!["word"; number].join(" ");
    let text = format!("{}. {}.\n\n{}.\n", words(35), "Word", words(36));
    let [_, long] = counts(&Tree::of(&[("a.md", &text)]));
    assert_eq!(long["a.md"].faults, ["a.md:3: a sentence of 36 words, 35 at most"]);
}
