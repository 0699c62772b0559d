//! Opening deliveries of a history.

use std::sync::{Arc, Mutex};

use dochistory_core::protocols::delivery::{Inbox, Opening, Options, Outbox, Settings, status};
use pyo3::prelude::*;

use super::held_rows::Kept;
use super::inbox::GuaranteedDelivery;
use super::outbox::DeliveryOutbox;
use super::shared::Shared;
use super::{offsets, rows, status as tables};
use crate::arguments;
use crate::errors::{Failure, Outcome};
use crate::history::History;
use crate::output;

#[pymethods]
impl History {
    /// Open the receiving side of guaranteed delivery.
    ///
    /// Args:
    ///     stream: the stream (a publisher-subscriber pair) to receive; all that there are, if
    ///         absent.
    ///     start: where a stream starts that the history does not know yet: up to this log offset
    ///         the subscriber has everything, by the extraction that began the subscription. An
    ///         offset, or a mapping of streams to offsets. Streams that are known stay as they are.
    ///     log_received: how far the caller has applied, by its own data: settles what is in doubt.
    ///         An offset, or a mapping.
    ///     own_transaction: the caller writes `log_received` in one transaction with what it
    ///         applies, and says it with `log_received` whenever it opens the delivery: then
    ///         `receive` records nothing before it hands out a poll, and nothing is ever in doubt.
    ///     patience: polls to wait for a missing message before a resend is requested.
    ///     batch_mode: request at once what is missing at the end of a poll.
    ///     reset_patience: a new message of the stream starts the wait again, even if it is not the
    ///         missing one.
    ///     first_contact: a stream that nobody gave a start for begins at the lowest `prev` that
    ///         arrives with `seq` 0.
    ///     held_limit: most messages of one stream that are held after a poll; the highest `prev`
    ///         goes first, which costs a resend.
    ///     keep_rows: keep the rows of held messages (in memory), so that `DeliveryPoll.messages`
    ///         has them when they are released.
    ///
    /// Returns:
    ///     GuaranteedDelivery: the receiving side.
    ///
    /// Raises:
    ///     RestoredError: [DH-RESTORED] `log_received` is outside of what may have been applied:
    ///         the history or the caller's data was restored to an older state.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    ///     FencedError: [DH-FENCED] another process has started one of the streams at the same
    ///         moment.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading, and a stream is to be
    ///         started or settled.
    #[pyo3(signature = (
        stream = None, *, start = None, log_received = None, own_transaction = false, patience = 1, batch_mode = false,
        reset_patience = true, first_contact = false, held_limit = 1_048_576, keep_rows = true
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    #[expect(clippy::fn_params_excessive_bools, reason = "users give them by name")]
    fn delivery(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::stream)] stream: Option<String>,
        start: Option<&Bound<'_, PyAny>>,
        log_received: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::own_transaction)] own_transaction: bool,
        #[pyo3(from_py_with = arguments::patience)] patience: u32,
        #[pyo3(from_py_with = arguments::batch_mode)] batch_mode: bool,
        #[pyo3(from_py_with = arguments::reset_patience)] reset_patience: bool,
        #[pyo3(from_py_with = arguments::first_contact)] first_contact: bool,
        #[pyo3(from_py_with = arguments::held_limit)] held_limit: usize,
        #[pyo3(from_py_with = arguments::keep_rows)] keep_rows: bool,
    ) -> Outcome<GuaranteedDelivery> {
        let _call = crate::calls::InCall::enter(py);
        if held_limit == 0 {
            return Err(Failure::config(
                "held_limit is 0; allowed is 1 or more: the lowest held message shows what is missing",
            ));
        }
        let opening = Opening::new(
            offsets::by_stream("start", start, stream.as_deref())?,
            offsets::by_stream("log_received", log_received, stream.as_deref())?,
        );
        let options = Options { patience, batch_mode, reset_patience, first_contact, held_limit };
        let settings = Settings { options, own_transaction, only: stream };
        let rows = rows::received(&self.handle)?;
        let inbox = crate::calls::outside(py, || Inbox::open(rows, settings, &opening))?;
        let shared = Shared { handle: self.handle.clone(), inbox, keep_rows, kept: Mutex::new(Kept::default()) };
        Ok(GuaranteedDelivery { shared: Arc::new(shared) })
    }

    /// Open the sending side of guaranteed delivery to one subscriber.
    ///
    /// Args:
    ///     subscriber: who is sent to.
    ///     publisher: whose log is sent, where a history serves several: `truncation_point` is that
    ///         of one publisher's log.
    ///     start: where a new subscriber starts: it has everything up to this log offset, by the
    ///         extraction that began the subscription. A subscriber that is known stays as it is.
    ///
    /// Returns:
    ///     DeliveryOutbox: the sending side.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the subscriber is not known, and `start` does not say where it
    ///         starts.
    ///     FencedError: [DH-FENCED] another process has started it at the same moment.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading, and the subscriber is
    ///         new.
    #[pyo3(signature = (subscriber, *, publisher = "", start = None))]
    fn delivery_out(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::subscriber)] subscriber: &str,
        #[pyo3(from_py_with = arguments::publisher)] publisher: &str,
        #[pyo3(from_py_with = arguments::start)] start: Option<u64>,
    ) -> Outcome<DeliveryOutbox> {
        let _call = crate::calls::InCall::enter(py);
        let rows = rows::sent(&self.handle)?;
        let outbox = crate::calls::outside(py, || Outbox::open(rows, publisher, subscriber, start))?;
        Ok(DeliveryOutbox { handle: self.handle.clone(), outbox })
    }

    /// All streams of guaranteed delivery, as they stand on disk, a row each, under the column
    /// names of SYSREMOTEUSER.
    ///
    /// Returns:
    ///     A pyarrow RecordBatch: `publisher`, `stream` (the stream received, or the subscriber);
    ///     of the sending side `log_send`, `time_sent`, `log_sent`, `confirm_sent`, `send_count`,
    ///     `resend_count`; of the receiving side `time_received`, `log_received`,
    ///     `confirm_received`, `receive_count`, `rereceive_count`; and `applying_upto`, above
    ///     `log_received` where a batch is being applied or is in doubt. Offsets and counts are
    ///     uint64, times timestamp[us, UTC]; null where there is no such side, or never.
    ///     `confirm_received` is written with the next change: a confirmation may be given again
    ///     after a restart, and is never forgotten.
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn delivery_status<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let batch = crate::calls::outside(py, || {
            let streams = status(&*history.received_streams(false)?, &*history.sent_streams(false)?)?;
            tables::whole(&streams)
        })?;
        Ok(output::record_batch(py, batch)?)
    }
}
