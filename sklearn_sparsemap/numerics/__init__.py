"""What structures and graphs stand on: linear algebra, supports and faces, the active set, Newton's method on cuts."""
