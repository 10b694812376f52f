/**
 * Distribution functions that are exact to about 13 digits. These libraries were compared and do not fit: the packages
 * of stdlib are exact, but the four functions that are needed bring more than 200 packages of 28 MB; `cephes` has
 * relative errors of up to 6.5e-8 in Student's t for many degrees of freedom; `simple-statistics` does not have
 * Student's t distribution.
 *
 * A&S: M. Abramowitz and I. A. Stegun (editors), 1964, Handbook of Mathematical Functions.
 *
 * DLMF: F. W. J. Olver and others (editors), NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov.
 */

/**
 * The step of the numerical integration, and its number of points on each side of the middle point. Smaller steps
 * change no digit of the result.
 */
const QUADRATURE_STEP = 1 / 18
const QUADRATURE_POINTS = 72
/** A point with a larger exponent adds nothing to an integral. */
const EXPONENT_END = 80
/**
 * If the argument is at least this, the gamma ratio is computed with its asymptotic series. Six terms of the series
 * give 16 digits.
 */
const GAMMA_RATIO_START = 16
/**
 * The maximum number of steps of Newton's method. In a heavy tail, each step at least halves the distance to the
 * solution, so this is enough for all doubles.
 */
const NEWTON_STEPS = 1100
/** After a step of this relative size, the next step would not be larger than rounding errors. */
const NEWTON_RESOLUTION = 1e-8

/**
 * The points and weights of the double exponential formula for integrals from 0 to infinity, s = exp(π/2 sinh τ).
 * Source: H. Takahasi and M. Mori, 1974, Double exponential formulas for numerical integration, Publications of the
 * Research Institute for Mathematical Sciences 9.
 */
const POINTS = new Float64Array(2 * QUADRATURE_POINTS + 1)
const WEIGHTS = new Float64Array(POINTS.length)
for (let index = 0; index < POINTS.length; index++) {
  const tau = (index - QUADRATURE_POINTS) * QUADRATURE_STEP
  const point = Math.exp((Math.PI / 2) * Math.sinh(tau))
  POINTS[index] = point
  WEIGHTS[index] = QUADRATURE_STEP * (Math.PI / 2) * Math.cosh(tau) * point
}

/** Returns the density of the standard normal distribution at z. A&S 26.2.1. */
function normalDensity(z: number): number {
  return Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)
}

/**
 * Returns P(Z > z) of a standard normal Z. It is the integral of the density (A&S 26.2.3). The density at z is a factor
 * in front of the integral, so that the result has all digits even far out in the tail.
 */
export function normalTail(z: number): number {
  if (z < 0) return 1 - normalTail(-z)
  // The tail is about 1 / (z + 1) wide, so the points are spread over this width.
  const width = 1 / (z + 1)
  let integral = 0
  for (let index = 0; index < POINTS.length; index++) {
    const s = (POINTS[index] ?? 0) * width
    const exponent = s * (z + s / 2)
    if (exponent > EXPONENT_END) break
    integral += (WEIGHTS[index] ?? 0) * Math.exp(-exponent)
  }
  // Because of rounding, the integral could be a little more than one half, and a p-value more than 1.
  return Math.min(0.5, normalDensity(z) * integral * width)
}

/**
 * Returns z with P(Z > z) = tail, for a tail strictly between 0 and 1. It begins with the rational approximation A&S
 * 26.2.23, whose error is below 4.5e-4. Each step of Halley's method then triples the number of correct digits.
 */
export function normalTailQuantile(tail: number): number {
  if (tail > 0.5) return -normalTailQuantile(1 - tail)
  const t = Math.sqrt(-2 * Math.log(tail))
  const numerator = 2.515517 + t * (0.802853 + t * 0.010328)
  const denominator = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
  let z = t - numerator / denominator
  for (let step = 0; step < 3; step++) {
    const error = (normalTail(z) - tail) / normalDensity(z)
    z += error / (1 + (z * error) / 2)
  }
  return z
}

/**
 * Returns Γ(a + 1/2) / Γ(a). The series DLMF 5.11.8 is used in a form in which its large terms cancel: the difference
 * of two logarithms of gamma functions would lose digits for large a. Below `GAMMA_RATIO_START`, the series is too
 * inexact. For a smaller a, the recurrence DLMF 5.5.1 therefore computes the result from the ratio of an argument that
 * is large enough.
 */
