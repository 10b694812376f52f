/** The routes of annotations. Source: docs/compatibility/saved.md, "Annotations". */
import { invalidInput } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import { parseTimestamp } from '../../../rules/capture/timestamp.ts'
import { ANNOTATION_CHARACTERS_MAX } from '../../../rules/saved/limits.ts'
import { ANNOTATION_SCOPES, type Annotation } from '../../../rules/saved/saved.ts'
import { authorOf, type Showing } from '../../../rules/saved/saved-bodies.ts'
import { timeParameter } from '../../server/input.ts'
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
import {
  AUTHOR,
  DELETED,
  existing,
  LIST_MEMBERS,
  listPage,
  placeInPath,
  requireAllProjects,
  type SavedCall,
  type SavedServices,
  showingTo,
} from './saved-services.ts'

const ANNOTATIONS = '/api/projects/:project_id/annotations/'
const SCOPE = is.about(is.choice(...ANNOTATION_SCOPES), 'Where the annotation is shown.')
const ABOUT = {
  dashboard_item: is.about(is.nullable(is.WHOLE), 'Number of an insight.'),
  dashboard_id: is.nullable(is.WHOLE),
}
const ANNOTATION = is.namedObject('Annotation', {
  id: is.WHOLE,
  content: is.nullable(is.TEXT),
  date_marker: is.nullable(is.TIME),
  creation_type: is.TEXT,
  ...ABOUT,
  created_by: AUTHOR,
  created_at: is.TIME,
  updated_at: is.TIME,
  deleted: is.BOOLEAN,
  scope: SCOPE,
})
const FIELDS = is.named(
  'AnnotationFields',
  is.openObject(
    {},
    {
      content: is.nullable(is.text(ANNOTATION_CHARACTERS_MAX)),
      date_marker: is.about(is.nullable(is.TEXT), 'The time that the annotation marks.'),
      ...ABOUT,
      scope: SCOPE,
      deleted: DELETED,
    },
  ),
)

type Writing = Call<SavedServices, is.Schema, typeof FIELDS>

const route = routesOf<SavedServices>(
  ANNOTATIONS,
  inProject('annotation:read'),
  inProject('annotation:write'),
)

/** The annotations of a project. */
export const ANNOTATION_RESOURCE: Resource<SavedServices> = {
  name: 'Annotations',
  sentence: 'Notes at points in time, for charts.',
  segments: { id: is.about(is.WHOLE, 'Number of the annotation.') },
  routes: [
    route('GET', '', 'listAnnotations', 'Lists annotations, latest time first.', {
      query: is.options({
        after: is.about(is.TEXT, 'Created after this time.'),
        before: is.about(is.TEXT, 'Created before this time.'),
        dashboardItemId: is.about(is.WHOLE, 'Annotations of this insight.'),
        scope: SCOPE,
        deleted: is.about(is.TEXT, 'If true, return only deleted annotations.'),
        apply_all: is.about(
          is.TEXT,
          'True: annotations that belong to no insight. False: annotations of an insight.',
        ),
        search: is.about(is.TEXT, 'Part of the content.'),
        ...LIST_MEMBERS,
      }),
      answers: { 200: done(is.pageOf(ANNOTATION)) },
      handle(call) {
        const { projectId } = call
        const filter = filterOf(call, call.query())
        return listPage(
          call,
          (page) => ask(call, 'listAnnotations', { projectId, filter, page }),
          (annotation) => annotationBody(showingTo(call), annotation),
        )
      },
    }),
    route('POST', '', 'createAnnotation', 'Creates an annotation.', {
      body: FIELDS,
      answers: { 201: done(ANNOTATION) },
      async handle(call) {
        const request = requestOf(call)
        return annotationBody(showingTo(call), await change(call, 'createAnnotation', request))
      },
    }),
    route('GET', ':id/', 'getAnnotation', 'Shows an annotation.', {
      answers: { 200: done(ANNOTATION) },
      async handle(call) {
        const annotation = await annotationInPath(call)
        existing(annotation.isDeleted ? null : annotation, 'annotation')
        return annotationBody(showingTo(call), annotation)
      },
    }),
    route('PATCH', ':id/', 'patchAnnotation', 'Updates an annotation.', {
      body: FIELDS,
      answers: { 200: done(ANNOTATION) },
      async handle(call) {
        const { id, fields } = await annotationInPath(call)
        if (fields.scope === 'organization') requireAllProjects(call)
        const request = { ...requestOf(call), id }
        return annotationBody(showingTo(call), await change(call, 'changeAnnotation', request))
      },
    }),
    refusedRoute(
      { method: 'DELETE', path: `${ANNOTATIONS}:id/`, allow: 'GET, PATCH' },
      'An annotation cannot be deleted this way. Send PATCH with {"deleted": true}.',
    ),
  ],
}

function filterOf(
  { request }: SavedCall,
  query: {
    readonly dashboardItemId?: number
    readonly scope?: Annotation['fields']['scope']
    readonly deleted?: string
    readonly apply_all?: string
    readonly search?: string
  },
) {
  const { dashboardItemId, scope, deleted, apply_all: isForAll, search } = query
  return given({
    afterMs: timeParameter(request, 'after') ?? undefined,
    beforeMs: timeParameter(request, 'before') ?? undefined,
    dashboard_item: dashboardItemId,
    isDeleted: booleanMember(deleted, 'deleted'),
    isForAll: booleanMember(isForAll, 'apply_all'),
    scope,
    search,
  })
}

/** Returns the annotation in the path, even if it is deleted. Throws 404 `not_found`. */
async function annotationInPath(call: SavedCall): Promise<Annotation> {
  return existing(await ask(call, 'getAnnotation', placeInPath(call)), 'annotation')
}

function requestOf(call: Writing) {
  const { deleted: isDeleted, date_marker: marker, ...others } = call.body()
  if (others.scope === 'organization') requireAllProjects(call)
  const fields = given({
    ...others,
    date_marker: typeof marker === 'string' ? momentOf(marker) : marker,
  })
  return { projectId: call.projectId, userId: call.user.id, fields, isDeleted }
}

function momentOf(text: string): string {
  const timeMs = parseTimestamp(text)
  if (timeMs !== null) return timeText(timeMs)
  throw invalidInput('date_marker', 'must be a time such as 2024-05-01T12:00:00Z')
}

function annotationBody(
  showing: Showing,
  { id, fields, isDeleted, createdById, createdAtMs, updatedAtMs }: Annotation,
) {
  return {
    id,
    ...fields,
    creation_type: 'USR',
    created_by: authorOf(showing, createdById),
    created_at: timeText(createdAtMs),
    updated_at: timeText(updatedAtMs),
    deleted: isDeleted,
  }
}
