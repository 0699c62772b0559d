//! The location of a history: a directory that the operating system shows, by path or URL.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dochistory_core::Error;
use dochistory_core::history::log_extent;
use pyo3::prelude::*;

use crate::arguments::shown;
use crate::calls::outside;
use crate::errors::{Failure, Outcome};

/// The directory that a path or a `file:` URL names, as an absolute path that outlives a change of
/// the working directory.
///
/// Args:
///     path: a path, or a URL such as `file:///data/orders.history`.
///
/// Returns:
///     pathlib.Path: the directory, absolute.
///
/// Raises:
///     OpenError: [DH-OPEN] the URL is of another kind (`s3a://`, `hdfs://`, `dbfs:/`), or names
///         another machine.
///     ConfigError: [DH-CONFIG] this is no path.
#[pyfunction]
#[pyo3(signature = (path))]
pub(crate) fn local_path(#[pyo3(from_py_with = path)] path: PathBuf) -> Outcome<PathBuf> {
    std::path::absolute(&path).map_err(|error| refused(&path, &error.to_string()))
}

/// Whether there is a file of this name. Other threads of Python wait meanwhile: for files of this
/// machine that each document asks for: to let others in would cost more than the answer.
#[pyfunction]
#[pyo3(signature = (path))]
pub(crate) fn _is_there(path: OsString) -> bool {
    Path::new(&path).exists()
}

/// Where the frames of a log file end, and its length, in bytes; none if there is no such file.
#[pyfunction]
#[pyo3(signature = (path))]
pub(crate) fn _log_extent(py: Python<'_>, path: PathBuf) -> Outcome<Option<(u64, u64)>> {
    Ok(outside(py, || log_extent(&path))?)
}

/// The argument `path`: a directory of this machine, or a URL that names one.
pub(crate) fn path(given: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let wrong = || Failure::config(format!("path is {}; allowed is a str or an os.PathLike", shown(given)));
    let path: PathBuf = given.extract().map_err(|_| wrong())?;
    if path.as_os_str().is_empty() {
        return Err(Failure::config("path is empty; needed is the directory of a history, or the URL of one").into());
    }
    Ok(local(path)?)
}

/// The path itself, or the path in a `file:` URL.
pub(crate) fn local(path: PathBuf) -> Outcome<PathBuf> {
    let Some((scheme, rest)) = path.to_str().and_then(split) else { return Ok(path) };
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(refused(&path, &format!("`{scheme}:` URLs are not supported here")));
    }
    // `pathlib` replaces several slashes by one, so `file:/data` must be understood too.
    let Some(authority) = rest.strip_prefix("//") else { return Ok(decoded(rest)) };
    let (host, place) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
        return Err(refused(&path, &format!("this names the machine {host:?}")));
    }
    Ok(decoded(place))
}

/// The text of a URL of an object store; none for anything else.
pub(crate) fn bucket(given: &Bound<'_, PyAny>) -> Option<String> {
    let path: PathBuf = given.extract().ok()?;
    let text = path.to_str()?;
    let (scheme, _) = split(text)?;
    let is_known = ["s3", "s3a", "gs", "az", "abfs", "abfss"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known.then(|| text.to_owned())
}

/// The scheme of a URL and the text after its colon; none for a path.
fn split(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && scheme.len() > 1
        && letters.all(|one| one.is_ascii_alphanumeric() || matches!(one, '+' | '-' | '.'));
    (is_scheme && rest.starts_with('/')).then_some((scheme, rest))
}

fn refused(path: &Path, reason: &str) -> crate::errors::Failure {
    let reason = format!(
        "{reason}: name a path of a local disk or of a shared file system that driver and workers mount, such as \
         /data/orders.history; HDFS cannot hold a history, and a bucket (s3://, gs://, az://, abfss://) serves only \
         where its URL is taken"
    );
    Error::Open { path: path.to_path_buf(), reason }.into()
}

/// A URL's path with `%20` and the like decoded.
fn decoded(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let byte = match tail {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
