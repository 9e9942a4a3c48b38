"""Races: which candidate is right on the device and fastest. `Selector` decides for one program,
`WholeRace` for the function, `AsCalledRace` for the drop-in as its user calls it."""
