/**
 * Finds the characters that `toLowerCase` turns into a given character, such as `K` and the Kelvin sign for `k`.
 * `upperForms` returns the characters whose lower case is always exactly the given one. There are two exceptions, which
 * `formWithContext` returns: U+0130 becomes two characters, and the capital sigma becomes a different small sigma at
 * the end of a word than elsewhere.
 */

const BLOCK = 256
/** The last 256 characters that are searched. They end the second plane of Unicode; later planes have no capitals. */
const LAST_BLOCK = 0x1ff00
const SURROGATES = [0xd800, 0xdfff] as const
/** The dotted capital I. In lower case it becomes two characters, i and U+0307. */
const DOTTED_I = '\u0130'
/** The capital sigma. In lower case it becomes one of two characters. */
const CAPITAL_SIGMA = '\u03a3'
const CONTEXT = new Map([
  ['i', DOTTED_I],
  ['\u0307', DOTTED_I],
  ['\u03c3', CAPITAL_SIGMA],
  ['\u03c2', CAPITAL_SIGMA],
])

/** The forms of ASCII letters are written out, so that most searches need no table. */
const ASCII_END = 0x80
const KELVIN = '\u212a'
let table: Map<string, string[]> | undefined

/**
 * Returns the other characters that `toLowerCase` turns into the given lower-case character, wherever they stand in a
 * text.
 */
export function upperForms(character: string): readonly string[] {
  if (character.charCodeAt(0) >= ASCII_END) {
    table ??= tableOfForms()
    return table.get(character) ?? []
  }
  if (!/[a-z]/.test(character)) return []
  const capital = character.toUpperCase()
  return character === 'k' ? [capital, KELVIN] : [capital]
}

/**
 * Returns U+0130 or the capital sigma if its lower case may contain `character`. Returns undefined for other
 * characters.
 */
export function formWithContext(character: string): string | undefined {
  return CONTEXT.get(character)
}

/**
 * Returns, for each lower-case character, the characters that `toLowerCase` turns into it. Whole blocks are tested
 * first, because few of them contain capitals. It takes about 3 ms.
 */
function tableOfForms(): Map<string, string[]> {
  const forms = new Map<string, string[]>()
  for (let start = 0; start <= LAST_BLOCK; start += BLOCK) {
    if (start >= SURROGATES[0] && start <= SURROGATES[1]) continue
    const characters = Array.from({ length: BLOCK }, (_, index) =>
      String.fromCodePoint(start + index),
    )
    const text = characters.join('')
    if (text.toLowerCase() === text) continue
    for (const character of characters) {
      const lower = character.toLowerCase()
      if (lower === character || character === CAPITAL_SIGMA) continue
      const known = forms.get(lower)
      if (known === undefined) forms.set(lower, [character])
      else known.push(character)
    }
  }
  return forms
}
