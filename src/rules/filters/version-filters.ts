/**
 * Versions in flag filters: semantic versions whose missing parts are filled in, their order, and the ranges of the
 * tilde, caret and wildcard operators. Source: docs/compatibility/decisions.md, "Flag decisions".
 */

import { QUOTED_UNITS_MAX, VERSION_UNITS_MAX } from './limits.ts'
import { sortedText } from './property-text.ts'

/** The parts of a version are less than this number. */
const PART_END = 2n ** 64n
const CORE = /^(\d+)\.(\d+)\.(\d+)$/
const LABELS =
  /^(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$/
const WILDCARDS = /^(?:(\d+)\.)?(?:(\d+)\.)?(?:[*xX]\.)*[*xX]$/

/** A semantic version. */
export interface Version {
  readonly parts: readonly [bigint, bigint, bigint]
  /** The identifiers of the pre-release. Empty for a release. */
  readonly preRelease: readonly string[]
  readonly build: readonly string[]
}

/** Returns whether a version is in a range. */
export type VersionRange = (version: Version) => boolean

/** Returns a value as a version, or null if it is not a version. */
export function versionOf(value: unknown): Version | null {
  const { core, labels } = splitVersion(value)
  const parts = partsOf(core.length < 3 ? [...core, '0', '0'].slice(0, 3) : core)
  const match = LABELS.exec(labels)
  if (parts === null || match === null) return null
  const preRelease = match[1]?.split('.') ?? []
  if (preRelease.some((identifier) => /^0\d+$/.test(identifier))) return null
  return { parts, preRelease, build: match[2]?.split('.') ?? [] }
}

/**
 * Compares two versions, including build metadata. The result is negative if `left` comes first, and 0 if both are
 * equal.
 */
export function compareVersions(left: Version, right: Version): number {
  return compareReleases(left, right) || compareIdentifiers(left.build, right.build)
}

/**
 * Returns the range of `~`: the version and all higher ones with the same first two parts. For example, `1.2.3`
 * includes 1.2.9, but not 1.3.0. In a value of three parts, the last parts may be wildcards, which stand for any
 * number: `1.*.*` includes 1.3.0. Returns null if the value is neither a version nor such a wildcard.
 */
export function tildeRange(value: unknown): VersionRange | null {
  const open = openVersion(value)
  if (open !== null) return rangeFrom(open.least, open.partCount)
  const least = versionOf(value)
  return least === null ? null : rangeFrom(least, 2)
}

/**
 * Returns the range of `^`: the version and all higher ones that have the same parts up to the first one that is not
 * zero. For example, `1.2.3` includes 1.9.0, and `0.2.3` includes 0.2.9, but not 0.3.0. In a value of three parts, the
 * last parts may be wildcards, which stand for any number. Returns null if the value is neither a version nor such a
 * wildcard.
 */
export function caretRange(value: unknown): VersionRange | null {
  const open = openVersion(value)
  const least = open?.least ?? versionOf(value)
  return least === null ? null : caretFrom(least, open?.partCount ?? 3)
}

/**
 * Returns the range of a wildcard. `*` or `x` in the last parts stands for any number. A version without a wildcard has
 * the range of `^`, in which missing parts may have any value. Returns null if the value is neither a version nor a
 * wildcard.
 */
export function wildcardRange(value: unknown): VersionRange | null {
  const { core, labels } = splitVersion(value)
  const match = WILDCARDS.exec(core.join('.'))
  if (match !== null) {
    if (labels !== '' || core.length > 3) return null
    const written = partsOf([match[1] ?? '0', match[2] ?? '0', '0'])
    if (written === null) return null
    const least = { parts: written, preRelease: [], build: [] }
    return rangeFrom(least, numberCount(core))
  }
  const least = versionOf(value)
  // Only a complete version may have a pre-release or build metadata.
  if (least === null || (labels !== '' && core.length < 3)) return null
  return caretFrom(least, core.length)
}

/**
 * Returns the reason why no version can pass a filter, as a text that continues a sentence about the filter. Returns
 * null if some version can pass, or if the operator does not compare versions.
 */
export function versionRefusal(operator: unknown, value: unknown): string | null {
  if (typeof operator !== 'string' || !operator.startsWith('semver_')) return null
  if (value === undefined || value === null) return 'has no version. Send one as `value`'
  const rangeOf = RANGES.get(operator)
  if ((rangeOf ?? versionOf)(value) !== null) return null
  const shown = JSON.stringify(sortedText(value).slice(0, QUOTED_UNITS_MAX))
  const example = rangeOf === undefined ? '1.2.3' : '1.2.3 or 1.2.*'
  return `compares with ${shown}, which is not a version. Use one such as ${example}, and one filter for each bound`
}

const RANGES = new Map([
  ['semver_tilde', tildeRange],
  ['semver_caret', caretRange],
  ['semver_wildcard', wildcardRange],
])

/**
 * Reads a version of three parts with one or two wildcards at the end, such as `1.2.*`. Returns the lowest version that
 * the value stands for (1.2.0), and how many of its parts are numbers (2). Returns null for any other value.
 */
function openVersion(
  value: unknown,
): { readonly least: Version; readonly partCount: number } | null {
  const { core, labels } = splitVersion(value)
  const match = core.length === 3 && labels === '' ? WILDCARDS.exec(core.join('.')) : null
  if (match?.[1] === undefined) return null
  const parts = partsOf([match[1], match[2] ?? '0', '0'])
  return parts === null
    ? null
    : { least: { parts, preRelease: [], build: [] }, partCount: numberCount(core) }
}

function numberCount(core: readonly string[]): number {
  return core.filter((part) => /^\d/.test(part)).length
}

/** Returns the range of `^` for a version of which the first `partCount` parts are given. */
function caretFrom(least: Version, partCount: number): VersionRange {
  const leading = least.parts.findIndex((part) => part > 0n)
  return rangeFrom(least, leading === -1 ? partCount : leading + 1)
}

/** Returns the range of the version and all higher versions that share its first `fixed` parts. */
function rangeFrom(least: Version, fixed: number): VersionRange {
  return (version) => {
    for (let index = 0; index < fixed; index++) {
      if (version.parts[index] !== least.parts[index]) return false
    }
    // A pre-release is in the range only if the lower bound is a pre-release of the same release. For example, the
    // range of `^1.2.3-a` includes 1.2.3-b, but not 1.3.0-b.
    if (version.preRelease.length > 0) {
      if (least.preRelease.length === 0) return false
      if (version.parts.some((part, index) => part !== least.parts[index])) return false
    }
    return compareReleases(version, least) >= 0
  }
}

/**
 * Splits a version at the first `-` or `+`. Returns the parts before this character, without leading zeros, and the
 * rest of the text. For example, `1.02.3-rc.1` becomes `1`, `2`, `3` and `-rc.1`.
 */
function splitVersion(value: unknown): {
  readonly core: readonly string[]
  readonly labels: string
} {
  const text = sortedText(value).replace(/^v/, '').trim()
  if (text.length > VERSION_UNITS_MAX) return { core: [], labels: '-' }
  const end = text.search(/[-+]/)
  const core = end === -1 ? text : text.slice(0, end)
  return {
    core: core.split('.').map((part) => part.replace(/^0+(?=\d+$)/, '')),
    labels: end === -1 ? '' : text.slice(end),
  }
}

function partsOf(core: readonly string[]): Version['parts'] | null {
  const match = CORE.exec(core.join('.'))
  if (match === null) return null
  const [major, minor, patch] = [
    BigInt(match[1] ?? 0),
    BigInt(match[2] ?? 0),
    BigInt(match[3] ?? 0),
  ]
  return major < PART_END && minor < PART_END && patch < PART_END ? [major, minor, patch] : null
}

/** Compares two versions without their build metadata. */
function compareReleases(left: Version, right: Version): number {
  for (const [index, part] of left.parts.entries()) {
    const other = right.parts[index] ?? 0n
    if (part !== other) return part < other ? -1 : 1
  }
  // A release comes after its pre-releases.
  if (left.preRelease.length === 0 || right.preRelease.length === 0) {
    return right.preRelease.length - left.preRelease.length
  }
  return compareIdentifiers(left.preRelease, right.preRelease)
}

/**
 * Compares lists of identifiers. Numbers are compared by value and come before names; names are compared by character.
 * If one list is a prefix of the other, the shorter one comes first.
 */
function compareIdentifiers(left: readonly string[], right: readonly string[]): number {
  for (const [index, identifier] of left.entries()) {
    const other = right[index]
    if (other === undefined) return 1
    const order = compareIdentifier(identifier, other)
    if (order !== 0) return order
  }
  return left.length - right.length
}

function compareIdentifier(left: string, right: string): number {
  const isNumber = /^\d+$/.test(left)
  if (isNumber !== /^\d+$/.test(right)) return isNumber ? -1 : 1
  if (isNumber && BigInt(left) !== BigInt(right)) return BigInt(left) < BigInt(right) ? -1 : 1
  // Only build metadata may have two forms of the same number, such as `1` and `01`. The longer form comes later.
  if (isNumber) return left.length - right.length
  return left === right ? 0 : left < right ? -1 : 1
}
