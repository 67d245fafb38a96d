/** The language that a function is written in, as far as its name and module tell. */

export const LANGUAGES = ["C and others", "C++", "Rust", "Go", "Python", "JavaScript", "Java", "kernel"] as const;
export type Language = (typeof LANGUAGES)[number];

const RULES: readonly (readonly [Language, (name: string, module: string) => boolean])[] = [
  [
    "kernel",
    (_, module) =>
      module.startsWith("[kernel") ||
      module === "[vdso]" ||
      (/^\[[a-z0-9_]+\]$/.test(module) && !/^\[(unknown|jit|anon|thread|slice|java|jvm)/.test(module)),
  ],
  ["Python", (_, module) => /\.pyx?$/.test(module)],
  [
    "JavaScript",
    (name, module) =>
      /\.(m?js|ts)(:\d+)?$/.test(module) || /^(LazyCompile|Function|JS|Builtin|BytecodeHandler):/.test(name),
  ],
  [
    "Java",
    (name, module) =>
      /\.(jar|java|kts?|scala|groovy|clj)$/.test(module) ||
      module === "[java]" ||
      module === "[jvm]" ||
      /^L?[a-z]\w*(\/\w+)+;?(::|\.)/.test(name) ||
      (module.startsWith("[jit") && /^[\w$]+(\.[\w$<>]+)+(\(|$)/.test(name)),
  ],
  [
    "Go",
    (name) =>
      /^(runtime|main|[\w-]+(\.[\w-]+)*(\/[\w.-]+)*)\.(\(\*?\w+(\[.*\])?\)\.)?\w+(\.func\d+)*(\[.*\])?$/.test(name) &&
      !name.includes("::"),
  ],
  [
    "Rust",
    (name) =>
      /^(<.+ as .+>|core|alloc|std)::(fmt|ptr|iter|slice|str|ops|rt|sys|panicking|thread|vec|collections|alloc|raw_vec|hash|num|option|result)\b/.test(
        name,
      ) ||
      /::\{\{?(closure|impl|shim)/.test(name) ||
      /^<.+>::\w+$/.test(name),
  ],
  ["C++", (name) => name.includes("::") || /\(.*\)( const)?$/.test(name) || name.startsWith("operator")],
];

/** Guesses by the first rule that says so. */
export function languageOf(name: string, module: string): Language {
  return RULES.find(([, says]) => says(name, module))?.[0] ?? "C and others";
}
