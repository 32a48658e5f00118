"""Pictures of graphs: factors, and pairs of labels."""
