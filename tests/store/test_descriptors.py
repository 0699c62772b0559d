"""Many triggers and few open files: those that were idle longest give theirs back, and running out is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

import dochistory as dh
from tests.store.processes import run, start
from tests.support import status_of

LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
"""

TRIGGERS = """
with dh.open(sys.argv[1], create=True) as history:
    names = [f"trigger-{number}" for number in range(1000)]
    claims = [history.begin(documents([f"id-{name}"]), trigger(name)) for name in names]
    print(sum(claim.new.num_rows for claim in claims))
    for claim in claims[::2]:
        claim.complete()
    told = [status_of(history, [f"id-{name}"], of=trigger(name))[0] for name in names]
    print(told[::2].count("DUPLICATE"), told[1::2].count("IN_DOUBT"))
    for claim in claims[1::2]:
        claim.release()
    print(sum(history.begin(documents([f"id-{name}"]), trigger(name)).new.num_rows for name in names[1::2]))
    print(len(os.listdir("/proc/self/fd")) < 128)
"""


@pytest.mark.slow
def test_a_thousand_triggers_are_served_with_256_descriptors(directory: Path) -> None:
    assert run(LIMITED + TRIGGERS, directory) == ["1000", "500 500", "500", "True"]


MAPPERS = """
with dh.open(sys.argv[1], create=True) as history:
    mappers = [history.mapper(f"channel-{number}") for number in range(300)]
    for number, mapper in enumerate(mappers):
        mapper.create([f"id-{number}"], [f"ours-{number}"])
    found = [mapper.lookup([f"id-{number}"]).to_pylist()[0]["mapped_id"] for number, mapper in enumerate(mappers)]
    print(found == [f"ours-{number}" for number in range(300)])
"""


@pytest.mark.slow
def test_many_mappers_are_served_with_256_descriptors(directory: Path) -> None:
    assert run(LIMITED + MAPPERS, directory) == ["True"]


EXHAUSTED = """
import resource
history = dh.open(sys.argv[1], create=True)
history.begin(documents(["known"]), trigger()).complete()
history.begin(documents(["other"]), trigger("others")).complete()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
def take_all():
    try:
        while True:
            taken.append(open("/dev/null"))
    except OSError:
        pass
for name in ("others", "unused", "others", "unused"):
    for call in (history.classify, history.begin):
        take_all()
        try:
            answer = call(documents(["other"]), trigger(name))
            print(name, *statuses(getattr(answer, "verdicts", answer)))
        except dh.DescriptorsError as error:
            print(str(error)[:16])
taken.clear()
print(*statuses(history.begin(documents(["known", "new"]), trigger()).verdicts))
"""


def test_running_out_of_descriptors_is_an_error_never_a_verdict(directory: Path) -> None:
    *told, last = run(EXHAUSTED, directory)
    assert last == "DUPLICATE NEW"
    # As long as files that are idle can be given back, there is an answer.
    assert set(told) <= {"[DH-DESCRIPTORS]", "others DUPLICATE", "unused NEW", "unused IN_DOUBT"}
    assert len(told) == 8
    assert told.count("[DH-DESCRIPTORS]") >= 2, told


OTHERS = """
with dh.open(sys.argv[1]) as history:
    for number in range(60):
        history.begin(documents([f"theirs-{number}"]), trigger(f"trigger-{number}"))
"""


def test_what_others_wrote_while_the_files_were_closed_is_seen(directory: Path) -> None:
    script = (
        LIMITED
        + """
with dh.open(sys.argv[1], create=True) as history:
    for number in range(60):
        history.begin(documents([f"ours-{number}"]), trigger(f"trigger-{number}")).complete()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(60):
        ids = [f"{whose}-{number}" for whose in ("ours", "theirs", "new")]
        print(*statuses(history.begin(documents(ids), trigger(f"trigger-{number}")).verdicts))
"""
    )
    process = start(script, directory)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    run(OTHERS, directory)
    told, complaints = process.communicate("go\n", timeout=120)
    assert told.splitlines() == ["DUPLICATE IN_DOUBT NEW"] * 60, complaints


SEGMENTS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
history = dh.open(sys.argv[1], create=True, auto_maintain=False)
for part in range(100):
    history.load(documents([f"{part}-{row}" for row in range(100)]), trigger())
print(*status_of(history, ["0-1", "99-99", "other"]))
claims = []
for handle in range(5):
    history.close()
    history = dh.open(sys.argv[1], auto_maintain=False)
    claims.append(history.begin(documents([f"claimed-{handle}"]), trigger()))
names = [os.path.basename(os.readlink(f"/proc/self/fd/{one}")) for one in os.listdir("/proc/self/fd")
         if os.path.lexists(f"/proc/self/fd/{one}")]
print([name for name in names if name.startswith(("segment-", "filter-", "new-"))])
"""


def test_segments_keep_no_descriptor(directory: Path) -> None:
    assert run(SEGMENTS, directory) == ["DUPLICATE DUPLICATE NEW", "[]"]


LOG_ENDS = """
import fcntl, resource, threading
history = dh.open(sys.argv[1], auto_maintain=False)
claim = history.begin(documents(fresh_ids(80)), trigger())
history.begin(documents(["other"]), trigger())
lock = open(next((history.path / "triggers").glob("*/turn")), "rb")
# One more file is enough to make the log that names rows by their places, and not to publish it.
taken = [open("/dev/null")]
while taken[-1].fileno() < 40:
    taken.append(open("/dev/null"))
resource.setrlimit(resource.RLIMIT_NOFILE, (42, 42))
fcntl.flock(lock, fcntl.LOCK_EX)
failed, begun = [], []
def end():
    try:
        claim.complete(rows=range(70))
    except dh.DescriptorsError as error:
        failed.append(str(error)[:16])
def begin(one):
    try:
        begun.extend(history.begin(documents([one]), trigger()).new.column("uuid").to_pylist())
    except dh.DescriptorsError as error:
        failed.append(str(error)[:16])
threads = [threading.Thread(target=end)]
threads[0].start()
time.sleep(0.3)
threads += [threading.Thread(target=begin, args=[f"id-{number}"]) for number in range(8)]
for thread in threads[1:]:
    thread.start()
time.sleep(0.3)
fcntl.flock(lock, fcntl.LOCK_UN)
for thread in threads:
    thread.join()
print(*failed)
print(*begun, flush=True)
os._exit(0)
"""


def test_what_threads_write_beside_one_that_runs_out_is_kept(directory: Path) -> None:
    dh.open(directory, create=True).close()
    failed, begun = (line.split() for line in run(LOG_ENDS, directory))
    assert failed
    with dh.open(directory) as history:
        assert status_of(history, begun) == ["IN_DOUBT"] * len(begun)
