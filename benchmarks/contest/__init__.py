"""Searches side by side over the curve bank: ours, and the peers' real classes behind the same port."""
