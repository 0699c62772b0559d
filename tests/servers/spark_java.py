"""How the tests' Sparks run their Java."""

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A test runs each of its plans a few times: to compile them well would cost more than it saves."""
FOR_DRIVERS = {"SPARK_SUBMIT_OPTS": OPTIONS}
"""The environment in which a driver starts."""
FOR_EXECUTORS = {"spark.executor.extraJavaOptions": OPTIONS}
"""The settings of executors that are processes of their own."""
