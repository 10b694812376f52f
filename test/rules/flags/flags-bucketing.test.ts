/**
 * Tests bucketing: hashes, rollouts, variants and holdouts, against reference vectors, whose floating-point numbers
 * must be equal bit by bit.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import {
  FlagHashes,
  holdoutHash,
  isWithin,
  type Variant,
  variantAt,
} from '../../../src/rules/flags/bucketing.ts'
import { HashPrefix } from '../../../src/rules/flags/sha1/sha1.ts'
import { Differences } from '../../fixtures/differences.ts'
import { atFullDepth, runsOf } from '../../fixtures/random-depth.ts'

interface VectorFile {
  readonly variant_sets: Readonly<
    Record<string, readonly { readonly key: string; readonly rollout_percentage: number }[]>
  >
  readonly vectors: readonly {
    readonly key: string
    readonly identifier: string
    readonly hash: number
    readonly variant_hash: number
    readonly rollout: Readonly<Record<string, boolean>>
    readonly variants: Readonly<Record<string, string | null>>
  }[]
  readonly boundaries: readonly Boundary[]
  readonly holdout: readonly {
    readonly identifier: string
    readonly hash: number
    readonly held_out: Readonly<Record<string, boolean>>
  }[]
}

interface Boundary {
  readonly kind: string
  readonly key: string
  readonly identifier: string
  readonly hash?: number
  readonly variant_hash?: number
  readonly rollout_percentage?: number
  readonly variants?: readonly { readonly key: string; readonly rollout_percentage: number }[]
  readonly expected: boolean | string | null
}

const file = JSON.parse(
  readFileSync(new URL('../../fixtures/flags/hash-vectors.json', import.meta.url), 'utf8'),
) as VectorFile

function variantsOf(stored: readonly { key: string; rollout_percentage: number }[]): Variant[] {
  return stored.map(({ key, rollout_percentage }) => ({
    key,
    rolloutPercentage: rollout_percentage,
  }))
}

const sets = new Map(
  Object.entries(file.variant_sets).map(([name, stored]) => [name, variantsOf(stored)]),
)

function variantName(hash: number, variants: readonly Variant[]): string | null {
  return variants[variantAt(hash, variants)]?.key ?? null
}

t.test('hashes, rollouts and variants equal the vectors to the last bit', async (t) => {
  const wrong: string[] = []
  for (const { key, identifier, hash, variant_hash, rollout, variants } of file.vectors) {
    const hashes = new FlagHashes(key)
    const got = hashes.rolloutOf(identifier)
    const gotVariant = hashes.variantOf(identifier)
    if (got !== hash || gotVariant !== variant_hash) wrong.push(`${key} ${identifier}: ${got}`)
    for (const [percentage, expected] of Object.entries(rollout)) {
      if (isWithin(got, Number(percentage)) !== expected) wrong.push(`${key} at ${percentage}`)
    }
    for (const [name, expected] of Object.entries(variants)) {
      const chosen = variantName(gotVariant, sets.get(name) ?? [])
      if (chosen !== expected) wrong.push(`${key} ${identifier} in ${name}: ${chosen}`)
    }
  }
  t.strictSame(wrong, [])
  t.ok(file.vectors.length > 600)
})

t.test('the upper bound belongs to a rollout but not to a variant', async (t) => {
  const differences = new Differences()
  for (const boundary of file.boundaries) {
    const { kind, key, identifier, hash, variant_hash, rollout_percentage, variants, expected } =
      boundary
    const hashes = new FlagHashes(key)
    if (rollout_percentage !== undefined) {
      const got = hashes.rolloutOf(identifier)
      const name = `${kind} ${key} ${rollout_percentage}`
      differences.equal(got, hash, `${name} has the expected hash`)
      differences.equal(isWithin(got, rollout_percentage), expected, name)
    } else {
      const got = hashes.variantOf(identifier)
      const variant = variantName(got, variantsOf(variants ?? []))
      differences.equal(got, variant_hash, `${kind} ${key} has the expected hash`)
      differences.equal(variant, expected, `${kind} ${key}`)
    }
  }
  t.strictSame(differences.list(), [], 'every bound is on its side')
})

t.test('holdouts hash without the flag key', async (t) => {
  const differences = new Differences()
  for (const { identifier, hash, held_out } of file.holdout) {
    const got = holdoutHash(identifier)
    differences.equal(got, hash, `${identifier} has the expected hash`)
    for (const [percentage, expected] of Object.entries(held_out)) {
      const isHeldOut = isWithin(got, Number(percentage))
      differences.equal(isHeldOut, expected, `${identifier} at ${percentage}`)
    }
  }
  t.strictSame(differences.list(), [], 'every identifier is held out as in the vectors')
})

t.test('an empty identifier has the hash 0, which is inside a rollout of 0 %', async (t) => {
  const hashes = new FlagHashes('any')
  const hash = hashes.rolloutOf('')
  t.equal(hash, 0)
  t.equal(isWithin(hash, 0), true)
  t.equal(hashes.variantOf(''), 0)
  t.equal(isWithin(0.5, Number.NaN), false, 'an invalid percentage excludes everybody')
})

/** Sources of texts, by name. */
const SALTS = { none: '', variant: 'variant' } as const
const SALT_NAMES = ['none', 'variant'] as const

