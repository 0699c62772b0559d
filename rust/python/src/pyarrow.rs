//! Batches from and to pyarrow by Arrow's C structures. Arrow's capsules describe the types again
//! with each batch, which takes longer than judging a small one; here both sides remember the
//! descriptions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use crate::arrow::datatypes::{DataType, SchemaRef};
use crate::arrow::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3_arrow::PySchema;

use crate::errors::{Failure, Outcome};
use crate::exported::exported;

/// Maximum number of our schemas that are remembered with their pyarrow schemas.
const MOST_SCHEMAS: usize = 8;

/// The key under which Arrow keeps the name of an extension type.
const EXTENSION: &str = "ARROW:extension:name";

static BATCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The rows of a `pyarrow.RecordBatch`, without a copy; none for anything else, and none if its
/// types are unknown here.
pub(crate) fn from_pyarrow(documents: &Bound<'_, PyAny>) -> Outcome<Option<RecordBatch>> {
    let py = documents.py();
    // Not for a subclass, whose schema might not match its data.
    if !documents.get_type().is(BATCH.import(py, "pyarrow", "RecordBatch")?) {
        return Ok(None);
    }
    let Some(schema) = schema_of(&documents.getattr(intern!(py, "schema"))?)? else { return Ok(None) };
    let mut array = FFI_ArrowArray::empty();
    documents.call_method1(intern!(py, "_export_to_c"), ((&raw mut array).expose_provenance(),))?;
    let kind = DataType::Struct(schema.fields().clone());
    // SAFETY: pyarrow's own class has filled `array` by the rules of the C interface, and `kind` is
    // its description of the type.
    #[expect(unsafe_code, reason = "pyarrow is trusted to hand over what it says, as it is where it comes by capsules")]
    let data = unsafe { from_ffi_and_data_type(array, kind) };
    let batch = data.and_then(|data| {
        let rows = RecordBatchOptions::new().with_row_count(Some(data.len()));
        RecordBatch::try_new_with_options(schema, StructArray::from(data).into_parts().1, &rows)
    });
    batch.map(Some).map_err(|error| Failure::schema(format!("the documents cannot be read: {error}")))
}

/// Our schema for a `pyarrow.Schema`; none if a type is unknown. The last one is remembered.
fn schema_of(theirs: &Bound<'_, PyAny>) -> PyResult<Option<SchemaRef>> {
    static LAST: Mutex<Option<(Py<PyAny>, SchemaRef)>> = Mutex::new(None);
    let py = theirs.py();
    // No Python code runs while this is locked, so that no thread that holds Python waits for the
    // lock, and no fork happens while it is held.
    let lock = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let last = lock().as_ref().map(|(known, ours)| (known.clone_ref(py), ours.clone()));
    if let Some((known, ours)) = last
        && (known.bind(py).is(theirs)
            || known.bind(py).call_method1(intern!(py, "equals"), (theirs, true))?.is_truthy()?)
    {
        return Ok(Some(ours));
    }
    let Ok(ours) = theirs.extract::<PySchema>().map(PySchema::into_inner) else { return Ok(None) };
    let is_plain = |field: &crate::arrow::datatypes::FieldRef| {
        is_plain(field.data_type()) && !field.metadata().contains_key(EXTENSION)
    };
    if ours.fields().iter().all(is_plain) {
        let forgotten = lock().replace((theirs.clone().unbind(), ours.clone()));
        drop(forgotten);
    }
    Ok(Some(ours))
}

/// Whether equal names mean equal storage: an extension's author may define any types as equal.
fn is_plain(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_plain(values),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Boolean
        | DataType::Null => true,
        other => other.is_primitive(),
    }
}

/// A `pyarrow.RecordBatch`.
pub(crate) fn to_pyarrow(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    static IMPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let schema = described(py, batch.schema_ref())?;
    let import = IMPORT.get_or_try_init(py, || importer(BATCH.import(py, "pyarrow", "RecordBatch")?))?;
    hand_over(exported(batch), import.bind(py), &schema)
}

/// A `pyarrow.Array` of the pyarrow type `kind`.
pub(crate) fn array_to_pyarrow<'py>(array: &ArrayRef, kind: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static IMPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = kind.py();
    let import = IMPORT.get_or_try_init(py, || importer(ARRAY.import(py, "pyarrow", "Array")?))?;
    hand_over(FFI_ArrowArray::new(&array.to_data()), import.bind(py), kind)
}

fn importer(class: &Bound<'_, PyType>) -> PyResult<Py<PyAny>> {
    Ok(class.getattr(intern!(class.py(), "_import_from_c"))?.unbind())
}

fn hand_over<'py>(
    mut array: FFI_ArrowArray,
    import: &Bound<'py, PyAny>,
    described: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // The consumer marks this as empty; without one, its content is freed at the end.
    import.call1(((&raw mut array).expose_provenance(), described))
}

/// A schema as a pyarrow object.
pub(crate) fn described<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static KNOWN: Mutex<VecDeque<(SchemaRef, Py<PyAny>)>> = Mutex::new(VecDeque::new());
    // As above: no Python code runs while this is locked.
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Most are the same object, which is quick to check; equal schemas are equal in all their
    // fields.
    let is_it = |(known, _): &&(SchemaRef, _)| Arc::ptr_eq(known, schema) || known == schema;
    let known = lock().iter().find(is_it).map(|(_, described)| described.clone_ref(py));
    if let Some(known) = known {
        return Ok(known.into_bound(py));
    }
    let made = MAKE.import(py, "pyarrow", "schema")?.call1((PySchema::new(schema.clone()),))?;
    let mut known = lock();
    known.push_front((schema.clone(), made.clone().unbind()));
    let forgotten = if known.len() > MOST_SCHEMAS { known.pop_back() } else { None };
    drop(known);
    drop(forgotten);
    Ok(made)
}
