/**
 * The route that exports events. The answer is written while the client reads it. docs/compatibility/events.md,
 * "Exporting events".
 */
import { CSV_TYPE } from '../../base/csv.ts'
import type { RowText, TextChunks } from '../../base/pages.ts'
import type { ExportQueries } from '../../engine/threads/call-table.ts'
import { denied } from '../server/auth.ts'
import {
  type AnyRoute,
  type Call,
  inProject,
  type RouteServices,
  routesOf,
} from '../server/route.ts'
import * as is from '../server/schema.ts'
import { criteriaOf, EVENT_CRITERIA } from './event-criteria.ts'

/** The services that the export needs. */
export interface ExportServices extends RouteServices {
  readonly queries: ExportQueries
}

const FORMAT = is.refused(is.choice('csv', 'ndjson'), '`format` must be `csv` or `ndjson`.')

const route = routesOf<ExportServices>('/api/projects/:project_id/', inProject('event:read'))

/** The route that exports all events. */
export const EXPORT_ROUTES: readonly AnyRoute<ExportServices>[] = [
  route('GET', 'events/export/', 'exportEvents', 'Exports all events, oldest arrival first.', {
    query: is.options({
      ...EVENT_CRITERIA,
      format: is.about(FORMAT, 'A CSV table, or one JSON object per line. The default is ndjson.'),
    }),
    answers: {
      200: {
        description:
          'The events, streamed. If the last chunk is missing, the export is incomplete.',
        type: 'application/x-ndjson',
      },
    },
    async respond(call) {
      const { request, services } = call
      const { format = 'ndjson', ...filters } = call.query()
      const task = { ...criteriaOf(call, filters), afterId: 0, format }
      const body = await services.queries.eventExport(task, (cancel) => request.onLeave(cancel))
      return {
        status: 200,
        contentType: format === 'csv' ? CSV_TYPE : 'application/x-ndjson',
        body: whileAllowed(call, body),
        headers: [['Content-Disposition', `attachment; filename="events.${format}"`]],
      }
    },
  }),
]

/** Returns the body of an export. It ends early when the key of the request is no longer allowed to read events. */
function whileAllowed(
  call: Pick<Call, 'isStillAllowed'>,
  body: RowText | TextChunks,
): RowText | TextChunks {
  if (!('next' in body)) return body
  return {
    async next() {
      if (call.isStillAllowed()) return await body.next()
      body.cancel()
      throw denied('The personal API key may no longer read events.')
    },
    cancel: () => body.cancel(),
  }
}
