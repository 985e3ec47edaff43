"""The verbs: each takes what a user has and returns a Result (or a Space, or a repair). The command line only calls them."""
