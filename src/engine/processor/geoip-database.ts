/**
 * The operator's own GeoIP database: a file in the MaxMind DB format, read into memory, and again when it
 * changes. Nothing in it may stop processing: a file that is missing or damaged is logged and done
 * without, and one that becomes so leaves what was read before in use. The only door to mmdb-lib.
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

/** How often the file is looked at. */
const LOOK_MS = 5000
/** The description of a database begins with these bytes, and lies that near its end. */
const DESCRIPTION_MARK = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')
const DESCRIPTION_NEAR_BYTES = 128 * 1024
/** Bytes of zeros between the search tree and the records. */
const SEPARATOR_BYTES = 16
const FORMAT = 2
/** Objects, and the text of them that is kept, take about so many times the bytes of their JSON. */
const MEMORY_FACTOR = 3
const NOWHERE_BYTES = 64

/** A database in memory. */
class OpenDatabase {
  readonly #reader: Reader<Response>
  #references = 0

  /** Throws an error whose message says what is wrong with the bytes. */
  constructor(bytes: Buffer) {
    const tail = bytes.subarray(-DESCRIPTION_NEAR_BYTES)
    if (!tail.includes(DESCRIPTION_MARK)) throw new Error('it is no MaxMind DB, or was cut')
    const { Reader: DatabaseReader } = loadPackage('mmdb-lib') as typeof import('mmdb-lib')
    // The reader asks for each reference that it follows: a damaged record may lead in circles.
    const get = (): undefined => {
      if (++this.#references > GEOIP_REFERENCES_MAX) throw new Error('too many references')
    }
    this.#reader = new DatabaseReader(bytes, { cache: { get, set: () => undefined } })
    const { binaryFormatMajorVersion, ipVersion, nodeCount, searchTreeSize } = this.#reader.metadata
    if (binaryFormatMajorVersion !== FORMAT) throw new Error('its format is not version 2')
    const isSound = Number.isSafeInteger(nodeCount) && [4, 6].includes(ipVersion)
    if (!isSound || searchTreeSize + SEPARATOR_BYTES > bytes.length) {
      throw new Error('its description is damaged')
    }
  }

  /** The record of an address; null when there is none. Throws for a damaged one. */
  find(address: string): unknown {
    const version = isIP(address)
    if (version === 0 || version > this.#reader.metadata.ipVersion) return null
    this.#references = 0
    return this.#reader.get(address)
  }
}

/** Why a file cannot be used as a database: a sentence without its path; null when it can. Reads it as a whole. */
export function geoIpFault(path: string): string | null {
  try {
    openFile(path)
    return null
  } catch (error) {
    return messageOf(error)
  }
}

/** The database of one processing thread. */
export class GeoIpDatabase {
  readonly #path: string
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #clock: Pick<Clock, 'monotonic'>
  #open: OpenDatabase | null = null
  /** What was found lately in the open one. */
  #places = recentPlaces()
  /** Names the state of the file that was last tried. */
  #tried = ''
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #hasFailed = false

  /** Reads nothing yet. */
  constructor(
    path: string,
    log: Pick<Logger, 'info' | 'warn'>,
    clock: Pick<Clock, 'monotonic'> = SYSTEM_CLOCK,
  ) {
    this.#path = path
    this.#clock = clock
    this.#log = log
  }

  /** Reads the file if it is another one than before, which is looked at every five seconds. */
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
      this.#log.info(fields, 'the GeoIP database is read')
    } catch (error) {
      const inUse = this.#open === null ? 'none' : 'the one read before'
      const reason = messageOf(error)
      this.#log.warn({ ...fields, reason, in_use: inUse }, 'the GeoIP database cannot be read')
    }
  }

  /** The place of an address; null when it is unknown. A microsecond, some ten for a new address. */
  placeOf(address: string): Place | null {
    if (this.#open === null) return null
    let place = this.#places.get(address)
    if (place === undefined) {
      place = this.#find(this.#open, address)
      this.#places.keep(address, place)
    }
    return place
  }

  /** What is told of it; what is counted begins anew. */
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
        this.#log.warn(fields, 'a record of the GeoIP database cannot be read')
      }
      this.#hasFailed = true
      return null
    } finally {
      if (this.#clock.monotonic() - begunAt > GEOIP_LOOKUP_MS_MAX) {
        this.#open = null
        this.#log.warn(
          { path: this.#path },
          'the GeoIP database takes too long and is used no more',
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

/** Throws an error whose message says what is wrong. */
function openFile(path: string): OpenDatabase {
  const stats = statSync(path)
  if (!stats.isFile()) throw new Error('it is no file')
  if (stats.size > GEOIP_FILE_BYTES_MAX) throw new Error('it is larger than 1 GiB')
  return new OpenDatabase(readFileSync(path))
}

/** Changes when the file does; '' when it is not there, which is tried, too. */
function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats === undefined ? 'none' : `${stats.ino} ${stats.size} ${stats.mtimeMs}`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
