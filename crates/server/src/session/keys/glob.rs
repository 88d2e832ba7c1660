//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^x]` and `\x`, on bytes.
//!
//! Called by KEYS, SCAN, CONFIG GET and COMMAND LIST. Follows `stringmatchlen` of Redis 7.0 byte for byte, its
//! answers to malformed patterns included, but backtracks to the last star only: a pattern of many stars costs
//! no stack and at most pattern x text steps.

/// Whether `text` matches `pattern`.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if pattern == b"*" {
        return true;
    }
    if text.is_empty() {
        // Redis never enters its loop: not even `**` matches the empty text.
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // After the last star seen: where the pattern goes on, and how much text the star has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            while p < pattern.len() && pattern[p] == b'*' {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            star = Some((p, t));
            continue;
        }
        if p < pattern.len() {
            let (hit, next) = one(&pattern[p..], text[t]);
            if hit {
                p += next;
                t += 1;
                continue;
            }
        }
        match &mut star {
            Some((after, swallowed)) => {
                *swallowed += 1;
                p = *after;
                t = *swallowed;
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Whether the first element of `pattern` takes `byte`, and the element's length. `pattern` is not empty and
/// does not begin with a star.
fn one(pattern: &[u8], byte: u8) -> (bool, usize) {
    match pattern[0] {
        b'?' => (true, 1),
        b'[' => class(pattern, byte),
        b'\\' if pattern.len() >= 2 => (pattern[1] == byte, 2),
        literal => (literal == byte, 1),
    }
}

/// A class `[...]`. One that is never closed ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    let mut hit = false;
    loop {
        let rest = &pattern[at.min(pattern.len())..];
        match rest {
            [] => break,
            [b'\\', escaped, ..] => {
                hit |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                let (low, high) = if from <= to { (from, to) } else { (to, from) };
                hit |= (*low..=*high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                hit |= *literal == byte;
                at += 1;
            }
        }
    }
    (hit != negated, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_redis_matches_them() {
        let table: &[(&str, &str, bool)] = &[
            ("*", "", true),
            ("**", "", false),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h*llo", "hllo", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("[\\]]", "]", true),
            ("a**", "a", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxxcd", false),
            ("*ab", "aab", true),
            ("[ab", "a", true),
            ("flights:{*}", "flights:{42}", true),
            ("a", "ab", false),
            ("ab", "a", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), *expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_pattern_of_a_hundred_thousand_stars_needs_no_stack() {
        let pattern = b"*a".repeat(100_000);
        let text = vec![b'a'; 100_000];
        assert!(matches(&pattern, &text));
        assert!(!matches(&pattern, &text[1..]));
    }
}
