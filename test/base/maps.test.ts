/**
 * Tests the cache of recently used values: its size and its eviction.
 *
 * @lane quick
 */
import t from 'tap'
import { RecentValues } from '../../src/base/maps.ts'

interface Sized {
  readonly bytes: number
}

const values = (bytesMax: number) => new RecentValues(bytesMax, ({ bytes }: Sized) => bytes)

t.test('the oldest values are evicted when all take too many bytes', async (t) => {
  const recent = values(100)
  for (let index = 0; index < 9; index++) recent.keep(`${index}`, { bytes: 9 })
  // Five of them are the older half. A value that is found moves to the younger half.
  for (const name of ['8', '5', '0']) t.equal(recent.get(name)?.bytes, 9, name)
  const large = { bytes: 1000 }
  recent.keep('large', large)
  t.equal(recent.get('large'), large, 'one value stays, however large')
  recent.keep('next', { bytes: 1 })
  recent.keep('large', large)
  recent.keep('last', { bytes: 1 })
  t.equal(recent.get('0'), undefined)
  t.equal(recent.get('last')?.bytes, 1)
})

t.test('a value that is used repeatedly stays', async (t) => {
  const recent = values(1000)
  recent.keep('wanted', { bytes: 1 })
  for (let index = 0; index < 5000; index++) {
    recent.keep(`other ${index}`, { bytes: 50 })
    if (recent.get('wanted') === undefined) t.fail(`gone after ${index}`)
  }
  t.equal(recent.get('other 0'), undefined)
  t.equal(recent.get('other 4999')?.bytes, 50)
})

t.test('without repeated use a sample is cached, until a value is used again', async (t) => {
  const recent = values(10_000_000)
  const keptOf = (first: number, count: number): number => {
    let kept = 0
    for (let index = first; index < first + count; index++) {
      recent.keep(`value ${index}`, { bytes: 1 })
    }
    for (let index = first; index < first + count; index++) {
      if (recent.get(`value ${index}`) !== undefined) kept++
    }
    return kept
  }
  for (let index = 0; index < 10_000; index++) recent.keep(`before ${index}`, { bytes: 1 })
  // An eighth of 4,000, within eight standard deviations.
  const sampled = keptOf(0, 4000)
  t.ok(sampled > 330 && sampled < 670, `${sampled} of 4000 were cached`)
  t.equal(keptOf(10_000, 100), 100, 'these were used')
  for (let index = 0; index < 10_000; index++) recent.keep(`behind ${index}`, { bytes: 1 })
  const known = { bytes: 2 }
  recent.keep('before 0', known)
  t.equal(recent.get('before 0'), known, 'a cached value may change')
})
