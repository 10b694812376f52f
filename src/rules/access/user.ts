/** Users as clients see them. Source: PostHog's API description, section 2.2. */

import type { User } from './organization.ts'

/** The data of a user that the API shows. */
export type UserFacts = Pick<User, 'id' | 'uuid' | 'distinctId' | 'firstName' | 'email'>

/** A user as a member of another object, for example as `created_by`. */
export interface UserSummary {
  readonly id: number
  readonly uuid: string
  readonly distinct_id: string
  readonly first_name: string
  readonly email: string
  readonly is_email_verified: boolean
}

/**
 * Returns the summary of a user. The e-mail address counts as verified, because either an administrator entered it or
 * the identity provider verified it.
 */
export function userSummary(user: UserFacts): UserSummary {
  const { id, uuid, distinctId, firstName, email } = user
  return {
    id,
    uuid,
    distinct_id: distinctId,
    first_name: firstName,
    email,
    is_email_verified: true,
  }
}

/** The user who requests a change. */
export interface Actor {
  readonly userId: number
  readonly firstName: string
  readonly email: string
}

/** The actor of changes that no user makes. */
export const SYSTEM_ACTOR: Actor = { userId: 0, firstName: 'System', email: '' }
