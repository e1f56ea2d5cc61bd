/** The type of internal_names.mjs, which the bundler and its test read. */
export const internalNames: string[];
