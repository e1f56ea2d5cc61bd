"""What every test gets: two threads, seeded random numbers, and Hypothesis without deadlines."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import settings

# torch's default number of threads makes small forwards hundreds of times slower on a machine with few cores.
torch.set_num_threads(2)

# A deadline measures the machine's load; the examples are the same in every run, so that a failure can be run again.
settings.register_profile("lowerscope", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("lowerscope")


@pytest.fixture(autouse=True)
def seed() -> int:
    """Seeds Python's, NumPy's and torch's generators before each test; returns the seed."""
    value = 0
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)
    return value
