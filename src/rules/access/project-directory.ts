/** The interface through which ingestion looks up projects and keys. The store implements it with data in memory. */

import type { ScopesByProject } from './scopes.ts'

/** A project with the settings that ingestion needs. */
export interface Project {
  readonly id: number
  /** The public key, which SDKs contain. */
  readonly apiKey: string
  /** True if the project stores no IP address of a client. */
  readonly isIpAnonymized: boolean
  /** True if events of the project create no new group types. */
  readonly areGroupTypesClosed?: boolean
}

/** The projects that a personal key may access, and its scopes. */
export interface PersonalKeyAccess extends ScopesByProject {
  readonly projects: readonly number[] | 'all'
}

/**
 * Finds projects and keys by texts that clients sent. The functions return null for anything unknown and never throw.
 */
export interface ProjectDirectory {
  projectByKey(apiKey: string): Project | null
  projectById(id: number): Project | null
  personalKey(key: string): PersonalKeyAccess | null
}
