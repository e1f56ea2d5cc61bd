/** What the bundler shortens (internal_names.mjs) must be nobody else's word. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { internalNames } from "../internal_names.mjs";

const home = join(process.cwd(), "..", "..");

function texts(folder: string, wanted: RegExp): string[] {
  const found = readdirSync(join(home, folder), { recursive: true, encoding: "utf8" }).filter((name) => wanted.test(name));
  assert.notEqual(found.length, 0, `${folder} holds what is looked for`);
  return found.map((name) => readFileSync(join(home, folder, name), "utf8").replace(/\/\*[^]*?\*\/|\/\/.*/g, ""));
}

function spokenBy(words: Iterable<string>): string[] {
  const all = new Set(words);
  return internalNames.filter((name) => all.has(name));
}

test("no name of the browser's or of preact's is shortened", () => {
  const compiler = texts("node_modules/@typescript", /lib\.(dom|es).*\.d\.ts$/);
  const preact = texts("node_modules/preact", /\.(d\.ts|mjs)$/);
  assert.deepEqual(spokenBy([...compiler, ...preact].flatMap((text) => text.match(/\w+/g) ?? [])), []);
});

test("no name that travels between kernel and browser is shortened", () => {
  const [protocol = ""] = texts("src", /^protocol\.ts$/);
  assert.deepEqual(spokenBy(protocol.match(/\w+/g) ?? []), []);
});

test("no name of the store's, its state's or a scene's is shortened: a page has them as root.lowerscope", () => {
  const open = texts("src", /^(store|base_store|recipe_actions|state|scene)\.ts$/);
  assert.deepEqual(spokenBy(open.flatMap((text) => text.match(/\w+/g) ?? [])), []);
});

test("no name is shortened that is also written as a string, by which a property could be looked up", () => {
  const quoted = texts("src", /\.tsx?$/).flatMap((text) => [...text.matchAll(/"(\w+)"/g)].map(([, word]) => word ?? ""));
  assert.deepEqual(spokenBy(quoted), []);
});

test("nothing asks flatbush for neighbours, whose queue the bundle leaves out", () => {
  assert.ok(texts("src", /\.tsx?$/).every((text) => !/\bneighbors\b/.test(text)));
});

test("every name is one that the sources use", () => {
  const words = new Set(texts("src", /\.tsx?$/).flatMap((text) => text.match(/\w+/g) ?? []));
  assert.deepEqual(internalNames.filter((name) => !words.has(name)), []);
});
