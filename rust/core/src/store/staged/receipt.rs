//! A receipt: a record of what a task staged, as bytes for the process that commits.

use std::path::Path;

use super::{Document, Job, Resolved};
use crate::format::manifest::SegmentEntry;
use crate::io::bytes::{Decoder, Encoder, checked};
use crate::key::Key;
use crate::objects::change::Stored;
use crate::types::transaction::BatchRows;
use crate::{Error, Result};

const VERSION: u32 = 5;

/// The number of rows of a part with one outcome. The outcome is given by its words, because codes
/// differ from version to version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeCount {
    /// The rule, as in the verdicts.
    pub rule: String,
    /// The status; empty for none.
    pub status: String,
    /// The action.
    pub action: String,
    /// Rows of the part.
    pub rows: u64,
}

/// What one task staged for one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub(crate) job: Job,
    pub(crate) part: u32,
    pub(crate) attempt: String,
    pub(crate) rows: BatchRows,
    /// Whether keys among them were known at the snapshot, so that their state has to be looked up
    /// again.
    pub(crate) is_contested: bool,
    pub(crate) counts: Vec<OutcomeCount>,
    /// What a resolver called duplicates of documents in progress.
    pub(crate) resolved: Vec<Resolved>,
    /// The documents of a numbered batch that are not done, and that nobody gets now.
    pub(crate) left: Vec<Document>,
    /// Completed ones that an earlier run of the batch has open as well.
    pub(crate) over: Vec<Document>,
    pub(crate) files: Vec<SegmentEntry>,
    /// The objects that hold the files; none where they lie in the history's directory.
    pub(crate) objects: Vec<Stored>,
}

impl Receipt {
    /// The job that it belongs to.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The part of the job.
    pub fn part(&self) -> u32 {
        self.part
    }

    /// The attempt that staged it.
    pub fn attempt(&self) -> &str {
        &self.attempt
    }

    /// Whether documents of the part are suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        self.counts.iter().any(|count| count.action == "SUSPEND")
    }

    /// Bytes staged.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Rows of the part.
    pub fn rows(&self) -> u64 {
        self.rows.count()
    }

    /// A fingerprint of the rows of all these parts.
    pub fn rows_of(receipts: &[Self]) -> BatchRows {
        let mut rows = BatchRows::default();
        for receipt in receipts {
            rows.add(receipt.rows);
        }
        rows
    }

    /// Entries staged.
    pub fn entries(&self) -> u64 {
        self.files.iter().map(|file| file.entries).sum()
    }

    /// Rows by outcome.
    pub fn counts(&self) -> &[OutcomeCount] {
        &self.counts
    }

    /// The receipt as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u32(VERSION).text(&self.job.token()).u32(self.part).text(&self.attempt);
        self.rows.encode(&mut out);
        out.u8(u8::from(self.is_contested)).u32(self.counts.len() as u32);
        for count in &self.counts {
            out.text(&count.rule).text(&count.status).text(&count.action).u64(count.rows);
        }
        out.u32(self.resolved.len() as u32);
        for one in &self.resolved {
            out.u64(one.claim).i64(one.started_at).raw(&one.key.to_bytes()).u8(u8::from(one.text.is_some()));
            out.blob(one.text.as_deref().unwrap_or_default());
        }
        for documents in [&self.left, &self.over] {
            out.u32(documents.len() as u32);
            for (key, text) in documents {
                out.raw(&key.to_bytes()).u8(u8::from(text.is_some())).blob(text.as_deref().unwrap_or_default());
            }
        }
        out.u32(self.files.len() as u32);
        for file in &self.files {
            out.u64(file.id).u32(file.sum).u64(file.entries).u64(file.open).u64(file.bytes);
            out.i64(file.min_started_at).i64(file.max_started_at);
        }
        out.u32(self.objects.len() as u32);
        for stored in &self.objects {
            out.text(&stored.object).u64(stored.bytes).u32(stored.sum);
        }
        out.checksum();
        out.finish()
    }

    /// Read a receipt back.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let receipt = Self::read(bytes)
            .map_err(|_| Error::Config("this is no receipt of a staged part, or it was damaged on its way".into()))?;
        let is_own = |(place, file): (usize, &SegmentEntry)| receipt.job.owns(receipt.part, place as u64, file.id);
        if !receipt.files.iter().enumerate().all(is_own) {
            return Err(Error::Config("a receipt names files that are not its part's".into()));
        }
        if !receipt.objects.is_empty() && receipt.objects.len() != receipt.files.len() {
            return Err(Error::Config("a receipt does not say which object holds which file".into()));
        }
        Job::check_attempt(&receipt.attempt)?;
        Ok(receipt)
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let path = Path::new("receipt");
        let mut from = Decoder::new(checked(bytes, path)?, path);
        if from.u32()? != VERSION {
            return Err(from.corrupt("another version"));
        }
        let job = Job::from_token(&from.text()?)?;
        let (part, attempt, rows, is_contested) =
            (from.u32()?, from.text()?, BatchRows::decode(&mut from)?, from.u8()? != 0);
        let count = from.count(20)?;
        let counts = (0..count).map(|_| read_count(&mut from)).collect::<Result<_>>()?;
        let count = from.count(41)?;
        let resolved = (0..count).map(|_| read_resolved(&mut from)).collect::<Result<_>>()?;
        let (left, over) = (read_documents(&mut from)?, read_documents(&mut from)?);
        let count = from.count(52)?;
        let files = (0..count).map(|_| crate::format::manifest::read_segment(&mut from)).collect::<Result<_>>()?;
        let count = from.count(16)?;
        let stored =
            |from: &mut Decoder| Result::Ok(Stored { object: from.text()?, bytes: from.u64()?, sum: from.u32()? });
        let objects = (0..count).map(|_| stored(&mut from)).collect::<Result<_>>()?;
        from.finish()?;
        Ok(Self { job, part, attempt, rows, is_contested, counts, resolved, left, over, files, objects })
    }
}

