"""The search engine behind `Search` and `Pool`: `run` ties the other packages here together."""
