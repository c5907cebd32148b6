// Package tracing sends spans to an OTLP/HTTP receiver: of requests, and of what the
// services ask of their stores. The services know nothing of it: their stores are
// wrapped while they are wired, and nothing is wrapped when it is off.
//
// A receiver that is away or hangs costs spans and nothing else: they wait in a queue
// of bounded length that nobody waits for. No span holds a gatePass, a token or an ID.
package tracing
