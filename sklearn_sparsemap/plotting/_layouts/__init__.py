"""Where the nodes of a picture go. They know no matplotlib axes."""
