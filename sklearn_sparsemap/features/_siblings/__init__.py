"""Features of consecutive modifiers of a head, for parsers of second order."""
