"""Uses the installed package: an array moves to a device, and a page of it back."""

import wherry

x = wherry.full((1000, 1000), 1.5)
wherry.prefetch(x, 0)
wherry.synchronize()
assert [extent.holders for extent in wherry.where(x)] == [(0,)], wherry.where(x)
x[0, 0] = 2
assert wherry.where(x)[0].holders == ("host",), wherry.where(x)
assert x.sum() == 1500000.5, x.sum()
print("Python", wherry.__version__, wherry.__file__)
