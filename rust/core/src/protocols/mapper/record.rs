//! A mapper's record of an id: the bytes of its value in the store (docs/format.md, "Records of a
//! mapper").

use super::rules::Policy;
use crate::{Error, Result};

const MAPPED: u8 = 1;
const HAS_VALUE: u8 = 2;
const PENDING: u8 = 4;
const PROCESS: u8 = 8;
const DUPLICATE: u8 = 16;
const ATTEMPT: u8 = 32;
const TIMES: u8 = 64;
const KNOWN: u8 = MAPPED | HAS_VALUE | PENDING | PROCESS | DUPLICATE | ATTEMPT | TIMES;

/// Sending the message began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// Microseconds since 1970.
    pub(super) since: i64,
    /// The claim of the transaction that began it; 0 without one.
    pub(super) claim: u64,
    /// The number of the attempt that began it. 0 if an older build wrote it; then it belongs to no
    /// attempt.
    pub(super) attempt: u64,
    /// The decision about this id alone.
    pub(super) resolved: Option<Policy>,
    /// Until when it is kept at least, whatever the id is mapped to.
    pub(super) until: i64,
}

/// The two bits of an id, and their details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// C: it was sent, or taken in.
    pub(super) is_mapped: bool,
    /// The other id.
    pub(super) value: Option<&'a [u8]>,
    /// Until when the mapping is kept at least; 0 without one.
    pub(super) until: i64,
    /// P.
    pub(super) pending: Option<Pending>,
}

impl<'a> Record<'a> {
    /// A mapping to another id, or to none.
    pub(super) fn mapped(value: Option<&'a [u8]>, until: i64) -> Self {
        Self { is_mapped: true, value, until, pending: None }
    }

    pub(super) fn pending(pending: Pending) -> Self {
        Self { pending: Some(pending), ..Self::default() }
    }

    /// Until when the store keeps the record: while its mapping or its pending entry is to be kept.
    pub(super) fn kept_until(&self) -> i64 {
        let mapping = self.is_mapped.then_some(self.until);
        mapping.max(self.pending.map(|pending| pending.until)).unwrap_or_default()
    }

    /// The times of the mapping and of the pending entry, where one time does not say both.
    fn times(&self) -> Option<(i64, i64)> {
        let pending = self.pending.filter(|pending| self.is_mapped && pending.until != self.until)?;
        Some((self.until, pending.until))
    }

    /// Writes the record to `out`, replacing its content.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        let mut flags = (u8::from(self.is_mapped) * MAPPED) | (u8::from(self.value.is_some()) * HAS_VALUE);
        if let Some(pending) = self.pending {
            flags |= PENDING | (u8::from(pending.attempt != 0) * ATTEMPT);
            flags |= match pending.resolved {
                Some(Policy::Process) => PROCESS,
                Some(Policy::Duplicate) => DUPLICATE,
                Some(Policy::Error) | None => 0,
            };
        }
        flags |= u8::from(self.times().is_some()) * TIMES;
        out.push(flags);
        if let Some(pending) = self.pending {
            out.extend_from_slice(&pending.since.to_le_bytes());
            out.extend_from_slice(&pending.claim.to_le_bytes());
            if pending.attempt != 0 {
                out.extend_from_slice(&pending.attempt.to_le_bytes());
            }
        }
        if let Some((mapping, pending)) = self.times() {
            out.extend_from_slice(&mapping.to_le_bytes());
            out.extend_from_slice(&pending.to_le_bytes());
        }
        out.extend_from_slice(self.value.unwrap_or_default());
    }

    /// Reads a record that the store keeps until `kept_until`.
    pub(super) fn decode(bytes: &'a [u8], kept_until: i64) -> Result<Self> {
        let strange = || Error::State("an entry of a mapper that this build does not understand".into());
        let (flags, mut rest) = bytes.split_first().ok_or_else(strange)?;
        if flags & !KNOWN != 0 {
            return Err(strange());
        }
        let is_mapped = flags & MAPPED != 0;
        let mut record = Self { is_mapped, until: if is_mapped { kept_until } else { 0 }, ..Self::default() };
        if flags & PENDING != 0 {
            let (since, after) = rest.split_first_chunk().ok_or_else(strange)?;
            let (claim, after) = after.split_first_chunk().ok_or_else(strange)?;
            rest = after;
            let mut attempt = 0;
            if flags & ATTEMPT != 0 {
                let (number, after) = rest.split_first_chunk().ok_or_else(strange)?;
                (attempt, rest) = (u64::from_le_bytes(*number), after);
            }
            let resolved = match (flags & PROCESS != 0, flags & DUPLICATE != 0) {
                (true, _) => Some(Policy::Process),
                (_, true) => Some(Policy::Duplicate),
                _ => None,
            };
            let (since, claim) = (i64::from_le_bytes(*since), u64::from_le_bytes(*claim));
            record.pending = Some(Pending { since, claim, attempt, resolved, until: kept_until });
        }
        if let Some(pending) = record.pending.as_mut().filter(|_| flags & TIMES != 0) {
            let (mapping, after) = rest.split_first_chunk().ok_or_else(strange)?;
            let (own, after) = after.split_first_chunk().ok_or_else(strange)?;
            (record.until, pending.until, rest) = (i64::from_le_bytes(*mapping), i64::from_le_bytes(*own), after);
        }
        record.value = (flags & HAS_VALUE != 0).then_some(rest);
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let mut bytes = Vec::new();
        for is_mapped in [false, true] {
            for value in [None, Some(&b""[..]), Some(b"external-1")] {
                for resolved in [None, Some(Policy::Process), Some(Policy::Duplicate)] {
                    let pending = |attempt, until| Some(Pending { since: -5, claim: 9, attempt, resolved, until });
                    for pending in [None, pending(0, 7), pending(u64::MAX, 7), pending(1, 6), pending(1, i64::MAX)] {
                        let record = Record { is_mapped, value, until: i64::from(is_mapped) * 7, pending };
                        record.encode(&mut bytes);
                        assert_eq!(Record::decode(&bytes, record.kept_until()).unwrap(), record);
                    }
                }
            }
        }
    }

    #[test]
    fn a_pending_record_of_an_older_build_is_nobodys_attempt() {
        let mut bytes = vec![PENDING | PROCESS];
        bytes.extend_from_slice(&7_i64.to_le_bytes());
        bytes.extend_from_slice(&3_u64.to_le_bytes());
        let pending = Pending { since: 7, claim: 3, attempt: 0, resolved: Some(Policy::Process), until: 9 };
        assert_eq!(Record::decode(&bytes, 9).unwrap(), Record::pending(pending));
        let mut again = Vec::new();
        Record::pending(pending).encode(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn one_time_of_an_older_build_is_that_of_both() {
        let mut bytes = vec![MAPPED | PENDING];
        bytes.extend_from_slice(&[0; 16]);
        let pending = Pending { since: 0, claim: 0, attempt: 0, resolved: None, until: 9 };
        let record = Record { pending: Some(pending), ..Record::mapped(None, 9) };
        assert_eq!(Record::decode(&bytes, 9).unwrap(), record);
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!((again, record.kept_until()), (bytes, 9));
    }

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        let without_attempt = [[PENDING | ATTEMPT; 17].as_slice(), &[0; 7]].concat();
        let without_times = [[MAPPED | PENDING | TIMES; 17].as_slice(), &[0; 15]].concat();
        let short = [PENDING, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        for bytes in [&[][..], &[128], &[PENDING], &short, &without_attempt, &without_times] {
            assert_eq!(Record::decode(bytes, 9).unwrap_err().code(), "DH-STATE");
        }
    }
}
