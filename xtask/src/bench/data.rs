//! The data that benchmarks load: made once under the target directory, the same on every machine.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::run;

/// Numbers that look random and are the same in every run (xorshift64*, Vigna 2016).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Numbers {
        Numbers(seed | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }
}

/// A CSV file of `rows` lines, each written by `line`; made anew only when it is not there.
fn file(
    name: &str,
    rows: u64,
    line: impl Fn(&mut BufWriter<File>, u64, &mut Numbers) -> std::io::Result<()>,
) -> Result<PathBuf> {
    let folder = std::path::absolute(run::target_dir().join("bench"))?;
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}-{rows}.csv"));
    if !path.exists() {
        let part = path.with_extension("part");
        let mut writer = BufWriter::with_capacity(1 << 20, File::create(&part)?);
        let mut numbers = Numbers::new(rows);
        for row in 1..=rows {
            line(&mut writer, row, &mut numbers)?;
        }
        writer.flush()?;
        std::fs::rename(part, &path)?;
    }
    Ok(path)
}

/// `id bigint, a bigint, b double precision, c text`.
pub(super) fn four_columns(rows: u64) -> Result<PathBuf> {
    file("four", rows, |out, row, numbers| {
        let (a, b, c) = (numbers.below(1_000_000), numbers.below(10_000_000), numbers.below(100_000));
        writeln!(out, "{row},{a},{}.{:03},name-{c}", b / 1000, b % 1000)
    })
}

/// pgbench's accounts: `aid bigint, bid bigint, abalance bigint, filler text`.
pub(super) fn accounts(rows: u64) -> Result<PathBuf> {
    file("accounts", rows, |out, row, _| writeln!(out, "{row},{},0,{:84}", row / 100_000 + 1, ""))
}

/// `a bigint, b bigint`.
pub(super) fn pairs(rows: u64) -> Result<PathBuf> {
    file("pairs", rows, |out, row, numbers| writeln!(out, "{row},{}", numbers.below(1 << 40)))
}

/// `t text, a int[]` with twenty elements.
pub(super) fn texts(rows: u64) -> Result<PathBuf> {
    file("texts", rows, |out, row, numbers| {
        write!(out, "row {row:08} {:016x},\"{{{}", numbers.below(u64::MAX), numbers.below(1_000_000))?;
        for _ in 1..20 {
            write!(out, ",{}", numbers.below(1_000_000))?;
        }
        writeln!(out, "}}\"")
    })
}

/// `id bigint, doc jsonb` of about half a kilobyte.
pub(super) fn documents(rows: u64) -> Result<PathBuf> {
    file("documents", rows, |out, row, numbers| {
        write!(
            out,
            "{row},\"{{\"\"customer\"\": {}, \"\"amount\"\": {}, ",
            numbers.below(100_000),
            numbers.below(10_000)
        )?;
        write!(out, "\"\"status\"\": \"\"shipped\"\", \"\"lines\"\": [")?;
        for line in 0..6 {
            let comma = if line == 0 { "" } else { ", " };
            let (item, price) = (numbers.below(1 << 32), numbers.below(100_000));
            write!(
                out,
                "{comma}{{\"\"item\"\": \"\"{item:08x}\"\", \"\"quantity\"\": {}, \"\"price\"\": {price}}}",
                line + 1
            )?;
        }
        writeln!(out, "], \"\"note\"\": \"\"{:016x} {:016x}\"\"}}\"", numbers.below(u64::MAX), numbers.below(u64::MAX))
    })
}

/// Keys are written in batches of this many commands.
const BATCH: u64 = 1000;

/// SETs `count` keys named as redis-benchmark names them (16 bytes), every reply checked. `keys` picks the key of the
/// n-th command.
pub(super) fn set_keys(
    address: SocketAddr,
    count: u64,
    value_bytes: usize,
    mut keys: impl FnMut(u64) -> u64,
) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let value = "x".repeat(value_bytes);
    let mut request = Vec::new();
    let mut sent = 0;
    while sent < count {
        let batch = BATCH.min(count - sent);
        request.clear();
        for offset in 0..batch {
            let key = keys(sent + offset);
            write!(request, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${value_bytes}\r\n{value}\r\n")?;
        }
        stream.write_all(&request)?;
        let mut replies = vec![0; batch as usize * b"+OK\r\n".len()];
        stream.read_exact(&mut replies)?;
        if let Some(reply) = replies.chunks(5).find(|reply| *reply != b"+OK\r\n") {
            bail!("a SET was answered with {:?}", String::from_utf8_lossy(reply));
        }
        sent += batch;
    }
    Ok(())
}
