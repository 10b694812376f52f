/**
 * Finds the fields that a change of a flag has changed, for the activity log. Source: docs/compatibility/flags.md,
 * "Activity of feature flags".
 */

import { isSameJson } from '../../../base/json.ts'
import { FLAG_CHANGE_UNITS_MAX } from '../limits.ts'
import type { Flag } from '../types.ts'
import { writableFields } from './flag-body.ts'

/** A field that has different values before and after a change. */
export interface FlagChange {
  readonly type: 'FeatureFlag'
  readonly action: 'created' | 'deleted' | 'changed'
  readonly field: string
  readonly before: unknown
  readonly after: unknown
}

const UNLOGGED: readonly string[] = ['created_at', 'analytics_dashboards', 'evaluation_tags']

/** Returns the fields in which two states of a flag differ, in the order in which answers show fields. */
export function changesBetween(before: Flag, after: Flag): readonly FlagChange[] {
  const old = writableFields(before)
  const changes: FlagChange[] = []
  for (const [field, value] of Object.entries(writableFields(after))) {
    if (UNLOGGED.includes(field) || isSameJson(old[field], value)) continue
    changes.push(changeOf(field, old[field], value))
  }
  return changes
}

function changeOf(field: string, before: unknown, after: unknown): FlagChange {
  const action = before === null ? 'created' : after === null ? 'deleted' : 'changed'
  const units = JSON.stringify(before).length + JSON.stringify(after).length
  const isLarge = units > FLAG_CHANGE_UNITS_MAX
  return {
    type: 'FeatureFlag',
    action,
    field,
    before: isLarge ? null : before,
    after: isLarge ? null : after,
  }
}