/** Returns the SHA-1 that the crypto library computes for the same message. */
function expectedHash(message: string): number {
  const digest = createHash('sha1').update(message).digest('hex')
  return Number(BigInt(`0x${digest.slice(0, 15)}`)) / 2 ** 60
}

t.test(
  'the hash equals that of the crypto library for texts of any length and script',
  async (t) => {
    const text = fc.string({ unit: 'binary', maxLength: 90 })
    fc.assert(
      fc.property(
        fc.array(text, { minLength: 1, maxLength: 6 }),
        text,
        fc.constantFrom(...SALT_NAMES),
        fc.nat(40),
        (first, second, salt, times) => {
          const long = second.repeat(times)
          const prefixes = first.map((prefix) => new HashPrefix(prefix, salt))
          for (const [index, prefix] of prefixes.entries())
            prefix.next = prefixes[index + 1] ?? null
          // The second time the hashes are cached, the third time others came between.
          for (const wanted of [long, long, second, long]) {
            for (const [index, prefix] of prefixes.entries()) {
              const expected = expectedHash(`${first[index]}${wanted}${SALTS[salt]}`)
              const got = prefix.hashOf(wanted)
              if (got !== expected) throw new Error(`${got} instead of ${expected}`)
            }
          }
        },
      ),
      runsOf(500),
    )
    t.pass('compared')
  },
)

t.test('messages of every length that fits, and the first lengths that do not fit', async (t) => {
  for (const salt of SALT_NAMES) {
    // Neighboring lengths with a different number of blocks, and one that does not fit.
    const prefixes = ['p', 'p'.repeat(63), 'p'.repeat(400), 'p'.repeat(2000)].map(
      (text) => [text, new HashPrefix(text, salt)] as const,
    )
    for (const [index, [, prefix]] of prefixes.entries()) {
      prefix.next = prefixes[index + 1]?.[1] ?? null
    }
    for (let length = 1; length < 1000; length++) {
      const text = 'x'.repeat(length)
      for (const [prefixText, prefix] of prefixes) {
        const got = prefix.hashOf(text)
        const expected = expectedHash(`${prefixText}${text}${SALTS[salt]}`)
        if (got !== expected) t.fail(`${prefixText.length} + ${length}: ${got}, not ${expected}`)
      }
    }
  }
})

t.test('the compiled kernel matches its source', { skip: atFullDepth }, async (t) => {
  const folder = 'src/rules/flags/sha1'
  const file = join(t.testdir(), 'sha1.wasm')
  const words = [join('node_modules', 'assemblyscript', 'bin', 'asc.js'), `${folder}/assembly.ts`]
  const options = ['--config', `${folder}/asconfig.json`, '--outFile', file]
  execFileSync(process.execPath, [...words, ...options], {
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  const isSame = readFileSync(file).equals(readFileSync(`${folder}/sha1.wasm`))
  t.ok(isSame, 'run npm run build:sha1 to compile the kernel again')
})
