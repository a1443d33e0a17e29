"""Code that does no harm: it computes, and it may."""

numbers = list(range(1, 11))
print("sum:", sum(numbers))
print("squares:", [number**2 for number in numbers])
