/**
 * The pages of persons, groups and cohorts, of access, and of the project. Most of them are small lists and forms. The
 * build puts them into one file, because similar code compresses better together.
 */
export { default as Access } from '../pages/access.tsx'
export { default as Audit } from '../pages/audit.tsx'
export { default as Cohorts } from '../pages/cohorts.tsx'
export { default as Group } from '../pages/group.tsx'
export { default as Groups } from '../pages/groups.tsx'
export { default as Health } from '../pages/health.tsx'
export { default as Person } from '../pages/person.tsx'
export { default as Persons } from '../pages/persons.tsx'
export { default as Settings } from '../pages/settings.tsx'
