"""Where trials run: real processes placed by Ray, or curves on a virtual clock."""
