use std::ffi::CString;
use std::path::Path;
use std::sync::Mutex;

use dochistory_core::Error;
use dochistory_core::objects::{Listed, ObjectStore, Put};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Client;

/// A client that holds its objects in a dictionary.
const IN_MEMORY: &str = r#"
import collections
Stored = collections.namedtuple("Stored", "name size changed_us")
class Fake:
    def __init__(self): self.there = {}
    def put_new(self, name, content):
        if name in self.there: return "exists"
        self.there[name] = content
        return "created"
    def put(self, name, content): self.there[name] = content
    def get(self, name): return self.there.get(name)
    def get_range(self, name, start, length): return self.there[name][start:start + length] if name in self.there else None
    def put_file(self, name, path):
        with open(path, "rb") as file: return self.put_new(name, file.read())
    def get_file(self, name, path, size):
        if name not in self.there: return False
        with open(path, "wb") as file: file.write(self.there[name])
        return True
    def list(self, prefix): return [Stored(name, len(x), 7) for name, x in self.there.items() if name.startswith(prefix)]
    def delete(self, name): self.there.pop(name, None)
class Raises:
    def __init__(self, error): self.error = error
    def __getattr__(self, _name): return self
    def __call__(self, *_): raise self.error
class Answers:
    def __init__(self, answer): self.answer = answer
    def __getattr__(self, _name): return self
    def __call__(self, *_): return self.answer
"#;

fn client(expression: &str) -> Client {
    Python::initialize();
    Python::attach(|py| {
        let names = PyDict::new(py);
        py.run(&CString::new(IN_MEMORY).unwrap(), Some(&names), None).unwrap();
        let made = py.eval(&CString::new(expression).unwrap(), Some(&names), None).unwrap();
        Client { client: made.unbind(), url: String::new(), early: Mutex::default() }
    })
}

#[test]
fn requests_reach_the_client_and_answers_the_engine() {
    let store = client("Fake()");
    assert_eq!(store.put_new("a/1", b"one").unwrap(), Put::Created);
    assert_eq!(store.put_new("a/1", b"two").unwrap(), Put::Exists);
    assert_eq!(store.get("a/1").unwrap().unwrap(), b"one");
    store.put("a/1", b"three").unwrap();
    assert_eq!(store.get_range("a/1", 1, 3).unwrap().unwrap(), b"hre");
    assert_eq!(store.get("b").unwrap(), None);
    assert_eq!(store.get_range("b", 0, 1).unwrap(), None);
    let found = store.list("a/").unwrap();
    assert_eq!(found, [Listed { name: "a/1".into(), size: 5, modified_us: 7 }]);
    store.delete("a/1").unwrap();
    store.delete("a/1").unwrap();
    assert_eq!(store.list("").unwrap(), []);
}

#[test]
fn files_go_there_and_come_back() {
    let place = std::env::temp_dir().join(format!("dochistory-objects-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let (out, back) = (place.join("out"), place.join("back"));
    std::fs::write(&out, b"bytes").unwrap();
    let store = client("Fake()");
    assert_eq!(store.put_file("x", &out).unwrap(), Put::Created);
    assert!(!store.get_file("y", &back, 5).unwrap());
    assert!(store.get_file("x", &back, 5).unwrap());
    assert_eq!(std::fs::read(&back).unwrap(), b"bytes");
    let missing = store.put_file("x", Path::new("/no/such/file"));
    assert!(missing.unwrap_err().to_string().starts_with("[DH-IO] cannot transfer /no/such/file: "));
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn an_exception_becomes_an_error_that_keeps_its_words() {
    let error = client("Raises(ValueError('odd'))").get("x").unwrap_err();
    assert_eq!(error.code(), "DH-OBJECTS");
    assert!(error.to_string().contains("ValueError: odd"), "{error}");
    let interrupted = client("Raises(KeyboardInterrupt())").delete("x").unwrap_err();
    assert!(matches!(interrupted, Error::Interrupted));
    assert!(crate::calls::raised().is_some());
}

#[test]
fn an_answer_of_another_kind_is_an_error() {
    let store = client("Answers('perhaps')");
    assert!(store.put_new("x", b"").is_err());
    assert!(store.get("x").is_err());
    assert!(store.get_file("x", Path::new("y"), 5).is_err());
    assert!(store.list("").is_err());
}

#[test]
fn threads_outside_python_ask_at_the_same_time() {
    let store = client("Fake()");
    std::thread::scope(|scope| {
        let store = &store;
        let all: Vec<_> = (0..8).map(|one| scope.spawn(move || store.put_new("x", &[one]))).collect();
        let created = all.into_iter().map(|one| one.join().unwrap().unwrap());
        assert_eq!(created.filter(|put| *put == Put::Created).count(), 1);
    });
}

#[test]
fn a_pin_comes_with_the_identity_and_is_asked_for_once() {
    let store = client("Fake()");
    let pin = "triggers/orders-0a/pin-1-2-3-4-5";
    store.put("HISTORY", b"which").unwrap();
    store.put(pin, b"state").unwrap();
    let identity =
        |snapshot| Python::attach(|py| crate::calls::outside(py, || store.identity(Some(snapshot)))).unwrap().unwrap();
    assert_eq!(identity("orders-0a=pin-1-2-3-4-5"), b"which");
    store.delete(pin).unwrap();
    assert_eq!(store.get(pin).unwrap().unwrap(), b"state");
    assert_eq!(store.get(pin).unwrap(), None);
    for other in ["orders-0a=empty", "mapper-orders-0a=pin-1-2-3-4-5", "nonsense", "orders-0b=pin-1-2-3-4-5"] {
        assert_eq!(identity(other), b"which");
        assert_eq!(store.get(pin).unwrap(), None);
    }
}
