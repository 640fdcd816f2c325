"""What runs a flow: the stage runtime, and Spark, which runs it on any number of machines."""