function gammaRatio(a: number): number {
  let factor = 1
  let z = a
  for (; z < GAMMA_RATIO_START; z++) factor *= z / (z + 0.5)
  const w = 1 / (z * z)
  const series =
    -1 / 8 +
    w * (1 / 192 + w * (-1 / 640 + w * (17 / 14_336 + w * (-31 / 18_432 + w * (691 / 180_224)))))
  return factor * Math.sqrt(z) * Math.exp(series / z)
}

/** Returns the density of Student's t distribution at t: the derivative of A&S 26.7.1. */
function studentDensity(t: number, degreesOfFreedom: number): number {
  const power = ((degreesOfFreedom + 1) / 2) * Math.log1p((t * t) / degreesOfFreedom)
  const ratio = gammaRatio(degreesOfFreedom / 2)
  return (ratio * Math.exp(-power)) / Math.sqrt(degreesOfFreedom * Math.PI)
}

/**
 * Returns P(|T| > t) of Student's t distribution, for t >= 0 and any positive degrees of freedom. It is the integral of
 * the density (A&S 26.7.1), with the density at t as a factor in front of it. The usual continued fraction of the
 * incomplete beta function loses digits for many degrees of freedom, because its argument is then too close to 1.
 */
export function studentTails(t: number, degreesOfFreedom: number): number {
  const scale = degreesOfFreedom + t * t
  if (!Number.isFinite(scale)) return 0
  const power = (degreesOfFreedom + 1) / 2
  const steepness = power / scale
  // The width is about 1 / (t + 1) if the distribution is almost normal, and proportional to t in a heavy tail.
  const width = 1 / (2 * t * steepness + Math.sqrt(2 * steepness))
  let integral = 0
  for (let index = 0; index < POINTS.length; index++) {
    const s = (POINTS[index] ?? 0) * width
    const exponent = power * Math.log1p((s * (2 * t + s)) / scale)
    if (exponent > EXPONENT_END) break
    integral += (WEIGHTS[index] ?? 0) * Math.exp(-exponent)
  }
  return Math.min(1, 2 * studentDensity(t, degreesOfFreedom) * integral * width)
}

/**
 * Returns t with P(|T| > t) = tails, for tails strictly between 0 and 1. Newton's method begins at the normal quantile
 * z or, for many degrees of freedom, at the first two terms of the expansion A&S 26.7.5. P(|T| > t) is a convex
 * function of t, so at most the first step goes beyond the solution.
 */
export function studentTailsQuantile(tails: number, degreesOfFreedom: number): number {
  const z = normalTailQuantile(tails / 2)
  const correction = (z * (z * z + 1)) / (4 * degreesOfFreedom)
  let t = correction < 0.1 * z ? z + correction : z
  for (let step = 0; step < NEWTON_STEPS; step++) {
    const excess = studentTails(t, degreesOfFreedom) - tails
    const next = t + excess / (2 * studentDensity(t, degreesOfFreedom))
    if (Math.abs(next - t) <= NEWTON_RESOLUTION * t) return next
    t = next
  }
  return t
}

/**
 * Returns P(X > x) of the chi-square distribution with whole degrees of freedom, at most `EXPERIMENT_VARIANTS_MAX`. A&S
 * 26.4.4 (odd) and 26.4.5 (even). Each term contains the density as a factor, so that no term overflows.
 */
export function chiSquareTail(x: number, degreesOfFreedom: number): number {
  const root = Math.sqrt(x)
  const density = normalDensity(root)
  if (degreesOfFreedom % 2 === 1) {
    let term = 2 * density * root
    let sum = 2 * normalTail(root)
    for (let odd = 1; odd < degreesOfFreedom; odd += 2) {
      sum += term
      term *= x / (odd + 2)
    }
    return Math.min(1, sum)
  }
  let term = Math.sqrt(2 * Math.PI) * density
  let sum = term
  for (let even = 2; even < degreesOfFreedom; even += 2) {
    term *= x / even
    sum += term
  }
  return Math.min(1, sum)
}
