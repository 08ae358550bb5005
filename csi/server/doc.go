// Package server is the transport of the CSI services of all processes: the unix socket,
// and the gRPC server with its interceptors. Package csiconv translates the messages.
//
// A request passes, in this order: a request id and the log, the metrics, the
// conversion of errors (rpcerr), the deadline (handlers get one that ends before
// the caller's, so that they can still answer ABORTED), the recovery from a panic,
// and the limits that CSI sets for every message. Secrets, contexts and mount
// flags are taken out of whatever is logged or answered. Streams, which have one
// request each, pass the same way but for the deadline.
//
// The answers of a controller's calls carry the log index that they are from in trailers of
// package cluster, so that a history of calls can be held against the log.
package server
