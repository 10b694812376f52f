/**
 * The GeoIP database of the operator: a file in the MaxMind DB format. It is read into memory, and read again when it
 * has changed. A missing or damaged file does not stop processing: the fault is logged, and the last valid version
 * stays in use, if there was one. Only this file imports mmdb-lib.
 */
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import type { Reader, Response } from 'mmdb-lib'
import { unmappedAddress } from '../../base/addresses.ts'
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { loadPackage } from '../../base/load-package.ts'
import type { Logger } from '../../base/log.ts'
import { RecentValues } from '../../base/maps.ts'
import { type Place, placeOf } from '../../rules/enrichment/place.ts'
import type { GeoIpCounts } from '../threads/tasks.ts'
import {
  ENRICHMENT_CACHE_BYTES_MAX,
  GEOIP_FILE_BYTES_MAX,
  GEOIP_LOOKUP_MS_MAX,
  GEOIP_REFERENCES_MAX,
} from './limits.ts'

/** The interval at which Tenrec checks whether the file has changed, in milliseconds. */
const LOOK_MS = 5000
/**
 * The bytes with which the metadata of a database begins. They are in the last `DESCRIPTION_NEAR_BYTES` bytes of the
 * file.
 */
const DESCRIPTION_MARK = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')
const DESCRIPTION_NEAR_BYTES = 128 * 1024
/** The number of zero bytes between the search tree and the records. */
const SEPARATOR_BYTES = 16
const FORMAT = 2
/** The memory of a cached location is estimated as this number of bytes for each byte of its JSON. */
const MEMORY_FACTOR = 3
const NOWHERE_BYTES = 64

/** A GeoIP database in memory. */
class OpenDatabase {
  readonly #reader: Reader<Response>
  #references = 0

  /** Throws an error whose message says what is wrong with the file. */
  constructor(bytes: Buffer) {
    const tail = bytes.subarray(-DESCRIPTION_NEAR_BYTES)
    if (!tail.includes(DESCRIPTION_MARK)) throw new Error('it is not a MaxMind DB, or is truncated')
    const { Reader: DatabaseReader } = loadPackage('mmdb-lib') as typeof import('mmdb-lib')
    // mmdb-lib calls `get` for each reference that it follows. Counting the references detects a damaged record whose
    // references form a cycle.
    const get = (): undefined => {
      if (++this.#references > GEOIP_REFERENCES_MAX) throw new Error('it has too many references')
    }
    this.#reader = new DatabaseReader(bytes, { cache: { get, set: () => undefined } })
    const { binaryFormatMajorVersion, ipVersion, nodeCount, searchTreeSize } = this.#reader.metadata
    if (binaryFormatMajorVersion !== FORMAT) throw new Error('its format is not version 2')
    const isSound = Number.isSafeInteger(nodeCount) && [4, 6].includes(ipVersion)
    if (!isSound || searchTreeSize + SEPARATOR_BYTES > bytes.length) {
      throw new Error('its metadata is damaged')
    }
  }

  /** Returns the record of an IP address, or null if there is none. Throws if the record is damaged. */
  find(address: string): unknown {
    const version = isIP(address)
    if (version === 0 || version > this.#reader.metadata.ipVersion) return null
    this.#references = 0
    return this.#reader.get(address)
  }
}

/**
 * Returns the reason why a file cannot be used as a GeoIP database, or null if it can be used. The reason does not
 * contain the path of the file. The whole file is read.
 */
export function geoIpFault(path: string): string | null {
  try {
    openFile(path)
    return null
  } catch (error) {
    return messageOf(error)
  }
}

/** The GeoIP database that one processing thread uses. */
export class GeoIpDatabase {
  readonly #path: string
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #clock: Pick<Clock, 'monotonic'>
  #open: OpenDatabase | null = null
  /** The cached locations of the open database. */
  #places = recentPlaces()
  /** The state of the file at the last attempt to read it (see `stateOf`). */
  #tried = ''
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #hasFailed = false

  /** Does not open the file. The first call of `refresh` does. */
  constructor(
    path: string,
    log: Pick<Logger, 'info' | 'warn'>,
    clock: Pick<Clock, 'monotonic'> = SYSTEM_CLOCK,
  ) {
    this.#path = path
    this.#clock = clock
    this.#log = log
  }

  /** Reads the file if it has changed since the last attempt. Checks this at most every five seconds. */
  refresh(): void {
    const nowMs = this.#clock.monotonic()
    if (nowMs - this.#lookedAtMs < LOOK_MS) return
    this.#lookedAtMs = nowMs
    const state = stateOf(this.#path)
    if (state === this.#tried) return
    this.#tried = state
    const fields = { path: this.#path }
    try {
      this.#open = openFile(this.#path)
      this.#places = recentPlaces()
      this.#hasFailed = false
      this.#log.info(fields, 'The GeoIP database was read.')
    } catch (error) {
      const inUse = this.#open === null ? 'none' : 'the previous one'
      const reason = messageOf(error)
      this.#log.warn({ ...fields, reason, in_use: inUse }, 'The GeoIP database cannot be read.')
    }
  }

  /**
   * Returns the location of an IP address, or null if it is unknown. Costs a microsecond if the address is cached,
   * otherwise about ten.
   */
  placeOf(address: string): Place | null {
    if (this.#open === null) return null
    let place = this.#places.get(address)
    if (place === undefined) {
      place = this.#find(this.#open, address)
      this.#places.keep(address, place)
    }
    return place
  }

  /** Returns the counts for metrics, and sets the counters to zero. */
  takeCounts(): GeoIpCounts {
    const failures = this.#failures
    this.#failures = 0
    return { isLoaded: this.#open !== null, failures }
  }

  #find(open: OpenDatabase, address: string): Place | null {
    const begunAt = this.#clock.monotonic()
    try {
      return placeOf(open.find(unmappedAddress(address)))
    } catch (error) {
      this.#failures++
      if (!this.#hasFailed) {
        const fields = { path: this.#path, reason: messageOf(error) }
        this.#log.warn(fields, 'A record of the GeoIP database cannot be read.')
      }
      this.#hasFailed = true
      return null
    } finally {
      if (this.#clock.monotonic() - begunAt > GEOIP_LOOKUP_MS_MAX) {
        this.#open = null
        this.#log.warn(
          { path: this.#path },
          'Lookups in the GeoIP database take too long, so it is no longer used.',
        )
      }
    }
  }
}

function recentPlaces(): RecentValues<Place | null> {
  return new RecentValues(ENRICHMENT_CACHE_BYTES_MAX, (place) =>
    place === null ? NOWHERE_BYTES : place.bytes * MEMORY_FACTOR,
  )
}

/** Opens a file. Throws an error whose message says what is wrong. */
function openFile(path: string): OpenDatabase {
  const stats = statSync(path)
  if (!stats.isFile()) throw new Error('it is not a file')
  if (stats.size > GEOIP_FILE_BYTES_MAX) throw new Error('it is larger than 1 GiB')
  return new OpenDatabase(readFileSync(path))
}

/** Returns a text that changes when the file is changed, replaced or removed. */
function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats === undefined ? 'none' : `${stats.ino} ${stats.size} ${stats.mtimeMs}`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
