/**
 * Bucketing: which share of all identifiers one belongs to, for rollouts, variants and holdouts. Decided
 * by a hash alone, so that everybody who knows flag and identifier comes to the same result. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import { HashedText, sha1Start } from './sha1.ts'

/** The hash has 60 bits; the double nearest to 2^60 - 1 is 2^60. */
const HASH_END = 2 ** 60
const NO_SALT = new HashedText('')
const VARIANT_SALT = new HashedText('variant')
const HOLDOUT_PREFIX = new HashedText('holdout-')

/** A variant of a flag. */
export interface Variant {
  readonly key: string
  /** 0..100. */
  readonly rolloutPercentage: number
}

/** What stands in front of the identifier when a flag is hashed; make it once for each flag. */
export function flagPrefix(key: string): HashedText {
  return new HashedText(`${key}.`)
}

/** The hash that decides about a rollout, 0..1. An empty identifier has the hash 0. */
export function rolloutHash(prefix: HashedText, identifier: HashedText): number {
  return hashOf(prefix, identifier, NO_SALT)
}

/** The hash that decides about the variant, 0..1. An empty identifier has the hash 0. */
export function variantHash(prefix: HashedText, identifier: HashedText): number {
  return hashOf(prefix, identifier, VARIANT_SALT)
}

/** The hash that decides about holdouts, 0..1: the same for all flags, and also of an empty identifier. */
export function holdoutHash(identifier: HashedText): number {
  return sha1Start(HOLDOUT_PREFIX, identifier, NO_SALT) / HASH_END
}

/** Whether a hash belongs to a share; the bound belongs to it. */
export function isWithin(hash: number, percentage: number): boolean {
  return percentage === 100 || hash <= percentage / 100
}

/** The place of the variant that a hash falls on, or -1 when the variants do not reach so far. */
export function variantAt(hash: number, variants: readonly Variant[]): number {
  let bound = 0
  for (let index = 0; index < variants.length; index++) {
    // Added up in this order, because the sum is rounded at each step; the bound does not belong to it.
    bound += (variants[index]?.rolloutPercentage ?? 0) / 100
    if (hash < bound) return index
  }
  return -1
}

function hashOf(prefix: HashedText, identifier: HashedText, salt: HashedText): number {
  if (identifier.byteLength === 0) return 0
  return sha1Start(prefix, identifier, salt) / HASH_END
}
