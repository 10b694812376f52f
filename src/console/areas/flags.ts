/** The pages of flags and experiments, which link to each other. The build puts them into one file. */
export { default as Experiment } from '../pages/experiment.tsx'
export { default as Experiments } from '../pages/experiments.tsx'
export { default as Flag } from '../pages/flag.tsx'
export { default as Flags } from '../pages/flags.tsx'
export { default as Holdouts } from '../pages/holdouts.tsx'
