/** The part of WebAssembly that we use; the `es2023` library does not declare it. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    readonly exports: Record<string, unknown>
    constructor(
      module: Module,
      imports?: Readonly<
        Record<string, Readonly<Record<string, (...numbers: number[]) => number>>>
      >,
    )
  }
  class Memory {
    readonly buffer: ArrayBuffer
    constructor(pages: { readonly initial: number })
    grow(pages: number): number
  }
}
