// Bundles the front end for anywidget (one ES module, one style sheet), or, with --tests, builds and runs its unit tests.

import { spawnSync } from "node:child_process";
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

import { internalNames } from "./internal_names.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const bundle = join(here, "..", "lowerscope_widgets", "static");
const live = join(here, "build", "live");
const tests = join(here, "build", "tests");

// The bundle travels with every instance of the widget, so it has to stay small. In bytes, both files together.
const LIMIT = 250 * 1024;

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
  alias: { flatqueue: "./no_queue.mjs" },
  mangleProps: new RegExp(`^(${internalNames.join("|")})$`),
  legalComments: "inline",
};

async function build() {
  await mkdir(bundle, { recursive: true });
  const { metafile } = await esbuild.build({ ...explorer, metafile: true });
  const areas = new Map();
  let total = 0;
  for (const { bytes, inputs } of Object.values(metafile.outputs)) {
    total += bytes;
    for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
      const name = areaOf(path);
      areas.set(name, (areas.get(name) ?? 0) + bytesInOutput);
    }
  }
  for (const [name, bytes] of [...areas].sort(([, a], [, b]) => b - a)) {
    console.log(`${name.padEnd(18)}${bytes.toLocaleString("en").padStart(8)} bytes`);
  }
  console.log(`${"the bundle".padEnd(18)}${total.toLocaleString("en").padStart(8)} bytes of ${LIMIT.toLocaleString("en")}`);
  if (total >= LIMIT) throw new Error(`the bundle is ${total} bytes, and it must stay under ${LIMIT}.`);
}

/** What a source belongs to: the panels, the canvas, a library, all style sheets, or what those stand on. */
function areaOf(path) {
  if (path.endsWith(".css")) return "style sheets";
  const library = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path);
  if (library) return library[1];
  return /^src\/(\w+)\//.exec(path)?.[1] ?? "store and scene";
}

/** Builds on every change of a source, beside the bundle that is released: readable, and with its source map. */
async function watch() {
  const context = await esbuild.context({ ...explorer, outdir: live, minify: false, sourcemap: "inline", logLevel: "info" });
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
