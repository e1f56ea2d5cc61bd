/** What the bundler puts in for JSX (see build.mjs). */
export { Fragment, h } from "preact";
