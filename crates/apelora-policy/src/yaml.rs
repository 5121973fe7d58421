//! Reading YAML into a small tree with line numbers.
//!
//! Only what policy files need: mappings, sequences and scalars. An alias shares the tree it names, so that a file
//! cannot grow in memory; how much an alias adds is counted by whoever walks the tree.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::error::Fault;

/// How deep collections may nest: a merged mapping of lists of lists needs four.
pub(crate) const DEPTH_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Yaml {
    pub(crate) line: usize,
    pub(crate) value: Value,
    /// An anchor names it.
    pub(crate) anchored: bool,
    /// How many levels it has, one for a scalar. Aliases count as if they were written out.
    levels: usize,
}

#[derive(Debug)]
pub(crate) enum Value {
    /// `plain` if it stands without quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    Sequence(Vec<Arc<Yaml>>),
    Mapping(Vec<(Arc<Yaml>, Arc<Yaml>)>),
}

/// A problem and its line, if one is known.
pub(crate) type Located = (Option<usize>, Fault);

/// Reads a file with at most one document; `None` if there is none.
pub(crate) fn read(text: &str, values_max: usize) -> Result<Option<Arc<Yaml>>, Located> {
    let mut reader = Reader { open: Vec::new(), anchors: HashMap::new(), root: None, left: values_max };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tabs = tab_indents(text);
    let mut documents = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| (Some(error.marker().line()), Fault::Yaml(error.kind().to_string())))?;
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                return Err((Some(line_of(&span)), Fault::SeveralDocuments));
            }
        }
        if event.is_node() && tabs.get(&span.start.line()) == Some(&span.start.col()) {
            return Err((
                Some(line_of(&span)),
                Fault::Yaml("a tab stands where only blanks may indent".to_owned()),
            ));
        }
        reader.take(event, &span)?;
    }
    Ok(reader.root)
}

/// The lines that are indented with a tab, and by how many characters. Within a text of several lines that is
/// allowed; before a name or a value the reference refuses it, and this parser does not always.
fn tab_indents(text: &str) -> HashMap<usize, usize> {
    let blanks = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    text.lines()
        .enumerate()
        .filter(|(_, line)| line[..blanks(line)].contains('\t'))
        .map(|(index, line)| (index + 1, blanks(line)))
        .collect()
}

fn line_of(span: &Span) -> usize {
    span.start.line().max(1)
}

struct Reader {
    open: Vec<Collection>,
    anchors: HashMap<usize, Arc<Yaml>>,
    root: Option<Arc<Yaml>>,
    left: usize,
}

/// A collection whose end has not come yet.
struct Collection {
    line: usize,
    anchor: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Arc<Yaml>>),
    Mapping { pairs: Vec<(Arc<Yaml>, Arc<Yaml>)>, key: Option<Arc<Yaml>> },
}

impl Reader {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Located> {
        let line = line_of(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                accept_tag(tag.as_deref(), "str", line)?;
                // With the tag `!!str`, a scalar is a text however it is written.
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let value = Value::Scalar { text: text.into_owned(), plain };
                self.add(Yaml { line, value, anchored: anchor != 0, levels: 1 }, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                accept_tag(tag.as_deref(), "seq", line)?;
                self.begin(Collection { line, anchor, content: Content::Sequence(Vec::new()) })?;
            }
            Event::MappingStart(_, anchor, tag) => {
                accept_tag(tag.as_deref(), "map", line)?;
                let content = Content::Mapping { pairs: Vec::new(), key: None };
                self.begin(Collection { line, anchor, content })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(id) => {
                let Some(shared) = self.anchors.get(&id).cloned() else {
                    return Err((Some(line), Fault::Yaml("an alias names a value it is part of".to_owned())));
                };
                // Aliases of aliases would otherwise build a tree too deep to be dropped.
                if self.open.len() + shared.levels > DEPTH_MAX + 1 {
                    return Err((Some(line), Fault::TooNested));
                }
                self.put(shared, line)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, collection: Collection) -> Result<(), Located> {
        if self.open.len() >= DEPTH_MAX {
            return Err((Some(collection.line), Fault::TooNested));
        }
        self.open.push(collection);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Located> {
        let Some(Collection { line, anchor, content }) = self.open.pop() else { return Ok(()) };
        let (levels, value) = match content {
            Content::Sequence(items) => (items.iter().map(|item| item.levels).max(), Value::Sequence(items)),
            Content::Mapping { pairs, .. } => {
                (pairs.iter().map(|(key, value)| key.levels.max(value.levels)).max(), Value::Mapping(pairs))
            }
        };
        let levels = levels.unwrap_or(0) + 1;
        self.add(Yaml { line, value, anchored: anchor != 0, levels }, anchor)
    }

    fn add(&mut self, yaml: Yaml, anchor: usize) -> Result<(), Located> {
        let line = yaml.line;
        let yaml = Arc::new(yaml);
        if anchor != 0 {
            self.anchors.insert(anchor, Arc::clone(&yaml));
        }
        self.put(yaml, line)
    }

    fn put(&mut self, yaml: Arc<Yaml>, line: usize) -> Result<(), Located> {
        self.left = self.left.checked_sub(1).ok_or((Some(line), Fault::TooManyValues))?;
        match self.open.last_mut().map(|collection| &mut collection.content) {
            None => self.root = Some(yaml),
            Some(Content::Sequence(items)) => items.push(yaml),
            Some(Content::Mapping { pairs, key }) => match key.take() {
                None => *key = Some(yaml),
                Some(name) => pairs.push((name, yaml)),
            },
        }
        Ok(())
    }
}

/// Only tags that say what the value is anyway.
fn accept_tag(tag: Option<&Tag>, core: &str, line: usize) -> Result<(), Located> {
    match tag {
        None => Ok(()),
        Some(tag) if tag.is_yaml_core_schema_tag(core) => Ok(()),
        Some(tag) => Err((Some(line), Fault::Tag(tag.to_string()))),
    }
}
