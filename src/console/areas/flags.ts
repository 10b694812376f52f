/** The pages of flags and experiments, which link to each other. The build puts them into one file. */
// biome-ignore-all assist/source/organizeImports: the file is 200 bytes smaller in this order
export { default as Flag } from '../pages/flag.tsx'
export { default as Holdouts } from '../pages/holdouts.tsx'
export { default as Experiment } from '../pages/experiment.tsx'
export { default as Experiments } from '../pages/experiments.tsx'
export { default as Flags } from '../pages/flags.tsx'
export { default as SavedMetrics } from '../pages/saved-metrics.tsx'
