"""Brokers of the quick tests, fetched side by side, while Rust compiles. `python -m tests.servers.brokers`."""

from concurrent.futures import ThreadPoolExecutor

from tests.servers import artemis, kafka, rabbitmq


def main() -> None:
    """Fetch what is not there yet."""
    with ThreadPoolExecutor(3) as pool:
        fetched = [pool.submit(fetch) for fetch in (artemis.classes, kafka.classes, rabbitmq.installed)]
    for one in fetched:
        if isinstance(one.exception(), FileNotFoundError):
            print(f"NOT INSTALLED, so its quick test is skipped: {one.exception()}")
        else:
            one.result()


if __name__ == "__main__":
    main()
