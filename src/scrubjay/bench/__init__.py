"""The benchmark: data sets with gold evidence, systems that rank turns, measures of how much they found."""
