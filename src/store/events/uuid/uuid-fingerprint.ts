/**
 * Calculates fingerprints of events for the uuid index:
 *
 *   high half   depends on project and uuid, so that an event is found by its uuid
 *   low half    depends on name and distinct_id too, so that many events with the same uuid do not slow down
 *               the duplicate check
 *
 * Each store has a random seed, so that clients cannot choose uuids that collide.
 */

/**
 * Calculates fingerprints. After a call of `compute`, `high` and `low` contain the result, as signed 32-bit numbers.
 */
export class UuidFingerprint {
  readonly #seed: number
  high = 0
  low = 0

  /** `seed` is any 32-bit number. It must stay the same for the life of a store. */
  constructor(seed: number) {
    this.#seed = seed | 0
  }

  /** Calculates the fingerprint of an event. The 16 bytes of the event's uuid begin at `offset`. */
  compute(
    projectId: number,
    uuid: Uint8Array,
    offset: number,
    distinctId: number,
    nameHash: number,
  ): void {
    const a = word(uuid, offset)
    const b = word(uuid, offset + 4)
    const c = word(uuid, offset + 8)
    const d = word(uuid, offset + 12)
    let high = mixed(this.#seed ^ Math.imul(projectId, 0x27d4eb2f), a)
    high = mixed(high, b)
    high = mixed(high, c)
    high = mixed(high, d)
    this.high = final(high)
    let low = mixed(high ^ 0x5bd1e995, d)
    low = mixed(low, b)
    low = mixed(low, distinctId)
    low = mixed(low, nameHash)
    this.low = final(low)
  }

  hashName(name: string): number {
    let hash = this.#seed ^ name.length
    for (let index = 0; index < name.length; index++) hash = mixed(hash, name.charCodeAt(index))
    return final(hash)
  }
}

function word(bytes: Uint8Array, offset: number): number {
  return (
    (bytes[offset] ?? 0) |
    ((bytes[offset + 1] ?? 0) << 8) |
    ((bytes[offset + 2] ?? 0) << 16) |
    ((bytes[offset + 3] ?? 0) << 24)
  )
}

// Mixes a value into a hash: multiplies, rotates and adds, so that a change of one bit changes many bits of the result.
function mixed(hash: number, value: number): number {
  const product = Math.imul(value, 0xcc9e2d51)
  const spread = Math.imul((product << 15) | (product >>> 17), 0x1b873593)
  const next = hash ^ spread
  return (Math.imul((next << 13) | (next >>> 19), 5) + 0xe6546b64) | 0
}

function final(hash: number): number {
  let value = hash ^ (hash >>> 16)
  value = Math.imul(value, 0x85ebca6b)
  value ^= value >>> 13
  value = Math.imul(value, 0xc2b2ae35)
  return value ^ (value >>> 16)
}
