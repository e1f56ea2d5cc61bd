// Bundles the front end for anywidget (one ES module, one style sheet), or, with --tests, its unit tests for `node --test`.

import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const bundle = join(here, "..", "lowerscope_widgets", "static");
const tests = join(here, "build", "tests");

// The bundle travels with every instance of the widget, so it has to stay small.
const LIMIT_KB = 250;

const common = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
};

const explorer = {
  ...common,
  entryPoints: { explorer: "src/index.ts" },
  outdir: bundle,
  platform: "browser",
  minify: true,
  legalComments: "inline",
};

async function build() {
  await mkdir(bundle, { recursive: true });
  await esbuild.build(explorer);
  let total = 0;
  for (const name of ["explorer.js", "explorer.css"]) {
    const { size } = await stat(join(bundle, name));
    total += size;
    console.log(`${name.padEnd(14)}${(size / 1000).toFixed(1).padStart(7)} kB`);
  }
  if (total > LIMIT_KB * 1000) {
    console.error(`error: the bundle is ${(total / 1000).toFixed(1)} kB, more than the ${LIMIT_KB} kB it may be.`);
    process.exitCode = 1;
  }
}

async function watch() {
  const context = await esbuild.context({ ...explorer, minify: false, sourcemap: "inline", logLevel: "info" });
  await context.watch();
}

async function buildTests() {
  await rm(tests, { recursive: true, force: true });
  const found = (await readdir(join(here, "tests"), { recursive: true })).filter((name) => /\.test\.tsx?$/.test(name));
  if (found.length === 0) {
    throw new Error("no tests/*.test.ts found");
  }
  await esbuild.build({
    ...common,
    entryPoints: found.map((name) => join("tests", name)),
    outdir: tests,
    outExtension: { ".js": ".mjs" },
    platform: "node",
    sourcemap: "inline",
  });
}

const mode = process.argv[2];
if (mode === undefined) {
  await build();
} else if (mode === "--watch") {
  await watch();
} else if (mode === "--tests") {
  await buildTests();
} else {
  console.error(`error: unknown option ${mode}; known are --watch and --tests.`);
  process.exitCode = 2;
}
