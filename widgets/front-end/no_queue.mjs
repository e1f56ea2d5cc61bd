/** In the bundle's place of flatqueue, 886 bytes: only flatbush's `neighbors` uses it, which nothing here calls. */
export default class {}
