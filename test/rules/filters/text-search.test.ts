/**
 * Compares the search in long texts with a search in lower-case strings: random texts and search texts with characters
 * whose upper and lower case differ in unusual ways, search texts at the ends of chunks, and several searches that run
 * alternately. Also tests that searched bytes are freed at once, and that the module matches its source.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { collectGarbage } from '../../../src/base/memory/garbage.ts'
import { ownMemory } from '../../../src/base/memory/memory-board.ts'
import { NEEDLE_BYTES_MAX, SEARCH_CHUNK_BYTES } from '../../../src/rules/filters/limits.ts'
import { type StoredTest, storedTest } from '../../../src/rules/filters/stored-text.ts'
import { formWithContext, upperForms } from '../../../src/rules/filters/text-search/upper-forms.ts'
import { Dice } from '../../fixtures/dice.ts'
import { atFullDepth, roundsOf, seedOf } from '../../fixtures/random-depth.ts'

const dice = new Dice(seedOf(51))
/** Parts of texts: rare and common letters, all kinds of cases, escapes of JSON, and characters of every length. */
const PIECES = [
  ['e', 'a', 't', 'z', ' '],
  ['ß', 'ẞ', 'ss', 'i', 'I', 'İ', 'ı', 'i\u0307', 'k', 'K', '\u212a', 'å', 'Å', '\u212b'],
  ['σ', 'ς', 'Σ', 'ΑΣ', 'ω', 'Ω', '\u2126', 'θ', 'Θ', 'ϴ', 'ǆ', 'ǅ', 'Ǆ', 'ж', 'Ж', 'р', 'Р'],
  ['Ѡ', 'ⱥ', 'Ⱥ', 'ꭰ', 'Ꭰ', '漢', '字', '😀', '😁', '𐐨', '𐐀', '\ud83d', '\ude00', 'e\u0301'],
  ['"', '\\', '\n', '\\n', '\u0001', 'u0001', 'n', '\\u', '/', '\u007f', '\u00a0'],
].flat()

interface Texts {
  readonly values: readonly string[]
  readonly json: Buffer
  readonly places: readonly (readonly [start: number, end: number])[]
}

/** Returns texts as a column stores them: one after another. */
function storedTexts(values: readonly string[]): Texts {
  const places: [number, number][] = []
  let start = 1
  for (const value of values) {
    const end = start + Buffer.byteLength(JSON.stringify(value))
    places.push([start, end])
    start = end + 1
  }
  return { values, json: Buffer.from(JSON.stringify(values)), places }
}

function searchFor(value: string): StoredTest {
  const test = storedTest({ key: 'text', operator: 'icontains', value })
  if (test === null) throw new Error('no search')
  return test
}

/** Returns the texts for which the search contradicts a search in lower-case strings, and counts the decided ones. */
function contradictions(needle: string, { values, json, places }: Texts, decided: number[]) {
  const test = searchFor(needle)
  return values.flatMap((value, index) => {
    const [start = 0, end = 0] = places[index] ?? []
    const found = test(json, start, end)
    if (found === null) return []
    decided[found ? 1 : 0] = (decided[found ? 1 : 0] ?? 0) + 1
    const expected = value.toLowerCase().includes(needle.toLowerCase())
    return found === expected ? [] : [{ needle, value, found }]
  })
}

const textOf = (count: number): string => dice.list(count, () => dice.pick(PIECES)).join('')

t.test('a search in bytes is a search in lower-case strings, or is undecided', (t) => {
  const wrong: unknown[] = []
  const decided = [0, 0]
  for (let round = 0; round < roundsOf(2000, 200); round++) {
    const texts = storedTexts(dice.list(20, () => textOf(dice.below(40))))
    const whole = dice.pick(texts.values)
    const start = dice.below(whole.length + 1)
    const part = whole.slice(start, start + dice.below(8))
    const needle = dice.pick([part, part.toUpperCase(), part.toLowerCase(), textOf(2), ''])
    wrong.push(...contradictions(needle, texts, decided))
  }
  t.strictSame(wrong.slice(0, 5), [])
  t.ok(Math.min(...decided) > roundsOf(2000, 200), `decided: ${decided.join(', ')}`)
  t.end()
})

