/** `JSON.parse` answers `unknown`, so that every use of parsed data is validated first. */
interface JSON {
  parse(text: string, reviver?: (this: unknown, key: string, value: unknown) => unknown): unknown
}
