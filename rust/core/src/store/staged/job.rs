//! A job: the parameters of its tasks, as text that can be sent.

use std::path::Path;

use super::FILES_PER_PART;
use crate::format::names::FileKind;
use crate::io::bytes::{Decoder, Encoder, checked};
use crate::types::transaction::{BatchRows, OnOtherRows, OnReplay, Replays, Transaction};
use crate::{Error, Result};

const VERSION: u32 = 2;

/// The parameters of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Parts that its work is divided into, each of which stages files of its own.
    pub parts: u32,
    /// Whether its tasks classify, and so need a snapshot of sealed files.
    pub reads: bool,
    /// Whether part `p` holds exactly the keys whose Spark `xxhash64`, modulo `parts`, is `p`.
    pub routed: bool,
    /// The treatment of a repeated number.
    pub replays: Replays,
    /// The transaction that it commits.
    pub transaction: Option<Transaction>,
    /// The rows of its batch, if an earlier attempt has found them. Tasks that do not know them
    /// take a repeated number as the same batch, and the commit compares.
    pub rows: Option<BatchRows>,
    /// When the services begin, in microseconds since 1970.
    pub started_at: i64,
}

/// A reservation of a claim number and of file numbers, and the state that its tasks read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub(crate) trigger: String,
    pub(crate) pin: String,
    pub(crate) claim: u64,
    pub(crate) first_file: u64,
    pub(crate) partition_us: i64,
    pub(crate) plan: JobPlan,
}

impl Job {
    /// The job's own name, which its staged files bear.
    pub fn id(&self) -> &str {
        self.pin.strip_prefix(FileKind::Pin.prefix()).unwrap_or_default()
    }

    /// The trigger whose documents it is about.
    pub fn trigger(&self) -> &str {
        &self.trigger
    }

    /// Number of the claim that it will begin.
    pub fn claim(&self) -> u64 {
        self.claim
    }

    /// Its parameters.
    pub fn plan(&self) -> &JobPlan {
        &self.plan
    }

    pub(crate) fn first_file_of(&self, part: u32) -> u64 {
        self.first_file + u64::from(part) * FILES_PER_PART
    }

    /// Whether a file number is one of a part's.
    pub(crate) fn owns(&self, part: u32, place: u64, id: u64) -> bool {
        part < self.plan.parts && place < FILES_PER_PART && id == self.first_file_of(part) + place
    }

    pub(crate) fn staged_name(&self, part: u32, attempt: &str, place: u64) -> String {
        format!("{}{}-{attempt}-n{part}-f{place}", FileKind::New.prefix(), self.id())
    }

