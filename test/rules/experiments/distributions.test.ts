/**
 * Tests the distribution functions against values that mpmath 1.3.0 computed with 30 to 40 digits: erfc, erfinv,
 * gammainc, betainc, and the series of the incomplete beta function summed term by term.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import {
  chiSquareTail,
  normalTail,
  normalTailQuantile,
  studentTails,
  studentTailsQuantile,
} from '../../../src/rules/experiments/distributions.ts'
import { Differences } from '../../fixtures/differences.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

/** The largest relative error. */
const ERROR = 1e-12

/** z, P(Z > z). */
const NORMAL_TAILS = [
  [0, 0.5],
  [0.1, 0.460172162722971],
  [0.5, 0.3085375387259869],
  [1, 0.15865525393145705],
  [1.5, 0.06680720126885807],
  [1.96, 0.024997895148220435],
  [2, 0.02275013194817921],
  [2.5, 0.006209665325776135],
  [3, 0.0013498980316300946],
  [6, 9.86587645037698e-10],
  [10, 7.619853024160525e-24],
  [30, 4.906713927148187e-198],
  [37, 5.725571222524577e-300],
  [-1, 0.8413447460685429],
  [-3, 0.9986501019683699],
] as const

/** The tail, z. */
const NORMAL_QUANTILES = [
  [1e-200, 30.20559417957964],
  [1e-20, 9.262340089798407],
  [1e-10, 6.361340902404057],
  [0.0001, 3.7190164854556804],
  [0.025, 1.9599639845400543],
  [0.05, 1.6448536269514726],
  [0.2, 0.8416212335729142],
  [0.4, 0.2533471031357997],
  [0.9, -1.2815515655446006],
  [0.975, -1.9599639845400538],
  [0.999999, -4.753424308817088],
] as const

/** t, the degrees of freedom, P(|T| > t). */
const STUDENT_TAILS = [
  [0, 1, 1],
  [0.1, 1, 0.9365489651388929],
  [2.5, 1, 0.2422378831816868],
  [20, 1, 0.03180450251235275],
  [1e6, 1, 6.366197723673691e-7],
  [1, 1.5, 0.45113536727671033],
  [6, 1.5, 0.05020245677632478],
  [0.1, 2.7, 0.9272983352515441],
  [2.5, 2.7, 0.09707941444293466],
  [20, 2.7, 0.0005167812996199458],
  [1, 10, 0.34089313230205986],
  [2.5, 10, 0.031446844236608804],
  [6, 10, 0.0001321088603547856],
  [1.7, 31.5, 0.09898625725344562],
  [6, 31.5, 1.1533868257084954e-6],
  [1.7, 32.5, 0.09868365758727589],
  [20, 32.5, 7.797121720362434e-20],
  [0.1, 500.5, 0.9203843675049481],
  [2.5, 500.5, 0.012738255040219413],
  [6, 500.5, 3.788081444132227e-9],
  [20, 500.5, 7.824911138601509e-66],
  [1, 12_345.6, 0.31733010722013566],
  [2.5, 12_345.6, 0.012432200145626468],
  [6, 12_345.6, 2.0284595719995637e-9],
  [20, 12_345.6, 1.3344400997846992e-87],
  [0.1, 1e6, 0.9203443454920431],
  [1.75, 1e6, 0.08011862041654788],
  [6, 1e6, 1.9738498123544347e-9],
  [20, 1e6, 5.733087047390372e-89],
  [1, 1e8, 0.31731051028262136],
  [2.5, 1e8, 0.01241933224005454],
  [6, 1e8, 1.9731820343152873e-9],
] as const

/** x, the degrees of freedom, P(X > x). */
const CHI_SQUARE_TAILS = [
  [0, 1, 1],
  [0.01, 1, 0.920344325445942],
  [3.84, 1, 0.050043521248705106],
  [150, 1, 1.7336432457178264e-34],
  [0, 2, 1],
  [3.84, 2, 0.14660696213035015],
  [700, 2, 9.92959039626498e-153],
  [0.01, 3, 0.9997348349413444],
  [20, 3, 0.00016974243555282643],
  [3.84, 4, 0.4280923294206224],
  [700, 4, 3.4852862290890077e-150],
  [1, 5, 0.9625657732472964],
  [20, 9, 0.017912404529843273],
  [20, 30, 0.9165415270653372],
  [700, 30, 4.910784176302912e-128],
  [150, 99, 0.0007204453957169629],
  [700, 99, 3.242525267165041e-91],
] as const

function isClose(found: number, wanted: number): boolean {
  return Math.abs(found - wanted) <= ERROR * Math.abs(wanted)
}

t.test('tails and quantiles agree with values of high precision', async (t) => {
  const differences = new Differences()
  const compare = (found: number, wanted: number, name: string) => {
    differences.ok(isClose(found, wanted), `${name}: ${found} instead of ${wanted}`)
  }
  for (const [z, tail] of NORMAL_TAILS) compare(normalTail(z), tail, `normal ${z}`)
  for (const [tail, z] of NORMAL_QUANTILES)
    compare(normalTailQuantile(tail), z, `normal at ${tail}`)
  for (const [x, df, tails] of STUDENT_TAILS) {
    compare(studentTails(x, df), tails, `Student ${x}, ${df}`)
    if (x > 0) compare(studentTailsQuantile(tails, df), x, `Student at ${tails}, ${df}`)
  }
  for (const [x, df, tail] of CHI_SQUARE_TAILS) {
    compare(chiSquareTail(x, df), tail, `chi-square ${x}, ${df}`)
  }
  t.strictSame(differences.list(), [])
})

/** NIST/SEMATECH e-Handbook of Statistical Methods, sections 1.3.6.7.2 (t) and 1.3.6.7.4 (chi-square). */
t.test('the quantiles are those of the printed tables', async (t) => {
  const printed = [
    [0.05, 1, 12.706],
    [0.05, 10, 2.228],
    [0.01, 10, 3.169],
    [0.05, 100, 1.984],
    [0.1, 5, 2.015],
  ] as const
  for (const [tails, df, quantile] of printed) {
    t.equal(studentTailsQuantile(tails, df).toFixed(3), quantile.toFixed(3), `t, ${df}`)
  }
  for (const [x, df, tail] of [
    [3.841, 1, 0.05],
    [7.815, 3, 0.05],
    [23.209, 10, 0.01],
    [43.773, 30, 0.05],
  ] as const) {
    t.equal(chiSquareTail(x, df).toFixed(4), tail.toFixed(4), `chi-square, ${df}`)
  }
})

t.test('quantiles invert tails', async (t) => {
  const differences = new Differences()
  const tail = fc.double({ min: 1e-9, max: 1 - 1e-9, noNaN: true })
  const freedom = fc.double({ min: 1, max: 1e9, noNaN: true })
  fc.assert(
    fc.property(tail, freedom, (share, df) => {
      const ofNormal = normalTail(normalTailQuantile(share))
      differences.ok(Math.abs(ofNormal - share) <= 1e-13, `normal at ${share}`)
      const ofStudent = studentTails(studentTailsQuantile(share, df), df)
      differences.ok(Math.abs(ofStudent - share) <= 1e-13, `Student at ${share}, ${df}`)
    }),
    runsOf(1000),
  )
  t.strictSame(differences.list(), [])
})
