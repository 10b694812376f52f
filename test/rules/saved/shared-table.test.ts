/**
 * Tests how query results become plain tables: their rows, their columns, and the data that is left out.
 *
 * @lane quick
 */
import t from 'tap'
import { SHARED_COLUMNS_MAX, SHARED_ROWS_MAX } from '../../../src/rules/saved/limits.ts'
import { sharedTable } from '../../../src/rules/saved/shared-table.ts'

const CASES: readonly (readonly [string, unknown, unknown, unknown])[] = [
  [
    'curves over days',
    [
      { label: 'views', days: ['2024-01-01', '2024-01-02'], data: [1, 2], count: 3 },
      { breakdown_value: 'b', days: ['2024-01-01', '2024-01-02'], data: [0.123456, null] },
    ],
    null,
    {
      head: ['day', 'views', 'b'],
      rows: [
        ['2024-01-01', '1', '0.1235'],
        ['2024-01-02', '2', ''],
      ],
    },
  ],
  [
    'steps of a funnel',
    [
      { name: 'a', count: 5, order: 0, action: { id: 1 } },
      { name: 'b', count: 2, order: 1, breakdown: 'x' },
    ],
    null,
    {
      head: ['name', 'count', 'breakdown'],
      rows: [
        ['a', '5', ''],
        ['b', '2', 'x'],
      ],
    },
  ],
  [
    'steps of several funnels',
    [[{ name: 'a', count: 5 }], [{ name: 'b', count: 2 }]],
    null,
    {
      head: ['name', 'count'],
      rows: [
        ['a', '5'],
        ['b', '2'],
      ],
    },
  ],
  [
    'rows with columns, and pairs in them',
    [
      ['/a', [3, 1], ['x', 'y', 'z'], true],
      ['/b', [2, null], {}],
    ],
    ['page', 'visitors', 'list', 'flag'],
    {
      head: ['page', 'visitors', 'list', 'flag'],
      rows: [
        ['/a', '3 / 1', '["x","y","z"]', 'true'],
        ['/b', '2', '{}', ''],
      ],
    },
  ],
  ['rows without columns', [[1, 2]], null, { head: ['1', '2'], rows: [['1', '2']] }],
  ['a number', 42, null, { head: ['result'], rows: [['42']] }],
  [
    'names of members of objects',
    [JSON.parse('{"__proto__": 1, "toString": 2}')],
    null,
    {
      head: ['__proto__', 'toString'],
      rows: [['1', '2']],
    },
  ],
]

for (const [name, results, columns, expected] of CASES) {
  t.test(name, async (t) => {
    t.same(sharedTable({ results, columns }), {
      ...(expected as object),
      moreRows: 0,
      moreColumns: 0,
    })
  })
}

t.test('an empty result gives an empty table', async (t) => {
  for (const results of [null, undefined, [], [[]], [{}], [{ a: null, b: {} }]]) {
    t.equal(sharedTable({ results }), null, JSON.stringify(results))
  }
})

t.test('a result with more rows than a page is cut', async (t) => {
  const row = Array.from({ length: SHARED_COLUMNS_MAX + 1 }, () => 'x'.repeat(500))
  const results = Array.from({ length: SHARED_ROWS_MAX + 3 }, () => row)
  const table = sharedTable({ results })
  t.equal(table?.rows.length, SHARED_ROWS_MAX)
  t.equal(table?.rows[0]?.length, SHARED_COLUMNS_MAX)
  t.equal(table?.rows[0]?.[0], `${'x'.repeat(200)}…`)
  t.equal(table?.moreRows, 3)
  t.equal(table?.moreColumns, 1)
})

t.test('numbers that are too large for rounding are shown unchanged', async (t) => {
  const table = sharedTable({ results: [[1e308, -1.5e307, 2.00005]] })
  t.strictSame(table?.rows, [['1e+308', '-1.5e+307', '2.0001']])
})
