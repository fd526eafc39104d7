//! Collects rows of many runs and machines in one Parquet file.
//!
//! Each run of `uzram analyze` copies the existing row groups to a new file and adds a row group.
//! The new file replaces the old file when it is complete. While another program appends to the
//! file, the run waits up to `APPENDED_WITHIN`.

use super::report::Report;
use super::row::Row;
use crate::commands::policy::APPENDED_WITHIN;
use crate::error::Error;
use crate::policy::SIGNAL_TICK;
use crate::process_status::masked;
use measure::Interrupt;
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::{File, read_to_string};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use zram::AtomicFile;

const SCHEMA: &str = "message uzram_analyze {
    required int64 time (TIMESTAMP(MILLIS,true));
    required binary host (UTF8);
    required binary kind (UTF8);
    required binary name (UTF8);
    required int64 pid;
    required int64 data_bytes;
    required int64 sample_bytes;
    required binary algorithm (UTF8);
    required int32 level;
    required int64 block_bytes;
    required int64 dictionary_bytes;
    required int64 memory_bytes;
    required int64 pool_bytes;
    required int64 error_bytes;
    required double store_nanoseconds;
    required double read_nanoseconds;
    required double read_one_nanoseconds;
    required boolean is_recommended;
}";

/// Checks that rows can be appended to the file. Called before the sample is taken, so that an
/// error is reported early.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    let check = |before| copied(before, &parse_message_type(SCHEMA)?).map(drop);
    match before(path).map_err(|why| failed(path, &why))? {
        Some(before) => check(before).map_err(|why| failed(path, &why)),
        None => Ok(()),
    }
}

/// Appends a row for each candidate.
pub(super) fn append(path: &Path, report: &Report, interrupt: &Interrupt) -> Result<(), Error> {
    let failed = |why: &dyn Display| failed(path, why);
    let until = Instant::now() + APPENDED_WITHIN;
    let mut file = loop {
        match AtomicFile::new(path, masked(0o666)) {
            Ok(file) => break file,
            Err(why) if Errno::from_io_error(&why) != Some(Errno::BUSY) => {
                return Err(failed(&why));
            }
            Err(_) if Instant::now() > until => {
                return Err(failed(&"another program is writing it, so try again"));
            }
            Err(_) => interrupt.check()?,
        }
        sleep(SIGNAL_TICK);
    };
    // The lock is held, so no other program replaces the file.
    let before = before(path).map_err(|why| failed(&why))?;
    write(&mut file, before, report).map_err(|why| failed(&why))?;
    file.sync().and_then(|()| file.put_in_place()).map_err(|why| failed(&why))
}

fn failed(path: &Path, why: &dyn Display) -> Error {
    let remedy = "give --parquet a file of this command's, or a new one where it may write";
    Error::of_file(path, "can't be appended to", why, remedy)
}

