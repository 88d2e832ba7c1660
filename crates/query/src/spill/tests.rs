//! Folders of processes that are gone, files that have no room, writes that wait, and many files of which few are open.

use std::io::Write;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::TryStreamExt;

use super::writer::WRITE_BYTES;
use super::*;

/// A directory of this test, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ashlar-spill-test-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self, bytes_max: u64) -> SpillDir {
        SpillDir::open(&SpillConfig { dir: Some(self.0.clone()), bytes_max }).unwrap()
    }

    fn folders(&self) -> Vec<String> {
        let names =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != LOCK).collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn read(file: &Arc<dyn SpillFile>) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let chunks: Vec<Bytes> = runtime.block_on(file.read_stream().unwrap().try_collect()).unwrap();
    chunks.concat()
}

#[test]
fn what_is_written_is_read_and_goes_when_nobody_wants_it() {
    let dir = Dir::new("written");
    let spill = dir.open(1 << 20);
    let file = spill.factory().create_temp_file("test").unwrap();
    let bytes: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    let mut writer = file.open_writer().unwrap();
    for part in bytes.chunks(10_007) {
        writer.write_all(part).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(read(&file), bytes);
    let statistics = spill.statistics();
    assert_eq!((statistics.bytes, statistics.files, statistics.written), (700_000, 1, 700_000));
    assert_eq!(file.size(), Some(700_000));
    let path = file.path().unwrap().to_owned();
    drop(file);
    // Whoever writes still has it.
    assert!(path.exists());
    drop(writer);
    assert!(!path.exists());
    let statistics = spill.statistics();
    assert_eq!((statistics.bytes, statistics.files, statistics.written), (0, 0, 700_000));
    drop(spill);
    assert_eq!(dir.folders(), Vec::<String>::new());
}

#[test]
fn beyond_the_limit_a_write_fails_and_what_is_there_stays() {
    let dir = Dir::new("limit");
    let spill = dir.open(3 << 20);
    let factory = spill.factory();
    let (first, second) = (factory.create_temp_file("a").unwrap(), factory.create_temp_file("b").unwrap());
    let mut writer = first.open_writer().unwrap();
    writer.write_all(&[7; 2 << 20]).unwrap();
    let error = second.open_writer().unwrap().write_all(&[8; (1 << 20) + 1]).unwrap_err();
    // As Arrow's writer and the operators hand it on.
    let arrow = arrow::error::ArrowError::from(error);
    let error = ashlar_functions::error::from_datafusion(DataFusionError::Shared(Arc::new(arrow.into())));
    assert_eq!(error.code(), ErrorCode::DiskFull);
    assert!(error.message().contains("query.spill_mib_max, 3 MiB"), "{error}");
    assert!(error.fields().hint.is_some());
    second.open_writer().unwrap().write_all(&[8; 1 << 20]).unwrap();
    assert!(writer.write_all(&[7]).is_err());
    drop(second);
    writer.write_all(&[7]).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&first), vec![7; (2 << 20) + 1]);
}

#[test]
fn writes_wait_until_there_are_enough_of_them_or_somebody_flushes() {
    let dir = Dir::new("waiting");
    let spill = dir.open(1 << 20);
    let file = spill.factory().create_temp_file("test").unwrap();
    let mut writer = file.open_writer().unwrap();
    let seen = || {
        let statistics = spill.statistics();
        (statistics.bytes, statistics.written, file.size().unwrap())
    };
    writer.write_all(&[1; 100]).unwrap();
    writer.write_all(&[2; 100]).unwrap();
    // Charged at once, there for nobody yet.
    assert_eq!(seen(), (200, 0, 0));
    assert_eq!(read(&file), Vec::<u8>::new());
    writer.flush().unwrap();
    assert_eq!(seen(), (200, 200, 200));
    writer.write_all(&[3; 100]).unwrap();
    assert_eq!(seen(), (300, 200, 200));
    // What does not fit takes with it what waits, and comes behind it.
    writer.write_all(&[4; WRITE_BYTES]).unwrap();
    let all = 300 + WRITE_BYTES as u64;
    assert_eq!(seen(), (all, all, all));
    // Who goes without a word leaves nothing behind.
    writer.write_all(&[5; 100]).unwrap();
    drop(writer);
    assert_eq!(seen(), (all + 100, all + 100, all + 100));
    assert_eq!(read(&file), [vec![1_u8; 100], vec![2; 100], vec![3; 100], vec![4; WRITE_BYTES], vec![5; 100]].concat());
}

