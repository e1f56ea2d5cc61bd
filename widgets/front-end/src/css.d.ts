// esbuild gathers imported style sheets into explorer.css; for the compiler the import is a side effect.
declare module "*.css";
