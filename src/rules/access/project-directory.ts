/** What ingestion needs to know about projects and keys; the store provides it from memory. */

/** One project as ingestion sees it. */
export interface Project {
  readonly id: number
  /** The public key, which SDKs carry. */
  readonly apiKey: string
  /** No address of a sender is stored. */
  readonly isIpAnonymized: boolean
  /** Events make no new group types. */
  readonly areGroupTypesClosed?: boolean
}

/** What a personal key may reach, and what for. */
export interface PersonalKeyAccess {
  /** See rules/access/scopes.ts. */
  readonly scopes: readonly string[]
  readonly projects: readonly number[] | 'all'
}

/** Lookups by text that clients sent: answers null for whatever is unknown and never throws. */
export interface ProjectDirectory {
  projectByKey(apiKey: string): Project | null
  projectById(id: number): Project | null
  personalKey(key: string): PersonalKeyAccess | null
}
