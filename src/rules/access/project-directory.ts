/** The port through which ingestion looks up projects and keys. The store implements it from memory. */

import type { ScopesByProject } from './scopes.ts'

/** One project as ingestion sees it. */
export interface Project {
  readonly id: number
  /** The public key, which SDKs contain. */
  readonly apiKey: string
  /** True if no address of a sender is stored. */
  readonly isIpAnonymized: boolean
  /** True if events create no new group types. */
  readonly areGroupTypesClosed?: boolean
}

/** The projects that a personal key may access, and its scopes. */
export interface PersonalKeyAccess extends ScopesByProject {
  readonly projects: readonly number[] | 'all'
}

/** Lookups by texts that clients sent. They return null for anything unknown and never throw. */
export interface ProjectDirectory {
  projectByKey(apiKey: string): Project | null
  projectById(id: number): Project | null
  personalKey(key: string): PersonalKeyAccess | null
}
