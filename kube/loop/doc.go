// Package loop is `holdfast kube`: one of several that beside the controllers, elected by a Lease, keeps Kubernetes' objects at what
// the log says. Storage goes on without it. It reads both sides, lets kube/plan choose one step, does it, and looks again, so that it may
// end between any two. Each duty has a type of its own, which Loop runs, and waits for no other:
//
//   - failover.go, failover_pods.go: a node that is gone is taken out of service, tainted under the log's proof, and returned (S170, S171)
//   - affinity.go, saved.go: persistent volumes name the hosts that have a replica, after evict and replace (S172)
//   - guard.go, guard_read.go: a node that must not stop cannot be drained (S173)
//   - notices.go, notifier.go: Events on claims, pods and nodes, each sentence once, at a bounded rate
//   - election.go: who of them does so
package loop
