"""What a record of speed is of."""

KEY = ("part", "who", "device", "gpu", "case", "rows", "what")
PACKAGES = ("numpy", "scikit-learn", "zuko", "spflow", "pyvinecopulib")
