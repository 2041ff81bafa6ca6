//! Compact JSON over several lines, for people.

use super::text::plain_end;

const INDENT: usize = 4;
/// Lists and objects deeper than this stay on the line of what they are in: the text stays about as long as it was.
const DEEPEST: usize = 6;

/// Spreads valid, compact JSON: members of objects, and lists that hold lists or objects, get lines of their own.
pub fn indent(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let mut open: Vec<bool> = Vec::new(); // whether each spans lines
    let mut pos = 0;
    while let Some(&byte) = compact.get(pos) {
        match byte {
            b'"' => {
                let end = string_end(compact, pos);
                out.extend_from_slice(&compact[pos..end]);
                pos = end;
                continue;
            }
            b'[' | b'{' => {
                out.push(byte);
                open.push(spreads(compact, pos) && open.len() < DEEPEST);
                if open.last() == Some(&true) {
                    new_line(&mut out, open.len());
                }
            }
            b']' | b'}' => {
                if open.pop() == Some(true) {
                    new_line(&mut out, open.len());
                }
                out.push(byte);
            }
            b',' if open.last() == Some(&true) => {
                out.push(byte);
                new_line(&mut out, open.len());
            }
            b',' | b':' => out.extend_from_slice(&[byte, b' ']),
            _ => out.push(byte),
        }
        pos += 1;
    }
    out.push(b'\n');
    out
}

/// Whether what opens at `pos` is worth lines: an object with members, or a list that begins with either kind.
fn spreads(compact: &[u8], pos: usize) -> bool {
    match (compact[pos], compact.get(pos + 1)) {
        (b'{', next) => next != Some(&b'}'),
        (_, next) => matches!(next, Some(b'[' | b'{')),
    }
}

fn new_line(out: &mut Vec<u8>, level: usize) {
    out.push(b'\n');
    out.resize(out.len() + level * INDENT, b' ');
}

/// Behind the string that starts at `pos`.
fn string_end(text: &[u8], pos: usize) -> usize {
    let mut end = plain_end(text, pos + 1);
    while text.get(end) == Some(&b'\\') {
        end = plain_end(text, (end + 2).min(text.len()));
    }
    (end + 1).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_scalars_stay_on_a_line() {
        let table = [
            (
                r#"{"predictions":[[1.0,NaN],[2.5,"a,\"b\\"]]}"#,
                "{\n    \"predictions\": [\n        [1.0, NaN],\n        [2.5, \"a,\\\"b\\\\\"]\n    ]\n}\n",
            ),
            (
                r#"{"a":{},"b":[],"c":[{"d":1}]}"#,
                "{\n    \"a\": {},\n    \"b\": [],\n    \"c\": [\n        {\n            \"d\": 1\n        }\n    ]\n}\n",
            ),
            ("7", "7\n"),
        ];
        for (compact, expected) in table {
            assert_eq!(String::from_utf8(indent(compact.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn depth_does_not_multiply_the_text() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(indent(deep.as_bytes()).len() < 2 * deep.len());
        let wide = format!("[{}]", vec![format!("{}1{}", "[".repeat(250), "]".repeat(250)); 100].join(","));
        assert!(indent(wide.as_bytes()).len() < 2 * wide.len());
    }

    #[test]
    fn cut_text_ends_where_it_ends() {
        for cut in ["", "{", "\"", "\"a\\", "[1,", "}}"] {
            indent(cut.as_bytes());
        }
    }
}