    /// Whether an attempt's name is allowed in a file's name.
    pub(crate) fn check_attempt(attempt: &str) -> Result<()> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !attempt.is_empty() && attempt.len() <= 100 && attempt.bytes().all(is_plain) {
            return Ok(());
        }
        let allowed = "letters, digits and hyphens, at most 100 of them";
        Err(Error::Config(format!("attempt is {attempt:?}; allowed are {allowed}")))
    }

    /// Whether such a part exists, and the attempt's name is allowed in a file's name.
    pub(crate) fn check(&self, part: u32, attempt: &str) -> Result<()> {
        Self::check_attempt(attempt)?;
        if part < self.plan.parts {
            return Ok(());
        }
        Err(Error::Config(format!("part is {part}; the job has {} of them, from 0", self.plan.parts)))
    }

    /// The job as text.
    pub fn token(&self) -> String {
        let mut out = Encoder::new();
        out.u32(VERSION).text(&self.trigger).text(&self.pin).u64(self.claim).u64(self.first_file);
        out.i64(self.partition_us).u32(self.plan.parts).i64(self.plan.started_at);
        let JobPlan { reads, routed, replays, transaction, rows, .. } = &self.plan;
        let (reruns, looks_up) = (replays.on_replay == OnReplay::Rerun, replays.on_other_rows == OnOtherRows::LookUp);
        for flag in [*reads, *routed, reruns, looks_up, rows.is_some(), transaction.is_some()] {
            out.u8(u8::from(flag));
        }
        rows.unwrap_or_default().encode(&mut out);
        if let Some(transaction) = transaction {
            out.text(&transaction.application).i64(transaction.batch);
        }
        out.checksum();
        let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or_default();
        out.finish().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// The job that a text stands for.
    pub fn from_token(token: &str) -> Result<Self> {
        let unreadable = |_| Error::Config("this is no job's token, or it was damaged on its way".into());
        let digits = token.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).map_err(|_| Error::Config(String::new()))?;
            u8::from_str_radix(pair, 16).map_err(|_| Error::Config(String::new()))
        });
        let bytes = digits.collect::<Result<Vec<u8>>>().map_err(unreadable)?;
        let job = Self::decode(&bytes).map_err(unreadable)?;
        crate::store::pin::check_name(&job.pin)?;
        Ok(job)
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let path = Path::new("token");
        let mut from = Decoder::new(checked(bytes, path)?, path);
        if from.u32()? != VERSION {
            return Err(from.corrupt("another version"));
        }
        let (trigger, pin, claim, first_file) = (from.text()?, from.text()?, from.u64()?, from.u64()?);
        let (partition_us, parts, started_at) = (from.i64()?, from.u32()?, from.i64()?);
        let mut flag = || Ok::<_, Error>(from.u8()? != 0);
        let (reads, routed, reruns, looks_up) = (flag()?, flag()?, flag()?, flag()?);
        let (has_rows, has_transaction) = (flag()?, flag()?);
        let rows = Some(BatchRows::decode(&mut from)?).filter(|_| has_rows);
        let on_replay = if reruns { OnReplay::Rerun } else { OnReplay::ByRules };
        let on_other_rows = if looks_up { OnOtherRows::LookUp } else { OnOtherRows::Refuse };
        let replays = Replays { on_replay, on_other_rows };
        let transaction = has_transaction
            .then(|| Ok::<_, Error>(Transaction { application: from.text()?, batch: from.i64()? }))
            .transpose()?;
        from.finish()?;
        let plan = JobPlan { parts, reads, routed, replays, transaction, rows, started_at };
        Ok(Self { trigger, pin, claim, first_file, partition_us, plan })
    }
}

/// The job whose staged file this is; none for files of other kinds.
pub(crate) fn job_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(FileKind::New.prefix())?;
    let (end, _) = rest.match_indices('-').nth(2)?;
    rest.get(..end)
}

/// Whether a file that is being written belongs to a job, not to maintenance.
pub(crate) fn is_staged_name(name: &str) -> bool {
    job_of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let transaction = Some(Transaction { application: "ä".into(), batch: 7 });
        let plan = JobPlan {
            parts: 8,
            reads: true,
            routed: true,
            replays: Replays { on_replay: OnReplay::Rerun, on_other_rows: OnOtherRows::LookUp },
            transaction,
            rows: Some(BatchRows::of_numbers([3, 4, 5])),
            started_at: -5,
        };
        let pin = "pin-00000000000000000001-2f-9".into();
        Job { trigger: "orders".into(), pin, claim: 3, first_file: 11, partition_us: 1, plan }
    }

    #[test]
    fn a_job_travels_as_text() {
        assert_eq!(Job::from_token(&job().token()).unwrap(), job());
    }

    #[test]
    fn a_damaged_token_is_refused() {
        let token = job().token();
        for cut in [0, 1, 8, token.len() - 1] {
            assert!(Job::from_token(&token[..cut]).is_err());
        }
        assert!(Job::from_token(&token.replace('7', "8")).is_err());
        assert!(Job::from_token("zz").is_err());
    }

    #[test]
    fn staged_files_tell_their_job_and_those_of_upkeep_have_none() {
        let name = job().staged_name(3, "s1-p3-a0-t77", 0);
        assert_eq!(job_of(&name), Some(job().id()));
        assert!(!is_staged_name("new-0000000000000012"));
        assert!(!is_staged_name("segment-0000000000000012"));
    }

    #[test]
    fn an_attempts_name_leaves_no_directory() {
        for name in ["", "../x", "a/b", "a.b", &"x".repeat(101)] {
            assert!(Job::check_attempt(name).is_err(), "{name}");
        }
        assert!(Job::check_attempt("s1-p3-a0-t77").is_ok());
    }
}
