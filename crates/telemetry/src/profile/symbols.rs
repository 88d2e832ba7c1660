//! Addresses of code to names of functions, by the symbols of this program.

use std::collections::HashMap;
use std::ffi::c_void;

/// Names that were looked up, by address.
#[derive(Default)]
pub(super) struct Symbols {
    names: HashMap<usize, Vec<String>>,
}

impl Symbols {
    /// The functions that an address of a stack is in, the outermost first: several where calls were inlined and the build knows of it.
    pub(super) fn at(&mut self, address: usize) -> &[String] {
        self.names.entry(address).or_insert_with(|| {
            let mut names = Vec::new();
            backtrace::resolve(address as *mut c_void, |symbol| {
                if let Some(name) = symbol.name() {
                    names.push(format!("{name:#}"));
                }
            });
            if names.is_empty() {
                names.push("unknown".to_owned());
            }
            names.reverse();
            names
        })
    }
}
