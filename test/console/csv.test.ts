/**
 * The CSV files of the console.
 *
 * @lane quick
 */
import t from 'tap'
import { csvOf } from '../../src/console/base/csv.ts'

t.test('each name has a column, and nested values have columns named by their paths', (t) => {
  const rows = [
    {
      id: 1,
      created_at: '2026-10-30T12:00:00Z',
      properties: { plan: 'pro', $geo: { city: 'Ulm' } },
    },
    { id: 2, created_at: null, ids: ['a', 'b'], properties: { paid: false, note: 'a "b", c\nd' } },
  ]
  t.strictSame(csvOf(rows).split('\r\n'), [
    'id,created_at,properties.plan,properties.$geo.city,ids,properties.paid,properties.note',
    '1,2026-10-30T12:00:00Z,pro,Ulm,,,',
    '2,,,,"[""a"",""b""]",false,"a ""b"", c\nd"',
    '',
  ])
  t.equal(csvOf([]), '\r\n')
  t.end()
})

t.test('a value that a spreadsheet would run gets a quote', (t) => {
  const rows = [{ a: '=1+1', b: '-5', c: '+49 1', d: ' @x', e: -3 }]
  t.equal(csvOf(rows), "a,b,c,d,e\r\n'=1+1,-5,'+49 1,' @x,-3\r\n")
  t.end()
})
