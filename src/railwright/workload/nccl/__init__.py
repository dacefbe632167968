"""What NCCL and RCCL choose, what they should reach, and what a real log says about it."""
