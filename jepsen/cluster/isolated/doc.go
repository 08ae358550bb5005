// Package isolated runs a cluster of real processes that share nothing: each member has a network namespace, a small filesystem
// and certificates of its own.
//
//   - A cluster (cluster.go) is made in a directory of its own (workspace.go), which says who owns it: what a killed run left is
//     removed by the next one once its owner is dead (sweep.go).
//   - A member (member.go) is a controller or a node: its host in the network, its disk (disk.go) and its process (process.go),
//     which is started again when it ends by itself (supervise.go).
//   - What is broken in a process: its limits (limits.go) and its clock (clock.go, vdso.go). Networks are cut by netns.
//   - Members are added, removed and replaced (membership.go); their certificates are issued and run out (certificates.go); the
//     whole is started again from a backup (backup.go).
//
// Who only wants to call it takes View: it is a harness.Cluster, with its orchestrator, its command line and its checks.
package isolated
