/** The routes of insights. Source: docs/compatibility/saved.md, "Insights". */
import { given } from '../../../base/json.ts'
import {
  INSIGHT_DASHBOARDS_MAX,
  INSIGHT_QUERY_UNITS_MAX,
  SAVED_NAME_CHARACTERS_MAX,
} from '../../../rules/saved/limits.ts'
import { insightItem } from '../../../rules/saved/saved-bodies.ts'
import { type Call, inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'
import { ask, change } from '../organization/organization-services.ts'
import { filledJson } from './filled-text.ts'
import {
  changedInsight,
  checkSize,
  DELETED,
  DESCRIPTION,
  existing,
  INSIGHT,
  INSIGHT_ITEM,
  NAME,
  placeInPath,
  requireAsking,
  type SavedServices,
  showingTo,
  TAGS,
} from './saved-services.ts'

const FIELDS = is.named(
  'InsightFields',
  is.openObject(
    {},
    {
      name: NAME,
      derived_name: is.nullable(is.text(SAVED_NAME_CHARACTERS_MAX)),
      description: is.nullable(DESCRIPTION),
      query: is.about(
        is.nullable(is.JSON_OBJECT),
        'A query of any kind. The query route can run some of them.',
      ),
      saved: is.BOOLEAN,
      favorited: is.BOOLEAN,
      tags: TAGS,
      dashboards: is.about(
        is.list(is.WHOLE, INSIGHT_DASHBOARDS_MAX),
        'All dashboards that show the insight.',
      ),
      deleted: DELETED,
    },
  ),
)

type Writing = Call<SavedServices, is.Schema, typeof FIELDS>

const collection = collectionOf<SavedServices>(
  '/api/projects/:project_id/insights/',
  inProject('insight:read'),
  inProject('insight:write'),
)

/** The routes of insights. */
export const INSIGHT_RESOURCE: Resource<SavedServices> = {
  name: 'Insights',
  sentence: 'Named queries.',
  segments: { id: is.about(is.WHOLE, 'Number of the insight.') },
  routes: collection({
    name: 'Insight',
    noun: 'an insight',
    one: ':id/',
    schema: INSIGHT,
    list: {
      says: 'Lists insights, newest first.',
      item: INSIGHT_ITEM,
      query: {
        saved: is.about(is.BOOLEAN, 'Return only insights with this value of `saved`.'),
        favorited: is.about(is.BOOLEAN, 'Return only insights with this value of `favorited`.'),
        user: is.about(is.BOOLEAN, 'If true, return only insights that the caller created.'),
        short_id: is.about(is.TEXT, 'Short ID of an insight.'),
        search: is.about(is.TEXT, 'Part of the name, the description or a tag.'),
      },
      items(call, page) {
        const { user: isOwn, saved, favorited, short_id, search } = call.query()
        const createdById = isOwn === true ? call.user.id : undefined
        const filter = given({ saved, favorited, createdById, short_id, search })
        return ask(call, 'listInsights', { projectId: call.projectId, filter, page })
      },
      show: (call, view) => insightItem(showingTo(call), view),
    },
    async find(call) {
      return existing(await ask(call, 'getInsight', placeInPath(call)), 'insight')
    },
    show: changedInsight,
    get: {
      says: 'Shows an insight with its result.',
      async read(call) {
        const shown = existing(await ask(call, 'showInsight', placeInPath(call)), 'insight')
        const { clock, computeInsight: compute } = call.services
        return filledJson(shown, { clock, compute })
      },
    },
    create: {
      body: FIELDS,
      make: (call) => change(call, 'createInsight', requestOf(call, null)),
    },
    patch: {
      body: FIELDS,
      change: (call, { insight: { id, fields } }) =>
        change(call, 'changeInsight', { ...requestOf(call, fields.query), id }),
    },
    removeInstead:
      'An insight cannot be deleted this way, because dashboards may show it. Send PATCH with {"deleted": true}.',
  }),
}

/** Returns the request that makes a change in the store. `before` is the stored query, or null. */
function requestOf(call: Writing, before: unknown) {
  const { deleted: isDeleted, dashboards, ...fields } = call.body()
  requireAsking(call, fields.query, before)
  checkSize('query', fields.query, INSIGHT_QUERY_UNITS_MAX)
  return { projectId: call.projectId, userId: call.user.id, fields, isDeleted, dashboards }
}
