/**
 * Tests the query of an insight: how it is extracted from the stored object, and how it is combined with the filters of
 * a dashboard.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { questionOf } from '../../../src/rules/saved/insight-question.ts'

const GROUP = { type: 'OR', values: [] }
const [A, B] = [{ key: 'a' }, { key: 'b' }]

const CASES: readonly (readonly [string, JsonObject | null, JsonObject, unknown])[] = [
  ['none', null, { date_from: '-7d' }, null],
  ['an empty frame', { kind: 'InsightVizNode' }, {}, null],
  [
    'no filters',
    { kind: 'K', dateRange: 1, properties: 2 },
    {},
    { kind: 'K', dateRange: 1, properties: 2 },
  ],
  [
    'frames, but not what only looks like one',
    { kind: 'InsightVizNode', source: { kind: 'DataTableNode', source: { kind: 'K', source: A } } },
    {},
    { kind: 'K', source: A },
  ],
  [
    'a range in place of another',
    { kind: 'K', dateRange: { date_from: '-1d', date_to: '2024-01-01', explicitDate: true } },
    { date_from: '-30d' },
    { kind: 'K', dateRange: { date_from: '-30d', date_to: null } },
  ],
  [
    'a range with exact ends',
    { kind: 'K', dateRange: { date_from: '-1d' } },
    { date_from: '2024-05-01T10:00', date_to: '2024-05-02', explicitDate: true },
    {
      kind: 'K',
      dateRange: { date_from: '2024-05-01T10:00', date_to: '2024-05-02', explicitDate: true },
    },
  ],
  [
    'a range where there was none',
    { kind: 'K' },
    { date_from: '', date_to: '-1d' },
    { kind: 'K', dateRange: { date_from: '', date_to: '-1d' } },
  ],
  [
    'an empty range',
    { kind: 'K' },
    { date_from: null, date_to: null, properties: [] },
    { kind: 'K' },
  ],
  ['properties', { kind: 'K' }, { properties: [A] }, { kind: 'K', properties: [A] }],
  [
    'more properties',
    { kind: 'K', properties: [A] },
    { properties: [B] },
    { kind: 'K', properties: [A, B] },
  ],
  [
    'properties besides a group',
    { kind: 'K', properties: GROUP },
    { properties: [B] },
    { kind: 'K', properties: { type: 'AND', values: [GROUP, { type: 'AND', values: [B] }] } },
  ],
  ['properties that are none', { kind: 'K' }, { properties: 'x' }, { kind: 'K' }],
]

for (const [name, saved, filters, expected] of CASES) {
  t.test(name, async (t) => {
    t.strictSame(questionOf(saved, filters), expected)
  })
}