/// Opens the file, and returns `None` if it does not exist or is empty.
fn before(path: &Path) -> io::Result<Option<File>> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    match opened {
        Ok((len, file)) => Ok((len > 0).then_some(file)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

fn write(
    out: impl Write + Send,
    before: Option<File>,
    report: &Report,
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(out, TypePtr::clone(&schema), properties)?;
    if let Some(before) = before {
        copy(&mut writer, before, &schema)?;
    }
    let mut rows = writer.next_row_group()?;
    columns(&mut rows, report)?;
    rows.close()?;
    writer.close().map(drop)
}

/// Opens a file to copy its row groups. Fails if the file's columns differ from `schema`.
fn copied(before: File, schema: &Type) -> Result<SerializedFileReader<File>, ParquetError> {
    let reader = SerializedFileReader::new(before)?;
    match reader.metadata().file_metadata().schema() == schema {
        true => Ok(reader),
        false => Err(ParquetError::General("it has other columns".to_owned())),
    }
}

fn copy<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    before: File,
    schema: &Type,
) -> Result<(), ParquetError> {
    let chunks = before.try_clone()?;
    let reader = copied(before, schema)?;
    for group in reader.metadata().row_groups() {
        let mut copied = writer.next_row_group()?;
        for column in group.columns() {
            let close = ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copied.append_column(&chunks, close)?;
        }
        copied.close()?;
    }
    Ok(())
}

/// Writes all columns. Each row repeats the values of the whole report.
fn columns<W: Write + Send>(
    rows: &mut SerializedRowGroupWriter<'_, W>,
    report: &Report,
) -> Result<(), ParquetError> {
    let list = &report.candidates;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let host = read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let source = &report.source;
    column::<Int64Type, _>(rows, vec![time.as_millis() as i64; list.len()])?;
    for text in [host.trim_end(), source.kind, &source.name] {
        column::<ByteArrayType, _>(rows, vec![ByteArray::from(text); list.len()])?;
    }
    let pid = u64::from(source.pid.unwrap_or(0));
    for number in [pid, report.data_bytes, report.sample_bytes] {
        column::<Int64Type, _>(rows, vec![number as i64; list.len()])?;
    }
    let names = list.iter().map(|row| ByteArray::from(row.algorithm)).collect();
    column::<ByteArrayType, _>(rows, names)?;
    column::<Int32Type, _>(rows, list.iter().map(|row| row.level).collect())?;
    let bytes: [fn(&Row) -> u64; 5] = [
        |row| row.block_bytes,
        |row| row.dictionary_bytes,
        |row| row.memory_bytes,
        |row| row.pool_bytes,
        |row| row.error_bytes,
    ];
    for of in bytes {
        column::<Int64Type, _>(rows, list.iter().map(|row| of(row) as i64).collect())?;
    }
    let times: [fn(&Row) -> f64; 3] =
        [|row| row.store_nanoseconds, |row| row.read_nanoseconds, |row| row.read_one_nanoseconds];
    for of in times {
        column::<DoubleType, _>(rows, list.iter().map(of).collect())?;
    }
    column::<BoolType, _>(rows, list.iter().map(|row| row.is_recommended).collect())
}

fn column<T: DataType, W: Write + Send>(
    rows: &mut SerializedRowGroupWriter<'_, W>,
    values: Vec<T::T>,
) -> Result<(), ParquetError> {
    let ended = || ParquetError::General("there are fewer columns".to_owned());
    let mut column = rows.next_column()?.ok_or_else(ended)?;
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::super::report::Source;
    use super::*;
    use parquet::record::RowAccessor as _;

    fn report(name: &str, memory: &[u64]) -> Report {
        let row = |&memory_bytes: &u64| Row {
            algorithm: "zstd",
            level: -1,
            block_bytes: 4096,
            dictionary_bytes: 0,
            memory_bytes,
            pool_bytes: 0,
            error_bytes: 3,
            ratio: 1.0,
            store_nanoseconds: 1.5,
            read_nanoseconds: 0.0,
            read_one_nanoseconds: 0.0,
            is_recommended: memory_bytes == 7,
        };
        Report {
            source: Source { kind: "files", name: name.to_owned(), ..Source::default() },
            data_bytes: 1 << 40,
            sample_bytes: 1,
            clusters: 1,
            clusters_in_all: 1,
            clusters_unread: 0,
            is_all: true,
            candidates: memory.iter().map(row).collect(),
            advice: Default::default(),
        }
    }

    fn append(path: &Path, report: &Report) -> Result<(), Error> {
        super::append(path, report, &Interrupt::default())
    }

    #[test]
    fn rows_are_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.parquet");
        append(&path, &report("a", &[5, 7])).unwrap();
        append(&path, &report("b", &[9])).unwrap();
        append(&path, &report("c", &[7])).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let seen: Vec<_> = rows
            .iter()
            .map(|row| {
                let name = row.get_string(3).unwrap().clone();
                (name, row.get_long(11).unwrap(), row.get_bool(17).unwrap())
            })
            .collect();
        let row = |name: &str, memory, is_recommended| (name.to_owned(), memory, is_recommended);
        let expected =
            [row("a", 5, false), row("a", 7, true), row("b", 9, false), row("c", 7, true)];
        assert_eq!(seen, expected);
        assert_eq!((rows[0].get_long(5).unwrap(), rows[0].get_int(8).unwrap()), (1 << 40, -1));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn another_file_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"no rows").unwrap();
        let error = append(&path, &report("a", &[1])).unwrap_err().to_string();
        assert!(error.contains("can't be appended to") && error.contains("/f'"), "{error}");
        assert_eq!(check(&path).unwrap_err().to_string(), error, "it is told beforehand");
        assert_eq!(std::fs::read(&path).unwrap(), b"no rows");
        let mut other = Vec::new();
        let schema = Arc::new(parse_message_type("message m { required int32 x; }").unwrap());
        let writer = SerializedFileWriter::new(&mut other, schema, Arc::default()).unwrap();
        writer.close().unwrap();
        std::fs::write(&path, &other).unwrap();
        let error = append(&path, &report("a", &[1])).unwrap_err().to_string();
        assert!(error.contains("it has other columns"), "{error}");
        assert_eq!(check(&path).unwrap_err().to_string(), error, "it is told beforehand");
        assert_eq!(std::fs::read(&path).unwrap(), other);
    }

    #[test]
    fn an_empty_file_is_a_new_one_and_another_that_appends_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        check(&path).unwrap();
        File::create(&path).unwrap();
        check(&path).unwrap();
        let other = AtomicFile::new(&path, 0o600).unwrap();
        std::thread::scope(|scope| {
            let appends = scope.spawn(|| append(&path, &report("a", &[1])));
            sleep(5 * SIGNAL_TICK);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "it did not wait");
            drop(other);
            appends.join().unwrap().unwrap();
        });
        check(&path).unwrap();
        let held = AtomicFile::new(&path, 0o600).unwrap();
        let interrupt = Interrupt::default();
        interrupt.0.store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = super::append(&path, &report("a", &[1]), &interrupt);
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        drop(held);
    }
}
