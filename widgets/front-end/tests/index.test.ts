import assert from "node:assert/strict";
import { test } from "node:test";

import * as front from "../src/index";

test("anywidget finds render, by name and on the default export", () => {
  assert.equal(typeof front.render, "function");
  assert.equal(front.default.render, front.render);
});