t.test('each character that becomes another one in lower case is a form of it', (t) => {
  const missing: string[] = []
  for (let code = 0; code < 0x11_0000; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const character = String.fromCodePoint(code)
    const lower = character.toLowerCase()
    const known = [...lower].every(
      (part) => upperForms(part).includes(character) || formWithContext(part) === character,
    )
    if (lower !== character && !known) missing.push(character)
  }
  t.strictSame(missing, [])
  t.end()
})

t.test('a needle is found wherever it lies in a long text', (t) => {
  const wrong: unknown[] = []
  for (const needle of ['Q', 'zQ', 'Größe', 'МОСКВА', '漢字', 'needle of several words', '\n\n']) {
    const bytes = Buffer.byteLength(needle)
    const filler = 'a'.repeat(2 * SEARCH_CHUNK_BYTES)
    const around = [-bytes - 1, -bytes, -bytes + 1, -2, -1, 0, 1, 15, 16, 17]
    const offsets = [0, 1, SEARCH_CHUNK_BYTES, 2 * SEARCH_CHUNK_BYTES - bytes].flatMap((base) =>
      around.map((more) => base + more),
    )
    for (const offset of offsets) {
      if (offset < 0 || offset > filler.length) continue
      const found = filler.slice(0, offset) + needle.toLowerCase() + filler.slice(offset)
      const missed = `${filler.slice(0, offset)}${needle.slice(0, -1)}${filler.slice(offset)}`
      const texts = storedTexts([missed, found, missed, needle, needle.slice(0, -1)])
      wrong.push(
        ...contradictions(needle, texts, []).map(({ found }) => ({ needle, offset, found })),
      )
    }
  }
  t.strictSame(wrong.slice(0, 5), [])
  t.end()
})

t.test('searches for several needles in several columns can take turns', (t) => {
  const needles = ['te', 'ÅZ', 'strasse', 'жр', 'z']
  const tests = needles.map(searchFor)
  const columns = dice.list(3, () => storedTexts(dice.list(200, () => textOf(30))))
  const wrong: unknown[] = []
  for (let round = 0; round < roundsOf(20_000, 2000); round++) {
    const which = dice.below(needles.length)
    const { values, json, places } = dice.pick(columns)
    const index = dice.below(values.length)
    const [start = 0, end = 0] = places[index] ?? []
    const found = tests[which]?.(json, start, end) ?? null
    const expected = values[index]?.toLowerCase().includes(needles[which]?.toLowerCase() ?? '')
    if (found !== null && found !== expected) wrong.push({ needle: needles[which], found })
  }
  t.strictSame(wrong.slice(0, 5), [])
  t.end()
})

t.test('a needle may be longer than the part that is searched', (t) => {
  const needle = `x${'é\n'.repeat(NEEDLE_BYTES_MAX)}y`
  const { json, places } = storedTexts([needle, 'x', `${needle.slice(0, -1)}z`])
  const verdicts = places.map(([start, end]) => searchFor(needle)(json, start, end))
  t.strictSame(verdicts, [null, false, null], 'the value itself decides, or the bytes do')
  t.end()
})

t.test('bytes that were searched are freed before the query ends', (t) => {
  const MIB = 1024 * 1024
  const columns = 32
  const searchColumns = (): void => {
    const test = searchFor('needle')
    for (let column = 0; column < columns; column++) {
      const json = Buffer.alloc(MIB, 'a')
      if (test(json, 0, MIB) === true) throw new Error('found a needle that is not there')
    }
  }
  const bytesNow = (): number => {
    // V8 frees the memory of collected buffers in another thread. The second collection waits until it is freed.
    collectGarbage()
    collectGarbage()
    return ownMemory().bufferBytes
  }
  const before = bytesNow()
  // One query is one job of the event loop, as this test is. V8 must not keep the bytes until the job ends.
  searchColumns()
  const kept = bytesNow() - before
  t.ok(kept < (columns / 4) * MIB, `${(kept / MIB).toFixed(1)} MiB of ${columns} are still in use`)
  t.end()
})

t.test('the compiled search matches its source', { skip: atFullDepth }, async (t) => {
  const folder = 'src/rules/filters/text-search'
  const file = join(t.testdir(), 'search.wasm')
  const words = [join('node_modules', 'assemblyscript', 'bin', 'asc.js'), `${folder}/assembly.ts`]
  execFileSync(
    process.execPath,
    [...words, '--config', `${folder}/asconfig.json`, '--outFile', file],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  )
  const isSame = readFileSync(file).equals(readFileSync(`${folder}/search.wasm`))
  t.ok(isSame, 'run npm run build:search to compile the search again')
})
