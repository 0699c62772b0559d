"""Every test here works on a new history of its own."""

from tests.history_fixtures import directory as directory
from tests.history_fixtures import history as history
