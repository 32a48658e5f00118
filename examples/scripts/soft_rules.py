"""
Hard and soft rules: a sudoku with a wrong clue
===============================================

The rules of sudoku are hard. The clues are soft: each has a variable that says that the clue is wrong, at a price of 1.
The cheapest solution keeps all clues but one.
"""

from sklearn_sparsemap import factors, map_inference

PRINTED = "53..7.... 6..195... .98....6. 8...6...3 4..8.6..1 7...2...6 .6....28. ...419..5 ....8..79"
clues = [(*divmod(k, 9), int(char) - 1) for k, char in enumerate(PRINTED.replace(" ", "")) if char != "."]
graph = factors.FactorGraph()
digits = graph.categorical((9, 9), 9, name="digits")
wrong = graph.variables(len(clues), name="wrong")
for i, d in [divmod(k, 9) for k in range(81)]:
    box = digits[i // 3 * 3 : i // 3 * 3 + 3, i % 3 * 3 : i % 3 * 3 + 3]
    graph.add(*(factors.Exactly(cells[..., d], 1) for cells in (digits[i], digits[:, i], box)))
graph.add(*(digits[clue] | wrong[k] for k, clue in enumerate(clues)))
found = map_inference(graph, {"digits": 0.0, "wrong": -1.0}).structure
print(found["digits"].argmax(axis=-1) + 1, "wrong:", [clues[k] for k in found["wrong"].nonzero()[0]])
