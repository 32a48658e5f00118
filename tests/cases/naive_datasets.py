"""Slow, obvious twin of the reader of ARFF files: value by value into a dense table."""

import numpy as np


def naive_arff(text):
    """The names of all attributes and the table of all values of an ARFF file without quotes."""
    names, rows = [], []
    in_data = False
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        if line.lower().startswith("@attribute"):
            names.append(line.split()[1])
        elif line.lower().startswith("@data"):
            in_data = True
        elif in_data and line.startswith("{"):
            row = [0.0] * len(names)
            for pair in line.strip("{}").split(","):
                if pair.strip():
                    index, value = pair.split()
                    row[int(index)] = np.nan if value == "?" else float(value)
            rows.append(row)
        elif in_data:
            rows.append([np.nan if value.strip() == "?" else float(value) for value in line.split(",")])
    return names, np.array(rows)
