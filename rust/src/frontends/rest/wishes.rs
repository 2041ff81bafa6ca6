//! How a client wants its answer: what its query string and its `Accept` header say. What neither knows is ignored, as
//! proxies and browsers add much.

use http::header::ACCEPT;
use http::request::Parts;

use crate::error::{Error, Result};
use crate::frontends::tfs::json::Style;

/// Tensors as raw bytes, in a request or an answer.
pub const BINARY: &str = "application/octet-stream";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wishes {
    /// JSON over several lines.
    pub pretty: bool,
    /// Raw tensors, not JSON.
    pub binary: bool,
    pub style: Style,
}

impl Wishes {
    pub fn of(head: &Parts) -> Result<Self> {
        let accepted = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut wishes = Self::accepted(accepted);
        wishes.asked(head.uri.query().unwrap_or_default())?;
        Ok(wishes)
    }

    /// The media range of highest weight that is known, the first of equals; JSON when there is none.
    fn accepted<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut best = (Self::default(), 0);
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let mut wishes = match parts.next().map(str::to_ascii_lowercase).as_deref() {
                Some(BINARY) => Self { binary: true, ..Self::default() },
                Some("application/json") => Self::default(),
                _ => continue,
            };
            let parameters = || parts.clone().filter_map(|part| part.split_once('='));
            wishes.style.null = parameters().any(|(name, value)| name == "nan" && value == "null");
            let weight = parameters().find(|(name, _)| *name == "q").map_or(Some(1000), |(_, q)| thousandths(q));
            if let Some(weight) = weight.filter(|weight| *weight > best.1) {
                best = (wishes, weight);
            }
        }
        best.0
    }

    fn asked(&mut self, query: &str) -> Result<()> {
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, "true"));
            match name {
                "pretty" => self.pretty = flag(name, value)?,
                "b64" => self.style.base64 = flag(name, value)?,
                "nan" if value == "null" => self.style.null = true,
                "nan" => return Err(Error::bad_input(format!("query parameter nan: expected null but got {value}"))),
                _ => {}
            }
        }
        Ok(())
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Error::bad_input(format!("query parameter {name}: expected true or false but got {value}"))),
    }
}

/// A weight of HTTP, 0 to 1 with at most three digits behind the point, in thousandths; `None` when it is none.
pub fn thousandths(weight: &str) -> Option<u32> {
    let (whole, digits) = weight.split_once('.').unwrap_or((weight, ""));
    if digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(whole, "0" | "1") {
        return None;
    }
    let thousandths: u32 = format!("{whole}{digits:0<3}").parse().ok()?;
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(query: &str, accept: &[&str]) -> Result<(bool, bool, bool, bool)> {
        let mut request = http::Request::get(format!("/v1/models/m:predict?{query}"));
        for value in accept {
            request = request.header(ACCEPT, *value);
        }
        let Wishes { pretty, binary, style: Style { null, base64 } } =
            Wishes::of(&request.body(()).unwrap().into_parts().0)?;
        Ok((pretty, null, base64, binary))
    }

    #[test]
    fn query_parameters_count_when_they_are_known() {
        let table = [
            ("", (false, false, false, false)),
            ("pretty", (true, false, false, false)),
            ("x=1&pretty=1&&key", (true, false, false, false)),
            ("pretty=true&pretty=false", (false, false, false, false)),
            ("nan=null&b64=true", (false, true, true, false)),
        ];
        for (query, expected) in table {
            assert_eq!(wishes(query, &[]).unwrap(), expected, "{query}");
        }
        for (query, text) in
            [("pretty=yse", "expected true or false but got yse"), ("nan=0", "expected null but got 0")]
        {
            assert!(wishes(query, &[]).unwrap_err().message.contains(text));
        }
    }

    #[test]
    fn of_the_media_types_the_heaviest_known_counts() {
        let (json, strict, binary) =
            ((false, false, false, false), (false, true, false, false), (false, false, false, true));
        let table: [(&[&str], _); 10] = [
            (&[], json),
            (&["*/*"], json),
            (&["application/json"], json),
            (&["application/json; nan=null"], strict),
            (&["Application/Octet-Stream"], binary),
            (&["application/octet-stream, */*"], binary),
            (&["text/html", "application/octet-stream;q=0.5"], binary),
            (&["application/octet-stream;q=0.5, application/json;nan=null;q=0.8"], strict),
            (&["application/octet-stream;q=0"], json),
            (&["application/json, application/octet-stream"], json),
        ];
        for (accept, expected) in table {
            assert_eq!(wishes("", accept).unwrap(), expected, "{accept:?}");
        }
    }

    #[test]
    fn weights_have_three_digits_at_most() {
        let table = [("1", Some(1000)), ("0.5", Some(500)), ("1.000", Some(1000)), ("0.", Some(0)), ("0.001", Some(1))];
        for (weight, expected) in table {
            assert_eq!(thousandths(weight), expected, "{weight}");
        }
        for bad in ["", "2", "1.001", "0.0001", "-1", "0.x", ".5"] {
            assert_eq!(thousandths(bad), None, "{bad}");
        }
    }
}
