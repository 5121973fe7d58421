//! From the text of a rule to its structure: operators and checks. What a check means is not looked at here.

/// How deep `not` and parentheses with more than one check in them may nest. Redundant parentheses do not count.
pub(crate) const DEPTH_MAX: usize = 400;

/// The structure of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr<'a> {
    Check(&'a str),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// Why a text is no rule. Such a rule never holds, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("it consists of blanks")]
    Blank,
    #[error("two checks stand side by side without 'and' or 'or'")]
    MissingOperator,
    #[error("an operator or a parenthesis lacks its check")]
    MissingCheck,
    #[error("its parentheses are not balanced")]
    Unbalanced,
    #[error("a text in quotes stands where a check belongs")]
    Quoted,
}

/// What came of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    Rule(Expr<'a>),
    Broken(Broken),
    /// Nested beyond [`DEPTH_MAX`].
    TooDeep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    And,
    Or,
    Not,
    Quoted,
    Check(&'a str),
}

/// Separators of the language: Unicode white space and the four information separators U+001C to U+001F.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Parentheses belong to the language only at the ends of a word, so `not(a:b)` is one odd check.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    text.split(is_separator).filter(|word| !word.is_empty()).flat_map(|word| {
        let opened = word.trim_start_matches('(');
        let opening = word.len() - opened.len();
        let core = opened.trim_end_matches(')');
        let closing = opened.len() - core.len();
        let token = match core {
            "" => None,
            _ if core.eq_ignore_ascii_case("and") => Some(Token::And),
            _ if core.eq_ignore_ascii_case("or") => Some(Token::Or),
            _ if core.eq_ignore_ascii_case("not") => Some(Token::Not),
            // Quotes count only at the very ends of the word, so `('x')` is a check.
            _ if closing == 0 && is_quoted(core) => Some(Token::Quoted),
            _ => Some(Token::Check(core)),
        };
        std::iter::repeat_n(Token::Open, opening)
            .chain(token)
            .chain(std::iter::repeat_n(Token::Close, closing))
    })
}

fn is_quoted(word: &str) -> bool {
    word.len() >= 2
        && ((word.starts_with('\'') && word.ends_with('\''))
            || (word.starts_with('"') && word.ends_with('"')))
}

/// Parses a text that is not empty.
pub(crate) fn parse(text: &str) -> Parsed<'_> {
    let mut parser = Parser { values: Vec::new(), operators: Vec::new(), wants_check: true };
    let mut any = false;
    for token in tokens(text) {
        any = true;
        match parser.take(token) {
            Ok(()) => {}
            Err(Stop::Broken(broken)) => return Parsed::Broken(broken),
            Err(Stop::TooDeep) => return Parsed::TooDeep,
        }
    }
    if !any {
        return Parsed::Broken(Broken::Blank);
    }
    match parser.finish() {
        Ok(rule) => Parsed::Rule(rule),
        Err(Stop::Broken(broken)) => Parsed::Broken(broken),
        Err(Stop::TooDeep) => Parsed::TooDeep,
    }
}

enum Stop {
    Broken(Broken),
    TooDeep,
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// An operator on its way, in order of how tightly it binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    Open,
    Or,
    And,
    Not,
}

struct Value<'a> {
    expr: Expr<'a>,
    depth: usize,
    /// In parentheses of its own, so that a further `and` does not reach into it.
    closed: bool,
}

