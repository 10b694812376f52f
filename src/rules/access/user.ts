/** Users as clients see them. Source: interface description, section 2.2. */

import type { User } from './organization.ts'

/** What the API tells of a user. */
export type UserFacts = Pick<User, 'id' | 'uuid' | 'distinctId' | 'firstName' | 'email'>

/** A user inside another object, as its `created_by`. */
export interface UserSummary {
  readonly id: number
  readonly uuid: string
  readonly distinct_id: string
  readonly first_name: string
  readonly email: string
  readonly is_email_verified: boolean
}

/** The summary of a user. Addresses are entered by the operator, who vouches for them. */
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

/** Who asks for a change. */
export interface Actor {
  readonly userId: number
  readonly firstName: string
  readonly email: string
}
