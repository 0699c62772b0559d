"""Deprecated: the former place of `dochistory.journal.mapper`."""

import warnings

from dochistory.journal.mapper import *  # noqa: F403
from dochistory.journal.mapper import __all__ as __all__

_SAID = "dochistory.mapper_journal is deprecated: it is dochistory.journal.mapper now"
warnings.warn(_SAID, DeprecationWarning, stacklevel=2)
