"""`dochistory doctor`: what is installed, what is missing, and whether the history can be used."""

import datetime as dt
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory import metrics, suspension, sweeper
from dochistory.checks import Check
from dochistory.cli import show
from dochistory.cli.context import Add, Context, needs
from dochistory.cli.failures import CommandError, Exit, explained

_OVERDUE = 24 * 3600.0
_LEAST_FREE = 1 << 30


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "doctor",
        doctor,
        "check versions, Java, settings, permissions and the history",
        "With --cluster Spark's workers check too whether they see the driver's directory, and whether syncs, links "
        "and locks work there; or whether they reach its bucket, and agree about what is in it. For that it writes a "
        "few small files or objects, and removes them.",
        examples=["dochistory doctor", "dochistory doctor --cluster --master yarn"],
    )
    command.add_argument("--cluster", action="store_true", help="check the history from Spark's driver and workers")
    command.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master; if absent, what spark-submit or Spark's own settings say, or else local[2]",
    )


def doctor(context: Context) -> Exit:
    """Check everything that dochistory needs."""
    needs(context.options, "--master", "--cluster")
    checks = [*_versions(), *_spark(), *_settings(context), *_store(context)]
    if context.options.cluster:
        checks += _cluster(context)
    wrong = sum(check.result == "wrong" for check in checks)
    if context.json:
        print(show.as_json({"healthy": not wrong, "checks": [asdict(check) for check in checks]}))
    else:
        show.table("", ["check", "result", "found"], [[check.name, check.result, check.found] for check in checks])
    return Exit.FOUND if wrong else Exit.DONE


def _versions() -> Iterator[Check]:
    yield Check("dochistory", "ok", f"{dh.__version__} in {Path(dh.__file__).parent}")
    yield Check("Python", "ok", f"{platform.python_version()} in {sys.executable}")
    yield Check("system", "ok", f"{platform.system()} {platform.release()}, {platform.machine()}")
    for package in ("pyarrow",):
        yield Check(package, "ok", version(package))
    yield _optional("rich", "tables and bars are plain text without it: pip install 'dochistory[cli]'")


def _optional(package: str, otherwise: str) -> Check:
    try:
        return Check(package, "ok", version(package))
    except PackageNotFoundError:
        return Check(package, "note", f"not installed; {otherwise}")


def _spark() -> Iterator[Check]:
    pyspark = _optional("pyspark", "Spark needs it: pip install 'dochistory[spark]'")
    yield pyspark
    if pyspark.result != "ok":
        return
    yield _optional("pandas", "Spark needs it: pip install 'dochistory[spark]'")
    if find_spec("pyspark.sql") is None:
        return
    # Imported here, because it imports PySpark.
    from dochistory.spark import java

    try:
        found = java.find()
    except java.JavaNotFoundError as error:
        yield Check("Java", "wrong", str(error))
    else:
        yield Check("Java", "ok", f"{found.version} in {found.home}")


def _cluster(context: Context) -> Iterator[Check]:
    """Check the history from Spark's workers."""
    if find_spec("pyspark.sql") is None:
        yield Check("cluster", "wrong", "Spark is not installed: pip install 'dochistory[spark]'")
        return
    # Imported here, because it imports PySpark.
    from dochistory.spark import check_cluster
    from dochistory.spark.sessions import submitted

    try:
        session = submitted("dochistory doctor", context.options.master)
        yield from check_cluster(context.place, session, **context.how_to_reach)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the doctor was asked about
        known = explained(error)
        said = known.sentence if known else f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        yield Check("cluster", "wrong", said)


def _settings(context: Context) -> Iterator[Check]:
    try:
        settings = context.settings
    except dh.ConfigError as error:
        yield Check("settings", "wrong", str(error))
        return
    if settings is None:
        yield Check("settings", "note", "no dochistory.toml here, and none named; it is not needed")
        return
    names = ", ".join(settings.triggers) or "none"
    yield Check("settings", "ok", f"{settings.path}, triggers: {names}")


