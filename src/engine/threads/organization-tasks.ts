/**
 * Queries and changes of the organization and of its saved objects. Each operation has a name, a request, a result, and
 * a function that carries it out. Operations run on threads of the pool, because a change waits for the disk. Requests
 * and results are plain data that can be sent between threads.
 */
import type { PageRequest } from '../../base/pages.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type { SessionStart } from '../../rules/access/console-session.ts'
import type { IdentityLogin } from '../../rules/access/identity.ts'
import type { FlagAccessLevel, ProjectLevel } from '../../rules/access/levels.ts'
import type {
  Invite,
  InviteAcceptance,
  InviteRequest,
  KeyChanges,
  KeyRequest,
  NewKey,
  PersonalKey,
  ProjectChanges,
  SecretKey,
  SecretKeyRequest,
  UserChanges,
  UserRequest,
} from '../../rules/access/organization.ts'
import type { FlagNumbers, RoleChanges, RoleRequest } from '../../rules/access/roles.ts'
import type { DeletedDefinition } from '../../rules/events/event-definitions.ts'
import { OrganizationStore } from '../../store/catalog/organization-store.ts'
import { SAVED_HANDLERS } from './saved-tasks.ts'

type Store = OrganizationStore

/** The HTTP status of an answer that reports a created object. */
const CREATED = 201
/** The members under which a result may contain the created object. */
const VIEWED = ['role', 'key', 'invite', 'insight', 'dashboard'] as const

/** A personal key without its hash, for sending between threads. */
export type PersonalKeyView = Omit<PersonalKey, 'hash'>
/** An invitation without its hash. */
export type InviteView = Omit<Invite, 'hash'>
/** A project secret key without its hash. */
export type SecretKeyView = Omit<SecretKey, 'hash'>

/** The handler of each operation. It throws a `ServiceError` to refuse a request. */
const HANDLERS = {
  ...SAVED_HANDLERS,
  listRoles: ({ roles }: Store, page: PageRequest) => roles.list(page),
  getRole: ({ roles }: Store, id: string) => roles.get(id),
  createRole: ({ roles }: Store, request: RoleRequest) => roles.create(request),
  changeRole: ({ roles }: Store, { id, changes }: { id: string; changes: RoleChanges }) =>
    roles.change(id, changes),
  deleteRole: ({ roles }: Store, id: string) => nothing(roles.delete(id)),
  roleMembers: ({ roles }: Store, id: string) => roles.members(id),
  addRoleMember: ({ roles }: Store, { id, userUuid }: { id: string; userUuid: string }) =>
    roles.addMember(id, userUuid),
  removeRoleMember: (
    { roles }: Store,
    { id, membershipId }: { id: string; membershipId: string },
  ) => nothing(roles.removeMember(id, membershipId)),
  listRoleAccess: (
    { roles }: Store,
    { flag, roleId, page }: { flag: FlagNumbers; roleId: string | null; page: PageRequest },
  ) => roles.flagAccess(flag, roleId, page),
  getRoleAccess: ({ roles }: Store, { flag, id }: { flag: FlagNumbers; id: number }) =>
    roles.getAccess(flag, id),
  addRoleAccess: ({ roles }: Store, { flag, roleId }: { flag: FlagNumbers; roleId: string }) =>
    roles.addAccess(flag, roleId),
  removeRoleAccess: ({ roles }: Store, { flag, id }: { flag: FlagNumbers; id: number }) =>
    nothing(roles.removeAccess(flag, id)),
  /** The result contains the UUID, because answers identify a member of the organization by the UUID of the user. */
  createUser: ({ users }: Store, request: UserRequest) => {
    const user = users.create(request)
    return { id: user.uuid, user }
  },
  listInvites: ({ invites }: Store) => invites.list().map(withoutHash),
  createInvite: ({ invites }: Store, request: InviteRequest) => {
    const { text, invite } = invites.create(request)
    return { text, invite: withoutHash(invite) }
  },
  deleteInvite: ({ invites }: Store, id: string) => nothing(invites.delete(id)),
  findInvite: ({ invites }: Store, code: string) => withoutHash(invites.byCode(code)),
  acceptInvite: ({ invites }: Store, acceptance: InviteAcceptance) => {
    const { user, made } = invites.accept(acceptance)
    return { id: user.uuid, user, made: made && newKey(made) }
  },
  setPassword: (
    { passwords }: Store,
    {
      userId,
      hash,
      expectedAtMs,
    }: { userId: number; hash: string | null; expectedAtMs: number | null },
  ) => nothing(passwords.set(userId, hash, expectedAtMs)),
  enterIdentity: ({ identities }: Store, login: IdentityLogin) => identities.enter(login),
  unlinkIdentities: ({ identities }: Store, userId: number) => nothing(identities.unlink(userId)),
  listIdentities: ({ identities }: Store) => identities.list(),
  changeUser: ({ users }: Store, { id, changes }: { id: number; changes: UserChanges }) =>
    users.change(id, changes),
  setFlagAccess: (
    { users }: Store,
    { level, userId }: { level: FlagAccessLevel | null; userId: number },
  ) => users.setFlagAccess(level, userId),
  createProject: ({ projects }: Store, request: ProjectChanges & { readonly name: string }) =>
    projects.createProject(request),
  changeProject: ({ projects }: Store, { id, changes }: { id: number; changes: ProjectChanges }) =>
    projects.setProject(id, changes),
  addProjectMember: (
    { projectMembers }: Store,
    { level, ...place }: { projectId: number; userId: number; level: ProjectLevel },
  ) => projectMembers.add(place, level),
  changeProjectMember: (
    { projectMembers }: Store,
    { level, ...place }: { projectId: number; userId: number; level: ProjectLevel },
  ) => projectMembers.change(place, level),
  removeProjectMember: ({ projectMembers }: Store, place: { projectId: number; userId: number }) =>
    nothing(projectMembers.remove(place)),
  /** Only `tenrec dev` uses this operation; no route calls it. */
  replaceProject: ({ projects }: Store, id: number) => projects.replaceProject(id),
  listKeys: ({ projects }: Store, { userId }: { userId: number }) =>
    projects.keys
      .list()
      .filter((key) => key.userId === userId)
      .map(withoutHash),
  createKey: ({ projects }: Store, request: KeyRequest) => newKey(projects.keys.create(request)),
  changeKey: ({ projects }: Store, { id, changes }: { id: number; changes: KeyChanges }) =>
    withoutHash(projects.keys.change(id, changes)),
  rollKey: ({ projects }: Store, id: number) => newKey(projects.keys.roll(id)),
  revokeKey: ({ projects }: Store, id: number) => nothing(projects.keys.revoke(id)),
  listSecretKeys: ({ projects }: Store, { projectId }: { projectId: number }) =>
    projects.keys
      .listSecrets()
      .filter((key) => key.projectId === projectId)
      .map(withoutHash),
  createSecretKey: ({ projects }: Store, request: SecretKeyRequest) =>
    newKey(projects.keys.createSecret(request)),
  rollSecretKey: ({ projects }: Store, id: number) => newKey(projects.keys.rollSecret(id)),
  revokeSecretKey: ({ projects }: Store, id: number) => nothing(projects.keys.revokeSecret(id)),
  deletedDefinitions: ({ definitions }: Store, projectId: number) => definitions.deleted(projectId),
  deleteDefinition: (
    { definitions }: Store,
    { projectId, definition }: { projectId: number; definition: DeletedDefinition },
  ) => nothing(definitions.delete(projectId, definition)),
  beginSession: ({ console }: Store, start: SessionStart) => console.begin(start),
  sawSession: ({ console }: Store, { token, atMs }: { token: string; atMs: number }) =>
    console.recordUse(token, atMs),
  endSession: ({ console }: Store, id: number) => console.end(id),
  listSessions: ({ console }: Store, { userId, atMs }: { userId: number; atMs: number }) =>
    console.list(userId, atMs),
  keptUsage: ({ usage }: Store) => usage.all(),
  keepUsage: ({ usage }: Store, changed: Parameters<Store['usage']['keep']>[0]) =>
    usage.keep(changed),
  recordAudit: ({ audit }: Store, entries: readonly AuditEntry[]) => nothing(audit.append(entries)),
  listAudit: ({ audit }: Store, page: PageRequest) => audit.list(page),
}

