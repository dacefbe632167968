"""What the user wants: cluster.yaml."""
