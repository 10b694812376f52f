/** Which experiments use a holdout or a saved metric. */
import { get, may, pageOf, project, useLoaded } from '../../kit.ts'
import type { Experiment } from './words.ts'

const EXPERIMENTS_MAX = 1000

/** Returns all experiments of the project. Returns undefined while they load, and if the session may not see any. */
export function useExperiments(): readonly Experiment[] | undefined {
  return useLoaded(`experiments ${project.value.id}`, async (signal) => {
    if (!may('experiment:read')) return undefined
    const asked = { limit: EXPERIMENTS_MAX }
    const lists = [asked, { ...asked, archived: true }].map((values) => get('project/experiments/', values, signal))
    return (await Promise.all(lists)).flatMap(({ results }) => results)
  }).data
}

/** Links to the experiments that use something. `isKnown` is false while they load. */
export function Users({ experiments, isKnown }: { experiments: readonly Experiment[]; isKnown: boolean }) {
  if (experiments.length === 0) return isKnown && <span class="quiet">no experiment</span>
  return experiments.map(({ id, name }, at) => (
    <span key={id}>
      {at > 0 && ', '}
      <a href={pageOf(`/experiments/${id}`)}>
        <bdi>{name}</bdi>
      </a>
    </span>
  ))
}

/** The link from a page back to the list of experiments. */
export function ToExperiments() {
  return (
    <nav class="breadcrumb" aria-label="Breadcrumb">
      <a href={pageOf('/experiments')}>Experiments</a>
    </nav>
  )
}
