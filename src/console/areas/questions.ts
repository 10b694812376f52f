/** The pages that show the answers to queries. The build puts them into one file. */
export { default as Dashboard } from '../pages/dashboard.tsx'
export { default as Dashboards } from '../pages/dashboards.tsx'
export { default as Explore } from '../pages/explore.tsx'
