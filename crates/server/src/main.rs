//! The binary `ashlar`: chooses the allocator and hands over to the library.

use std::process::ExitCode;

/// Returns freed memory to the operating system soon, which the system's own allocator does not after a burst.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    ashlar_server::cli::run()
}
