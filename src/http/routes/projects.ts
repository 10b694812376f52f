/**
 * The routes of projects, their settings and secret keys. Source: docs/COMPATIBILITY.md, "Organization,
 * users, keys, projects".
 */
import { ServiceError } from '../../base/errors.ts'
import type { SecretKeyView } from '../../engine/threads/organization-tasks.ts'
import type { Project } from '../../rules/access/organization.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import { authoriseAs } from '../server/auth.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiRequest, json, type Route } from '../server/router.ts'
import {
  projectBody,
  readKeyLabel,
  readProjectFields,
  secretKeyBody,
} from '../shapes/organization.ts'
import {
  ask,
  change,
  fieldsOf,
  listAnswer,
  numberInPath,
  type OrganizationAccess,
  type OrganizationRoutesOptions,
  openUserAccess,
  organizationOf,
  requireAdministrator,
  requireContained,
  requireUnlimited,
} from './organization-access.ts'
import { visibleProjects } from './users.ts'

const PROJECTS_PATH = '/api/projects/'
const PROJECT_PATH = `${PROJECTS_PATH}:project_id/`
const SECRETS_PATH = `${PROJECT_PATH}secret_keys/`
const SECRET_PATH = `${SECRETS_PATH}:id/`

/** What a secret key opens is what a personal key with this scope does. */
const SECRET_KEY_SCOPE: Scope = 'feature_flag:read'

interface ProjectAccess extends OrganizationAccess {
  readonly projectId: number
}

/** The routes under `/api/projects/` about projects themselves. */
export function projectRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  type Handler = (access: ProjectAccess) => Answer | Promise<Answer>
  const inProject = (method: Route['method'], path: string, handle: Handler): Route => ({
    method,
    path,
    handler: (request) => {
      const isReading = method === 'GET'
      const access = openProject(request, options, isReading ? 'project:read' : 'project:write')
      if (!isReading) requireAdministrator(access)
      return handle(access)
    },
  })
  return [
    {
      method: 'GET',
      path: PROJECTS_PATH,
      handler: (request) => listProjects(openUserAccess(request, options, 'project:read')),
    },
    {
      method: 'POST',
      path: PROJECTS_PATH,
      handler: (request) => createProject(openUserAccess(request, options, 'project:write')),
    },
    inProject('GET', PROJECT_PATH, getProject),
    inProject('PATCH', PROJECT_PATH, patchProject),
    inProject('GET', SECRETS_PATH, listSecrets),
    inProject('POST', SECRETS_PATH, createSecret),
    inProject('DELETE', SECRET_PATH, revokeSecret),
    inProject('POST', `${SECRET_PATH}roll/`, rollSecret),
  ]
}

function openProject(
  request: ApiRequest,
  options: OrganizationRoutesOptions,
  scope: Scope,
): ProjectAccess {
  const access = openUserAccess(request, options, scope)
  const { id: projectId } = authoriseAs(access.grant, request, options.directory, scope)
  return { ...access, projectId }
}

function listProjects(access: OrganizationAccess): Answer {
  return listAnswer(
    access,
    visibleProjects(access).map((project) => bodyOf(access, project)),
  )
}

async function createProject(access: OrganizationAccess): Promise<Answer> {
  requireUnlimited(access)
  requireAdministrator(access)
  const { name = '', ...fields } = readProjectFields(fieldsOf(access.request), true)
  const project = await change(access, 'createProject', { ...fields, name })
  return json(bodyOf(access, project), 201)
}

function getProject(access: ProjectAccess): Answer {
  const project = access.options.directory.projectById(access.projectId)
  if (project === null) throw new ServiceError('not_found', 'there is no such project')
  return json(bodyOf(access, project))
}

async function patchProject(access: ProjectAccess): Promise<Answer> {
  const changes = readProjectFields(fieldsOf(access.request), false)
  const project = await change(access, 'changeProject', { id: access.projectId, changes })
  return json(bodyOf(access, project))
}

async function listSecrets(access: ProjectAccess): Promise<Answer> {
  const keys = await secretsInForce(access)
  return listAnswer(
    access,
    keys.map((key) => secretKeyBody(key, null)),
  )
}

async function createSecret(access: ProjectAccess): Promise<Answer> {
  const label = readKeyLabel(fieldsOf(access.request))
  const { projectId } = access
  requireSecretRights(access)
  const request = label === undefined ? { projectId } : { projectId, label }
  const { text, key } = await change(access, 'createSecretKey', request)
  return json(secretKeyBody(key, text), 201)
}

async function rollSecret(access: ProjectAccess): Promise<Answer> {
  const id = await secretInPath(access)
  requireSecretRights(access)
  const { text, key } = await change(access, 'rollSecretKey', id)
  return json(secretKeyBody(key, text))
}

async function revokeSecret(access: ProjectAccess): Promise<Answer> {
  await change(access, 'revokeSecretKey', await secretInPath(access))
  return { status: 204, contentType: '', body: '' }
}

/** Whoever gets the text of a secret key reads flag definitions with it, for good. */
function requireSecretRights({ grant, projectId }: ProjectAccess): void {
  const rights = { scopes: [SECRET_KEY_SCOPE], projectIds: [projectId], expiresAtMs: null }
  requireContained(grant, rights, 'hand out a secret key')
}

async function secretInPath(access: ProjectAccess): Promise<number> {
  const id = numberInPath(access.request, 'id')
  const keys = await secretsInForce(access)
  if (id !== null && keys.some((key) => key.id === id)) return id
  throw new ServiceError('not_found', 'the project has no such secret key')
}

async function secretsInForce(access: ProjectAccess): Promise<readonly SecretKeyView[]> {
  const keys = await ask(access, 'listSecretKeys', { projectId: access.projectId })
  return keys.filter(({ revokedAtMs }) => revokedAtMs === null)
}

function bodyOf({ options, user }: OrganizationAccess, project: Project): object {
  return projectBody(project, organizationOf(options).id, user.level)
}
