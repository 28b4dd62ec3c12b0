"""`python -m parley_bot`: the command `parley`."""

from __future__ import annotations

import sys

from parley_bot import main

sys.exit(main())
