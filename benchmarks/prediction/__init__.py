"""Prediction beside the peers: quantiles of numbers, probabilities of classes."""
