export interface ReplicaServer {
  readonly url: string
  readonly port: number
  start(): Promise<void>
  kill(): void
  stop(): Promise<void>
  query(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
}

export interface Replicas {
  readonly primary: ReplicaServer
  readonly standby: ReplicaServer
  readonly link: { freeze(): void; heal(): void }
  readonly url: string
  synchronize(isSynchronous: boolean): Promise<void>
  promote(): Promise<void>
  close(): Promise<void>
}

export function findPrograms(wanted?: 'embedded' | 'debian'): Promise<string | undefined>
export function startReplicas(options: { programs: string }): Promise<Replicas>
