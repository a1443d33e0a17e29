//! Rust source as a flat list of identifiers, punctuation and brackets, without comments and
//! literals.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One identifier, punctuation mark or bracket, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// The tokens of a source in order, without literals and comments.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>> {
    let stream = TokenStream::from_str(source)
        .map_err(|error| anyhow!("line {}: {error}", error.span().start().line))?;
    let mut found = Vec::new();
    flatten(stream, &mut found);
    Ok(found)
}

/// The attribute that disables the lint named at `index`: `allow`, `expect` or `warn`, if any.
pub(crate) fn lifted_by(tokens: &[Token], index: usize) -> Option<&str> {
    let open = tokens[..index].iter().rposition(|token| token.text == "(")?;
    let word = tokens.get(open.checked_sub(1)?)?;
    matches!(word.text.as_str(), "allow" | "expect" | "warn").then_some(word.text.as_str())
}

fn flatten(stream: TokenStream, found: &mut Vec<Token>) {
    for tree in stream {
        let span = tree.span();
        let mut push = |text: String, line| found.push(Token { text, line });
        match tree {
            TokenTree::Ident(ident) => push(ident.to_string(), span.start().line),
            TokenTree::Punct(punct) => push(punct.to_string(), span.start().line),
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned(), group.span_open().start().line);
                flatten(group.stream(), found);
                found.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_not_tokens() {
        let source = "// unsafe\n/* unsafe /* unsafe */ */\n/// unsafe\nfn f() {\n\
                      g(\"unsafe\", r#\"unsafe \"#, b\"unsafe\", 'u');\n}";
        let found = tokens(source).unwrap();
        assert!(found.iter().all(|token| token.text != "unsafe"), "{found:?}");
        let last = found.last().unwrap();
        assert_eq!((last.text.as_str(), last.line), ("}", 6));
    }

    #[test]
    fn source_that_is_not_rust_is_an_error() {
        assert!(tokens("fn f() { \"unended }").is_err());
    }
}
