/**
 * Questions about the organization, and changes of it, as values that cross threads: what each is called,
 * what it takes and answers, and the thread's side of it. Reading and changing runs in the pool, because
 * a change waits for the disk.
 */
import type { Page, PageRequest } from '../../base/pages.ts'
import type { AuditEntry, StoredAuditEntry } from '../../rules/access/audit.ts'
import type { FlagAccessLevel } from '../../rules/access/levels.ts'
import type { FlagAccessSetting, KeyChanges, KeyRequest, NewKey, PersonalKey, Project, ProjectChanges, SecretKey, SecretKeyRequest, User, UserChanges } from '../../rules/access/organization.ts'
import type { FlagNumbers, RoleAccessView, RoleChanges, RoleMember, RoleRequest, RoleView } from '../../rules/access/roles.ts'
import { OrganizationStore } from '../../store/catalog/organization-store.ts'


/** A personal key as threads tell each other: without its hash. */
export type PersonalKeyView = Omit<PersonalKey, 'hash'>
/** The same of a project secret key. */
export type SecretKeyView = Omit<SecretKey, 'hash'>

/** Name -> what it takes and what it answers. Refusals are `ServiceError`s. */
export interface OrganizationOperations {
  listRoles: { request: PageRequest; result: Page<RoleView> }
  getRole: { request: string; result: RoleView | null }
  createRole: { request: RoleRequest; result: RoleView }
  changeRole: { request: { id: string; changes: RoleChanges }; result: RoleView }
  deleteRole: { request: string; result: undefined }
  roleMembers: { request: string; result: readonly RoleMember[] | null }
  addRoleMember: { request: { id: string; userUuid: string }; result: RoleMember }
  removeRoleMember: { request: { id: string; membershipId: string }; result: undefined }
  listRoleAccess: {
    request: { flag: FlagNumbers; roleId: string | null; page: PageRequest }
    result: Page<RoleAccessView>
  }
  getRoleAccess: { request: { flag: FlagNumbers; id: number }; result: RoleAccessView | null }
  addRoleAccess: { request: { flag: FlagNumbers; roleId: string }; result: RoleAccessView }
  removeRoleAccess: { request: { flag: FlagNumbers; id: number }; result: undefined }
  changeUser: { request: { id: number; changes: UserChanges }; result: User }
  setFlagAccess: {
    request: { level: FlagAccessLevel | null; userId: number }
    result: FlagAccessSetting | null
  }
  createProject: { request: ProjectChanges & { readonly name: string }; result: Project }
  changeProject: { request: { id: number; changes: ProjectChanges }; result: Project }
  listKeys: { request: { userId: number }; result: readonly PersonalKeyView[] }
  createKey: { request: KeyRequest; result: NewKey<PersonalKeyView> }
  changeKey: { request: { id: number; changes: KeyChanges }; result: PersonalKeyView }
  rollKey: { request: number; result: NewKey<PersonalKeyView> }
  revokeKey: { request: number; result: undefined }
  listSecretKeys: { request: { projectId: number }; result: readonly SecretKeyView[] }
  createSecretKey: { request: SecretKeyRequest; result: NewKey<SecretKeyView> }
  rollSecretKey: { request: number; result: NewKey<SecretKeyView> }
  revokeSecretKey: { request: number; result: undefined }
  recordAudit: { request: readonly AuditEntry[]; result: undefined }
  listAudit: { request: PageRequest; result: Page<StoredAuditEntry> }
}

/** One of the operations. */
export type OrganizationOperation = keyof OrganizationOperations

/** What an operation takes. */
export type OrganizationRequest<Name extends OrganizationOperation> =
  OrganizationOperations[Name]['request']

/** What an operation answers. */
export type OrganizationResult<Name extends OrganizationOperation> =
  OrganizationOperations[Name]['result']

/** Any thread: ask or change something about the organization. */
export type OrganizationTask<Name extends OrganizationOperation = OrganizationOperation> = {
  [Each in Name]: {
    readonly kind: 'organization'
    readonly name: Each
    readonly request: OrganizationRequest<Each>
  }
}[Name]

