//! Columns as the engine takes them: borrowed buffers in Arrow's layout, without Arrow's types.

mod check;

/// Which rows hold a value; a missing bitmap means that all do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validity<'a> {
    bits: Option<(&'a [u8], usize)>,
}

impl<'a> Validity<'a> {
    /// A least-significant-bit-first bitmap in which row 0 is bit `offset`.
    pub fn new(bits: &'a [u8], offset: usize) -> Self {
        Self { bits: Some((bits, offset)) }
    }

    /// Every row holds a value.
    pub const fn all() -> Self {
        Self { bits: None }
    }

    /// Whether no row can be null.
    pub fn is_all(&self) -> bool {
        self.bits.is_none()
    }

    /// Whether `row` holds a value.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        match self.bits {
            None => true,
            Some((bits, offset)) => (bits[(row + offset) >> 3] >> ((row + offset) & 7)) & 1 == 1,
        }
    }
}

/// A column of ids.
#[derive(Clone, Debug)]
pub enum IdColumn<'a> {
    /// Arrow `utf8`: `rows + 1` offsets into `values`.
    Utf8 {
        /// Start of each value, and the end of the last.
        offsets: &'a [i32],
        /// All values, one after the other.
        values: &'a [u8],
        /// Nulls.
        validity: Validity<'a>,
    },
    /// Arrow `large_utf8`.
    LargeUtf8 {
        /// Start of each value, and the end of the last.
        offsets: &'a [i64],
        /// All values, one after the other.
        values: &'a [u8],
        /// Nulls.
        validity: Validity<'a>,
    },
    /// Arrow `utf8_view`.
    Utf8View {
        /// One 16-byte view a row.
        views: &'a [u128],
        /// What long views point into.
        buffers: Vec<&'a [u8]>,
        /// Nulls.
        validity: Validity<'a>,
    },
    /// UUIDs as 16 bytes each, in the order of their text.
    Uuid {
        /// `16 * rows` bytes.
        values: &'a [u8],
        /// Nulls.
        validity: Validity<'a>,
    },
    /// Arrow dictionary: `indices[row]` points into `values`.
    Dictionary {
        /// One index a row (any value where null).
        indices: Vec<u32>,
        /// The distinct values.
        values: Box<IdColumn<'a>>,
        /// Nulls of the indices.
        validity: Validity<'a>,
    },
}

/// One id as it stands in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdCell<'a> {
    /// Null.
    Null,
    /// Text.
    Text(&'a [u8]),
    /// A UUID as its 16 bytes.
    Uuid(&'a [u8; 16]),
}

impl<'a> IdColumn<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Utf8 { offsets, .. } => offsets.len().saturating_sub(1),
            Self::LargeUtf8 { offsets, .. } => offsets.len().saturating_sub(1),
            Self::Utf8View { views, .. } => views.len(),
            Self::Uuid { values, .. } => values.len() / 16,
            Self::Dictionary { indices, .. } => indices.len(),
        }
    }

    /// The value of `row`.
    #[inline]
    pub fn get(&self, row: usize) -> IdCell<'a> {
        match self {
            Self::Utf8 { offsets, values, validity } => {
                if !validity.is_valid(row) {
                    return IdCell::Null;
                }
                IdCell::Text(&values[offsets[row] as usize..offsets[row + 1] as usize])
            }
            Self::LargeUtf8 { offsets, values, validity } => {
                if !validity.is_valid(row) {
                    return IdCell::Null;
                }
                IdCell::Text(&values[offsets[row] as usize..offsets[row + 1] as usize])
            }
            Self::Utf8View { views, buffers, validity } => {
                if validity.is_valid(row) {
                    IdCell::Text(view_bytes(&views[row], buffers))
                } else {
                    IdCell::Null
                }
            }
            Self::Uuid { values, validity } => {
                if !validity.is_valid(row) {
                    return IdCell::Null;
                }
                values[row * 16..row * 16 + 16].first_chunk().map_or(IdCell::Null, IdCell::Uuid)
            }
            Self::Dictionary { indices, values, validity } => {
                if validity.is_valid(row) {
                    values.get(indices[row] as usize)
                } else {
                    IdCell::Null
                }
            }
        }
    }
}

/// The bytes of one Arrow string view: in place up to 12 bytes, else in a buffer.
#[inline]
fn view_bytes<'a>(view: &'a u128, buffers: &[&'a [u8]]) -> &'a [u8] {
    let length = (*view as u32) as usize;
    if length <= 12 {
        return in_place(view, length);
    }
    let buffer = (*view >> 64) as u32 as usize;
    let start = (*view >> 96) as u32 as usize;
    &buffers[buffer][start..start + length]
}

/// The bytes that follow the length in a view's own 16 bytes.
fn in_place(view: &u128, length: usize) -> &[u8] {
    // SAFETY: a `u128` is 16 initialised bytes; the slice covers them and lives as long as the
    // view.
    #[expect(unsafe_code, reason = "Arrow keeps short strings inside the view; borrowing them avoids a copy")]
    let bytes = unsafe { &*std::ptr::from_ref(view).cast::<[u8; 16]>() };
    &bytes[4..4 + length]
}

/// A column of redelivery or delivery counts.
#[derive(Clone, Copy, Debug)]
pub enum CountColumn<'a> {
    /// No such column: every count is undefined.
    Absent,
    /// 8-bit counts.
    I8(&'a [i8], Validity<'a>),
    /// 16-bit counts.
    I16(&'a [i16], Validity<'a>),
    /// 32-bit counts.
    I32(&'a [i32], Validity<'a>),
    /// 64-bit counts.
    I64(&'a [i64], Validity<'a>),
}

impl CountColumn<'_> {
    /// The count of `row`; none when null or absent.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        let (count, validity) = match self {
            Self::Absent => return None,
            Self::I8(values, validity) => (i64::from(values[row]), validity),
            Self::I16(values, validity) => (i64::from(values[row]), validity),
            Self::I32(values, validity) => (i64::from(values[row]), validity),
            Self::I64(values, validity) => (values[row], validity),
        };
        validity.is_valid(row).then_some(count)
    }
}

/// A column of truth values, as a bitmap.
#[derive(Clone, Copy, Debug)]
pub enum FlagColumn<'a> {
    /// No such column.
    Absent,
    /// Bit `offset + row` of the bitmap.
    Bits {
        /// Least significant bit first.
        bits: &'a [u8],
        /// Which bit is row 0.
        offset: usize,
        /// Nulls.
        validity: Validity<'a>,
    },
}

impl FlagColumn<'_> {
    /// The flag of `row`; none when null or absent.
    #[inline]
    pub fn get(&self, row: usize) -> Option<bool> {
        match self {
            Self::Absent => None,
            Self::Bits { bits, offset, validity } => {
                let bit = row + offset;
                validity.is_valid(row).then(|| (bits[bit >> 3] >> (bit & 7)) & 1 == 1)
            }
        }
    }
}

/// A batch of documents, as columns of equal length.
#[derive(Clone, Debug)]
pub struct Documents<'a> {
    /// Number of rows.
    pub rows: usize,
    /// The id columns in the order of the key chain; absent ones are left out.
    pub ids: Vec<IdColumn<'a>>,
    /// Redelivery count (messaging) or delivery count (JMS).
    pub count: CountColumn<'a>,
    /// `guaranteed` (messaging) or `persistent` (JMS); absent and null mean true.
    pub eligible: FlagColumn<'a>,
}
