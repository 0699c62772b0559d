"""What else could keep a history of ids: one module a peer, each measured in a process of its own."""

from importlib import import_module

from benches.peers.base import Peer

MODULES = {
    "dochistory": "own",
    "rocksdict": "rocks",
    "lmdb": "mapped",
    "sqlite": "sqlite",
    "duckdb": "duck",
    "duckdb-text": "duck",
    "polars": "frames",
    "dict": "plain",
    "postgresql": "postgres",
}


def peer_class(name: str) -> type[Peer]:
    """The class of a peer, imported only now: a process measures one peer and loads no other."""
    module = import_module(f"benches.peers.{MODULES[name]}")
    found: type[Peer] = module.PEERS[name]
    return found


def missing(name: str) -> str | None:
    """Why a peer cannot be measured on this machine, or None."""
    try:
        return peer_class(name).missing()
    except ImportError as error:
        return str(error)
