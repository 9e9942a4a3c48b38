"""One search at work: its settings, limits, events, figures and solutions."""