/** The name of an operation. */
export type OrganizationOperation = keyof typeof HANDLERS

/** The request of an operation. */
export type OrganizationRequest<Name extends OrganizationOperation> = Parameters<
  (typeof HANDLERS)[Name]
>[1]

/** The result of an operation. */
export type OrganizationResult<Name extends OrganizationOperation> = ReturnType<
  (typeof HANDLERS)[Name]
>

/** A query or change of the organization. */
export interface OrganizationTask<Name extends OrganizationOperation> {
  readonly name: Name
  readonly request: OrganizationRequest<Name>
  /**
   * The audit entry of a change, which is stored in the same transaction. If the change creates an object, the ID of
   * the object is added to the entry.
   */
  readonly audit?: AuditEntry | undefined
}

/** The interface through which routes run the operations. The pool implements it. */
export interface OrganizationPort {
  /** Runs an operation. Rejects with the `ServiceError` with which it is refused. */
  organization<Name extends OrganizationOperation>(
    name: Name,
    request: OrganizationRequest<Name>,
    audit?: AuditEntry,
  ): Promise<OrganizationResult<Name>>
}

/** Runs the operations on a thread. The store of the data directory is opened at the first operation. */
export class OrganizationWorker {
  readonly #dataDir: string
  #store: OrganizationStore | null = null

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  /** Runs an operation. Throws the `ServiceError` with which it is refused. */
  run<Name extends OrganizationOperation>(task: OrganizationTask<Name>): OrganizationResult<Name> {
    this.#store ??= new OrganizationStore(this.#dataDir)
    const store = this.#store
    store.refresh()
    const run = HANDLERS[task.name] as (store: Store, request: unknown) => OrganizationResult<Name>
    const { request, audit } = task
    if (audit === undefined) return run(store, request)
    const isMade = audit.status === CREATED
    return store.noted(
      (result) => ({ ...audit, objectId: (isMade ? idOf(result) : null) ?? audit.objectId }),
      () => run(store, request),
    )
  }

  async close(): Promise<void> {
    await this.#store?.close()
  }
}

/** Returns the ID of a created object. The object is the result itself, or one of its members. */
function idOf(result: unknown): string | null {
  if (typeof result !== 'object' || result === null) return null
  const { id, ...view } = result as Readonly<Record<'id' | (typeof VIEWED)[number], unknown>>
  if (typeof id === 'string' || typeof id === 'number') return String(id)
  return idOf(VIEWED.map((name) => view[name]).find((thing) => thing !== undefined))
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
