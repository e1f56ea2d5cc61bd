"""Small networks, one story a file, each with ``build()`` and the ``.pt2`` file that it exports to.

``build()`` returns the module in eval mode and a tuple of example inputs, the same ones every time.
"""
