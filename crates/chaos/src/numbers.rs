//! Numbers in JSON. Many programs read them as doubles, so none may exceed what a double represents exactly.

/// Largest magnitude up to which doubles represent all whole numbers: 2^53.
const MOST: f64 = 9_007_199_254_740_992.0;

/// Part of the violation's text for such a number.
pub const TOO_LARGE: &str = "with a number that programs do not read exactly:";

/// Returns the first number in the text whose magnitude is larger. The text may be several documents, or none.
pub fn beyond(text: &[u8]) -> Option<String> {
    let mut rest = text.iter().copied().peekable();
    let mut is_string = false;
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' if is_string => _ = rest.next(),
            b'"' => is_string = !is_string,
            b'-' | b'0'..=b'9' if !is_string => {
                let mut number = vec![byte];
                number.extend(std::iter::from_fn(|| rest.next_if(|byte| is_of_a_number(*byte))));
                let number = String::from_utf8(number).ok()?;
                if number.parse::<f64>().is_ok_and(|value| value.abs() > MOST) {
                    return Some(number);
                }
            }
            _ => {}
        }
    }
    None
}

fn is_of_a_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_outside_of_strings() {
        let found = |text: &str| beyond(text.as_bytes());
        assert_eq!(found(r#"{"a": 9007199254740992, "b": "18446744073709551615"}"#), None);
        assert_eq!(
            found(r#"{"a\"": "\\", "b": [18446744073709551615]}"#),
            Some("18446744073709551615".to_owned())
        );
        assert_eq!(found("1\n-9007199254740994\n"), Some("-9007199254740994".to_owned()));
        assert_eq!(found("1e300"), Some("1e300".to_owned()));
        assert_eq!(found("nothing"), None);
    }
}
