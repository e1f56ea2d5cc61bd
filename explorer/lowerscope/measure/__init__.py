"""What a lowering changed, in numbers: operators, parity, cost, latency. Pure functions on programs."""
