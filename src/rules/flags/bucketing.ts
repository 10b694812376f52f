/**
 * Bucketing: which share of all identifiers one belongs to, for rollouts, variants and holdouts. Decided
 * by a hash alone, so that everybody who knows flag and identifier comes to the same result. Source:
 * docs/compatibility/decisions.md, "Flag decisions".
 */
import { HashPrefix } from './sha1/sha1.ts'

const HOLDOUT_PREFIX = new HashPrefix('holdout-', 'none')

/** A variant of a flag. */
export interface Variant {
  readonly key: string
  /** 0..100. */
  readonly rolloutPercentage: number
}

/** The hashes of a flag; make them once for each flag. */
export class FlagHashes {
  readonly #rollout: HashPrefix
  readonly #variant: HashPrefix

  constructor(key: string) {
    this.#rollout = new HashPrefix(`${key}.`, 'none')
    this.#variant = new HashPrefix(`${key}.`, 'variant')
  }

  /** The hash that decides about a rollout, 0..1. An empty identifier has the hash 0. */
  rolloutOf(identifier: string): number {
    return identifier === '' ? 0 : this.#rollout.hashOf(identifier)
  }

  /** The hash that decides about the variant, 0..1. An empty identifier has the hash 0. */
  variantOf(identifier: string): number {
    return identifier === '' ? 0 : this.#variant.hashOf(identifier)
  }

  /** Whose rollout and whose variant will probably be asked for next, as far as there are such. */
  precede(rollout: FlagHashes | null, variant: FlagHashes | null): void {
    this.#rollout.next = rollout === null ? null : rollout.#rollout
    this.#variant.next = variant === null ? null : variant.#variant
  }
}

/** The hash that decides about holdouts, 0..1: the same for all flags, and also of an empty identifier. */
export function holdoutHash(identifier: string): number {
  return HOLDOUT_PREFIX.hashOf(identifier)
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
