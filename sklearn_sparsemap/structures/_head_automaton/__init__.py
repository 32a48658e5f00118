"""The modifiers of one head on one side, with scores of consecutive siblings and of the head's own head."""
