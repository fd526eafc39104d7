"""Sorts, sums and multiplies numbers drawn from a seed, with numpy."""

import sys

import numpy

count = int(sys.argv[1])
drawn = numpy.random.RandomState(7).randint(0, 1 << 40, count)
order = numpy.argsort(drawn, kind="stable")
print(order[:: count // 50], numpy.cumsum(drawn[order])[:: count // 50])
side = int(count ** 0.5) // 2
square = (drawn[: side * side] % 1000).astype(float).reshape(side, side)
print(int((square @ square).sum()), int(numpy.abs(numpy.fft.rfft(square[:64]).sum())) // 1000)
