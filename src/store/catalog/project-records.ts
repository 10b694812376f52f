/**
 * What the environment `flags` holds about the organization, its users, projects and keys, as values
 * and as bytes. Every value is MessagePack with a checksum (codec.ts).
 *
 * | table         | key         | value                                             |
 * |---------------|-------------|---------------------------------------------------|
 * | state         | `version`   | number of the last write transaction (`number`)   |
 * | state         | `directory` | number of the last one that changed what this table or role-store.ts lists |
 * | state         | `organization` | `Organization`                                 |
 * | users         | id u32      | `User`                                            |
 * | projects      | id u32      | `Project`, its filters as JSON text               |
 * | personal_keys | id u32      | `PersonalKey`                                     |
 * | secret_keys   | id u32      | `SecretKey`                                       |
 */
import type { JsonObject } from '../../base/json.ts'
import {
  DEFAULT_BROWSER_CAPTURE,
  type Organization,
  type PersonalKey,
  type Project,
  type SecretKey,
} from '../../rules/access/organization.ts'

/** A project as it is stored: its filters are text of clients and stay JSON. */
export function encodeProject(project: Project): Record<string, unknown> {
  const { testAccountFilters, ...rest } = project
  return { ...rest, testAccountFiltersJson: JSON.stringify(testAccountFilters) }
}

/** The reverse of `encodeProject`. */
export function decodeProject(record: Record<string, unknown>): Project {
  const { testAccountFiltersJson, ...rest } = record as unknown as Omit<
    Project,
    'testAccountFilters'
  > & { testAccountFiltersJson: string }
  // Projects of before there was such a setting have its default.
  return {
    ...DEFAULT_BROWSER_CAPTURE,
    ...rest,
    testAccountFilters: JSON.parse(testAccountFiltersJson) as JsonObject[],
  }
}

/** A personal key from its record. */
export function decodePersonalKey(record: Record<string, unknown>): PersonalKey {
  const key = record as unknown as PersonalKey
  // Keys of before there was `rolledAtMs` were never rolled.
  return { ...key, hash: Buffer.from(key.hash), rolledAtMs: key.rolledAtMs ?? null }
}

/** A project secret key from its record. */
export function decodeSecretKey(record: Record<string, unknown>): SecretKey {
  const key = record as unknown as SecretKey
  return { ...key, hash: Buffer.from(key.hash) }
}

/** The organization from its record, or null when there is none yet. */
export function decodeOrganization(record: unknown): Organization | null {
  if (record === undefined) return null
  const organization = record as Organization
  return { ...organization, flagAccess: organization.flagAccess ?? null }
}
