//! The end of a poll for one stream, rules 9 to 12: keep waiting, go back, or repeat the request.

use super::decision::Reason;
use super::stream::{Pass, forget};

impl Pass<'_> {
    /// Applies rules 9 to 12; answers the request to send, if any.
    pub(super) fn end(&mut self) -> Option<(u64, u64)> {
        let go_back = !self.blocked && self.is_out_of_patience();
        if go_back {
            self.durable.rereceive_count = self.durable.rereceive_count.saturating_add(1);
            self.drop_kept();
            self.volatile.outstanding = true;
        }
        let (outputs, stream) = (&mut *self.outputs, self.given.stream);
        self.volatile.held = self.shelf.finish(self.given.options.held_limit, |message, source| {
            forget(outputs, stream, message, source, Reason::HeldOverLimit);
        });
        let repeat = self.request_went_unheard(go_back);
        (go_back || repeat).then_some((self.durable.rereceive_count, self.durable.log_received))
    }

    fn is_out_of_patience(&mut self) -> bool {
        let options = self.given.options;
        if self.seen.overlap_upto > self.durable.log_received {
            return true;
        }
        if self.shelf.is_empty() && !self.volatile.future {
            self.volatile.patience = None;
            return false;
        }
        let patience = match self.volatile.patience {
            None => options.patience,
            Some(_) if self.seen.news && options.reset_patience => options.patience,
            Some(left) => left.saturating_sub(1),
        };
        self.volatile.patience = Some(patience);
        patience == 0 || options.batch_mode
    }

    /// Rule 12: counts the polls that brought only stale messages.
    fn request_went_unheard(&mut self, just_requested: bool) -> bool {
        if just_requested || self.seen.current || !self.volatile.outstanding {
            self.volatile.stale_polls = 0;
        } else if self.seen.stale {
            self.volatile.stale_polls += 1;
        }
        let unheard = self.volatile.stale_polls > self.given.options.patience;
        if unheard {
            self.volatile.stale_polls = 0;
        }
        unheard
    }
}
