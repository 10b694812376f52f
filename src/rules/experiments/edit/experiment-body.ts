/**
 * Builds the JSON of experiments, holdouts and saved metrics for clients. Source: docs/compatibility/experiments.md,
 * "Fields".
 */
import type { JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import type { UserFacts, UserSummary } from '../../access/user.ts'
import { minimalFlagBody } from '../../flags/edit/flag-body.ts'
import type { Flag } from '../../flags/types.ts'
import { authorOf } from '../../saved/saved-bodies.ts'
import { countedGroupType } from './flag-of-experiment.ts'
import {
  type ExperimentView,
  type Holdout,
  holdoutVariant,
  type SavedMetric,
  statusOf,
} from './stored-experiment.ts'

/** The lookups that the JSON needs in addition to the stored experiment. */
export interface ExperimentShowing {
  /** Returns the flag with an id, even a deleted one. Returns null if the flag was removed permanently. */
  readonly flagById: (id: number) => Flag | null
  readonly userById: (id: number) => UserFacts | null
}

/** Returns the JSON of an experiment. */
export function experimentBody(
  showing: ExperimentShowing,
  { experiment, holdout, savedMetrics }: ExperimentView,
): JsonObject {
  const { id, fields, isDeleted, createdById, createdAtMs, updatedAtMs } = experiment
  const { flag_id, flag_key, variants, group_type_index: _, ...others } = fields
  const { parameters, running_changes: changes, ...shown } = others
  const { saved_metrics: links = [] } = fields
  const flag = showing.flagById(flag_id)
  const groupType = countedGroupType(fields, flag)
  return {
    id,
    ...shown,
    feature_flag_key: flag_key ?? flag?.key ?? '',
    feature_flag: flag === null ? null : minimalFlagBody(flag),
    holdout: holdout === null ? null : holdoutBody(showing, holdout),
    exposure_cohort: fields.exposure_cohort ?? null,
    parameters: {
      ...parameters,
      feature_flag_variants: variants ?? variantsShown(flag),
      ...(groupType === null ? {} : { aggregation_group_type_index: groupType }),
    },
    saved_metrics: links.flatMap((link) => {
      const saved = savedMetrics.find((one) => one.id === link.saved_metric)
      if (saved === undefined) return []
      return { ...link, experiment: id, query: saved.fields.metric, name: saved.fields.name }
    }),
    secondary_metrics: [],
    filters: {},
    deleted: isDeleted,
    status: statusOf(fields),
    changed_while_running: changes.map(({ at, userId, change }) => ({
      at,
      change,
      by: authorOf(showing, userId),
    })),
    created_at: timeText(createdAtMs),
    created_by: authorOf(showing, createdById),
    updated_at: timeText(updatedAtMs),
    user_access_level: 'editor',
  }
}

/** Returns the JSON of a holdout. */
export function holdoutBody(
  showing: Pick<ExperimentShowing, 'userById'>,
  { id, fields, createdById, createdAtMs, updatedAtMs }: Holdout,
) {
  const { name, description, percentage } = fields
  const createdBy: UserSummary | null = authorOf(showing, createdById)
  return {
    id,
    name,
    description,
    filters: [{ properties: [], rollout_percentage: percentage, variant: holdoutVariant(id) }],
    created_by: createdBy,
    created_at: timeText(createdAtMs),
    updated_at: timeText(updatedAtMs),
  }
}

/** Returns the JSON of a saved metric. */
export function savedMetricBody(
  showing: Pick<ExperimentShowing, 'userById'>,
  { id, fields, createdById, createdAtMs, updatedAtMs }: SavedMetric,
) {
  const { name, description, metric, tags = [] } = fields
  const createdBy: UserSummary | null = authorOf(showing, createdById)
  return {
    id,
    name,
    description,
    query: metric,
    tags,
    created_by: createdBy,
    created_at: timeText(createdAtMs),
    updated_at: timeText(updatedAtMs),
    user_access_level: 'editor',
  }
}

/** Returns the variants of a flag in their stored form. */
function variantsShown(flag: Flag | null): unknown {
  const multivariate = flag?.filters['multivariate'] as { readonly variants?: unknown } | undefined
  return multivariate?.variants ?? []
}
