"""What every study shares: configs, runs with resume, result files, tables, pictures and pages."""
