"""What `test_history` asks of a history in moto, of real servers, each behind the URL that users write."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh
from tests.objects import test_history
from tests.objects.conftest import Open
from tests.servers.objects import AZURE_ACCOUNT, Server, azurite, versitygw
from tests.support import documents, fresh_ids, status_of, trigger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # installing a server takes minutes

test_a_cache_serves_the_next_handle_and_heals = test_history.test_a_cache_serves_the_next_handle_and_heals
test_a_changed_time_to_live_counts_for_all_handles = test_history.test_a_changed_time_to_live_counts_for_all_handles
test_a_large_batch_goes_through_a_segment = test_history.test_a_large_batch_goes_through_a_segment
test_a_load_lies_in_the_bucket_whole = test_history.test_a_load_lies_in_the_bucket_whole
test_a_store_that_fails_is_never_a_wrong_verdict = test_history.test_a_store_that_fails_is_never_a_wrong_verdict
test_a_trigger_remembers_in_a_bucket = test_history.test_a_trigger_remembers_in_a_bucket
test_an_operation_is_one_put_and_one_get = test_history.test_an_operation_is_one_put_and_one_get
test_entries_and_figures_are_those_of_the_bucket = test_history.test_entries_and_figures_are_those_of_the_bucket
test_handles_see_each_others_documents = test_history.test_handles_see_each_others_documents
test_killed_processes_and_failing_requests_give_each_id_once = (
    test_history.test_killed_processes_and_failing_requests_give_each_id_once
)
test_purge_and_maintain_work_in_a_bucket = test_history.test_purge_and_maintain_work_in_a_bucket
test_threads_share_commits = test_history.test_threads_share_commits
test_verify_finds_an_object_that_is_gone_or_damaged = test_history.test_verify_finds_an_object_that_is_gone_or_damaged

WAYS = ("s3 of versitygw", "az of Azurite", "abfss of Azurite")


@pytest.fixture(scope="module", params=WAYS)
def s3(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is no moto; what it speaks is the parameter's."""
    scheme, _, name = request.param.split()
    home = tmp_path_factory.mktemp("server") / "data"
    with versitygw(home) if name == "versitygw" else azurite(home) as server:
        url = f"abfss://container@{AZURE_ACCOUNT}.dfs.core.windows.net" if scheme == "abfss" else server.url
        yield Server(server.port, url, server.options)


def test_a_pinned_state_stays(opened: Open) -> None:
    known, later = fresh_ids(100), fresh_ids(100)
    with opened(create=True) as history:
        history.begin(documents(known), trigger()).complete()
        snapshot = history.pin(trigger())
        history.begin(documents(later), trigger()).complete()
        history.maintain(all=True, grace=0)
        with opened(snapshot=snapshot) as pinned:
            assert status_of(pinned, known) == ["DUPLICATE"] * 100
            assert status_of(pinned, later) == ["NEW"] * 100
        history.unpin(trigger(), snapshot)
        with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\]"), opened(snapshot=snapshot) as pinned:
            status_of(pinned, known)
        assert status_of(history, known + later) == ["DUPLICATE"] * 200


def test_a_backup_goes_there_and_back(opened: Open, place: str, s3: Server, tmp_path: Path) -> None:
    from dochistory import _native

    ids = fresh_ids(5_000)
    with opened(create=True) as history:
        history.load(documents(ids[:4_000]), trigger())
        history.begin(documents(ids[4_000:]), trigger()).complete()
    _native._copy_from_bucket(place, tmp_path / "copy", dict(s3.options))  # noqa: SLF001
    with dh.open(tmp_path / "copy") as copy:
        assert set(status_of(copy, ids)) == {"DUPLICATE"}
    _native._copy_to_bucket(tmp_path / "copy", f"{place}-again", dict(s3.options))  # noqa: SLF001
    with dh.open(f"{place}-again", storage_options=dict(s3.options)) as again:
        assert set(status_of(again, ids)) == {"DUPLICATE"}
        assert again.verify() > 0
