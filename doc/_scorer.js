// How the search orders its results: pages for users come first; notes, benchmarks and the tables of the papers last.
// The numbers are those of Sphinx; `score` adds to each result by the folder of its page.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, , , , score]) => {
    if (/^(notes\/|benchmarks$|papers$|whats_new$|solvers$)/.test(page)) return score - 200;
    if (/^(jobs|tutorials)\//.test(page)) return score + 4;
    if (/^(guide\/|choose$|layers$)/.test(page)) return score + 3;
    return score;
  },
};
