"""Workers: sessions, the processes that they run in, and what workers of one machine share."""
