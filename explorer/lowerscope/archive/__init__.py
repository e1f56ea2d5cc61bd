"""Reading ``.pt2`` archives: what kind of file it is, its members, its program as text, and what must not be trusted.

torch's own reader is not used, because it unpickles, imports and evaluates what a file says. Here the parts that only
carry data are read by plain means, and the parts that torch would turn into code are checked first.
"""
