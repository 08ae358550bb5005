// Package faults breaks an isolated cluster by a seed, one thing or a few at a time, and heals it.
//
//   - An injector (injector.go) does one kind of fault of jepsen/catalog. It says what it did, and when it ends what came of it: what
//     the kernel counted, how the process ended. So a run proves its faults instead of naming them.
//   - They are in processes.go, limits.go, network.go, links.go, disks.go, members.go and certificates.go; table.go lists them.
//   - A campaign (campaign.go) chooses by a seed, each kind once before any comes again, and ends all that it began.
package faults
