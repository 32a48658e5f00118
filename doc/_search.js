// Runs the search of a built site without a browser: node _search.js SITE, queries (a JSON list) on standard input.
// It prints a JSON list with the names of the pages that each query finds, best first.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const site = process.argv[2];
const queries = JSON.parse(fs.readFileSync(0, "utf8"));

const files = ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"];
const code = files
  .map((name) => path.join(site, name))
  .map((name) => fs.readFileSync(name, "utf8").replace(/^"use strict";/m, ""));
code.push("queries.map((query) => Search._performSearch(...Search._parseQuery(query)).map((item) => item[0]).reverse())");

const context = vm.createContext({
  queries,
  document: { getElementById: () => null, addEventListener: () => {}, readyState: "loading" },
  addEventListener: () => {},
  localStorage: { setItem: () => {} },
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
});
context.window = context; // scripts define names in the window, and use them without it
const found = vm.runInContext(code.join("\n"), context, { filename: "search" });
console.log(JSON.stringify(found.map((names) => [...new Set(names)])));
