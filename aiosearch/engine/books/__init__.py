"""The host's books: which subtrees are open, which worker holds them, and who gets them next."""
