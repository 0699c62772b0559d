"""What services returned, kept for the duplicates of their documents: `Consumer.once(result="json")`."""

import dochistory as dh


def channel_of(trigger: str) -> str:
    """The message id mapper that holds the results of a trigger."""
    return f"{trigger}.results"


def results_of(history: dh.History, trigger: dh.Trigger) -> dh.MessageIdMapper:
    """The results of a trigger, kept for its time to live; the sweeper purges them."""
    return history.mapper(channel_of(trigger.name), expiry="exact", persist=trigger.history_time_to_live)
