"""Export the sample models to their ``.pt2`` files: ``python -m sample_models.build [NAME ...]``, all of them by default.

The quantized ones need the extra ``quantize``. A second run writes the same bytes, as long as torch is the same.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import torch

from . import module_stacks
from .archive import to_bytes

FOLDER = Path(__file__).parent
FILES: dict[str, tuple[str, dict[str, str | bool]]] = {
    "dsr": ("dsr", {}),
    "dsr_scale_1111": ("dsr", {"variant": "scale_1111"}),
    "dsr_alpha_second": ("dsr", {"variant": "alpha_second"}),
    "dsr_shared_mul": ("dsr", {"variant": "shared_mul"}),
    "conv_bn": ("conv_bn", {}),
    "upsampler": ("upsampler", {}),
    "migan": ("migan", {}),
    "codec": ("codec", {}),
    "resnet50_like": ("resnet50_like", {}),
    "depthwise_net": ("depthwise_net", {}),
    "dyt_conv": ("dyt_block", {}),
    "dyt_conv_nhwc": ("dyt_block", {"layout": "nhwc"}),
    "dyt_conv_realistic": ("dyt_block", {"realistic": True}),
    "dyt_conv_padded": ("dyt_block", {"padded": True}),
    "dyt_transformer": ("dyt_block", {"kind": "transformer"}),
    "quantized_mlp_static8": ("quantized_mlp", {"mode": "static8"}),
    "quantized_mlp_8w": ("quantized_mlp", {"mode": "8w"}),
    "quantized_mlp_4w": ("quantized_mlp", {"mode": "4w"}),
    "quantized_mlp_8da4w": ("quantized_mlp", {"mode": "8da4w"}),
}
"""File name without ``.pt2`` -> (module of this package, keyword arguments of its ``build``)."""


def export(name: str) -> torch.export.ExportedProgram:
    """Build and export the model that ``NAME.pt2`` holds."""
    module_name, arguments = FILES[name]
    model, args = importlib.import_module(f"{__package__}.{module_name}").build(**arguments)
    program = torch.export.export(model, args)
    if isinstance(model, torch.fx.GraphModule):
        module_stacks.keep(model, program)
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FILES)}")
    names = parser.parse_args().names or list(FILES)
    for name in names:
        if name not in FILES:
            parser.error(f"there is no sample model {name!r}: use one of {', '.join(FILES)}")
        data = to_bytes(export(name))
        (FOLDER / f"{name}.pt2").write_bytes(data)
        print(f"{name}.pt2: {len(data):,} bytes")


if __name__ == "__main__":
    main()