/// Two stacks, no recursion: a rule of 64 KiB may open thousands of redundant parentheses.
struct Parser<'a> {
    values: Vec<Value<'a>>,
    operators: Vec<Operator>,
    wants_check: bool,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: Token<'a>) -> Result<(), Stop> {
        match token {
            Token::Quoted => return Err(Broken::Quoted.into()),
            Token::Open | Token::Not | Token::Check(_) if !self.wants_check => {
                return Err(Broken::MissingOperator.into());
            }
            Token::And | Token::Or | Token::Close if self.wants_check => {
                return Err(Broken::MissingCheck.into());
            }
            Token::Open => self.operators.push(Operator::Open),
            Token::Not => self.operators.push(Operator::Not),
            Token::Check(text) => {
                self.values.push(Value { expr: Expr::Check(text), depth: 1, closed: true });
                self.wants_check = false;
            }
            Token::And => self.operator(Operator::And)?,
            Token::Or => self.operator(Operator::Or)?,
            Token::Close => {
                self.reduce_down_to(Operator::Or)?;
                if self.operators.pop() != Some(Operator::Open) {
                    return Err(Broken::Unbalanced.into());
                }
                if let Some(value) = self.values.last_mut() {
                    value.closed = true;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Expr<'a>, Stop> {
        if self.wants_check {
            return Err(Broken::MissingCheck.into());
        }
        self.reduce_down_to(Operator::Or)?;
        if !self.operators.is_empty() {
            return Err(Broken::Unbalanced.into());
        }
        self.values.pop().map(|value| value.expr).ok_or_else(|| Broken::MissingCheck.into())
    }

    fn operator(&mut self, operator: Operator) -> Result<(), Stop> {
        self.reduce_down_to(operator)?;
        self.operators.push(operator);
        self.wants_check = true;
        Ok(())
    }

    /// Applies every operator on top that binds at least as tightly.
    fn reduce_down_to(&mut self, weakest: Operator) -> Result<(), Stop> {
        while let Some(operator) = self.operators.pop_if(|top| *top >= weakest) {
            let Some(right) = self.values.pop() else { return Err(Broken::MissingCheck.into()) };
            let value = if operator == Operator::Not {
                let depth = right.depth + 1;
                Value { expr: Expr::Not(Box::new(right.expr)), depth, closed: true }
            } else {
                let Some(left) = self.values.pop() else { return Err(Broken::MissingCheck.into()) };
                // Behind an `or`, a further `and` reaches into a pair in parentheses. That changes nothing but the form.
                let reaches_in = !left.closed
                    || (operator == Operator::And && self.operators.last() == Some(&Operator::Or));
                join(operator, left, right, reaches_in)
            };
            if value.depth > DEPTH_MAX {
                return Err(Stop::TooDeep);
            }
            self.values.push(value);
        }
        Ok(())
    }
}

/// `left` and/or `right`; `a and b and c` becomes one list of three.
fn join<'a>(operator: Operator, left: Value<'a>, right: Value<'a>, reaches_in: bool) -> Value<'a> {
    let (depth, items) = match (operator, left.expr) {
        (Operator::And, Expr::And(mut items)) | (Operator::Or, Expr::Or(mut items)) if reaches_in => {
            items.push(right.expr);
            (left.depth.max(right.depth + 1), items)
        }
        (_, left_expr) => (left.depth.max(right.depth) + 1, vec![left_expr, right.expr]),
    };
    let expr = if operator == Operator::And { Expr::And(items) } else { Expr::Or(items) };
    Value { expr, depth, closed: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(expr: &Expr<'_>) -> String {
        let all = |items: &[Expr<'_>], word: &str| {
            format!("({})", items.iter().map(shape).collect::<Vec<_>>().join(word))
        };
        match expr {
            Expr::Check(text) => (*text).to_owned(),
            Expr::Not(inner) => format!("not {}", shape(inner)),
            Expr::And(items) => all(items, " and "),
            Expr::Or(items) => all(items, " or "),
        }
    }

    #[test]
    fn operators_bind_as_documented() {
        for (text, expected) in [
            ("a", "a"),
            ("((a))", "a"),
            ("a and b and c", "(a and b and c)"),
            ("(a and b) and c", "((a and b) and c)"),
            ("a or (b and c) and d", "(a or (b and c and d))"),
            ("a or b and c or d", "(a or (b and c) or d)"),
            ("not a and not not b", "(not a and not not b)"),
            ("NOT (a Or b) AND c", "(not (a or b) and c)"),
            ("a\u{1c}or\u{3000}b", "(a or b)"),
        ] {
            match parse(text) {
                Parsed::Rule(rule) => assert_eq!(shape(&rule), expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn anything_else_is_broken_as_a_whole() {
        for (text, broken) in [
            (" \u{1f}", Broken::Blank),
            ("a b", Broken::MissingOperator),
            ("a (b)", Broken::MissingOperator),
            ("a not b", Broken::MissingOperator),
            ("a and", Broken::MissingCheck),
            ("or a", Broken::MissingCheck),
            ("()", Broken::MissingCheck),
            ("a or and b", Broken::MissingCheck),
            ("not", Broken::MissingCheck),
            ("(a", Broken::Unbalanced),
            ("a)", Broken::Unbalanced),
            ("(a))", Broken::Unbalanced),
            ("a or 'b'", Broken::Quoted),
        ] {
            assert_eq!(parse(text), Parsed::Broken(broken), "{text}");
        }
    }

    #[test]
    fn only_what_needs_a_stack_counts_as_depth() {
        let parens = format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000));
        assert_eq!(parse(&parens), Parsed::Rule(Expr::Check("a")));
        assert!(matches!(parse(&vec!["a"; 10_000].join(" or ")), Parsed::Rule(_)));
        assert!(matches!(parse(&format!("{}a", "not ".repeat(DEPTH_MAX - 1))), Parsed::Rule(_)));
        assert_eq!(parse(&format!("{}a", "not ".repeat(DEPTH_MAX))), Parsed::TooDeep);
        assert_eq!(parse(&format!("{}a", "not ".repeat(20_000))), Parsed::TooDeep);
        let nested = format!("{}a{}", "(a and (b or ".repeat(5_000), "))".repeat(5_000));
        assert_eq!(parse(&nested), Parsed::TooDeep);
    }
}
