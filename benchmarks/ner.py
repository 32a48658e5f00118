"""Spanish named entities (CoNLL-2002) with templates chosen by the group lasso, compared with the paper.

    python benchmarks/ner.py --data DIR

    python benchmarks/ner.py --data DIR --sizes 83036 354872 600646 --seeds 0 1 2

chooses, for each number of weights, among 452 templates and handmade features by a budget of weights; the kind of group
weights is chosen on the development part.

DIR holds conll2002/esp.train.gz, esp.testa.gz (development) and esp.testb.gz (test). Span F1 is that of conlleval.
"""

import argparse
from pathlib import Path

import results
from group_front import large, print_front, print_sizes

from sklearn_sparsemap.features import ner_templates

ROOT = Path(__file__).resolve().parents[1]
# Table 2 of the structured-sparsity paper, Spanish: budget, weights, span F1 on the test part.
PAPER = [(None, 8_598_246, 74.09), (100, 83_036, 73.62), (200, 354_872, 75.05), (300, 600_646, 73.30)]
GRID = [("uniform", (10, 100, 200, 300)), ("log2^0.5", (30, 100)), ("log2", (100, 150, 200, 300))]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with conll2002/")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="orders of the samples")
    parser.add_argument("--limit", type=int, help="use only so many sentences of each set")
    parser.add_argument("--order", action="store_true", help="from coarse to fine (GroupOrder)")
    parser.add_argument("--sizes", nargs="+", type=int, help="budgets of weights, to choose among 452 templates")
    parser.add_argument("--weights", nargs="+", default=["uniform", "log2^0.5", "log2"], help="with --sizes: kinds")
    parser.add_argument("--min-count", type=int, default=2, help="with --sizes: rarer features are left out")
    return results.parse(parser)


def main():
    args = parse_arguments()
    tests = {"dev": "esp.testa.gz", "test": "esp.testb.gz"}
    if args.sizes:
        print_sizes(args, "conll2002", large(ner_templates()), "esp.train.gz", *tests.values())
        return
    print_front(args, "conll2002", ner_templates(), "esp.train.gz", tests, PAPER, GRID)


if __name__ == "__main__":
    main()