fn read_count(from: &mut Decoder) -> Result<OutcomeCount> {
    Ok(OutcomeCount { rule: from.text()?, status: from.text()?, action: from.text()?, rows: from.u64()? })
}

fn read_resolved(from: &mut Decoder) -> Result<Resolved> {
    let (claim, started_at, key) = (from.u64()?, from.i64()?, Key::from_bytes(from.bytes16()?));
    let (is_text, text) = (from.u8()? != 0, from.blob()?.to_vec());
    Ok(Resolved { key, text: is_text.then_some(text), claim, started_at })
}

fn read_documents(from: &mut Decoder) -> Result<Vec<Document>> {
    let count = from.count(21)?;
    let document = |from: &mut Decoder| {
        let (key, is_text, text) = (Key::from_bytes(from.bytes16()?), from.u8()? != 0, from.blob()?.to_vec());
        Result::Ok((key, is_text.then_some(text)))
    };
    (0..count).map(|_| document(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::staged::JobPlan;
    use crate::types::transaction::Replays;

    fn receipt() -> Receipt {
        let plan = JobPlan {
            parts: 2,
            reads: true,
            routed: false,
            replays: Replays::default(),
            transaction: None,
            rows: None,
            started_at: 5,
        };
        let pin = "pin-00000000000000000001-2f-9".into();
        let job = Job { trigger: "orders".into(), pin, claim: 3, first_file: 11, partition_us: 1, plan };
        let files = vec![SegmentEntry { id: job.first_file_of(1), entries: 4, ..SegmentEntry::default() }];
        let counts = vec![OutcomeCount { rule: "R8".into(), status: "NEW".into(), action: "PROCESS".into(), rows: 4 }];
        let (key, started_at) = (Key { hi: 7, lo: 8 }, -2);
        let resolved = [None, Some(b"urn:a".to_vec())].map(|text| Resolved { key, text, claim: 2, started_at });
        let resolved = resolved.to_vec();
        Receipt {
            job,
            part: 1,
            attempt: "a0".into(),
            rows: BatchRows::of_numbers([4, 1, 2]),
            is_contested: false,
            counts,
            resolved,
            left: vec![(key, None), (key, Some(b"urn:b".to_vec()))],
            over: vec![(key, None)],
            files,
            objects: vec![Stored { object: "data-1".into(), bytes: 9, sum: 3 }],
        }
    }

    #[test]
    fn a_receipt_travels_as_bytes() {
        let back = Receipt::decode(&receipt().encode()).unwrap();
        assert_eq!(back, receipt());
        assert_eq!((back.entries(), back.counts().len()), (4, 1));
    }

    #[test]
    fn a_damaged_or_forged_receipt_is_refused() {
        let bytes = receipt().encode();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert!(Receipt::decode(&damaged).is_err(), "byte {place}");
        }
        let mut forged = receipt();
        forged.files[0].id = 1;
        assert!(Receipt::decode(&forged.encode()).is_err());
        let mut forged = receipt();
        forged.part = 2;
        assert!(Receipt::decode(&forged.encode()).is_err());
    }
}
