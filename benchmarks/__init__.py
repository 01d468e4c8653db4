"""Speed of this package beside its peers, as ratios measured in one run."""
