"""Deprecated: the former place of `dochistory.journal`."""

import warnings

from dochistory.journal.reading import *  # noqa: F403
from dochistory.journal.reading import __all__ as __all__

_SAID = "dochistory.journals is deprecated: it is dochistory.journal now"
warnings.warn(_SAID, DeprecationWarning, stacklevel=2)
