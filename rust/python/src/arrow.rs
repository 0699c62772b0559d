//! The parts of Arrow that are used here, under the names of the crate `arrow`. That crate would
//! also compile arithmetic, strings and row formats, which takes as long as the rest of this
//! module.

pub(crate) use arrow_buffer as buffer;

pub(crate) mod array {
    pub(crate) use arrow_array::builder::{GenericStringBuilder, StringBuilder};
    pub(crate) use arrow_array::cast::AsArray;
    pub(crate) use arrow_array::iterator::ArrayIter;
    pub(crate) use arrow_array::*;
}

pub(crate) mod datatypes {
    pub(crate) use arrow_array::types::*;
    pub(crate) use arrow_buffer::ArrowNativeType;
    pub(crate) use arrow_schema::*;
}

pub(crate) mod compute {
    pub(crate) use arrow_cast::cast;
    pub(crate) use arrow_cast::cast::{CastOptions, cast_with_options};
    pub(crate) use arrow_select::concat::{concat, concat_batches};
    pub(crate) use arrow_select::filter::filter_record_batch;
    pub(crate) use arrow_select::interleave::interleave_record_batch;
    pub(crate) use arrow_select::take::{take, take_record_batch};
}

pub(crate) mod error {
    pub(crate) use arrow_schema::ArrowError;
}

pub(crate) mod ffi {
    pub(crate) use arrow_array::ffi::from_ffi_and_data_type;
    pub(crate) use arrow_data::ffi::FFI_ArrowArray;
}
