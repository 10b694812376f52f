/** The pages that show answers to queries. They load as one file. */
export { default as Dashboard } from '../pages/dashboard.tsx'
export { default as Dashboards } from '../pages/dashboards.tsx'
export { default as Explore } from '../pages/explore.tsx'
