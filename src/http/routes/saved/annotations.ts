/** The routes of annotations. Source: docs/compatibility/saved.md, "Annotations". */
import { invalidInput } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import { parseTimestamp } from '../../../rules/capture/timestamp.ts'
import { ANNOTATION_CHARACTERS_MAX } from '../../../rules/saved/limits.ts'
import { ANNOTATION_SCOPES, type Annotation } from '../../../rules/saved/saved.ts'
import { authorOf } from '../../../rules/saved/saved-bodies.ts'
import { timeParameter } from '../../server/input.ts'
import { type Call, inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf } from '../collection.ts'
import { ask, change } from '../organization/organization-services.ts'
import {
  AUTHOR,
  DELETED,
  existing,
  placeInPath,
  requireAllProjects,
  type SavedCall,
  type SavedServices,
  showingTo,
} from './saved-services.ts'

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

const collection = collectionOf<SavedServices>(
  '/api/projects/:project_id/annotations/',
  inProject('annotation:read'),
  inProject('annotation:write'),
)

/** The routes of annotations. */
export const ANNOTATION_RESOURCE: Resource<SavedServices> = {
  name: 'Annotations',
  sentence: 'Notes at points in time, for charts.',
  segments: { id: is.about(is.WHOLE, 'Number of the annotation.') },
  routes: collection({
    name: 'Annotation',
    noun: 'an annotation',
    one: ':id/',
    schema: ANNOTATION,
    list: {
      says: 'Lists annotations, latest time first.',
      query: {
        after: is.about(is.TEXT, 'Return only annotations that were created after this time.'),
        before: is.about(is.TEXT, 'Return only annotations that were created before this time.'),
        dashboardItemId: is.about(is.WHOLE, 'Return only annotations of this insight.'),
        scope: SCOPE,
        deleted: is.about(is.BOOLEAN, 'If true, return only deleted annotations.'),
        apply_all: is.about(
          is.BOOLEAN,
          'True: return only annotations that belong to no insight. False: return only annotations of insights.',
        ),
        search: is.about(is.TEXT, 'Part of the content.'),
      },
      items(call, page) {
        const { dashboardItemId, deleted, apply_all: isForAll, scope, search } = call.query()
        const filter = given({
          afterMs: timeParameter(call.request, 'after') ?? undefined,
          beforeMs: timeParameter(call.request, 'before') ?? undefined,
          dashboard_item: dashboardItemId,
          isDeleted: deleted,
          isForAll,
          scope,
          search,
        })
        return ask(call, 'listAnnotations', { projectId: call.projectId, filter, page })
      },
      show: annotationBody,
    },
    async find(call) {
      return existing(await ask(call, 'getAnnotation', placeInPath(call)), 'annotation')
    },
    show: annotationBody,
    get: {
      async read(call) {
        const annotation = await ask(call, 'getAnnotation', placeInPath(call))
        return annotationBody(call, existing(visible(annotation), 'annotation'))
      },
    },
    create: {
      body: FIELDS,
      make: (call) => change(call, 'createAnnotation', requestOf(call)),
    },
    patch: {
      body: FIELDS,
      change(call, { id, fields }) {
        if (fields.scope === 'organization') requireAllProjects(call)
        return change(call, 'changeAnnotation', { ...requestOf(call), id })
      },
    },
    removeInstead: 'An annotation cannot be deleted this way. Send PATCH with {"deleted": true}.',
  }),
}

function visible(annotation: Annotation | null): Annotation | null {
  return annotation?.isDeleted === true ? null : annotation
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
  call: SavedCall,
  { id, fields, isDeleted, createdById, createdAtMs, updatedAtMs }: Annotation,
) {
  return {
    id,
    ...fields,
    creation_type: 'USR',
    created_by: authorOf(showingTo(call), createdById),
    created_at: timeText(createdAtMs),
    updated_at: timeText(updatedAtMs),
    deleted: isDeleted,
  }
}
