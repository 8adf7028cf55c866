// Sphinx puts this into its search script. A page or section whose title has the words comes before one that only mentions them.
var Scorer = {
  score: ([, , , , score, , kind]) => (kind === "title" ? score + 1000 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
