/** The limits of rules/experiments, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of persons in one variant of an experiment. Larger counts are answered as `invalid_input`. Up to
 * this number, the statistics of an experiment are computed within a fraction of a second.
 */
export const VARIANT_PERSONS_MAX = 10_000_000_000
/** The largest number of variants in one check of the sample ratio. More are answered as `invalid_input`. */
export const EXPERIMENT_VARIANTS_MAX = 100
