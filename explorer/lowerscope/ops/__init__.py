"""Reference operators of the backends, and how every operator is named and coloured.

Importing this package registers the operators under namespaces of the project's own, ``lowerscope_vulkan``,
``lowerscope_xnnpack``, ``lowerscope_ort`` and ``lowerscope_tosa``: ExecuTorch registers ``et_vk`` and ``tosa`` itself
when it is imported into the same process, and the same name twice is an error in either order.
"""

from __future__ import annotations

from . import ort_webgpu, tosa, vulkan, vulkan_linear, xnnpack
from .names import CATEGORIES, DISPLAY_NAMES, category, decomposition, display_name, is_own
from .registry import OperatorError, OwnOp

__all__ = [
    "CATEGORIES",
    "DISPLAY_NAMES",
    "OperatorError",
    "OwnOp",
    "category",
    "decomposition",
    "display_name",
    "is_own",
    "ort_webgpu",
    "tosa",
    "vulkan",
    "vulkan_linear",
    "xnnpack",
]
