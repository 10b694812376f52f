/** The routes of insights. Source: docs/compatibility/saved.md, "Insights". */
import { given } from '../../../base/json.ts'
import {
  INSIGHT_DASHBOARDS_MAX,
  INSIGHT_QUERY_UNITS_MAX,
  SAVED_NAME_CHARACTERS_MAX,
} from '../../../rules/saved/limits.ts'
import type { InsightView } from '../../../rules/saved/saved.ts'
import { insightItem } from '../../../rules/saved/saved-bodies.ts'
import { booleanMember } from '../../server/parameters.ts'
import {
  type Call,
  done,
  inProject,
  type Resource,
  refusedRoute,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
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
  LIST_MEMBERS,
  listPage,
  NAME,
  placeInPath,
  requireAsking,
  type SavedCall,
  type SavedServices,
  showingTo,
  TAGS,
} from './saved-services.ts'

const INSIGHTS = '/api/projects/:project_id/insights/'
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

const route = routesOf<SavedServices>(
  INSIGHTS,
  inProject('insight:read'),
  inProject('insight:write'),
)

/** The insights of a project. */
export const INSIGHT_RESOURCE: Resource<SavedServices> = {
  name: 'Insights',
  sentence: 'Named queries.',
  segments: { id: is.about(is.WHOLE, 'Number of the insight.') },
  routes: [
    route('GET', '', 'listInsights', 'Lists insights, newest first.', {
      query: is.options({
        saved: is.about(is.TEXT, 'True or false.'),
        favorited: is.about(is.TEXT, 'True or false.'),
        user: is.about(is.TEXT, 'If true, return only insights that the caller created.'),
        short_id: is.about(is.TEXT, 'Short ID of an insight.'),
        search: is.about(is.TEXT, 'Part of the name, the description or a tag.'),
        ...LIST_MEMBERS,
      }),
      answers: { 200: done(is.pageOf(INSIGHT_ITEM)) },
      handle(call) {
        const { saved, favorited, user, short_id, search } = call.query()
        const filter = given({
          saved: booleanMember(saved, 'saved'),
          favorited: booleanMember(favorited, 'favorited'),
          createdById: booleanMember(user, 'user') === true ? call.user.id : undefined,
          short_id,
          search,
        })
        const { projectId } = call
        return listPage(
          call,
          (page) => ask(call, 'listInsights', { projectId, filter, page }),
          (view) => insightItem(showingTo(call), view),
        )
      },
    }),
    route('POST', '', 'createInsight', 'Creates an insight.', {
      body: FIELDS,
      answers: { 201: done(INSIGHT) },
      async handle(call) {
        requireAsking(call, call.body().query, null)
        const request = requestOf(call)
        return changedInsight(call, await change(call, 'createInsight', request))
      },
    }),
    route('GET', ':id/', 'getInsight', 'Shows an insight with its result.', {
      answers: { 200: done(INSIGHT) },
      async handle(call) {
        const shown = existing(await ask(call, 'showInsight', placeInPath(call)), 'insight')
        const { clock, computeInsight: compute } = call.services
        return filledJson(shown, { clock, compute })
      },
    }),
    route('PATCH', ':id/', 'patchInsight', 'Updates an insight.', {
      body: FIELDS,
      answers: { 200: done(INSIGHT) },
      async handle(call) {
        const { id, fields } = (await insightInPath(call)).insight
        requireAsking(call, call.body().query, fields.query)
        const request = { ...requestOf(call), id }
        return changedInsight(call, await change(call, 'changeInsight', request))
      },
    }),
    refusedRoute(
      { method: 'DELETE', path: `${INSIGHTS}:id/`, allow: 'GET, PATCH' },
      'An insight cannot be deleted this way, because dashboards may show it. Send PATCH with {"deleted": true}.',
    ),
  ],
}

/** Returns the insight in the path, even if it is deleted. Throws 404 `not_found`. */
async function insightInPath(call: SavedCall): Promise<InsightView> {
  return existing(await ask(call, 'getInsight', placeInPath(call)), 'insight')
}

function requestOf(call: Writing) {
  const { deleted: isDeleted, dashboards, ...fields } = call.body()
  checkSize('query', fields.query, INSIGHT_QUERY_UNITS_MAX)
  return { projectId: call.projectId, userId: call.user.id, fields, isDeleted, dashboards }
}