/** Who carries the operations out; the pool. */
export interface OrganizationPort {
  /** Throws the `ServiceError` that the operation is refused with. */
  organization<Name extends OrganizationOperation>(
    name: Name,
    request: OrganizationRequest<Name>,
  ): Promise<OrganizationResult<Name>>
}

type Handlers = {
  readonly [Name in OrganizationOperation]: (
    store: OrganizationStore,
    request: OrganizationRequest<Name>,
  ) => OrganizationResult<Name>
}

const HANDLERS: Handlers = {
  listRoles: ({ roles }, page) => roles.list(page),
  getRole: ({ roles }, id) => roles.get(id),
  createRole: ({ roles }, request) => roles.create(request),
  changeRole: ({ roles }, { id, changes }) => roles.change(id, changes),
  deleteRole: ({ roles }, id) => nothing(roles.delete(id)),
  roleMembers: ({ roles }, id) => roles.members(id),
  addRoleMember: ({ roles }, { id, userUuid }) => roles.addMember(id, userUuid),
  removeRoleMember: ({ roles }, { id, membershipId }) =>
    nothing(roles.removeMember(id, membershipId)),
  listRoleAccess: ({ roles }, { flag, roleId, page }) => roles.flagAccess(flag, roleId, page),
  getRoleAccess: ({ roles }, { flag, id }) => roles.getAccess(flag, id),
  addRoleAccess: ({ roles }, { flag, roleId }) => roles.addAccess(flag, roleId),
  removeRoleAccess: ({ roles }, { flag, id }) => nothing(roles.removeAccess(flag, id)),
  changeUser: ({ users }, { id, changes }) => users.change(id, changes),
  setFlagAccess: ({ users }, { level, userId }) => users.setFlagAccess(level, userId),
  createProject: ({ projects }, request) => projects.createProject(request),
  changeProject: ({ projects }, { id, changes }) => projects.setProject(id, changes),
  listKeys: ({ projects }, { userId }) =>
    projects.keys
      .list()
      .filter((key) => key.userId === userId)
      .map(withoutHash),
  createKey: ({ projects }, request) => newKey(projects.keys.create(request)),
  changeKey: ({ projects }, { id, changes }) => withoutHash(projects.keys.change(id, changes)),
  rollKey: ({ projects }, id) => newKey(projects.keys.roll(id)),
  revokeKey: ({ projects }, id) => nothing(projects.keys.revoke(id)),
  listSecretKeys: ({ projects }, { projectId }) =>
    projects.keys
      .listSecrets()
      .filter((key) => key.projectId === projectId)
      .map(withoutHash),
  createSecretKey: ({ projects }, request) => newKey(projects.keys.createSecret(request)),
  rollSecretKey: ({ projects }, id) => newKey(projects.keys.rollSecret(id)),
  revokeSecretKey: ({ projects }, id) => nothing(projects.keys.revokeSecret(id)),
  recordAudit: ({ audit }, entries) => nothing(audit.append(entries)),
  listAudit: ({ audit }, page) => audit.list(page),
}

/** The thread's side: carries operations out on the store of a data directory, opened at the first. */
export class OrganizationWorker {
  readonly #dataDir: string
  #store: OrganizationStore | null = null

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  /** Throws the `ServiceError` that the operation is refused with. */
  run<Name extends OrganizationOperation>(task: OrganizationTask<Name>): OrganizationResult<Name> {
    this.#store ??= new OrganizationStore(this.#dataDir)
    this.#store.refresh()
    return HANDLERS[task.name](this.#store, task.request)
  }

  async close(): Promise<void> {
    await this.#store?.close()
  }
}

function nothing(_: unknown): undefined {
  return undefined
}

function newKey<Key extends { readonly hash: Buffer }>({ text, key }: NewKey<Key>) {
  return { text, key: withoutHash(key) }
}

function withoutHash<Key extends { readonly hash: Buffer }>(key: Key): Omit<Key, 'hash'> {
  const { hash: _, ...rest } = key
  return rest
}
