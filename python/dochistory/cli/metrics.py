"""`dochistory metrics`: the metrics as text, as an endpoint for Prometheus, and the files that go with them."""

import signal
import threading
from importlib.resources import files
from typing import Any

from dochistory import metrics
from dochistory.cli.context import Add, Context, alone, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.parser import OF_A_HISTORY
from dochistory.statistics import Statistics


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "metrics",
        shown,
        "print metrics for Prometheus, or serve them",
        "Printed once, unless an option says otherwise.",
        examples=[
            "dochistory metrics --serve :9464",
            "dochistory metrics --alerts > dochistory-alerts.yml",
            "dochistory metrics --dashboard > dochistory-grafana.json",
        ],
    )
    trigger_option(command)
    way = command.add_mutually_exclusive_group()
    way.add_argument("--serve", metavar="[HOST]:PORT", type=_address, help="answer HTTP under /metrics until SIGTERM")
    way.add_argument("--alerts", action="store_true", help="print alert rules for Prometheus")
    way.add_argument("--dashboard", action="store_true", help="print a dashboard for Grafana")
    command.add_argument(
        "--fast", action="store_true", help="do not count unfinished documents, which reads all entries"
    )


def _address(text: str) -> tuple[str, int]:
    import argparse

    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} must be [HOST]:PORT, such as :9464 or 127.0.0.1:9464")
    return host or "0.0.0.0", int(port)  # noqa: S104 - as for other exporters, unless the user names a host


def shown(context: Context) -> Exit:
    """Print or serve the metrics."""
    options = context.options
    for way in ("--alerts", "--dashboard"):
        alone(options, way, "--trigger", "--fast", *OF_A_HISTORY)
    if options.json:
        raise CommandError("--json means nothing to `dochistory metrics`: `dochistory stats --json` has the figures")
    if options.alerts or options.dashboard:
        name = "alerts.yml" if options.alerts else "dashboard.json"
        print(files("dochistory.monitoring").joinpath(name).read_text(encoding="utf-8"), end="")
        return Exit.DONE
    if options.serve is None:
        print(_text(context), end="")
        return Exit.DONE
    return _served(context, *options.serve)


def _text(context: Context) -> str:
    options = context.options
    with context.looked_at() as history:
        names = options.trigger and context.named(history)
        return metrics.prometheus_text(
            history, Statistics(history), in_progress=not options.fast, triggers=names or None
        )


def _served(context: Context, host: str, port: int) -> Exit:
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise CommandError("serving needs prometheus_client: pip install 'dochistory[metrics]'") from error

    class Figures:
        """Reads the history at each scrape."""

        def collect(self) -> Any:
            return text_string_to_metric_families(_text(context))

    _text(context)  # what is wrong is better said now than at the first scrape
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Described(Figures()))
    stop = threading.Event()
    previous = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise CommandError(
            f"{host}:{port}: {error.strerror}: name another port", Exit.UNAVAILABLE, "DH-STORAGE"
        ) from error
    try:
        print(f"serving {context.place} under http://{host}:{server.server_port}/metrics", flush=True)
        stop.wait()
    finally:
        signal.signal(signal.SIGTERM, previous)
        server.shutdown()
        thread.join()
        server.server_close()
    return Exit.DONE


class _Described:
    """A collector that is not read when it is registered."""

    def __init__(self, figures: Any) -> None:
        self.collect = figures.collect

    def describe(self) -> list[Any]:
        """Nothing: the metrics depend on the history."""
        return []
