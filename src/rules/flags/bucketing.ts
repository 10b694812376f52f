/**
 * Bucketing assigns identifiers to rollouts, variants and holdouts. It computes a hash of the identifier and compares
 * the hash with a percentage. The hash alone decides, so every program that has the flag and the identifier gets the
 * same result. Source: docs/compatibility/decisions.md, "Flag decisions".
 */
import { HashPrefix } from './sha1/sha1.ts'

const HOLDOUT_PREFIX = new HashPrefix('holdout-', 'none')

/** A variant of a flag. */
export interface Variant {
  readonly key: string
  /** A percentage from 0 to 100. */
  readonly rolloutPercentage: number
}

/**
 * Hashes identifiers for one flag: one hash decides about the rollout, the other about the variant. Create one object
 * for each flag, because it keeps the prepared key of the flag and the last hashes.
 */
export class FlagHashes {
  readonly #rollout: HashPrefix
  readonly #variant: HashPrefix

  constructor(key: string) {
    this.#rollout = new HashPrefix(`${key}.`, 'none')
    this.#variant = new HashPrefix(`${key}.`, 'variant')
  }

  /** Returns the hash that decides about a rollout, from 0 to 1. An empty identifier has the hash 0. */
  rolloutOf(identifier: string): number {
    return identifier === '' ? 0 : this.#rollout.hashOf(identifier)
  }

  /** Returns the hash that decides about the variant, from 0 to 1. An empty identifier has the hash 0. */
  variantOf(identifier: string): number {
    return identifier === '' ? 0 : this.#variant.hashOf(identifier)
  }

  /**
   * Sets the flags that will probably be decided next for the same identifier: `rollout` is the next one that needs a
   * rollout hash, and `variant` the next one that needs a variant hash. Their hashes are then computed together with
   * the hashes of this flag. Null means that there is none.
   */
  precede(rollout: FlagHashes | null, variant: FlagHashes | null): void {
    this.#rollout.next = rollout === null ? null : rollout.#rollout
    this.#variant.next = variant === null ? null : variant.#variant
  }
}

/**
 * Returns the hash that decides about holdouts, from 0 to 1. It is the same for all flags. An empty identifier is
 * hashed like any other.
 */
export function holdoutHash(identifier: string): number {
  return HOLDOUT_PREFIX.hashOf(identifier)
}

/** Returns whether a hash is at most a percentage. */
export function isWithin(hash: number, percentage: number): boolean {
  return percentage === 100 || hash <= percentage / 100
}

/** Returns the index of the variant that a hash falls into, or -1 if the variants do not cover the hash. */
export function variantAt(hash: number, variants: readonly Variant[]): number {
  let bound = 0
  for (let index = 0; index < variants.length; index++) {
    // The shares must be added in this order, because the sum is rounded at each step. A hash that equals the sum
    // belongs to the next variant.
    bound += (variants[index]?.rolloutPercentage ?? 0) / 100
    if (hash < bound) return index
  }
  return -1
}
