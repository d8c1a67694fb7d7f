import { getPrismaClient, type PrismaClientOptions } from '@prisma/client/runtime/client'

interface PrismaTransactionClient {
  $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown>
}

interface PrismaClient {
  $transaction<T>(work: (tx: PrismaTransactionClient) => Promise<T>): Promise<T>
  $disconnect(): Promise<void>
}

/** The client that `prisma generate` writes for a schema without models, made here to spare us its CLI and engines. */
export function prismaClient(adapter: NonNullable<PrismaClientOptions['adapter']>): PrismaClient {
  const Client = getPrismaClient({
    previewFeatures: [],
    clientVersion: '7.10.0',
    engineVersion: 'none',
    activeProvider: 'postgresql',
    inlineSchema: 'datasource db {\n  provider = "postgresql"\n}\n',
    runtimeDataModel: { models: {}, enums: {}, types: {} },
    parameterizationSchema: { strings: [], graph: 'A'.repeat(64) }, // zeros: a graph of nothing
    compilerWasm: {
      importName: './query_compiler_small_bg.js',
      getRuntime: () => import(compiler),
      async getQueryCompilerWasmModule() {
        const { wasm } = await import(compilerBytes)
        return new WebAssembly.Module(Buffer.from(wasm, 'base64'))
      },
    },
  })
  return new Client({ adapter }) as unknown as PrismaClient
}

// Neither file comes with types, and WebAssembly's own are part of the DOM's.
const compiler: string = '@prisma/client/runtime/query_compiler_small_bg.postgresql.mjs'
const compilerBytes: string = '@prisma/client/runtime/query_compiler_small_bg.postgresql.wasm-base64.mjs'
declare const WebAssembly: { Module: new (bytes: Uint8Array) => object }