/// How the engine writes batches, and one of them.
fn batches(spill: &SpillDir) -> (SpillManager, RecordBatch) {
    let disk = DiskManagerBuilder::default().with_temp_file_factory(spill.factory());
    let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build_arc().unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::Int32, false)]));
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let manager = SpillManager::new(runtime, metrics, Arc::clone(&schema));
    (manager, RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![1, 2, 3]))]).unwrap())
}

#[test]
fn batches_are_read_while_others_are_written_behind_them() {
    let dir = Dir::new("behind");
    let spill = dir.open(1 << 20);
    let (manager, batch) = batches(&spill);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut writing = manager.create_in_progress_file("test").unwrap();
    let file = Arc::clone(writing.file().unwrap());
    let mut reading = manager.read_spill_as_stream_unbuffered(file, None).unwrap();
    for _ in 0..3 {
        // As an exchange does it.
        writing.append_batch(&batch).unwrap();
        writing.flush().unwrap();
        assert_eq!(runtime.block_on(reading.try_next()).unwrap().as_ref(), Some(&batch));
    }
    writing.append_batch(&batch).unwrap();
    // The whole of it, with its end, has come when it is finished.
    assert!(writing.finish().unwrap().is_some());
    assert_eq!(runtime.block_on(reading.try_next()).unwrap().as_ref(), Some(&batch));
    assert_eq!(runtime.block_on(reading.try_next()).unwrap(), None);
}

/// A device that has no room, ever, is taken for a file that is the first of its folder.
#[cfg(target_os = "linux")]
fn fill_up(spill: &SpillDir) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    *spill.0.place(0).lock() = Some((0, full));
}

