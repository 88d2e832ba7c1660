//! Encodes COPY TO STDOUT: values in, bytes out.
//!
//! Called by the session, which cuts the bytes into CopyData messages. Appends to the caller's buffer; never keeps
//! rows.

use super::{ForceQuote, Format, Header, Options, binary, csv, text};

/// Encodes the rows of one COPY: `start`, then for each row `begin_row`, one `null` or `value` per column and
/// `end_row`, then `finish`.
#[derive(Debug)]
pub struct RowEncoder {
    options: Options,
    columns: usize,
    /// Columns of the current row so far.
    written: usize,
    scratch: Vec<u8>,
}

impl RowEncoder {
    /// An encoder of rows with so many columns.
    pub fn new(options: Options, columns: usize) -> Self {
        Self { options, columns, written: 0, scratch: Vec::new() }
    }

    /// What precedes the rows: the header line if asked for, or the binary header.
    pub fn start<'a>(&mut self, names: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
        if self.options.format == Format::Binary {
            out.extend_from_slice(binary::SIGNATURE);
            // No flags, no extension.
            out.extend_from_slice(&[0; 8]);
        } else if self.options.header != Header::Absent {
            // FORCE_QUOTE is about values, not names.
            let force_quote = std::mem::take(&mut self.options.force_quote);
            self.begin_row(out);
            for name in names {
                self.value(out, |out| out.extend_from_slice(name.as_bytes()));
            }
            self.end_row(out);
            self.options.force_quote = force_quote;
        }
    }

    /// Begins a row.
    pub fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.written = 0;
        if self.options.format == Format::Binary {
            let columns = i16::try_from(self.columns);
            assert!(columns.is_ok(), "a row of binary COPY has at most 32767 columns");
            out.extend_from_slice(&columns.unwrap_or_default().to_be_bytes());
        }
    }

    /// The next column is NULL.
    pub fn null(&mut self, out: &mut Vec<u8>) {
        self.next_column(out);
        match self.options.format {
            Format::Text | Format::Csv => out.extend_from_slice(&self.options.null),
            Format::Binary => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }

    /// The next column is what `write` appends: its text form, or for binary rows its binary form. It must append
    /// only.
    pub fn value(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let column = self.written;
        self.next_column(out);
        let start = out.len();
        match self.options.format {
            Format::Text => {
                write(out);
                text::escape(out, start, self.options.delimiter, &mut self.scratch);
            }
            Format::Csv => {
                write(out);
                let force = match &self.options.force_quote {
                    ForceQuote::None => false,
                    ForceQuote::All => true,
                    ForceQuote::Columns(columns) => columns.get(column).copied().unwrap_or_default(),
                };
                csv::quote(out, start, &self.options, force, self.columns == 1, &mut self.scratch);
            }
            Format::Binary => {
                out.extend_from_slice(&[0; 4]);
                write(out);
                let length = i32::try_from(out.len() - start - 4);
                assert!(length.is_ok(), "a field of binary COPY has at most 2147483647 bytes");
                out[start..start + 4].copy_from_slice(&length.unwrap_or_default().to_be_bytes());
            }
        }
    }

    /// Ends the row.
    pub fn end_row(&mut self, out: &mut Vec<u8>) {
        assert_eq!(self.written, self.columns, "a row of COPY has as many values as columns");
        if self.options.format != Format::Binary {
            out.push(b'\n');
        }
    }

    /// What follows the rows: the trailer of the binary format.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.options.format == Format::Binary {
            out.extend_from_slice(&(-1i16).to_be_bytes());
        }
    }

    fn next_column(&mut self, out: &mut Vec<u8>) {
        if self.written > 0 && self.options.format != Format::Binary {
            out.push(self.options.delimiter);
        }
        self.written += 1;
    }
}
