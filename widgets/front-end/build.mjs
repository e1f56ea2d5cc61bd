// Bundles the front end for anywidget (one ES module, one style sheet), or, with --tests, builds and runs its unit tests.

import { spawnSync } from "node:child_process";
import { copyFile, mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const bundle = join(here, "..", "lowerscope_widgets", "static");
const tests = join(here, "build", "tests");

// The bundle travels with every instance of the widget, so it has to stay small.
const LIMIT_KIB = 250;

const common = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  // The classic transform: a tenth of the panels' code would otherwise be the word "children".
  // What tsconfig.json says of JSX is for the type checker, and would win over the options of the same name.
  tsconfigRaw: { compilerOptions: { jsx: "react", jsxFactory: "h", jsxFragmentFactory: "Fragment", verbatimModuleSyntax: true } },
  inject: ["src/jsx.ts"],
  charset: "utf8",
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
    console.log(`${name.padEnd(14)}${(size / 1024).toFixed(1).padStart(7)} KiB`);
  }
  if (total > LIMIT_KIB * 1024) {
    throw new Error(`the bundle is ${(total / 1024).toFixed(1)} KiB, more than the ${LIMIT_KIB} KiB it may be.`);
  }
}

async function watch() {
  const context = await esbuild.context({ ...explorer, minify: false, sourcemap: "inline", logLevel: "info" });
  await context.watch();
}

async function runTests() {
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
  const built = (await readdir(tests, { recursive: true })).filter((name) => name.endsWith(".mjs"));
  const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], {
    cwd: tests,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
}

/** The widget on a made-up network, for looking at it and for browser tests that need no kernel: build/page/page.html. */
async function buildPage() {
  const page = join(here, "build", "page");
  await mkdir(page, { recursive: true });
  await esbuild.build({ ...common, entryPoints: ["tests/page/page.ts"], outdir: page, platform: "browser", sourcemap: "inline" });
  await copyFile(join(here, "tests", "page", "page.html"), join(page, "page.html"));
}

const modes = { build, "--watch": watch, "--tests": runTests, "--page": buildPage };
const mode = modes[process.argv[2] ?? "build"];
try {
  if (mode === undefined) throw new Error(`unknown option ${process.argv[2]}; known are --watch, --tests and --page.`);
  await mode();
} catch (error) {
  // What esbuild found wrong it has printed already, with its place in the source.
  if (!error.errors) console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
