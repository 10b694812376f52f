/**
 * Copies a flag to other projects of the organization, with the cohorts that it refers to. A flag is found in the other
 * project by its key, and a cohort or a group type by its name. The forms of requests and answers are those of
 * PostHog's posthog/api/organization_feature_flag.py. Source: docs/compatibility/flags.md, "Copies of feature flags".
 */
import { ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import { REHEARSAL_SAMPLE_USUAL } from '../../../base/limits.ts'
import { timeText } from '../../../base/time.ts'
import type { OrganizationPort } from '../../../engine/threads/organization-tasks.ts'
import { hasScope, type Scope, scopesIn } from '../../../rules/access/scopes.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { readCohortFilters } from '../../../rules/filters/filter-tree.ts'
import {
  cohortsOfPortable,
  dependenciesOfPortable,
  hasNumbers,
  type NamedObjects,
  namesIn,
  portableFlag,
  withCohortNumbers,
} from '../../../rules/flags/edit/portable-flag.ts'
import { cohortsOfTree } from '../../../rules/flags/flag-references.ts'
import type { Flag, FlagCohort, FlagSet } from '../../../rules/flags/types.ts'
import { grantIn, userOf } from '../../server/auth.ts'
import {
  type Call,
  callerWith,
  done,
  inAnyProject,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { COPY_TARGETS_MAX } from '../limits.ts'
import { USER_SUMMARY } from '../organization/organization-services.ts'
import { changed, type PersonServices } from '../persons/person-services.ts'
import {
  type PortableChange,
  portableChanges,
  requestOf,
  scheduledAlready,
} from './copied-schedule.ts'
import { type FlagCall, type FlagServices, presentFlag, requireEdit } from './flag-access.ts'
import { FEATURE_FLAG, FILTERS, PLAN } from './flag-schemas.ts'

/** The services that copies need. */
export type CopyServices = FlagServices &
  PersonServices & { readonly queries: Pick<OrganizationPort, 'organization'> }

/**
 * The number that a rehearsal gives to the first cohort that the target project lacks. The rehearsal treats such
 * cohorts as if they existed, and numbers them from here on. No stored cohort has such a number.
 */
const FIRST_ASSUMED_ID = 999_999_999_000_000

const COPY = {
  feature_flag_key: is.about(is.TEXT, 'The key of the flag to copy.'),
  from_project: is.about(is.WHOLE, 'The project that has the flag.'),
  target_project_ids: is.about(
    is.list({ ...is.WHOLE, minimum: 1 }, COPY_TARGETS_MAX),
    'The projects that get the flag.',
  ),
}
const COPY_OPTIONS = {
  copy_schedule: is.about(
    is.BOOLEAN,
    'Also copy the scheduled changes that wait for their time, except those that the target has.',
  ),
  copy_dependencies: is.about(
    is.BOOLEAN,
    'Also copy the flags on which the flag depends, if the target does not have them.',
  ),
}
const COPY_WISH = is.named('FlagCopyWish', is.object(COPY, COPY_OPTIONS))
const FAILED = is.list(
  is.object({ project_id: is.WHOLE, errors: is.about(is.TEXT, 'Why nothing was copied.') }),
)
type CopyCall = Call<CopyServices, is.Schema, typeof COPY_WISH>

const route = routesOf<CopyServices>(
  '/api/organizations/:org_id/feature_flags/',
  callerWith('feature_flag:read'),
  inAnyProject('feature_flag:write'),
)

/** The routes that show a flag in several projects and copy it. */
export const FLAG_COPY_RESOURCE: Resource<CopyServices> = {
  name: 'Copies of feature flags',
  sentence: 'Feature flags in several projects of the organization.',
  segments: { feature_flag_key: is.about(is.TEXT, 'Key of a flag.') },
  routes: [
    route('GET', ':feature_flag_key/', 'listFlagsWithKey', 'Lists the flags with a key.', {
      answers: {
        200: done(
          is.list(
            is.object({
              flag_id: is.WHOLE,
              team_id: is.about(is.WHOLE, 'Project number.'),
              created_by: is.nullable(USER_SUMMARY),
              filters: FILTERS,
              created_at: is.TIME,
              active: is.BOOLEAN,
            }),
          ),
        ),
      },
      handle(call) {
        requireOrganization(call)
        const { services, grant } = call
        const key = call.request.parameter('feature_flag_key')
        return services.directory.projects().flatMap(({ id }) => {
          const flag = mayUse(grant, id, 'feature_flag:read')
            ? services.flags.flagByKey(id, key)
            : null
          return flag === null ? [] : [rowOf(services, flag)]
        })
      },
    }),
    route('POST', 'copy_flags/', 'copyFeatureFlag', 'Copies a flag to other projects.', {
      body: COPY_WISH,
      answers: { 200: done(is.object({ success: is.list(FEATURE_FLAG), failed: FAILED })) },
      async handle(call) {
        const source = await sourceOf(call)
        const refusal = call.services.refusal()
        if (refusal !== null) throw refusal
        const { done: success, failed } = await inEach(call, (target) => copy(call, source, target))
        return { success, failed }
      },
    }),
    route(
      'POST',
      'rehearse_copy/',
      'rehearseFlagCopy',
      'Shows what a copy would change, and for how many persons of each target.',
      {
        body: COPY_WISH,
        answers: {
          200: done(
            is.object({
              results: is.list(
                is.object({
                  project_id: is.WHOLE,
                  cohorts: is.about(
                    is.list(
                      is.object({
                        name: is.TEXT,
                        action: is.about(
                          is.choice('create', 'keep'),
                          'A cohort that the target has is kept, whatever its rule.',
                        ),
                        same: is.about(is.BOOLEAN, 'Whether both projects have the same rule.'),
                      }),
                    ),
                    'The cohorts that the flag refers to.',
                  ),
                  plan: PLAN,
                }),
              ),
              failed: FAILED,
            }),
          ),
        },
        audits: false,
        async handle(call) {
          const source = await sourceOf(call)
          const { done: results, failed } = await inEach(call, (target) =>
            rehearse(call, source, target),
          )
          return { results, failed }
        },
      },
    ),
  ],
}

/** The flag to copy, and the project that has it. */
interface Source {
  readonly flag: Flag
  readonly set: FlagSet
  readonly hasDependencies: boolean
  /** The scheduled changes to copy with the flag. */
  readonly changes: readonly PortableChange[]
}

/** A target project, and what must be copied to it. */
interface Target {
  readonly set: FlagSet
  /** The flags to copy, in the form in which files contain flags. */
  readonly flags: readonly JsonObject[]
  /** The names of the cohorts that the flags and their scheduled changes refer to. */
  readonly cohorts: readonly string[]
  /** The cohorts that the target lacks. A cohort comes after all cohorts that it refers to. */
  readonly missing: readonly FlagCohort[]
}

function requireOrganization({ request, services }: FlagCall): void {
  const id = request.parameter('org_id').toLowerCase()
  if (id === '@current' || id === services.directory.organization()?.id) return
  throw new ServiceError('not_found', 'This organization does not exist. Use its ID or `@current`.')
}

/**
 * Returns true if the caller may use a project and has this scope there. The level of the user in this project may
 * limit the scopes of the key.
 */
export function mayUse(grant: FlagCall['grant'], id: number, scope: Scope): boolean {
  const { projectIds } = grant
  const isOpen = projectIds === 'all' || projectIds.includes(id)
  return isOpen && hasScope(scopesIn(grant, id), scope)
}

/** Returns the request as if it were made in another project. The user has the level that applies in that project. */
export function callIn(
  { services, nowMs, grant }: Pick<FlagCall, 'services' | 'nowMs' | 'grant'>,
  projectId: number,
) {
  return { services, nowMs, user: userOf(grantIn(grant, projectId)) }
}

/** Returns the flag that the body of a request asks to copy. Throws 400, 403 and 404. */
async function sourceOf(call: CopyCall): Promise<Source> {
  requireOrganization(call)
  const {
    feature_flag_key: key,
    from_project: from,
    copy_schedule: hasSchedule,
    ...wish
  } = call.body()
  const set = setOf(call, from, 'feature_flag:read')
  const flag = set?.flags.find((one) => one.key === key)
  if (set === undefined || flag === undefined) {
    const detail = `Project ${from} has no flag \`${key}\`, or this key may not use the project.`
    throw new ServiceError('does_not_exist', detail, { attr: 'feature_flag_key' })
  }
  requireEdit(callIn(call, from), flag)
  const { services, nowMs } = call
  const scheduled =
    hasSchedule === true ? await services.queries.scheduledChanges(from, flag.id) : []
  // `scheduledChanges` lists the newest change first. The list is reversed, so that the target gets the changes in the
  // order in which they were made.
  const changes = portableChanges([...scheduled].reverse(), flag, set, nowMs)
  return { flag, set, hasDependencies: wish.copy_dependencies === true, changes }
}

function setOf(
  { services, grant }: FlagCall,
  projectId: number,
  scope: Scope,
): FlagSet | undefined {
  return mayUse(grant, projectId, scope) ? services.decisions.snapshot(projectId)?.set : undefined
}

/**
 * Runs `action` for each target project, one after the other. If it fails for one target, the others are not affected.
 */
async function inEach<T>(call: CopyCall, action: (target: FlagSet) => Promise<T>) {
  const done: T[] = []
  const failed: { project_id: number; errors: string }[] = []
  for (const id of new Set(call.body().target_project_ids)) {
    try {
      const set = setOf(call, id, 'feature_flag:write')
      if (set === undefined) {
        const detail = 'The project does not exist, or this key may not use it.'
        throw new ServiceError('not_found', detail)
      }
      done.push(await action(set))
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      failed.push({ project_id: id, errors: error.message })
    }
  }
  return { done, failed }
}

async function copy(call: CopyCall, source: Source, set: FlagSet): Promise<JsonObject> {
  const { services, request, actor, nowMs } = call
  const { projectId, timezone } = set
  const { flags, missing } = targetOf(call, source, set)
  // The change of the flags is rehearsed before the cohorts are created. Otherwise, if the change failed, cohorts that
  // no flag uses would remain.
  const assumed = assumedCohorts(source, set, missing)
  requirePossible(
    await services.queries.planFlags(
      { projectId, timezone, nowMs, flags, cohorts: assumed, sampleMax: 0 },
      ignore,
    ),
  )
  requireStorable(
    source,
    namesAfter(set, assumed, (key) => keyNumber(set, flags, key)),
  )
  const made = await createCohorts(call, source, set, missing)
  const plan = await services.queries.planFlags(
    { projectId, timezone, nowMs, flags, sampleMax: 0 },
    ignore,
  )
  requirePossible(plan)
  const changes = plan.flags.filter(({ action }) => action !== 'none')
  const versions = Object.fromEntries(changes.map(({ key, version }) => [key, version]))
  if (changes.length > 0) {
    await request.noting((entry) => {
      const audit = entry === undefined ? undefined : { ...entry, projectId }
      const task = { projectId, timezone, actor, nowMs, flags, versions, audit }
      return services.queries.applyFlags(task)
    })
    services.refresh()
  }
  const copied = services.flags.flagByKey(projectId, source.flag.key)
  if (copied === null) throw new ServiceError('not_found', 'The flag was deleted a moment ago.')
  const own = missing.map((cohort) => ({ ...cohort, id: made.get(cohort.id) ?? 0 }))
  const names = namesAfter(set, own, (key) => services.flags.flagByKey(projectId, key)?.id ?? null)
  await copySchedule(call, source, copied, names)
  return presentFlag(callIn(call, projectId), copied, false)
}

/** Throws 400 if a scheduled change refers to something that the target will not have. */
function requireStorable({ changes, flag }: Source, names: NamedObjects): void {
  const details = changes.flatMap((change) => requestOf(change, names).faults)
  requirePossible({ faults: details.map((detail) => ({ key: flag.key, detail: `${detail}.` })) })
}

/** Returns the names and numbers in the target, including those of the `added` cohorts. */
function namesAfter(
  { cohorts, groupTypes }: FlagSet,
  added: readonly FlagCohort[],
  flagNumber: NamedObjects['flagNumber'],
): NamedObjects {
  const all = new Map([...cohorts, ...added.map((cohort) => [cohort.id, cohort] as const)])
  return namesIn({ cohorts: all, groupTypes }, flagNumber)
}

/**
 * Returns the number of a flag of the target. If the flag does not exist yet but is one of the copied flags, returns
 * `FIRST_ASSUMED_ID` in its place. Returns null if there is no such flag.
 */
function keyNumber(set: FlagSet, copied: readonly JsonObject[], key: string): number | null {
  const known = set.flags.find((one) => one.key === key)?.id
  return known ?? (copied.some((one) => one['key'] === key) ? FIRST_ASSUMED_ID : null)
}

/** Schedules the changes that the target does not have yet. Throws 400 if the flag does not accept one of them. */
async function copySchedule(
  { services, request, actor, nowMs }: CopyCall,
  { changes }: Source,
  { id: flagId, projectId }: Flag,
  names: NamedObjects,
): Promise<void> {
  if (changes.length === 0) return
  const readNewestFirst = () => services.queries.scheduledChanges(projectId, flagId)
  let known = await readNewestFirst()
  // Each scheduled change of the target is matched with at most one change of the source. If the source has two equal
  // changes, the target therefore gets two.
  const matched = new Set<number>()
  const create = async (change: PortableChange): Promise<void> => {
    const { request: wanted } = requestOf(change, names)
    const same = scheduledAlready(
      wanted,
      known.filter(({ id }) => !matched.has(id)),
    )
    if (same !== undefined) {
      matched.add(same.id)
      return
    }
    const newestId = known[0]?.id ?? 0
    const copy = { newestId, anchorMs: change.anchorMs }
    const command = { kind: 'create', flagId, request: wanted, copy } as const
    try {
      const created = await request.noting((entry) => {
        const objectId = `scheduled change of flag ${flagId}`
        const audit = entry === undefined ? undefined : { ...entry, projectId, objectId }
        return services.queries.scheduleFlag({ projectId, actor, nowMs, command, audit })
      })
      matched.add(created.id)
      known = [created, ...known]
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'conflict') throw error
      known = await readNewestFirst()
      // If another request has scheduled a change in the meantime, that change may be equal to this one. A second call
      // of `create` then finds it.
      if ((known[0]?.id ?? 0) <= newestId) throw error
      await create(change)
    }
  }
  for (const change of changes) {
    try {
      await create(change)
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const detail = `The flag was copied, but not all of its scheduled changes: ${error.message}`
      throw new ServiceError('invalid_input', detail, { cause: error })
    }
  }
}

async function rehearse(call: CopyCall, source: Source, set: FlagSet) {
  const { services, request, nowMs } = call
  const { projectId, timezone } = set
  const { flags, cohorts: names, missing } = targetOf(call, source, set)
  const cohorts = assumedCohorts(source, set, missing)
  requireStorable(
    source,
    namesAfter(set, cohorts, (key) => keyNumber(set, flags, key)),
  )
  const task = { projectId, timezone, nowMs, flags, cohorts, sampleMax: REHEARSAL_SAMPLE_USUAL }
  const plan = await services.queries.planFlags(task, (giveUp) => request.onLeave(giveUp))
  return {
    project_id: projectId,
    cohorts: names.map((name) => {
      const own = named(set, name)
      const action: 'create' | 'keep' = own === undefined ? 'create' : 'keep'
      return { name, action, same: own === undefined || isSameRule(source.set, set, name) }
    }),
    plan,
  }
}

/**
 * Returns what must be copied to a target project. Throws 400 if a name does not identify a flag or a cohort, and 403
 * if the caller may not make these changes.
 */
function targetOf(
  call: CopyCall,
  { flag, set: from, hasDependencies, changes }: Source,
  set: FlagSet,
): Target {
  if (set.projectId === from.projectId) {
    throw new ServiceError(
      'invalid_input',
      'The project has this flag already. Name another project in `target_project_ids`.',
    )
  }
  const flags = [portableFlag(flag, from)]
  const keys = new Set([flag.key])
  const planned = changes.map(({ conditions }) => conditions).filter((one) => one !== null)
  const referring = [...flags, ...planned]
  // The loop also visits the flags that it appends, so that the dependencies of dependencies are copied, too.
  for (const one of referring) {
    if (!hasDependencies) break
    for (const key of dependenciesOfPortable(one)) {
      const needed = from.flags.find((other) => other.key === key)
      const isThere = set.flags.some((other) => other.key === key)
      if (needed === undefined || isThere || keys.has(key)) continue
      keys.add(key)
      const dependency = portableFlag(needed, from)
      flags.push(dependency)
      referring.push(dependency)
    }
  }
  if (referring.some(hasNumbers)) {
    const detail =
      'The flag refers to a flag or cohort that was deleted, or to a cohort whose name another cohort has. Remove the condition, or rename the cohort.'
    throw new ServiceError('invalid_input', detail)
  }
  for (const key of keys) {
    const existing = set.flags.find((other) => other.key === key)
    if (existing !== undefined) requireEdit(callIn(call, set.projectId), existing)
  }
  const missing: FlagCohort[] = []
  const cohorts = [...new Set(referring.flatMap(cohortsOfPortable))]
  for (const name of cohorts) addMissing(name, from, set, missing)
  const mayAdd = hasScope(scopesIn(call.grant, set.projectId), 'cohort:write')
  if (missing.length > 0 && !mayAdd) {
    const detail = `The target lacks the cohort ${JSON.stringify(missing[0]?.name)}. This key needs the scope \`cohort:write\` to create it.`
    throw new ServiceError('permission_denied', detail)
  }
  return { set, flags, cohorts, missing }
}

/**
 * Appends a cohort that the target lacks to `missing`, after the cohorts that its rule refers to. `above` contains the
 * names of the cohorts whose rules have led to this cohort. Throws 400 if the cohort is static or selects persons by
 * their events, because its members belong to one project. Also throws 400 if its rule refers to a deleted cohort,
 * leads back to the cohort itself, or refers to a cohort whose name is not unique.
 */
function addMissing(
  name: string,
  from: FlagSet,
  set: FlagSet,
  missing: FlagCohort[],
  above: readonly string[] = [],
): void {
  if (named(set, name) !== undefined || missing.some((cohort) => cohort.name === name)) return
  const cohort = named(from, name)
  if (cohort === undefined) return
  if (cohort.isStatic) {
    const detail = `The target lacks the cohort ${JSON.stringify(name)}, which is static or selects persons by their events. Its persons belong to one project, so create the cohort in the target first.`
    throw new ServiceError('invalid_input', detail)
  }
  const path = [...above, name]
  for (const id of cohortsOfTree(cohort.filters['properties'])) {
    // The same number may stand for another cohort in the target, so the cohort is found by its name. The name must be
    // unique.
    const other = from.cohorts.get(id)
    const isClear =
      other !== undefined &&
      !path.includes(other.name) &&
      [from, set].every(({ cohorts }) => countNamed(cohorts, other.name) <= 1)
    if (!isClear) {
      const detail = `The rule of the cohort ${JSON.stringify(name)} refers to a cohort that was deleted, that leads back to it, or whose name another cohort has. Change the rule or rename the cohort first.`
      throw new ServiceError('invalid_input', detail)
    }
    addMissing(other.name, from, set, missing, path)
  }
  missing.push(cohort)
}

function named({ cohorts }: FlagSet, name: string): FlagCohort | undefined {
  return [...cohorts.values()].find((cohort) => cohort.name === name)
}

function countNamed(cohorts: FlagSet['cohorts'], name: string): number {
  return [...cohorts.values()].filter((cohort) => cohort.name === name).length
}

function isSameRule(from: FlagSet, to: FlagSet, name: string): boolean {
  const ruleIn = (set: FlagSet): string => {
    const cohort = named(set, name)
    const tree = withCohortNames(cohort?.filters['properties'], set)
    return JSON.stringify([cohort?.isStatic, tree])
  }
  return ruleIn(from) === ruleIn(to)
}

function withCohortNames(tree: unknown, { cohorts }: FlagSet): unknown {
  const names = new Map([...cohorts.values()].map(({ id, name }) => [id, name]))
  return JSON.parse(
    JSON.stringify(tree ?? null, (_, value: unknown) => value),
    function (this: JsonObject, member: string, value: unknown) {
      return member === 'value' && this['type'] === 'cohort' ? names.get(Number(value)) : value
    },
  )
}

/** Returns the missing cohorts with assumed numbers, so that a rehearsal can treat them as if they existed. */
function assumedCohorts(
  { set: from }: Source,
  set: FlagSet,
  missing: readonly FlagCohort[],
): readonly FlagCohort[] {
  const ids = new Map(missing.map(({ id }, index) => [id, FIRST_ASSUMED_ID + index]))
  return missing.map((cohort, index) => {
    const properties = withCohortNumbers(cohort.filters['properties'], (id) => {
      return ids.get(id) ?? named(set, from.cohorts.get(id)?.name ?? '')?.id ?? null
    })
    return { ...cohort, id: FIRST_ASSUMED_ID + index, filters: { properties } }
  })
}

/** Creates the missing cohorts. Returns a map from the cohort's number in the source to its number in the target. */
async function createCohorts(
  call: CopyCall,
  { set: from }: Source,
  set: FlagSet,
  missing: readonly FlagCohort[],
): Promise<ReadonlyMap<number, number>> {
  const { services, grant, request } = call
  const { projectId } = set
  const made = new Map<number, number>()
  for (const { id, name, filters } of missing) {
    const tree = withCohortNumbers(filters['properties'], (one) => {
      return made.get(one) ?? named(set, from.cohorts.get(one)?.name ?? '')?.id ?? null
    })
    const cohort = {
      name,
      description: '',
      isStatic: false,
      filters: readCohortFilters(tree),
      personUuids: [],
      distinctIds: [],
    }
    const command = { kind: 'create_cohort', cohort } as const
    const created = await changed({ services, projectId, grant }, command, 'cohort')
    made.set(id, created.id)
    const entry = request.audit?.entry()
    if (entry === undefined) continue
    const objectId = `cohort ${created.id}`
    await services.queries.organization('recordAudit', [{ ...entry, projectId, objectId }])
  }
  return made
}

function requirePossible({
  faults,
}: {
  readonly faults: readonly { readonly key: string; readonly detail: string }[]
}): void {
  const [fault] = faults
  if (fault === undefined) return
  const advice = fault.detail.startsWith('There is no flag')
    ? ' Copy it first, or send `copy_dependencies`.'
    : ''
  throw new ServiceError('invalid_input', `The flag \`${fault.key}\`: ${fault.detail}${advice}`)
}

function ignore(): void {}

function rowOf({ directory }: CopyServices, flag: Flag): JsonObject {
  const user = flag.createdById === null ? null : directory.userById(flag.createdById)
  return {
    flag_id: flag.id,
    team_id: flag.projectId,
    created_by: user === null ? null : userSummary(user),
    filters: flag.filters,
    created_at: timeText(flag.createdAtMs),
    active: flag.active,
  }
}