#[cfg(target_os = "linux")]
#[test]
fn what_has_waited_and_cannot_be_written_is_told_to_who_finishes() {
    let dir = Dir::new("end");
    let spill = dir.open(1 << 20);
    let (manager, batch) = batches(&spill);
    let mut writing = manager.create_in_progress_file("test").unwrap();
    fill_up(&spill);
    // It is little.
    writing.append_batch(&batch).unwrap();
    let error = writing.finish().err().unwrap();
    assert_eq!(ashlar_functions::error::from_datafusion(error).code(), ErrorCode::DiskFull);
    drop(writing);
    assert_eq!(spill.statistics().bytes, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_is_told_as_such() {
    let dir = Dir::new("full");
    let spill = dir.open(1 << 20);
    let file = spill.factory().create_temp_file("test").unwrap();
    fill_up(&spill);
    let mut writer = file.open_writer().unwrap();
    writer.write_all(b"something").unwrap();
    let error = writer.flush().unwrap_err();
    let error = ashlar_functions::error::from_datafusion(arrow::error::ArrowError::from(error).into());
    assert_eq!(error.code(), ErrorCode::DiskFull);
    assert!(error.message().contains("No space left on device"), "{error}");
    // What was not written is not charged.
    assert_eq!(spill.statistics().bytes, 0);
    // And nobody is told that the file is as it should be, neither who writes nor who reads.
    assert!(writer.write_all(b"more").is_err());
    let error = ashlar_functions::error::from_datafusion(writer.finish().unwrap_err());
    assert_eq!(error.code(), ErrorCode::IoError);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(file.read_stream().unwrap().try_next()).is_err());
    // What is too much to wait is told at once.
    let file = spill.factory().create_temp_file("test").unwrap();
    *spill.0.place(1).lock() = Some((1, File::options().write(true).open("/dev/full").unwrap()));
    assert!(file.open_writer().unwrap().write_all(&[7; WRITE_BYTES + 1]).is_err());
    assert_eq!(spill.statistics().bytes, 0);
}

/// Descriptors of this process that are open on files beneath a directory.
#[cfg(target_os = "linux")]
fn descriptors(dir: &Path) -> usize {
    // Other tests open and close theirs meanwhile.
    let all = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    all.filter(|path| path.starts_with(dir)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn of_many_files_few_are_open_while_all_are_written_and_read() {
    let dir = Dir::new("open");
    let spill = dir.open(1 << 20);
    let factory = spill.factory();
    let beneath = fs::canonicalize(&dir.0).unwrap();
    // The lock of the folder is one more.
    let is_bounded = || descriptors(&beneath) <= OPEN_MAX + 1;
    let files: Vec<_> = (0..5 * OPEN_MAX).map(|_| factory.create_temp_file("test").unwrap()).collect();
    assert!(is_bounded(), "when they are made");
    let mut writers: Vec<_> = files.iter().map(|file| file.open_writer().unwrap()).collect();
    for round in 0..3 {
        for (number, writer) in writers.iter_mut().enumerate() {
            writer.write_all(&[number as u8, round]).unwrap();
            writer.flush().unwrap();
        }
        assert!(is_bounded(), "while they are written");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut readers: Vec<_> = files.iter().map(|file| file.read_stream().unwrap()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        let bytes = runtime.block_on(reader.try_next()).unwrap().unwrap();
        let number = number as u8;
        assert_eq!(bytes.to_vec(), [number, 0, number, 1, number, 2]);
    }
    assert!(is_bounded(), "while they are read");
    // Who reads goes on where he was, and finds what was written since.
    for (number, writer) in writers.iter_mut().enumerate() {
        writer.write_all(&[number as u8; 2]).unwrap();
        writer.flush().unwrap();
    }
    for (number, reader) in readers.iter_mut().enumerate() {
        let bytes = runtime.block_on(reader.try_next()).unwrap().unwrap();
        assert_eq!(bytes.to_vec(), [number as u8; 2]);
        assert_eq!(runtime.block_on(reader.try_next()).unwrap(), None);
    }
    assert_eq!(spill.statistics().files, 5 * OPEN_MAX as u64);
    drop((readers, writers, files));
    let statistics = spill.statistics();
    assert_eq!((statistics.bytes, statistics.files), (0, 0));
    assert_eq!(descriptors(&beneath), 1);
}

#[test]
fn folders_of_those_who_live_stay_and_the_others_go() {
    let dir = Dir::new("folders");
    let living = dir.open(1 << 20);
    let kept = living.factory().create_temp_file("test").unwrap();
    // One that was killed: its files are there, and nobody holds its lock.
    let gone = dir.0.join(format!("{PREFIX}1-0"));
    fs::create_dir(&gone).unwrap();
    for name in [LOCK, "0", "1"] {
        fs::write(gone.join(name), b"left").unwrap();
    }
    // One that was killed before it had a lock, and what is none of ours.
    fs::create_dir(dir.0.join(format!("{PREFIX}2-0"))).unwrap();
    fs::create_dir(dir.0.join("somebody")).unwrap();
    fs::write(dir.0.join(format!("{PREFIX}file")), b"a file").unwrap();
    let other = dir.open(1 << 20);
    let process = std::process::id();
    let expected = [
        format!("{PREFIX}{process}-0"),
        format!("{PREFIX}{process}-1"),
        format!("{PREFIX}file"),
        "somebody".to_owned(),
    ];
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(dir.folders(), expected);
    assert!(kept.path().unwrap().exists());
    drop((other, kept, living));
    assert_eq!(dir.folders(), [format!("{PREFIX}file"), "somebody".to_owned()]);
}
