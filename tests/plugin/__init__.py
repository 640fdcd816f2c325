"""What users are given to test their flows with: the pytest plugin, and strategies for Hypothesis."""
