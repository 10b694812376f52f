/** Bucketing: hashes, rollouts, variants and holdouts, against vectors whose doubles are compared exactly. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import {
  flagPrefix,
  holdoutHash,
  isWithin,
  rolloutHash,
  type Variant,
  variantAt,
  variantHash,
} from '../../../src/rules/flags/bucketing.ts'
import { HashedText, sha1Start } from '../../../src/rules/flags/sha1.ts'

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

t.test('hashes, rollouts and variants are those of the vectors, to the last bit', async (t) => {
  const wrong: string[] = []
  for (const { key, identifier, hash, variant_hash, rollout, variants } of file.vectors) {
    const prefix = flagPrefix(key)
    const text = new HashedText(identifier)
    const got = rolloutHash(prefix, text)
    const gotVariant = variantHash(prefix, text)
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

t.test('a bound belongs to a rollout and not to a variant', async (t) => {
  for (const boundary of file.boundaries) {
    const { kind, key, identifier, hash, variant_hash, rollout_percentage, variants, expected } =
      boundary
    const prefix = flagPrefix(key)
    const text = new HashedText(identifier)
    if (rollout_percentage !== undefined) {
      const got = rolloutHash(prefix, text)
      t.equal(got, hash)
      t.equal(isWithin(got, rollout_percentage), expected, `${kind} ${key} ${rollout_percentage}`)
    } else {
      const got = variantHash(prefix, text)
      t.equal(got, variant_hash)
      t.equal(variantName(got, variantsOf(variants ?? [])), expected, `${kind} ${key}`)
    }
  }
})

t.test('holdouts hash without the flag', async (t) => {
  for (const { identifier, hash, held_out } of file.holdout) {
    const got = holdoutHash(new HashedText(identifier))
    t.equal(got, hash, identifier)
    for (const [percentage, expected] of Object.entries(held_out)) {
      t.equal(isWithin(got, Number(percentage)), expected, `${identifier} at ${percentage}`)
    }
  }
})

t.test('an empty identifier has the hash 0, which is inside of 0 %', async (t) => {
  const hash = rolloutHash(flagPrefix('any'), new HashedText(''))
  t.equal(hash, 0)
  t.equal(isWithin(hash, 0), true)
  t.equal(variantHash(flagPrefix('any'), new HashedText('')), 0)
  t.equal(isWithin(0.5, Number.NaN), false, 'a percentage that is no number excludes everybody')
})

t.test('the hash is that of the crypto library for texts of any length and script', async (t) => {
  const text = fc.string({ unit: 'binary', maxLength: 90 })
  fc.assert(
    fc.property(
      text,
      text,
      fc.constantFrom('', 'variant'),
      fc.nat(40),
      (first, second, salt, times) => {
        const long = second.repeat(times)
        const digest = createHash('sha1')
          .update(first + long + salt)
          .digest('hex')
        const expected = Number(BigInt(`0x${digest.slice(0, 15)}`))
        const got = sha1Start(new HashedText(first), new HashedText(long), new HashedText(salt))
        if (got !== expected) throw new Error(`${got} instead of ${expected}`)
      },
    ),
    { numRuns: 500 },
  )
  t.pass('compared')
})
