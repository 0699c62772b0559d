"""Fixtures of the tests with Spark."""

from tests.spark.where import s3, where

__all__ = ["s3", "where"]
