//! Writing a file of values from a sorted run.

use std::path::Path;

use super::format::{FILTER_BITS, Part, RECORD, ValueHeader, directory_bits};
use super::run::ValueRun;
use super::segment::Record;
use crate::Result;
use crate::filter;
use crate::io::pages::{PAGE, header_sum, page_sums};
use crate::io::{FileSystem, write_new};
use crate::segment::buckets::write_directory;

/// The owner and the kind of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileIdentity {
    pub(crate) id: u64,
    pub(crate) history: [u8; 16],
    pub(crate) is_later: bool,
}

/// Write a sorted run as a file; its bytes are durable on return, its name is not. Answers the
/// header's checksum and the file's size.
pub(crate) fn write(system: &dyn FileSystem, path: &Path, named: FileIdentity, run: &ValueRun) -> Result<(u32, u64)> {
    let mut header = header_of(named, run);
    let mut image = vec![0; header.pages as usize * PAGE];
    keys(&mut image, &header, run);
    texts(&mut image, &header, run);
    values(&mut image, &header, run);
    let filter = part_mut(&mut image, &header, Part::Filter);
    run.rows.iter().for_each(|row| filter::insert(filter, row.key));
    // The table of checksums leaves the header page out, so the header can hold the table's own.
    let sums = page_sums(&image);
    header.sums_crc = crc32c::crc32c(&sums);
    image[..PAGE].copy_from_slice(&header.encode());
    write_new(system, path, &[&image, &sums])?;
    Ok((header_sum(&image[..PAGE]), (image.len() + sums.len()) as u64))
}

fn header_of(FileIdentity { id, history, is_later }: FileIdentity, run: &ValueRun) -> ValueHeader {
    let rows = run.len() as u64;
    let mut header = ValueHeader {
        id,
        history,
        rows,
        texts: run.rows.iter().map(|row| run.text(row).len() as u64).sum(),
        values: run.rows.iter().map(|row| run.value(row).len() as u64).sum(),
        directory_bits: directory_bits(rows),
        is_later: Some(is_later),
        filter_blocks: filter::blocks_for(rows, FILTER_BITS),
        ..ValueHeader::default()
    };
    header.lay_out();
    header
}

fn part_mut<'a>(image: &'a mut [u8], header: &ValueHeader, part: Part) -> &'a mut [u8] {
    let section = header.section(part);
    &mut image[section.offset as usize..(section.offset + section.length) as usize]
}

fn keys(image: &mut [u8], header: &ValueHeader, run: &ValueRun) {
    for (slot, row) in part_mut(image, header, Part::Keys).chunks_exact_mut(16).zip(&run.rows) {
        slot.copy_from_slice(&row.key.to_bytes());
    }
    let keys = run.rows.iter().map(|row| row.key);
    write_directory(part_mut(image, header, Part::Directory), header.directory_bits, keys);
}

fn texts(image: &mut [u8], header: &ValueHeader, run: &ValueRun) {
    if header.texts == 0 {
        return;
    }
    let mut end = 0u32;
    let ends = run.rows.iter().map(|row| {
        end += run.text(row).len() as u32;
        end
    });
    for (slot, end) in part_mut(image, header, Part::TextOffsets).chunks_exact_mut(4).skip(1).zip(ends) {
        slot.copy_from_slice(&end.to_le_bytes());
    }
    let mut out = part_mut(image, header, Part::Texts);
    for row in &run.rows {
        out = append(out, run.text(row));
    }
}

fn values(image: &mut [u8], header: &ValueHeader, run: &ValueRun) {
    let mut start = 0;
    for (slot, row) in part_mut(image, header, Part::Records).chunks_exact_mut(RECORD).zip(&run.rows) {
        let length = run.value(row).len() as u32;
        slot.copy_from_slice(&Record { until: row.until, start, length, flags: row.flags }.to_bytes());
        start += length;
    }
    let mut out = part_mut(image, header, Part::Values);
    for row in &run.rows {
        out = append(out, run.value(row));
    }
}

/// Write `bytes` at the front of `out`; answers the rest of `out`.
fn append<'a>(out: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (front, rest) = out.split_at_mut(bytes.len());
    front.copy_from_slice(bytes);
    rest
}
