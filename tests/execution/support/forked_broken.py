"""An import that fails."""

raise ImportError("this cannot be imported")
