//! Writes elements. What is written is well-formed XML as well as HTML, so that both kinds of reader take it.

/// Text as it may stand in an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to write the others.
            control if control.is_control() && control != '\n' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// An element with text in it.
pub(super) fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

/// A table.
pub(super) fn table(columns: &[String], rows: &[Vec<String>]) -> String {
    let cells = |name: &str, row: &[String]| row.iter().map(|cell| element(name, cell)).collect::<String>();
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n",
        cells("th", columns)
    )
}
