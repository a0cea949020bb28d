//! What all pages share: their frame, and text in a form that a page can contain.

use crate::style::STYLE;

/// A page of its own that needs nothing else. Pages are recognized by their beginning. `title` is
/// plain text, `body` is markup.
pub fn page_of(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <style>{STYLE}</style><main><h1>{title}</h1>{body}</main></html>\n"
    )
}

/// Charts side by side, as many as fit; nothing if there are none.
pub fn charts(drawings: &[String]) -> String {
    match drawings {
        [] => String::new(),
        drawings => format!("<div class=\"charts\">{}</div>", drawings.concat()),
    }
}

/// A table: its first row and its first column are headings, and its first `labels` columns are names. A cell
/// may have several lines.
pub(crate) fn table_of(rows: &[Vec<String>], labels: usize) -> String {
    let mut out = String::from("<table>");
    for (at, row) in rows.iter().enumerate() {
        out += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let (tag, class) = match (at, column) {
                (_, 0) => ("th", " class=\"l\""),
                (0, column) if column < labels => ("th", " class=\"l\""),
                (0, _) => ("th", ""),
                (_, column) if column < labels => ("td", " class=\"l\""),
                _ => ("td", " class=\"lines\""),
            };
            // The name of a configuration may be broken between its settings.
            let text = match at {
                0 => escape(cell).replace(',', ",<wbr>").replace(':', ":<wbr>"),
                _ => escape(cell),
            };
            out += &format!("<{tag}{class}>{text}</{tag}>");
        }
        out += "</tr>";
    }
    out + "</table>"
}

/// Text whose special characters a page shows as they are, also in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