def _store(context: Context) -> Iterator[Check]:
    try:
        place = context.place
    except (CommandError, dh.ConfigError):
        yield Check("history", "note", "none named: --history DIR checks it too")
        return
    try:
        with context.open(read_only=True) as history:
            triggers = ", ".join(sorted(history.triggers())) or "none yet"
            yield Check("history", "ok", f"{place} opens; triggers: {triggers}")
            figures = metrics.history_metrics(history, in_progress=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the doctor was asked about
        known = explained(error)
        yield Check("history", "wrong", known.sentence if known else f"{type(error).__name__}: {error}")
        return
    if isinstance(place, Path):
        yield _permissions(place)
        yield _free_space(place)
    overdue = [name for name, one in figures.items() if (one["expired_seconds"] or 0.0) > _OVERDUE]
    if overdue:
        yield Check("purge", "wrong", f"overdue by more than a day for {', '.join(overdue)}: run dochistory purge")
    else:
        yield Check("purge", "ok", "nothing is overdue by more than a day")
    if not isinstance(place, Path):
        yield Check("store", "note", f"`dochistory check {place}` says whether the bucket keeps its promises")
    try:
        yield from _lives(place, figures)
        yield from _stale(context, figures)
        yield from _suspended(place)
    except (OSError, dh.DocHistoryError) as error:
        known = explained(error)
        yield Check("state", "wrong", known.sentence if known else f"{type(error).__name__}: {error}")


def _suspended(place: Path | str) -> Iterator[Check]:
    for one in suspension.suspended(place):
        yield Check("suspension", "note", f"{one.trigger} has been suspended since {one.since}: {one.reason}")


def _lives(place: Path | str, figures: dict[str, Any]) -> Iterator[Check]:
    runs = sweeper.longest_runs(place)
    for name, one in figures.items():
        lives = dt.timedelta(seconds=one["history_time_to_live_seconds"] or 0.0)
        for sentence in sweeper.warnings_about(name, lives, runs.get(name)):
            yield Check("time to live", "wrong", sentence)


def _stale(context: Context, figures: dict[str, Any]) -> Iterator[Check]:
    """Times to live of the settings that are not those of the history: nothing is purged then."""
    try:
        described = context.settings.triggers if context.settings else {}
    except dh.ConfigError:
        return  # said above
    for name in sorted({*described} & {*figures}):
        given = described[name].history_time_to_live
        stored = dt.timedelta(seconds=figures[name]["history_time_to_live_seconds"] or 0.0)
        if stored and stored != given:
            yield Check(
                "time to live",
                "wrong",
                f"{name} lives {stored} in the history and {given} by the settings, so it is neither begun nor purged "
                "by them: correct the settings, or run dochistory change",
            )


def _permissions(path: Path) -> Check:
    places = [path, *path.rglob("*")]
    lacking = _first_that(places, lambda place: not os.access(place, os.R_OK | (os.X_OK if place.is_dir() else 0)))
    if lacking:
        return Check("permissions", "wrong", f"{lacking} cannot be read by this user")
    lacking = _first_that(places, lambda place: place.is_dir() and not os.access(place, os.W_OK))
    if lacking:
        return Check("permissions", "note", f"{lacking} cannot be written by this user, who can only read the history")
    owners = {place.stat().st_uid for place in places}
    if len(owners) > 1:
        return Check(
            "permissions", "note", f"the files belong to {len(owners)} users; every writer needs access to all"
        )
    return Check("permissions", "ok", "this user can read and write")


def _first_that(places: list[Path], holds: Callable[[Path], bool]) -> Path | None:
    return next((place for place in places if place.exists() and holds(place)), None)


def _free_space(path: Path) -> Check:
    usage = shutil.disk_usage(path)
    found = f"{show.size(usage.free)} free of {show.size(usage.total)}"
    # Compaction writes the new files before it removes the old ones.
    return Check("disk", "note" if usage.free < _LEAST_FREE else "ok", found)
