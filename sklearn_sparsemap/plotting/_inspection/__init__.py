"""Pictures of what a model has learned, and of where it errs."""
