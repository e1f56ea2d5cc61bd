"""The project's own targets, one a file. Importing this package makes them known."""

from __future__ import annotations

from lowerscope.targets import ethos_u, ort_webgpu, qnn, vulkan, xnnpack

__all__ = ["ethos_u", "ort_webgpu", "qnn", "vulkan", "xnnpack"]
