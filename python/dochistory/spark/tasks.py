"""What a task of Spark knows of itself."""

import uuid

from pyspark import TaskContext


def attempt_name() -> str:
    """A name for what this attempt of a task writes, that no other attempt has."""
    context = TaskContext.get()
    if context is None:
        return uuid.uuid4().hex
    places = (context.stageId(), context.partitionId(), context.attemptNumber(), context.taskAttemptId())
    # Numbers of tasks start again with every application.
    return "s{}-p{}-a{}-t{}-".format(*places) + uuid.uuid4().hex[:8]


def streaming_query() -> str | None:
    """The id of the streaming query that this task works for; None outside a stream."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")
