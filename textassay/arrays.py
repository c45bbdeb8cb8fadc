"""Types of arrays, as figures and codes of groups travel between modules."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
"""Codes from 0 on, such as of sources, or positions of rows."""
Mask = NDArray[np.bool_]
