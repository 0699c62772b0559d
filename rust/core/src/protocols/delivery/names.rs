//! A column of names as numbers.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::columns::NO_STREAM;
use crate::columns::{IdCell, IdColumn};
use crate::error::{Error, Result};

/// Index of each row's name, or [`NO_STREAM`] where it is null; and the names in the order in which
/// they first stand there. A dictionary's values are taken as they are, so a name may stand there
/// twice.
pub fn encode_names<'a>(column: &IdColumn<'a>) -> Result<(Vec<u32>, Vec<&'a str>)> {
    if let IdColumn::Dictionary { indices, values, validity } = column {
        let (of_value, names) = encode_names(values)?;
        let number = |row: usize, index: u32| if validity.is_valid(row) { of_value[index as usize] } else { NO_STREAM };
        return Ok((indices.iter().enumerate().map(|(row, &index)| number(row, index)).collect(), names));
    }
    let mut names: Vec<&str> = Vec::new();
    let mut numbers: HashTable<u32> = HashTable::new();
    let mut last: (&[u8], u32) = (&[], NO_STREAM);
    let mut rows = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        let text = match column.get(row) {
            IdCell::Null => {
                rows.push(NO_STREAM);
                continue;
            }
            IdCell::Text(text) => text,
            IdCell::Uuid(_) => return Err(Error::Schema("the column of streams holds UUIDs; allowed is text".into())),
        };
        if last.1 == NO_STREAM || last.0 != text {
            let hash = xxh3_64(text);
            let number = match numbers.find(hash, |&number| names[number as usize].as_bytes() == text) {
                Some(&number) => number,
                None => {
                    let name = std::str::from_utf8(text)
                        .map_err(|_| Error::Schema(format!("row {row}: the stream's name is no UTF-8")))?;
                    let number = names.len() as u32;
                    names.push(name);
                    numbers.insert_unique(hash, number, |&other| xxh3_64(names[other as usize].as_bytes()));
                    number
                }
            };
            last = (text, number);
        }
        rows.push(last.1);
    }
    Ok((rows, names))
}
