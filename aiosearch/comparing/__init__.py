"""Ways of distributing a search, measured side by side: what `aiosearch bench strategies` runs."""
